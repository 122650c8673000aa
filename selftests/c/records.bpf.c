// SPDX-License-Identifier: GPL-2.0
/*
 * A typical eBPF program for libbpf: puts the text of each record of
 * "u32 a; __rel_loc char[] b" into a ring, also if the text is long.
 */

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#include "records.h"

/* The start of the tracepoint's context, which also has the text. */
struct said {
	__u64 common;
	__u32 a;
	__u32 b;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

SEC("tracepoint/user_events/st_lr_libbpf")
int put_record(struct said *said)
{
	/* The location: 16 bits each of the text's offset from the location's end, and length. */
	__u32 location = said->b;
	__u32 begin = sizeof(*said) + (location & 0xffff), len = location >> 16;
	struct record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record)
		return 0;
	record->a = said->a;
	record->len = len;
	/* A helper, as direct reads are limited to the first 8 KB of the context. */
	record->error = bpf_probe_read_kernel(record->text, len, (const char *)said + begin);
	bpf_ringbuf_submit(record, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
