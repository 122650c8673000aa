// SPDX-License-Identifier: GPL-2.0
/*
 * An eBPF program as people write them for libbpf: it puts the text of each
 * record of "u32 a; __rel_loc char[] b" into a ring, however long it is.
 */

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#include "records.h"

/* What the tracepoint hands over; the text is somewhere behind. */
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
	/* Where it is, counted from behind its location, and its length, both of 16 bits. */
	__u32 location = said->b;
	__u32 begin = sizeof(*said) + (location & 0xffff), len = location >> 16;
	struct record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record)
		return 0;
	record->a = said->a;
	record->len = len;
	/* Of its context a program may read 8 KB itself. */
	record->error = bpf_probe_read_kernel(record->text, len, (const char *)said + begin);
	bpf_ringbuf_submit(record, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
