/* SPDX-License-Identifier: GPL-2.0 */
#ifndef RECORDS_H
#define RECORDS_H

/* What records.bpf.c puts into the ring, and records.c takes from it. */
struct record {
	__u32 a;
	__u32 len;
	__s64 error;
	char text[1 << 16];
};

#endif
