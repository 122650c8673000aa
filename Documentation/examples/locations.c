// SPDX-License-Identifier: GPL-2.0
/* Writes a record with two strings and an array of numbers behind its fields. */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/user_events.h>

#define EVENT "locations u32 id; __rel_loc char[] who; __data_loc char[] what; __rel_loc u16[] times"

struct fields {
	__u32 id;
	__u32 who;
	__u32 what;
	__u32 times;
} __attribute__((__packed__));

/* Bytes of the kernel's own fields, before the payload. */
#define COMMON_FIELDS 8

/* __rel_loc: @at counts from the start of the payload, the value from the end of the field. */
#define REL_LOC(field, at, size) \
	DYN_LOC((at) - (offsetof(struct fields, field) + sizeof(__u32)), size)

/* __data_loc: the value counts from the start of the record. */
#define DATA_LOC(at, size) DYN_LOC(COMMON_FIELDS + (at), size)

static __u32 enabled;

int main(void)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_size = sizeof(enabled),
		.enable_addr = (unsigned long)&enabled,
		.name_args = (unsigned long)EVENT,
	};
	/* The size of a string counts its NUL. */
	char who[] = "Ada", what[] = "wrote a program";
	__u16 times[] = { 3, 5, 8 };
	size_t who_at = sizeof(struct fields);
	size_t what_at = who_at + sizeof(who);
	size_t times_at = what_at + sizeof(what);
	struct fields fields = {
		.id = 7,
		.who = REL_LOC(who, who_at, sizeof(who)),
		.what = DATA_LOC(what_at, sizeof(what)),
		.times = REL_LOC(times, times_at, sizeof(times)),
	};
	struct iovec record[] = {
		{ &reg.write_index, sizeof(reg.write_index) },
		{ &fields, sizeof(fields) },
		{ who, sizeof(who) },
		{ what, sizeof(what) },
		{ times, sizeof(times) },
	};
	int fd = open("/sys/kernel/tracing/user_events_data", O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, DIAG_IOCSREG, &reg) < 0) {
		perror("cannot register the event");
		return 1;
	}
	while (!(__atomic_load_n(&enabled, __ATOMIC_RELAXED) & 1))
		usleep(10000);
	if (writev(fd, record, 5) < 0) {
		perror("cannot write a record");
		return 1;
	}
	return 0;
}
