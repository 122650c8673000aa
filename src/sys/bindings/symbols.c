// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel has and does not export, found at load and called from here.
 */

#include <linux/build_bug.h>
#include <linux/cdev.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/trace_events.h>
#include <linux/tracefs.h>
#include <linux/uaccess.h>

#include "helpers.h"
#include "layouts.h"

/*
 * Functions that the kernel does not export are called through static calls:
 * those compile to direct jumps, which kernels with IBT or kCFI accept even
 * where nothing in the kernel takes the target's address. A call through a
 * function pointer would be killed there.
 */
static unsigned long absent_kallsyms_lookup_name(const char *name)
{
	return 0;
}

static void absent_tracefs_remove(struct dentry *dentry)
{
}

static void absent_cd_forget(struct inode *inode)
{
}

static enum print_line_t absent_print_event_fields(struct trace_iterator *iter,
						   struct trace_event *event)
{
	return TRACE_TYPE_UNHANDLED;
}

static struct trace_event_file *absent_find_event_file(struct trace_array *tr,
						       const char *system,
						       const char *event)
{
	return NULL;
}

/*
 * The calls are compiled by the prototypes above. Where a header has the
 * kernel's, they are compared; for those that the trace core's private headers
 * have, layouts.c does that where it is compiled.
 */
static_assert(__same_type(absent_kallsyms_lookup_name, kallsyms_lookup_name));
static_assert(__same_type(absent_tracefs_remove, tracefs_remove));
static_assert(__same_type(absent_cd_forget, cd_forget));
static_assert(__same_type(absent_print_event_fields, user_events_like_print_event_fields));
static_assert(__same_type(absent_find_event_file, user_events_like_find_event_file));

DEFINE_STATIC_CALL(kallsyms_call, absent_kallsyms_lookup_name);
DEFINE_STATIC_CALL(tracefs_remove_call, absent_tracefs_remove);
DEFINE_STATIC_CALL(cd_forget_call, absent_cd_forget);
DEFINE_STATIC_CALL(print_fields_call, absent_print_event_fields);
DEFINE_STATIC_CALL(find_event_file_call, absent_find_event_file);

static struct mutex *event_mutex_ptr;
static struct mutex *dyn_event_ops_mutex_ptr;
static struct list_head *dyn_event_list_ptr;
static struct list_head *dyn_event_ops_list_ptr;
static struct list_head *trace_arrays_ptr;
static const struct file_operations *def_chr_fops_ptr;

static_assert(__same_type(*def_chr_fops_ptr, def_chr_fops));

/*
 * A kprobe, once registered, knows the address of the symbol it sits on. This
 * one is never armed: disarming takes memory, and the kernel keeps a kprobe
 * that it cannot disarm, without telling who takes it away.
 */
static void *find_kallsyms_lookup_name(void)
{
	struct kprobe kp = {
		.symbol_name = "kallsyms_lookup_name",
		.flags = KPROBE_FLAG_DISABLED,
	};
	void *addr;

	if (register_kprobe(&kp))
		return NULL;
	addr = kp.addr;
	unregister_kprobe(&kp);
	return addr;
}

static void *lookup(const char *name)
{
	return (void *)static_call(kallsyms_call)(name);
}

/**
 * user_events_resolve_symbols - find what the kernel does not export
 *
 * Context: process context, may sleep. Called once, at load, before any other
 * function here.
 * Return: NULL, or the name of the symbol that is missing.
 */
const char *user_events_resolve_symbols(void)
{
	void *addr;

	addr = find_kallsyms_lookup_name();
	if (!addr)
		return "kallsyms_lookup_name";
	static_call_update(kallsyms_call, addr);

	event_mutex_ptr = lookup("event_mutex");
	if (!event_mutex_ptr)
		return "event_mutex";
	dyn_event_ops_mutex_ptr = lookup("dyn_event_ops_mutex");
	if (!dyn_event_ops_mutex_ptr)
		return "dyn_event_ops_mutex";
	dyn_event_list_ptr = lookup("dyn_event_list");
	if (!dyn_event_list_ptr)
		return "dyn_event_list";
	dyn_event_ops_list_ptr = lookup("dyn_event_ops_list");
	if (!dyn_event_ops_list_ptr)
		return "dyn_event_ops_list";

	trace_arrays_ptr = lookup("ftrace_trace_arrays");
	if (!trace_arrays_ptr)
		return "ftrace_trace_arrays";

	addr = lookup("tracefs_remove");
	if (!addr)
		return "tracefs_remove";
	static_call_update(tracefs_remove_call, addr);

	def_chr_fops_ptr = lookup("def_chr_fops");
	if (!def_chr_fops_ptr)
		return "def_chr_fops";

	addr = lookup("cd_forget");
	if (!addr)
		return "cd_forget";
	static_call_update(cd_forget_call, addr);

	addr = lookup("print_event_fields");
	if (!addr)
		return "print_event_fields";
	static_call_update(print_fields_call, addr);

	addr = lookup("find_event_file");
	if (!addr)
		return "find_event_file";
	static_call_update(find_event_file_call, addr);

	return NULL;
}

static bool is_kernel_function(const void *addr)
{
	const void *start = lookup("_stext"), *end = lookup("_etext");

	return start && addr >= start && addr < end;
}

/*
 * The kind of dynamic events that the kernel's own functions of these names are
 * of, if there is one: are they where ours would be?
 */
static bool has_functions_of(const struct dyn_event_operations *ops)
{
	const void *create = lookup("eprobe_dyn_event_create");

	if (!create || ops->create != create)
		return true;
	return (void *)ops->show == lookup("eprobe_dyn_event_show") &&
	       (void *)ops->is_busy == lookup("eprobe_dyn_event_is_busy") &&
	       (void *)ops->free == lookup("eprobe_dyn_event_release") &&
	       (void *)ops->match == lookup("eprobe_dyn_event_match");
}

/* Are the kinds of dynamic events laid out as helpers.h has it? */
static bool knows_kinds(void)
{
	const struct dyn_event_operations *ops;

	guard(mutex)(dyn_event_ops_mutex_ptr);
	if (list_empty(dyn_event_ops_list_ptr))
		return false;
	list_for_each_entry(ops, dyn_event_ops_list_ptr, list) {
		if (!is_kernel_function(ops->create) || !is_kernel_function(ops->show) ||
		    !is_kernel_function(ops->is_busy) || !is_kernel_function(ops->free) ||
		    !is_kernel_function(ops->match) || !has_functions_of(ops))
			return false;
	}
	return true;
}

static bool is_kind(const struct dyn_event_operations *ops)
{
	const struct dyn_event_operations *kind;

	guard(mutex)(dyn_event_ops_mutex_ptr);
	list_for_each_entry(kind, dyn_event_ops_list_ptr, list) {
		if (kind == ops)
			return true;
	}
	return false;
}

/*
 * Are the dynamic events, if there are any, laid out as helpers.h has it? The
 * kinds do not go while this runs, as the kernel's own never do.
 */
static bool knows_dyn_events(void)
{
	const struct dyn_event_operations *ops = NULL;
	const struct dyn_event *ev;

	scoped_guard(mutex, event_mutex_ptr) {
		ev = list_first_entry_or_null(dyn_event_list_ptr, struct dyn_event, list);
		if (!ev)
			return true;
		ops = ev->ops;
	}
	return is_kind(ops);
}

/* The tracer that is there always. It is the last of the list, and begins with its place there. */
static struct trace_array *top_tracer(void)
{
	return (struct trace_array *)trace_arrays_ptr->prev;
}

/* Is that so? The trace core says of an event's file which tracer it is of. */
static bool knows_top_tracer(void)
{
	struct trace_event_file *file, *found;
	bool is_known;

	file = trace_get_event_file(NULL, "sched", "sched_switch");
	if (IS_ERR(file))
		return false;
	is_known = file->tr == top_tracer();
	if (is_known) {
		guard(mutex)(event_mutex_ptr);
		found = static_call(find_event_file_call)(file->tr, "sched", "sched_switch");
		is_known = found == file;
	}
	trace_put_event_file(file);
	return is_known;
}

/* Are these the bytes at addr? What is taken for an address may be none. */
static bool begins_with(const char *addr, const char *prefix)
{
	size_t len = strlen(prefix);
	char bytes[16];

	return len <= sizeof(bytes) && !copy_from_kernel_nofault(bytes, addr, len) &&
	       !memcmp(bytes, prefix, len);
}

/* Is it one of the fields that every kernel has in this event? */
static bool knows_field(const struct ftrace_event_field *field)
{
	if (begins_with(field->name, "prev_comm"))
		return begins_with(field->type, "char[") &&
		       field->filter_type == FILTER_STATIC_STRING &&
		       field->offset == sizeof(struct trace_entry) &&
		       field->size == TASK_COMM_LEN && field->len == TASK_COMM_LEN &&
		       !field->needs_test &&
		       field->is_signed == is_signed_type(char);
	if (begins_with(field->name, "prev_pid"))
		return begins_with(field->type, "pid_t") &&
		       field->filter_type == FILTER_OTHER &&
		       field->offset == sizeof(struct trace_entry) + TASK_COMM_LEN &&
		       field->is_signed && !field->needs_test && !field->len &&
		       field->size == sizeof(pid_t);
	return false;
}

/*
 * Are the fields of events laid out as helpers.h has it? Two of sched_switch are
 * compared, and the size with that of the objects in the trace core's cache: of
 * a member more it would look at what lies behind ours.
 */
static bool knows_fields(void)
{
	struct kmem_cache **cache = lookup("field_cachep");
	struct ftrace_event_field *field;
	struct trace_event_file *file;
	int known = 0;

	/* A cache may be shared with one of objects that are up to a word longer. */
	if (!cache || kmem_cache_size(*cache) < sizeof(*field) ||
	    kmem_cache_size(*cache) >= sizeof(*field) + sizeof(long))
		return false;
	file = trace_get_event_file(NULL, "sched", "sched_switch");
	if (IS_ERR(file))
		return false;
	scoped_guard(mutex, event_mutex_ptr) {
		list_for_each_entry(field, &file->event_call->class->fields, link)
			known += knows_field(field);
	}
	trace_put_event_file(file);
	return known == 2;
}

/**
 * user_events_check_layouts - look whether private structures are as we know them
 *
 * The symbols have been found. What no header tells and what is relied on
 * besides cannot be seen from here: that the kernel gives back a character
 * device only when the file's inode is one (see files.c). Opening and closing a
 * file, and unloading, shows that.
 *
 * Context: process context, may sleep.
 * Return: NULL, or what is not as we know it.
 */
const char *user_events_check_layouts(void)
{
	if (!knows_kinds())
		return "struct dyn_event_operations";
	if (!knows_dyn_events())
		return "struct dyn_event";
	if (!knows_top_tracer())
		return "struct trace_array, or ftrace_trace_arrays";
	if (!knows_fields())
		return "struct ftrace_event_field";
	return NULL;
}

/* Has the kernel an implementation of its own? The symbols have been found. */
bool user_events_are_built_in(void)
{
	return lookup("user_event_mm_dup");
}

void user_events_lock_event_mutex(void)
{
	mutex_lock(event_mutex_ptr);
}

void user_events_unlock_event_mutex(void)
{
	mutex_unlock(event_mutex_ptr);
}

/*
 * trace_event_get_offsets() takes the head of an empty list of fields for a field, and
 * reads an offset and a size behind it.
 */
struct ftrace_event_field user_events_no_fields = {
	.link = LIST_HEAD_INIT(user_events_no_fields.link),
};

/* event_mutex is held. */
void user_events_add_dyn_event(struct dyn_event *ev)
{
	list_add_tail(&ev->list, dyn_event_list_ptr);
}

/* event_mutex is held. */
void user_events_remove_dyn_event(struct dyn_event *ev)
{
	list_del(&ev->list);
}

void user_events_add_dyn_event_ops(struct dyn_event_operations *ops)
{
	mutex_lock(dyn_event_ops_mutex_ptr);
	list_add_tail(&ops->list, dyn_event_ops_list_ptr);
	mutex_unlock(dyn_event_ops_mutex_ptr);
}

void user_events_remove_dyn_event_ops(struct dyn_event_operations *ops)
{
	mutex_lock(dyn_event_ops_mutex_ptr);
	list_del(&ops->list);
	mutex_unlock(dyn_event_ops_mutex_ptr);
}

void user_events_tracefs_remove(struct dentry *dentry)
{
	static_call(tracefs_remove_call)(dentry);
}

/* What the inodes of character devices have for operations. */
const struct file_operations *user_events_device_operations(void)
{
	return def_chr_fops_ptr;
}

/* Who opens the inode finds no device from now on. */
void user_events_forget_device(struct inode *inode)
{
	static_call(cd_forget_call)(inode);
}

static enum print_line_t print_record(struct trace_iterator *iter, int flags,
				      struct trace_event *event)
{
	return static_call(print_fields_call)(iter, event);
}

/* The trace core fills in what is left out. */
struct trace_event_functions user_events_print_functions = {
	.trace = print_record,
};

/*
 * Has the top tracer made the event's directory? Not so when it ran out of memory
 * there, of which it returns no error. event_mutex is held. Cheap for an event that
 * is new: it is the first that the trace core comes upon.
 */
bool user_events_has_directory(struct trace_event_call *call)
{
	struct trace_event_file *file;

	file = static_call(find_event_file_call)(top_tracer(), call->class->system,
						 trace_event_name(call));
	return file && file->event_call == call && file->ei;
}
