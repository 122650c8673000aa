// SPDX-License-Identifier: GPL-2.0
/* "persist" makes an event that stays when the program has ended; "persist delete" deletes it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/user_events.h>

static __u32 enabled;

int main(int argc, char **argv)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_size = sizeof(enabled),
		.flags = USER_EVENT_REG_PERSIST,
		.enable_addr = (unsigned long)&enabled,
		.name_args = (unsigned long)"persist u32 runs",
	};
	int fd = open("/sys/kernel/tracing/user_events_data", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		perror("cannot open user_events_data");
		return 1;
	}
	if (argc == 2 && !strcmp(argv[1], "delete")) {
		/* The name without fields. The event must not be in use, not even by this file. */
		if (ioctl(fd, DIAG_IOCSDEL, "persist") < 0) {
			perror("cannot delete the event");
			return 1;
		}
		return 0;
	}
	if (ioctl(fd, DIAG_IOCSREG, &reg) < 0) {
		perror("cannot register the event");
		return 1;
	}
	if (__atomic_load_n(&enabled, __ATOMIC_RELAXED) & 1) {
		__u32 record[] = { reg.write_index, 1 };

		if (write(fd, record, sizeof(record)) < 0) {
			perror("cannot write a record");
			return 1;
		}
	}
	return 0;
}
