// SPDX-License-Identifier: GPL-2.0
/* Writes a record each tenth of a second while a consumer is attached, and sleeps otherwise. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/user_events.h>

static __u32 enabled;

int main(void)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_bit = 0,
		.enable_size = sizeof(enabled),
		.enable_addr = (unsigned long)&enabled,
		.name_args = (unsigned long)"wait u32 number",
	};
	struct pollfd file = { .events = POLLPRI };
	__u32 number = 0;
	struct iovec record[] = { { &reg.write_index, 4 }, { &number, sizeof(number) } };

	file.fd = open("/sys/kernel/tracing/user_events_data", O_RDWR | O_CLOEXEC);
	if (file.fd < 0 || ioctl(file.fd, DIAG_IOCSREG, &reg) < 0) {
		perror("cannot register the event");
		return 1;
	}

	while (number < 10) {
		if (!__atomic_load_n(&enabled, __ATOMIC_RELAXED)) {
			/* Returns at once if the bit may have changed since the last poll. */
			poll(&file, 1, -1);
			continue;
		}
		number++;
		if (writev(file.fd, record, 2) < 0)
			perror("cannot write a record");
		usleep(100 * 1000);
	}
	return 0;
}
