// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <linux/user_events.h>
#include <sys/ioctl.h>
#include <unistd.h>

static __u32 enabled; /* The kernel sets bit 0 while a consumer is attached. */

int main(void)
{
	struct user_reg reg = { .size = sizeof(reg), .enable_size = sizeof(enabled),
				.enable_addr = (unsigned long)&enabled,
				.name_args = (unsigned long)"hello u32 count" };
	int fd = open("/sys/kernel/tracing/user_events_data", O_WRONLY);

	if (ioctl(fd, DIAG_IOCSREG, &reg) < 0)
		return 1; /* The cause: user-events doctor. */
	for (__u32 record[] = { reg.write_index, 0 };; usleep(100000), record[1]++)
		if (__atomic_load_n(&enabled, __ATOMIC_RELAXED))
			if (write(fd, record, sizeof(record)) < 0)
				continue; /* The consumer has just detached. */
}
