// SPDX-License-Identifier: GPL-2.0
/* One word with two bits: the kernel's for its consumers, and the program's for its own log. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/user_events.h>

/* The kernel's bit and the program's. Both sides change the word with atomics only. */
static const __u64 kernel_bit = 1ULL << 0;
static const __u64 log_bit = 1ULL << 63;

static __u64 enabled;

static void tell(int fd, __u32 index, __u32 step)
{
	struct iovec record[] = { { &index, sizeof(index) }, { &step, sizeof(step) } };
	__u64 now = __atomic_load_n(&enabled, __ATOMIC_RELAXED);

	/* Without consumers this test is the only cost. */
	if (!now)
		return;
	if (now & log_bit)
		printf("step %u\n", step);
	if ((now & kernel_bit) && writev(fd, record, 2) < 0)
		perror("cannot write a record");
}

int main(void)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_bit = 0,
		.enable_size = sizeof(enabled),
		.enable_addr = (unsigned long)&enabled,
		.name_args = (unsigned long)"bits u32 step",
	};
	int fd = open("/sys/kernel/tracing/user_events_data", O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, DIAG_IOCSREG, &reg) < 0) {
		perror("cannot register the event");
		return 1;
	}

	__atomic_fetch_or(&enabled, log_bit, __ATOMIC_RELAXED);
	tell(fd, reg.write_index, 1);
	while (!(__atomic_load_n(&enabled, __ATOMIC_RELAXED) & kernel_bit))
		usleep(10000);
	tell(fd, reg.write_index, 2);
	__atomic_fetch_and(&enabled, ~log_bit, __ATOMIC_RELAXED);
	tell(fd, reg.write_index, 3);
	return 0;
}
