/* SPDX-License-Identifier: GPL-2.0 */
#ifndef RECORDS_H
#define RECORDS_H

/* A record in the ring, from records.bpf.c to records.c. */
struct record {
	__u32 a;
	__u32 len;
	__s64 error;
	char text[1 << 16];
};

#endif
