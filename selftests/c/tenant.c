// SPDX-License-Identifier: GPL-2.0
/*
 * tenant COMMAND [ARGUMENT...]: what a program in a container may try with
 * user_events_data. Prints the result in a line with the name of the errno.
 * Linked statically, so that a container needs nothing else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <linux/user_events.h>

#define DATA "/sys/kernel/tracing/user_events_data"

/* More events than any limit allows. */
#define MANY 40000

static __u32 word;
static volatile sig_atomic_t ending;

static int usage(void)
{
	fputs("usage: tenant open             open the file\n"
	      "       tenant register WHAT    register an event and unregister it\n"
	      "       tenant serve WHAT N     register an event of one u32, and write N every 10 ms while\n"
	      "                               a consumer is attached, until a signal comes\n"
	      "       tenant delete NAME      delete an event\n"
	      "       tenant exhaust NAME     register NAME0, NAME1, ... until that fails\n"
	      "       tenant guess            write with indices that this file has not been given\n",
	      stderr);
	return 2;
}

static int said(const char *what, int failed)
{
	printf("%s: %s\n", what, failed ? strerrorname_np(errno) : "done");
	return failed ? 1 : 0;
}

static int register_event(int fd, const char *what, __u8 bit, __u32 *index)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_bit = bit,
		.enable_size = sizeof(word),
		.enable_addr = (unsigned long)&word,
		.name_args = (unsigned long)what,
	};
	int failed = ioctl(fd, DIAG_IOCSREG, &reg);

	*index = reg.write_index;
	return failed;
}

static void unregister(int fd, __u8 bit)
{
	struct user_unreg unreg = {
		.size = sizeof(unreg),
		.disable_bit = bit,
		.disable_addr = (unsigned long)&word,
	};

	ioctl(fd, DIAG_IOCSUNREG, &unreg);
}

static ssize_t write_record(int fd, __u32 index, __u32 value)
{
	struct iovec parts[] = {
		{ &index, sizeof(index) },
		{ &value, sizeof(value) },
	};

	return writev(fd, parts, 2);
}

static int is_enabled(void)
{
	return __atomic_load_n(&word, __ATOMIC_RELAXED) & 1;
}

static void pause_ms(long ms)
{
	struct timespec t = { .tv_nsec = ms * 1000 * 1000 };

	nanosleep(&t, NULL);
}

static void on_signal(int signal)
{
	ending = signal;
}

static int serve(int fd, __u32 index, __u32 value)
{
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	while (!ending) {
		if (is_enabled())
			write_record(fd, index, value);
		pause_ms(10);
	}
	return 0;
}

static int exhaust(int fd, const char *name)
{
	char what[300];
	__u32 index;
	int made;

	for (made = 0; made < MANY; made++) {
		snprintf(what, sizeof(what), "%s%d", name, made);
		/* One bit is enough: the event stays as long as the file is open. */
		if (register_event(fd, what, 0, &index))
			break;
		unregister(fd, 0);
	}
	printf("made %d, then %s\n", made, made < MANY ? strerrorname_np(errno) : "no more were tried");
	return 0;
}

static int guess(int fd)
{
	__u32 index;

	for (index = 0; index < 1000; index++) {
		ssize_t length = write_record(fd, index, 0);

		if (length >= 0 || errno != ENOENT)
			return said("write", length < 0);
	}
	puts("write: ENOENT for each");
	return 0;
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "", *what = argc > 2 ? argv[2] : NULL;
	int fd = open(DATA, O_RDWR);
	__u32 index = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (fd < 0 || !strcmp(command, "open"))
		return said("open", fd < 0);
	if (!strcmp(command, "guess"))
		return guess(fd);
	if (!what)
		return usage();
	if (!strcmp(command, "delete"))
		return said("delete", ioctl(fd, DIAG_IOCSDEL, what));
	if (!strcmp(command, "exhaust"))
		return exhaust(fd, what);
	if (register_event(fd, what, 0, &index))
		return said("register", 1);
	said("register", 0);
	if (argc > 3 && !strcmp(command, "serve"))
		return serve(fd, index, strtoul(argv[3], NULL, 0));
	unregister(fd, 0);
	return strcmp(command, "register") ? usage() : 0;
}
