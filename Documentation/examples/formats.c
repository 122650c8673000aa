// SPDX-License-Identifier: GPL-2.0
/* Two versions of one event side by side, as two releases of a program would have them. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/user_events.h>

/* Bit 0 belongs to the old version, bit 1 to the new one. */
static __u32 enabled;

static int register_version(int fd, unsigned int bit, const char *description)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_bit = bit,
		.enable_size = sizeof(enabled),
		.flags = USER_EVENT_REG_MULTI_FORMAT,
		.enable_addr = (unsigned long)&enabled,
		.name_args = (unsigned long)description,
	};

	if (ioctl(fd, DIAG_IOCSREG, &reg) < 0)
		return -1;
	return reg.write_index;
}

int main(void)
{
	int fd = open("/sys/kernel/tracing/user_events_data", O_RDWR | O_CLOEXEC);
	int old_index = register_version(fd, 0, "formats u32 size");
	int new_index = register_version(fd, 1, "formats u64 size; u32 kind");
	__u32 old_fields = 10;
	struct {
		__u64 size;
		__u32 kind;
	} __attribute__((__packed__)) new_fields = { 20, 2 };
	struct iovec old_record[] = {
		{ &old_index, sizeof(old_index) }, { &old_fields, sizeof(old_fields) },
	};
	struct iovec new_record[] = {
		{ &new_index, sizeof(new_index) }, { &new_fields, sizeof(new_fields) },
	};

	if (fd < 0 || old_index < 0 || new_index < 0) {
		perror("cannot register the event");
		return 1;
	}
	/* Wait until both have a consumer. */
	while (__atomic_load_n(&enabled, __ATOMIC_RELAXED) != 3)
		usleep(10000);
	if (writev(fd, old_record, 2) < 0 || writev(fd, new_record, 2) < 0) {
		perror("cannot write a record");
		return 1;
	}
	return 0;
}
