// SPDX-License-Identifier: GPL-2.0
/*
 * A service that measures itself while a consumer is attached, and sleeps
 * otherwise: the kernel wakes its event loop.
 *
 * Ten times a second it writes a record of the event "gauges". Testing the bit
 * again and again would need a timer that always runs. Instead user_events_data
 * is one more file of the loop: epoll reports EPOLLPRI when the event gets its
 * first consumer or loses its last one, and the timer is started or stopped.
 *
 * The service also serves if the kernel has no user events, or has the built-in
 * implementation, whose file epoll refuses.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/user_events.h>

#define DATA "/sys/kernel/tracing/user_events_data"
#define DESCRIPTION "gauges u64 faults; u64 switches"

#define PERIOD_NS (100 * 1000 * 1000)

/* The kernel sets bit 0 while a consumer is attached. */
static __u32 word;

static int data_fd, timer_fd;
static __u32 write_index;
static bool measuring;
static unsigned long written, woken;

static int register_event(const char *data)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_bit = 0,
		.enable_size = sizeof(word),
		.enable_addr = (unsigned long)&word,
		.name_args = (unsigned long)DESCRIPTION,
	};

	data_fd = open(data, O_WRONLY | O_CLOEXEC);
	if (data_fd < 0)
		return -1;
	if (ioctl(data_fd, DIAG_IOCSREG, &reg) < 0)
		return -1;
	write_index = reg.write_index;
	return 0;
}

static int add(int epoll_fd, int fd, __u32 events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* Starts or stops measuring. Only the bit counts: it may have changed twice since EPOLLPRI. */
static void look(void)
{
	bool enabled = __atomic_load_n(&word, __ATOMIC_RELAXED) & 1;
	struct itimerspec period = { 0 };

	if (enabled == measuring)
		return;
	measuring = enabled;
	if (measuring) {
		period.it_value.tv_nsec = PERIOD_NS;
		period.it_interval.tv_nsec = PERIOD_NS;
	}
	timerfd_settime(timer_fd, 0, &period, NULL);
	puts(measuring ? "gauges: a consumer attached" : "gauges: the consumer left");
}

static void measure(void)
{
	struct rusage usage;
	__u64 values[2], expirations;
	struct iovec parts[] = {
		{ &write_index, sizeof(write_index) },
		{ values, sizeof(values) },
	};

	if (read(timer_fd, &expirations, sizeof(expirations)) < 0)
		return;
	getrusage(RUSAGE_SELF, &usage);
	values[0] = usage.ru_minflt + usage.ru_majflt;
	values[1] = usage.ru_nvcsw + usage.ru_nivcsw;
	/* An error only loses the record. EBADF: the consumer has just left. */
	if (writev(data_fd, parts, 2) > 0)
		written++;
}

int main(int argc, char **argv)
{
	const char *data = argc > 1 ? argv[1] : DATA;
	int epoll_fd, signal_fd;
	sigset_t signals;

	if (argc > 2) {
		fputs("usage: gauges [FILE]\n"
		      "FILE is used instead of " DATA "\n", stderr);
		return 2;
	}
	/* Line-buffered even into a pipe. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (signal_fd < 0 || timer_fd < 0 || epoll_fd < 0 || add(epoll_fd, signal_fd, EPOLLIN) ||
	    add(epoll_fd, timer_fd, EPOLLIN)) {
		perror("gauges");
		return EXIT_FAILURE;
	}

	if (register_event(data))
		printf("gauges: serving untraced: %s\n", strerror(errno));
	else if (add(epoll_fd, data_fd, EPOLLPRI))
		printf("gauges: serving untraced, as this kernel does not tell of consumers: %s\n",
		       strerror(errno));
	else
		puts("gauges: registered the event user_events:gauges");
	/* After the file was added, so that no change is missed. */
	look();

	for (;;) {
		struct epoll_event event;

		if (epoll_wait(epoll_fd, &event, 1, -1) < 0) {
			if (errno == EINTR)
				continue;
			perror("gauges");
			return EXIT_FAILURE;
		}
		woken++;
		if (event.data.fd == signal_fd)
			break;
		if (event.data.fd == timer_fd)
			measure();
		else
			look();
	}
	printf("gauges: wrote %lu records, and was woken %lu times\n", written, woken);
	/* The end of the process ends its registration. */
	return EXIT_SUCCESS;
}
