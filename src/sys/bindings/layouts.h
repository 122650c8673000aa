/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The layouts in the trace core's private headers on which the module relies. The copies in
 * trace_private.h have the same tags as the kernel's own, so no file can include both: helpers.c
 * checks the copies, and layouts.c the kernel's, with the prototypes below.
 */
#ifndef USER_EVENTS_LAYOUTS_H
#define USER_EVENTS_LAYOUTS_H

#include <linux/align.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/container_of.h>
#include <linux/stddef.h>

#define USER_EVENTS_AT(type, member, at)						\
	static_assert(offsetof(struct type, member) == (at),				\
		      "struct " #type " has " #member " at another offset")
#define USER_EVENTS_IS(type, member, kind)						\
	static_assert(__same_type(typeof_member(struct type, member), kind),		\
		      "struct " #type " has " #member " of another type")
#define USER_EVENTS_SIZE(type, size)							\
	static_assert(sizeof(struct type) == (size), "struct " #type " has another size")
#define USER_EVENTS_WORD sizeof(void *)

USER_EVENTS_AT(dyn_event_operations, list, 0);
USER_EVENTS_IS(dyn_event_operations, list, struct list_head);
USER_EVENTS_AT(dyn_event_operations, create, 2 * USER_EVENTS_WORD);
USER_EVENTS_IS(dyn_event_operations, create, int (*)(const char *));
USER_EVENTS_AT(dyn_event_operations, show, 3 * USER_EVENTS_WORD);
USER_EVENTS_IS(dyn_event_operations, show, int (*)(struct seq_file *, struct dyn_event *));
USER_EVENTS_AT(dyn_event_operations, is_busy, 4 * USER_EVENTS_WORD);
USER_EVENTS_IS(dyn_event_operations, is_busy, bool (*)(struct dyn_event *));
USER_EVENTS_AT(dyn_event_operations, free, 5 * USER_EVENTS_WORD);
USER_EVENTS_IS(dyn_event_operations, free, int (*)(struct dyn_event *));
USER_EVENTS_AT(dyn_event_operations, match, 6 * USER_EVENTS_WORD);
USER_EVENTS_IS(dyn_event_operations, match,
	       bool (*)(const char *, const char *, int, const char **, struct dyn_event *));
USER_EVENTS_SIZE(dyn_event_operations, 7 * USER_EVENTS_WORD);

USER_EVENTS_AT(dyn_event, list, 0);
USER_EVENTS_IS(dyn_event, list, struct list_head);
USER_EVENTS_AT(dyn_event, ops, 2 * USER_EVENTS_WORD);
USER_EVENTS_IS(dyn_event, ops, struct dyn_event_operations *);
USER_EVENTS_SIZE(dyn_event, 3 * USER_EVENTS_WORD);

enum print_line_t print_event_fields(struct trace_iterator *iter, struct trace_event *event);
void tracing_reset_all_online_cpus(void);
struct trace_event_file *find_event_file(struct trace_array *tr, const char *system,
					 const char *event);

#endif /* USER_EVENTS_LAYOUTS_H */
