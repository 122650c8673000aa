/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tracefs for the test programs of this directory: a trace instance, and the
 * state of their events.
 */
#ifndef SELFTESTS_TRACEFS_H
#define SELFTESTS_TRACEFS_H

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <linux/types.h>

#define TRACEFS "/sys/kernel/tracing"
#define DATA TRACEFS "/user_events_data"
#define INSTANCE TRACEFS "/instances/st_c"

/* Timeout of a wait, in seconds. Long, as emulation on a busy host is slow. */
#define PATIENCE 120

/* Makes the instance, and replaces one left by an earlier run. */
static inline int make_instance(void)
{
	rmdir(INSTANCE);
	return mkdir(INSTANCE, 0700);
}

static inline int remove_instance(void)
{
	return rmdir(INSTANCE);
}

/* Writes text to a file. Returns 0, or -1 and errno. */
static inline int put_text(const char *path, const char *text)
{
	ssize_t length = strlen(text), written;
	int fd = open(path, O_WRONLY);

	if (fd < 0)
		return -1;
	written = write(fd, text, length);
	close(fd);
	return written == length ? 0 : -1;
}

/* Attaches the instance to an event, given as GROUP/NAME, or detaches it. */
static inline int listen_to(const char *event, bool on)
{
	char path[512];

	snprintf(path, sizeof(path), INSTANCE "/events/%s/enable", event);
	return put_text(path, on ? "1" : "0");
}

/* Returns the number of events that match the pattern GROUP/NAME. */
static inline int events(const char *pattern)
{
	glob_t found = {};
	char path[512];
	int count;

	snprintf(path, sizeof(path), TRACEFS "/events/%s/id", pattern);
	count = glob(path, 0, NULL, &found) ? 0 : found.gl_pathc;
	globfree(&found);
	return count;
}

/*
 * Returns the number of lines with text in the instance's trace. Copies the
 * last of them, from text on, to out, unless out is NULL.
 */
static inline int traced(const char *text, char *out, size_t size)
{
	FILE *trace = fopen(INSTANCE "/trace", "r");
	char *line = NULL, *found;
	size_t room = 0;
	int count = 0;

	while (trace && getline(&line, &room, trace) > 0) {
		found = strstr(line, text);
		if (!found || line[0] == '#')
			continue;
		count++;
		if (out)
			snprintf(out, size, "%s", found);
	}
	free(line);
	if (trace)
		fclose(trace);
	return count;
}

/* Sleeps for a moment. Returns false if PATIENCE has passed since start. */
static inline bool be_patient(time_t start)
{
	usleep(1000);
	return time(NULL) - start < PATIENCE;
}

/* Waits until the bits of mask in a word are want. Returns false after a timeout. */
static inline bool await_bits(const void *word, size_t size, __u64 mask, __u64 want)
{
	time_t start = time(NULL);
	__u64 value;

	do {
		if (size == sizeof(__u64))
			value = __atomic_load_n((const __u64 *)word, __ATOMIC_RELAXED);
		else
			value = __atomic_load_n((const __u32 *)word, __ATOMIC_RELAXED);
		if ((value & mask) == want)
			return true;
	} while (be_patient(start));
	return false;
}

/* Waits until no event matches. Returns false after a timeout. */
static inline bool await_gone(const char *pattern)
{
	time_t start = time(NULL);

	do {
		if (!events(pattern))
			return true;
	} while (be_patient(start));
	return false;
}

#endif /* SELFTESTS_TRACEFS_H */
