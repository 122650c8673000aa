// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the instructions of a record of LTTng-UST, as in the other rows of the
 * benchmark: the time stamp counter counts instructions. Prints a line per row.
 * The session must have all events of the provider enabled but "off".
 */

#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "events.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#define TIMES 501
#define LENGTH 100

static uint64_t counts[TIMES];

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static uint64_t median(void)
{
	qsort(counts, TIMES, sizeof(*counts), compare);
	return counts[TIMES / 2];
}

/* The median cost of the work. The timer's interrupts hit few samples. */
#define MEDIAN(work)                                                           \
	({                                                                     \
		for (int i = 0; i < TIMES; i++) {                              \
			uint64_t begin = __rdtsc();                            \
			work;                                                  \
			counts[i] = __rdtsc() - begin;                         \
		}                                                              \
		median();                                                      \
	})

int main(void)
{
	const struct sched_param first = { .sched_priority = 1 };
	static char text[LENGTH];
	uint64_t empty, off, numbers, string, bytes;

	memset(text, 'x', LENGTH - 1);
	if (!lttng_ust_tracepoint_enabled(bench, numbers) ||
	    !lttng_ust_tracepoint_enabled(bench, string) ||
	    !lttng_ust_tracepoint_enabled(bench, bytes) ||
	    lttng_ust_tracepoint_enabled(bench, off)) {
		fprintf(stderr, "the session has other events enabled\n");
		return 1;
	}
	/* Keeps other tasks from running meanwhile. */
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first)) {
		perror("sched_setscheduler");
		return 1;
	}
	empty = MEDIAN();
	off = MEDIAN(lttng_ust_tracepoint(bench, off, 1, 2, 3));
	numbers = MEDIAN(lttng_ust_tracepoint(bench, numbers, 1, 2, 3));
	string = MEDIAN(lttng_ust_tracepoint(bench, string, text));
	bytes = MEDIAN(lttng_ust_tracepoint(bench, bytes, text, LENGTH));
	printf("bench lttng.off %ju\n", (uintmax_t)(off - empty));
	printf("bench lttng.12 %ju\n", (uintmax_t)(numbers - empty));
	printf("bench lttng.100 %ju\n", (uintmax_t)(string - empty));
	printf("bench lttng-bytes.100 %ju\n", (uintmax_t)(bytes - empty));
	return 0;
}
