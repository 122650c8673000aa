/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copies of structures of the trace core's private headers, which only a full source tree has. The
 * tags are the kernel's, as they are part of kCFI's type hashes. See layouts.h.
 */
#ifndef USER_EVENTS_TRACE_PRIVATE_H
#define USER_EVENTS_TRACE_PRIVATE_H

#include <linux/trace_events.h>
#include <linux/types.h>

struct dyn_event;

/**
 * struct dyn_event_operations - a kind of event in dynamic_events (trace_dynevent.h)
 * @list: entry in the list of kinds
 * @create: creates an event from a command, or returns -ECANCELED if the command is for another
 *          kind; dyn_event_ops_mutex is held
 * @show: writes the command that creates the event
 * @is_busy: whether the event is in use
 * @free: deletes the event
 * @match: whether a command to delete names the event
 *
 * All but @create are called with event_mutex held.
 */
struct dyn_event_operations {
	struct list_head	list;
	int			(*create)(const char *raw_command);
	int			(*show)(struct seq_file *m, struct dyn_event *ev);
	bool			(*is_busy)(struct dyn_event *ev);
	int			(*free)(struct dyn_event *ev);
	bool			(*match)(const char *system, const char *event, int argc,
					 const char **argv, struct dyn_event *ev);
};

/**
 * struct dyn_event - an event as an entry of dynamic_events (trace_dynevent.h)
 * @list: entry in the list of events
 * @ops: the kind of the event
 */
struct dyn_event {
	struct list_head		list;
	struct dyn_event_operations	*ops;
};

#endif /* USER_EVENTS_TRACE_PRIVATE_H */
