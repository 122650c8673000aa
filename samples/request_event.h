/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event "requests": a record for each request that a service has served.
 *
 * This file and request_event.c are what a service needs in order to be traced:
 * copy both, and change the fields.
 */
#ifndef REQUEST_EVENT_H
#define REQUEST_EVENT_H

#include <stdbool.h>

#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel sets this bit of request_event_word while a consumer is attached. */
#define REQUEST_EVENT_BIT 0

extern __u32 request_event_word;

/**
 * request_event_register - register the event, at the start of the program
 * @data: the path of user_events_data, or NULL for the usual one
 *
 * Call it once, before there are threads that write. A child made by fork()
 * goes on with what its parent has registered; a program started by exec() has
 * nothing.
 *
 * Return: 0; or -1 with errno set, after which the event is never enabled and
 * the program can run on as if no consumer ever attached.
 */
int request_event_register(const char *data);

/**
 * request_event_unregister - take the event back, at the end of the program
 *
 * Needed in a library that is unloaded. When the process ends, however it ends,
 * the kernel does the same. No thread may be writing.
 */
void request_event_unregister(void);

/**
 * request_event_enabled - is a consumer attached?
 *
 * One load and one test. Ask before working out what only a record needs.
 */
static inline bool request_event_enabled(void)
{
	/* The kernel changes the word at any time. Relaxed: it orders nothing else. */
	return __atomic_load_n(&request_event_word, __ATOMIC_RELAXED) & (1U << REQUEST_EVENT_BIT);
}

/**
 * request_event_write - write a record
 * @ns: how long the request took
 * @status: its status, as HTTP numbers them
 * @path: what was asked for; of a long one the beginning is recorded
 *
 * One system call, from any thread, and from signal handlers that save errno.
 *
 * Return: 0 when it was recorded; or -1 with errno set: EBADF when the last
 * consumer has just detached, anything else when the record is lost.
 */
int request_event_write(__u64 ns, __u32 status, const char *path);

#ifdef __cplusplus
}
#endif

#endif
