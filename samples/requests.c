// SPDX-License-Identifier: GPL-2.0
/*
 * A service that writes a record of each request while a consumer is attached.
 *
 * It registers the event "requests" once, at start. From then on a request
 * costs one test of a bit in the program's own memory; a record is written only
 * while a consumer (ftrace, perf, eBPF) is attached to the event. Without user
 * events, or without access to them, it prints the reason once and serves
 * untraced.
 *
 * The event is defined in request_event.c. serve_requests() and main() use it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "request_event.h"

#define TRACEFS "/sys/kernel/tracing"

/* The tests of the bit before the service prints, once, that no consumer is attached. */
#define CHECKS_PER_MESSAGE 100

#define MAX_THREADS 64

/* The options --records and --until-left. */
static unsigned long records;
static bool until_left;

/* Posted to end the service: by the signal handler, or by a thread after the last record. */
static sem_t over;
static atomic_bool ending;

static atomic_ulong served, written, lost;

/* Set once a thread has printed that no consumer is attached. */
static atomic_flag said_idle = ATOMIC_FLAG_INIT;

extern char **environ;

static void usage(FILE *out)
{
	fputs("usage: requests [--records N] [--seconds S] [--until-left] [--threads T] [--data FILE]\n"
	      "       requests --hold [--seconds S] [--data FILE] [COMMAND ARGUMENT...]\n"
	      "\n"
	      "Serves made-up requests, about a hundred a second in each thread, and writes one\n"
	      "record of the event user_events:requests for each while a consumer is attached to it.\n"
	      "\n"
	      "  --records N    end after N records\n"
	      "  --until-left   with --records: write no more than N records, and end when the\n"
	      "                 consumer has left\n"
	      "  --seconds S    end after S seconds in any case\n"
	      "  --threads T    serve in so many threads (1)\n"
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

/* Prints why the event could not be registered, and the remedy. */
static void explain(int error)
{
	const char *cure = "'user-events doctor', of /usr/sbin, shows the cause";

	switch (error) {
	case EACCES:
		cure = "as root, usermod -aG user-events USER; or see user-events doctor";
		break;
	case EADDRINUSE:
		cure = "there is such an event with other fields: 'user-events list' shows programs\n"
		       "requests: that have to end; if it is persistent, root has to delete it";
		break;
	case EMFILE:
		cure = "there are too many user events; as root, raise kernel.user_events_max";
		break;
	case ENOTTY:
		cure = "that file is not user_events_data";
		break;
	}
	fprintf(stderr, "requests: cannot be traced: %s\nrequests: %s\n", strerror(error), cure);
}

/* Prints that a consumer attached or left, once: for the first thread that notices. */
static void say_traced(bool traced)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool said;

	pthread_mutex_lock(&lock);
	if (said != traced)
		puts(traced ? "requests: a consumer attached" : "requests: the consumer left");
	said = traced;
	pthread_mutex_unlock(&lock);
}

static __u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Stands in for the work of one request. */
static __u32 serve(unsigned long number)
{
	struct timespec work = { .tv_nsec = 10 * 1000 * 1000 };

	nanosleep(&work, NULL);
	return number % 5 == 4 ? 404 : 200;
}

/* Writes a record of a request. An error is the consumer's loss, never the service's. */
static void trace_request(__u64 ns, __u32 status, const char *path)
{
	unsigned long number = atomic_fetch_add(&written, 1) + 1;

	if (records && number > records) {
		atomic_fetch_sub(&written, 1);
		return;
	}
	if (request_event_write(ns, status, path)) {
		atomic_fetch_sub(&written, 1);
		if (errno != EBADF)
			atomic_fetch_add(&lost, 1);
		return;
	}
	if (records && number == records)
		printf("requests: wrote %lu records\n", records);
}

static void *serve_requests(void *unused)
{
	static const char *const paths[] = { "/", "/index.html", "/about", "/favicon.ico" };
	unsigned long checks = 0;
	bool traced = false;

	while (!atomic_load(&ending)) {
		unsigned long number = atomic_fetch_add(&served, 1);
		__u64 start = now_ns();
		__u32 status = serve(number);
		bool was_traced = traced;

		traced = request_event_enabled();
		if (traced)
			trace_request(now_ns() - start, status, paths[number % 4]);

		/* The rest is for this program's messages. */
		if (traced != was_traced) {
			say_traced(traced);
			checks = 0;
		}
		if (!traced && ++checks == CHECKS_PER_MESSAGE &&
		    !atomic_flag_test_and_set(&said_idle))
			printf("requests: no consumer, %lu checks cost no system call\n",
			       checks);
		if (records && atomic_load(&written) == records &&
		    (!until_left || (was_traced && !traced)))
			sem_post(&over);
	}
	return unused;
}

static void wait_until_over(void)
{
	while (sem_wait(&over) && errno == EINTR)
		;
}

/* Serves until `over` is posted. Returns when no thread uses the event any more. */
static int serve_in_threads(unsigned long count)
{
	pthread_t threads[MAX_THREADS];
	unsigned long started;
	int error = 0;

	for (started = 0; started < count && !error; started++)
		error = pthread_create(&threads[started], NULL, serve_requests, NULL);
	if (error) {
		started--;
		fprintf(stderr, "requests: cannot start a thread: %s\n", strerror(error));
	} else {
		wait_until_over();
	}
	atomic_store(&ending, true);
	while (started--)
		pthread_join(threads[started], NULL);

	if (!records || atomic_load(&written) != records)
		printf("requests: wrote %lu records\n", atomic_load(&written));
	if (atomic_load(&lost))
		printf("requests: lost %lu records\n", atomic_load(&lost));
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int hold_until_signal(void)
{
	puts("requests: holding the event until a signal comes");
	wait_until_over();
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

/* sem_post() is async-signal-safe; most of stdio is not. */
static void on_signal(int signal)
{
	int error = errno;

	(void)signal;
	sem_post(&over);
	errno = error;
}

static unsigned long number(const char *option, const char *text, unsigned long most)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || !value || value > most) {
		fprintf(stderr, "requests: %s takes a number from 1 to %lu, not \"%s\"\n", option,
			most, text);
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
		{ "threads", required_argument, NULL, 't' },
		{ "hold", no_argument, NULL, 'H' },
		{ "data", required_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct sigaction action = { .sa_handler = on_signal };
	unsigned long seconds = 0, threads = 1;
	const char *data = NULL;
	bool holding = false;
	int option, status;

	/* "+": options behind the command's name are its own. */
	while ((option = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		switch (option) {
		case 'n':
			records = number("--records", optarg, 1000000000);
			break;
		case 's':
			seconds = number("--seconds", optarg, 1000000000);
			break;
		case 'u':
			until_left = true;
			break;
		case 't':
			threads = number("--threads", optarg, MAX_THREADS);
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

	/* Line-buffered even into a pipe. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	sem_init(&over, 0, 0);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	alarm(seconds);

	if (request_event_register(data)) {
		explain(errno);
		/* Without the event there is nothing to hold, but serving needs no tracing. */
		if (holding)
			return EXIT_FAILURE;
		puts("requests: serving untraced");
	} else {
		puts("requests: registered the event user_events:requests");
	}

	if (holding && optind < argc)
		status = hold_for(argv + optind);
	else if (holding)
		status = hold_until_signal();
	else
		status = serve_in_threads(threads);

	request_event_unregister();
	return status;
}
