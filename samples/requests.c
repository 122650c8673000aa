// SPDX-License-Identifier: GPL-2.0
/*
 * A program that serves requests, and tells whoever listens about each one.
 *
 * It registers the event "requests" once, at start. From then on a request
 * costs one look at a bit in the program's own memory; only while a tracer
 * (ftrace, perf, ...) is attached to the event does it write a record.
 *
 * What to copy from here: struct request_record, register_event(),
 * traced() and write_record().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/user_events.h>

#define TRACEFS "/sys/kernel/tracing"
#define EVENT "requests u32 status; u64 ns; __rel_loc char[] path"

/* The bit of traced_word that the kernel sets while somebody listens. */
#define TRACED_BIT 0

/* So many looks at the bit make the program say once that nobody listens. */
#define CHECKS_PER_MESSAGE 100

/*
 * The fixed part of a record: the fields of EVENT one after the other, with no
 * padding. The bytes of the path follow it.
 */
struct request_record {
	__u32 status;
	__u64 ns;
	__u32 path;
} __attribute__((__packed__));

/* The kernel changes this word behind the compiler's back: see traced(). */
static __u32 traced_word;

static volatile sig_atomic_t stop;

extern char **environ;

static void usage(FILE *out)
{
	fputs("usage: requests [--records N] [--seconds S] [--until-left] [--data FILE]\n"
	      "       requests --hold [--seconds S] [--data FILE] [COMMAND ARGUMENT...]\n"
	      "\n"
	      "Serves made-up requests, about a hundred a second, and writes one record of the\n"
	      "event user_events:requests for each while a tracer is attached to it.\n"
	      "\n"
	      "  --records N    end after N records\n"
	      "  --until-left   with --records: write no more than N records, and end when the\n"
	      "                 tracer has left\n"
	      "  --seconds S    end after S seconds in any case\n"
	      "  --hold         only keep the event alive: while COMMAND runs, or until a\n"
	      "                 signal comes; ends with COMMAND's exit status\n"
	      "  --data FILE    instead of " TRACEFS "/user_events_data\n"
	      "  --help         this text\n"
	      "\n"
	      "Seen through ftrace:\n"
	      "  requests --records 5 --until-left &\n"
	      "  echo 1 > " TRACEFS "/events/user_events/requests/enable\n"
	      "  cat " TRACEFS "/trace\n"
	      "  echo 0 > " TRACEFS "/events/user_events/requests/enable\n"
	      "\n"
	      "Seen through perf. The event must exist before perf starts, and exists while a\n"
	      "program has it registered; so a first instance holds it:\n"
	      "  requests --hold perf record -e user_events:requests -- requests --records 5\n"
	      "  perf script\n",
	      out);
}

/* Says why user_events_data could not be opened and what to do about it. */
static void explain_open(const char *path)
{
	int error = errno;

	fprintf(stderr, "requests: cannot open %s: %s\n", path, strerror(error));
	switch (error) {
	case ENOENT:
		if (access(TRACEFS "/trace", F_OK) && errno == ENOENT)
			fputs("requests: tracefs is not mounted; as root: mount -t tracefs nodev "
			      TRACEFS "\n", stderr);
		else
			fputs("requests: the kernel has no user events; as root: insmod user_events.ko\n",
			      stderr);
		break;
	case EACCES:
	case EPERM:
		fputs("requests: run it as root, or as root let a group in:\n"
		      "requests:   chmod o+x " TRACEFS "\n"
		      "requests:   chgrp GROUP " TRACEFS "/user_events_data\n"
		      "requests:   chmod g+rw " TRACEFS "/user_events_data\n",
		      stderr);
		break;
	}
}

static void explain_register(void)
{
	int error = errno;

	fprintf(stderr, "requests: cannot register \"" EVENT "\": %s\n", strerror(error));
	switch (error) {
	case EADDRINUSE:
		fputs("requests: an event of this name with other fields exists; who uses it must end first\n",
		      stderr);
		break;
	case EMFILE:
		fputs("requests: there are too many user events; raise /proc/sys/kernel/user_events_max\n",
		      stderr);
		break;
	case ENOTTY:
		fputs("requests: that file is not user_events_data\n", stderr);
		break;
	}
}

/*
 * Registers EVENT and the bit on @fd. Returns the write index, or -1 with errno
 * set.
 */
static int register_event(int fd)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_bit = TRACED_BIT,
		.enable_size = sizeof(traced_word),
		.enable_addr = (unsigned long)&traced_word,
		.name_args = (unsigned long)EVENT,
	};

	if (ioctl(fd, DIAG_IOCSREG, &reg) < 0)
		return -1;
	return (int)reg.write_index;
}

static void unregister_event(int fd)
{
	struct user_unreg unreg = {
		.size = sizeof(unreg),
		.disable_bit = TRACED_BIT,
		.disable_addr = (unsigned long)&traced_word,
	};

	if (ioctl(fd, DIAG_IOCSUNREG, &unreg) < 0)
		perror("requests: cannot unregister the event");
}

/* Does anybody listen? An ordinary load; relaxed, as it orders nothing. */
static inline bool traced(void)
{
	return __atomic_load_n(&traced_word, __ATOMIC_RELAXED) & (1U << TRACED_BIT);
}

/*
 * Writes one record. Returns 1 if it was recorded, 0 if the last tracer left in
 * the meantime, -1 with errno set on any other failure.
 */
static int write_record(int fd, int index, __u32 status, __u64 ns, const char *path)
{
	size_t path_size = strlen(path) + 1;
	struct request_record record = {
		.status = status,
		.ns = ns,
		/* The path starts where this field ends: the field is the last. */
		.path = DYN_LOC(0, path_size),
	};
	struct iovec parts[] = {
		{ &index, sizeof(index) },
		{ &record, sizeof(record) },
		{ (void *)path, path_size },
	};

	if (writev(fd, parts, 3) >= 0)
		return 1;
	return errno == EBADF ? 0 : -1;
}

static __u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* The work of one request, or what stands for it here. */
static __u32 serve(void)
{
	static unsigned int served;
	struct timespec work = { .tv_nsec = 10 * 1000 * 1000 };

	nanosleep(&work, NULL);
	return ++served % 5 ? 200 : 404;
}

static int serve_requests(int fd, int index, unsigned long records, bool until_left)
{
	static const char *const paths[] = { "/", "/index.html", "/about", "/favicon.ico" };
	unsigned long written = 0, checks = 0, requests = 0;
	bool attached = false, done = false;

	while (!stop) {
		const char *path = paths[requests++ % 4];
		__u64 start = now_ns();
		__u32 status = serve();
		bool listening = traced();

		if (!listening) {
			if (attached) {
				puts("requests: the tracer left");
				attached = false;
				checks = 0;
				if (done)
					break;
			}
			if (++checks == CHECKS_PER_MESSAGE)
				printf("requests: nobody listens, %lu checks cost no system call\n",
				       checks);
			continue;
		}

		if (!attached) {
			puts("requests: a tracer attached");
			attached = true;
		}
		if (done)
			continue;

		switch (write_record(fd, index, status, now_ns() - start, path)) {
		case 1:
			written++;
			break;
		case -1:
			perror("requests: cannot write a record");
			return EXIT_FAILURE;
		}
		if (records && written == records) {
			printf("requests: wrote %lu records\n", written);
			done = true;
			if (!until_left)
				break;
		}
	}
	if (!done)
		printf("requests: wrote %lu records\n", written);
	return EXIT_SUCCESS;
}

static int hold_until_signal(void)
{
	sigset_t signals, before;

	puts("requests: holding the event until a signal comes");

	/* Blocked but for the wait itself, so that none slips in before it. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGALRM);
	sigprocmask(SIG_BLOCK, &signals, &before);
	while (!stop)
		sigsuspend(&before);
	return EXIT_SUCCESS;
}

/* Keeps the event while @command runs. Returns its exit status. */
static int hold_for(char **command)
{
	pid_t child;
	int status, error;

	printf("requests: holding the event while %s runs\n", *command);
	error = posix_spawnp(&child, *command, NULL, NULL, command, environ);
	if (error) {
		fprintf(stderr, "requests: cannot run %s: %s\n", *command, strerror(error));
		return 127;
	}
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return EXIT_FAILURE;
		kill(child, SIGTERM);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

static unsigned long number(const char *option, const char *text)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || !value || value > 1000000000) {
		fprintf(stderr, "requests: %s takes a positive number, not \"%s\"\n", option, text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "records", required_argument, NULL, 'n' },
		{ "seconds", required_argument, NULL, 's' },
		{ "until-left", no_argument, NULL, 'u' },
		{ "hold", no_argument, NULL, 'H' },
		{ "data", required_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *data = TRACEFS "/user_events_data";
	struct sigaction action = { .sa_handler = on_signal };
	unsigned long records = 0, seconds = 0;
	bool until_left = false, holding = false;
	int option, fd, index, status;

	/* "+": what follows the command's name is the command's. */
	while ((option = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		switch (option) {
		case 'n':
			records = number("--records", optarg);
			break;
		case 's':
			seconds = number("--seconds", optarg);
			break;
		case 'u':
			until_left = true;
			break;
		case 'H':
			holding = true;
			break;
		case 'd':
			data = optarg;
			break;
		case 'h':
			usage(stdout);
			return EXIT_SUCCESS;
		default:
			usage(stderr);
			return 2;
		}
	}
	if ((optind < argc && !holding) || (until_left && !records)) {
		usage(stderr);
		return 2;
	}

	/* One line a step, even into a pipe. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGALRM, &action, NULL);

	fd = open(data, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		explain_open(data);
		return EXIT_FAILURE;
	}
	index = register_event(fd);
	if (index < 0) {
		explain_register();
		return EXIT_FAILURE;
	}
	printf("requests: registered, write index %d\n", index);
	alarm(seconds);

	if (holding && optind < argc)
		status = hold_for(argv + optind);
	else if (holding)
		status = hold_until_signal();
	else
		status = serve_requests(fd, index, records, until_left);

	unregister_event(fd);
	close(fd);
	return status;
}
