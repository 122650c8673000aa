// SPDX-License-Identifier: GPL-2.0
/*
 * Static calls of functions that the kernel does not export. They compile to direct jumps, which
 * kernels with IBT or kCFI allow also to functions whose address the kernel never takes. A call
 * through a function pointer would be fatal there.
 *
 * Each call has the type of the kernel's prototype, and must be linked before it is used.
 */

#include <linux/kallsyms.h>
#include <linux/static_call.h>

#include "bindings.h"
#include "layouts.h"

#define USER_EVENTS_CALL(name)								\
DEFINE_STATIC_CALL_NULL(user_events_##name, name);					\
void user_events_link_##name(void *function)						\
{											\
	static_call_update(user_events_##name, function);				\
}

USER_EVENTS_CALL(kallsyms_lookup_name)
USER_EVENTS_CALL(tracefs_create_file)
USER_EVENTS_CALL(tracefs_remove)
USER_EVENTS_CALL(cd_forget)
USER_EVENTS_CALL(find_event_file)
USER_EVENTS_CALL(print_event_fields)
USER_EVENTS_CALL(tracing_reset_all_online_cpus)

unsigned long user_events_kallsyms_lookup_name(const char *name)
{
	return static_call(user_events_kallsyms_lookup_name)(name);
}

struct dentry *user_events_tracefs_create_file(const char *name, umode_t mode,
					       struct dentry *parent, void *data,
					       const struct file_operations *fops)
{
	return static_call(user_events_tracefs_create_file)(name, mode, parent, data, fops);
}

void user_events_tracefs_remove(struct dentry *dentry)
{
	static_call(user_events_tracefs_remove)(dentry);
}

void user_events_cd_forget(struct inode *inode)
{
	static_call(user_events_cd_forget)(inode);
}

struct trace_event_file *user_events_find_event_file(struct trace_array *tr, const char *system,
						     const char *event)
{
	return static_call(user_events_find_event_file)(tr, system, event);
}

void user_events_tracing_reset_all_online_cpus(void)
{
	static_call(user_events_tracing_reset_all_online_cpus)();
}

static enum print_line_t user_events_print(struct trace_iterator *iter, int flags,
					   struct trace_event *event)
{
	return static_call(user_events_print_event_fields)(iter, event);
}

/* The trace core sets the other members. */
struct trace_event_functions user_events_print_functions = {
	.trace = user_events_print,
};
