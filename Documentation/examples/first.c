// SPDX-License-Identifier: GPL-2.0
/* Registers an event and writes three records while a consumer is attached. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/user_events.h>

/* The kernel sets bit 0 of this word while a consumer is attached. */
static __u32 enabled;

static int is_enabled(void)
{
	return __atomic_load_n(&enabled, __ATOMIC_RELAXED) & 1;
}

int main(void)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_bit = 0,
		.enable_size = sizeof(enabled),
		.enable_addr = (unsigned long)&enabled,
		.name_args = (unsigned long)"first u32 count; char[8] unit",
	};
	/* The fields, one after the other: no padding. */
	struct {
		__u32 count;
		char unit[8];
	} __attribute__((__packed__)) fields = { .unit = "apples" };
	struct iovec record[] = {
		{ &reg.write_index, sizeof(reg.write_index) },
		{ &fields, sizeof(fields) },
	};
	int fd = open("/sys/kernel/tracing/user_events_data", O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, DIAG_IOCSREG, &reg) < 0) {
		perror("cannot register the event");
		return 1;
	}

	while (fields.count < 3) {
		/* A real program does its work here. */
		usleep(10000);
		if (!is_enabled())
			continue;

		fields.count++;
		/* EBADF: the consumer detached after the test of the bit. */
		if (writev(fd, record, 2) < 0 && errno != EBADF) {
			perror("cannot write a record");
			return 1;
		}
	}
	/* The end of the process ends its registrations. */
	return 0;
}
