// SPDX-License-Identifier: GPL-2.0
/* A child inherits its parent's registrations, each with a bit of its own. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/user_events.h>

static __u32 enabled;

/* In parent and child alike: waits for a consumer and writes one record. */
static int serve(int fd, __u32 index, __u32 is_child)
{
	__u32 record[] = { index, is_child };

	while (!(__atomic_load_n(&enabled, __ATOMIC_RELAXED) & 1))
		usleep(10000);
	if (write(fd, record, sizeof(record)) < 0) {
		perror("cannot write a record");
		return 1;
	}
	return 0;
}

int main(void)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_size = sizeof(enabled),
		.enable_addr = (unsigned long)&enabled,
		.name_args = (unsigned long)"fork u32 is_child",
	};
	int fd = open("/sys/kernel/tracing/user_events_data", O_RDWR | O_CLOEXEC);
	int failed, status;
	pid_t child;

	if (fd < 0 || ioctl(fd, DIAG_IOCSREG, &reg) < 0) {
		perror("cannot register the event");
		return 1;
	}

	child = fork();
	if (child < 0) {
		perror("cannot fork");
		return 1;
	}
	failed = serve(fd, reg.write_index, child == 0);
	if (child == 0)
		return failed;
	if (waitpid(child, &status, 0) < 0 || status)
		return 1;
	return failed;
}
