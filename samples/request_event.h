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
 * Call it once, before any thread writes. A child made by fork() inherits the
 * registration; exec() ends it.
 *
 * Return: 0; or -1 with errno set, after which the event is never enabled, as
 * if no consumer ever attached.
 */
int request_event_register(const char *data);

/**
 * request_event_unregister - unregister the event, at the end of the program
 *
 * Needed before a library is unloaded. Any end of the process unregisters, too.
 * No thread may be writing.
 */
void request_event_unregister(void);

/**
 * request_event_enabled - return whether a consumer is attached
 *
 * One load and one test. Call it before computing what only a record needs.
 */
static inline bool request_event_enabled(void)
{
	/* The kernel changes the word at any time. Relaxed: it orders nothing else. */
	return __atomic_load_n(&request_event_word, __ATOMIC_RELAXED) & (1U << REQUEST_EVENT_BIT);
}

/**
 * request_event_write - write a record
 * @ns: how long the request took
 * @status: its HTTP status
 * @path: the requested path; a long one is truncated
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
