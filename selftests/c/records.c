// SPDX-License-Identifier: GPL-2.0
/*
 * records OBJECT COUNT: attaches the eBPF program of OBJECT with libbpf, and
 * prints the first COUNT records of the program's ring.
 */

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "records.h"

static void check(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "records: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int on_record(void *seen, void *data, size_t size)
{
	const struct record *record = data;

	if (size != sizeof(*record) || record->error) {
		fprintf(stderr, "records: %zu bytes, error %lld\n", size,
			(long long)record->error);
		exit(1);
	}
	printf(" a=%u b=%.*s\n", record->a, (int)record->len, record->text);
	++*(long *)seen;
	return 0;
}

int main(int argc, char **argv)
{
	struct bpf_program *program;
	struct bpf_object *object;
	struct ring_buffer *ring;
	long seen = 0;

	if (argc != 3) {
		fprintf(stderr, "usage: records OBJECT COUNT\n");
		return 2;
	}
	object = bpf_object__open_file(argv[1], NULL);
	check(!object, "open the object");
	check(bpf_object__load(object), "load it");
	bpf_object__for_each_program(program, object)
		check(!bpf_program__attach(program), "attach the program");
	ring = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "records"), on_record,
				&seen, NULL);
	check(!ring, "the ring");
	puts("attached");
	while (seen < strtol(argv[2], NULL, 10)) {
		int taken = ring_buffer__poll(ring, -1);

		check(taken < 0 && taken != -EINTR, "wait for the ring");
	}
	return 0;
}
