/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C helpers for src/sys/: macros, inline functions, per-CPU variables and
 * static calls, which Rust cannot reach by itself. None of them decides
 * anything.
 */
#ifndef USER_EVENTS_HELPERS_H
#define USER_EVENTS_HELPERS_H

#include <linux/list.h>
#include <linux/sched.h>
#include <linux/srcu.h>
#include <linux/trace_events.h>
#include <linux/types.h>

struct dentry;
struct file_operations;
struct inode;
struct mem_cgroup;
struct seq_file;
struct workqueue_struct;

/* symbols.rs: what the kernel has but does not export */
const char *user_events_resolve_symbols(void);
const char *user_events_check_layouts(void);
bool user_events_are_built_in(void);
void user_events_lock_event_mutex(void);
void user_events_unlock_event_mutex(void);
void user_events_tracefs_remove(struct dentry *dentry);
const struct file_operations *user_events_device_operations(void);
void user_events_forget_device(struct inode *inode);

/* tracefs.rs: files whose operations can be unloaded, and listings */
bool user_events_is_interrupted(void);
struct user_events_file;
struct user_events_file *user_events_create_file(const char *name, umode_t mode, void *data);
void user_events_publish_file(struct user_events_file *file, const struct file_operations *ops);
bool user_events_remove_file(struct user_events_file *file);
void user_events_file_opened(struct inode *inode);

/*
 * dyn_event.rs: the interface of kernel/trace/trace_dynevent.h, which is private
 * to the trace core. The tags are the kernel's, because kCFI compares them.
 */
struct dyn_event;

/**
 * struct dyn_event_operations - one kind of event in dynamic_events
 * @list: entry in the list of kinds
 * @create: makes an event of a command, or answers -ECANCELED if the command is
 *          not of this kind; the lock over the kinds is held
 * @show: writes the command that would make the event
 * @is_busy: is the event in use?
 * @free: deletes the event
 * @match: is it the event that a command to delete names?
 *
 * All but @create are called with event_mutex held.
 */
struct dyn_event_operations {
	struct list_head	list;
	int			(*create)(const char *raw_command);
	int			(*show)(struct seq_file *m, struct dyn_event *ev);
	bool			(*is_busy)(struct dyn_event *ev);
	int			(*free)(struct dyn_event *ev);
	bool			(*match)(const char *system, const char *event,
					 int argc, const char **argv,
					 struct dyn_event *ev);
};

/**
 * struct dyn_event - an event as an entry of dynamic_events
 * @list: entry in the list of events
 * @ops: what kind of event it is
 */
struct dyn_event {
	struct list_head		list;
	struct dyn_event_operations	*ops;
};

/**
 * struct ftrace_event_field - a field of an event, as kernel/trace/trace.h has it
 * @link: entry in the list of the event's fields
 * @name: as the event's format shows it
 * @type: likewise
 * @filter_type: FILTER_*: what filters and histograms take it for
 * @offset: bytes in front of it in a record
 * @size: bytes that it takes in a record
 * @is_signed: is it a signed integer?
 * @needs_test: does it hold the address of a string?
 * @len: elements of an array, or 0
 */
struct ftrace_event_field {
	struct list_head	link;
	const char		*name;
	const char		*type;
	int			filter_type;
	int			offset;
	int			size;
	unsigned int		is_signed:1;
	unsigned int		needs_test:1;
	int			len;
};

/* The list of fields of an event without any: in place of the first there are zeros. */
extern struct ftrace_event_field user_events_no_fields;

void user_events_add_dyn_event(struct dyn_event *ev);
void user_events_remove_dyn_event(struct dyn_event *ev);
void user_events_add_dyn_event_ops(struct dyn_event_operations *ops);
void user_events_remove_dyn_event_ops(struct dyn_event_operations *ops);

/**
 * struct user_events_probe - one trace event file that takes records
 * @rcu: frees the probe after the readers of the list are gone
 * @next: next probe of the same event, or NULL
 * @file: the trace event file of one trace instance
 */
struct user_events_probe {
	struct rcu_head			rcu;
	struct user_events_probe	*next;
	struct trace_event_file		*file;
};

/* event_files.rs: the read side that the trace core waits for */
struct srcu_ctr __percpu *user_events_enter_probes(void);
void user_events_leave_probes(struct srcu_ctr __percpu *ctr);
void user_events_free_probe(struct user_events_probe *probe);
void user_events_probe_barrier(void);

/**
 * struct user_events_fork_probe - somebody who wants to know of forks
 * @forked: a task with an address space of its own was forked and does not run
 *          yet; the current task is its parent
 * @tp: the tracepoint
 */
struct user_events_fork_probe {
	void			(*forked)(struct user_events_fork_probe *probe,
					  struct task_struct *child);
	struct tracepoint	*tp;
};

/**
 * struct user_events_exit_probe - a listener to tasks that leave their address space
 * @leaving: the current task, the last of its thread group or about to exec, returns
 *           to user space in its address space no more; sleeping is not allowed
 * @exit: the tracepoint sched_process_exit
 * @exec: the tracepoint sched_prepare_exec
 */
struct user_events_exit_probe {
	void			(*leaving)(struct user_events_exit_probe *probe);
	struct tracepoint	*exit;
	struct tracepoint	*exec;
};

/* exit_probe.rs */
int user_events_add_exit_probe(struct user_events_exit_probe *probe);
void user_events_remove_exit_probe(struct user_events_exit_probe *probe);

/* fork.rs */
int user_events_add_fork_probe(struct user_events_fork_probe *probe);
void user_events_remove_fork_probe(struct user_events_fork_probe *probe);
int user_events_add_task_work(struct task_struct *task,
			      struct callback_head *work);
void user_events_wait_for_task_work(void);
struct mm_struct *user_events_task_mm(struct task_struct *task);
bool user_events_is_dying(void);
bool user_events_may_sleep(void);
void *user_events_alloc_nofail(size_t size);
void user_events_kill_child_without_enablers(struct task_struct *child);
u64 user_events_start_time(void);

/**
 * struct user_events_fork_visitor - a visitor of tasks that are in a fork
 * @each: @task is in one, and stays there until this returns; interrupts are off
 */
struct user_events_fork_visitor {
	void	(*each)(struct user_events_fork_visitor *visitor,
			struct task_struct *task);
};

/* process_list.rs */
bool user_events_visit_forks(struct mm_struct *mm,
			     struct user_events_fork_visitor *visitor);
bool user_events_is_fork_ending(struct mm_struct *mm);
struct task_struct *user_events_next_process(struct task_struct *process);
struct task_struct *user_events_next_thread(struct task_struct *process,
					    struct task_struct *thread);
bool user_events_process_is_to_leave(struct task_struct *process);
const struct mm_struct *user_events_process_mm(struct task_struct *process);

/* owner.rs */
bool user_events_owner(const struct mm_struct *mm, pid_t *id, char *name);

/* clock.rs */
u64 user_events_now(void);

/* ring_buffer.rs */
bool user_events_soft_disabled(struct trace_event_file *file);
void user_events_copy(void *to, const void *from, size_t size);

/* source.rs */
s64 user_events_read_index(const void __user *from);
s64 user_events_peek_index(struct iov_iter *from);
bool user_events_read_user(void *to, const void __user *from, size_t size);
bool user_events_read_payload(void *to, struct iov_iter *from, size_t size);

/* perf.rs */
struct hlist_head *user_events_perf_listeners(struct trace_event_call *call);
void user_events_fetch_caller_regs(struct pt_regs *regs);

/**
 * struct user_events_call_ops - what a trace event call of ours does
 * @reg: a consumer comes or goes; @type is an enum trace_reg, passed as the
 *       plain number because an enum in the type of a Rust function does not
 *       get the type hash that kCFI compares
 *
 * The call's data pointer leads here.
 */
struct user_events_call_ops {
	int	(*reg)(struct trace_event_call *call, int type, void *data);
};

/* trace_event.rs */
extern struct trace_event_functions user_events_print_functions;
int user_events_reg(struct trace_event_call *call, enum trace_reg type,
		    void *data);
bool user_events_call_is_referenced(struct trace_event_call *call);
bool user_events_has_directory(struct trace_event_call *call);

/* mm_users.rs */
int user_events_mm_users(struct mm_struct *mm);
struct mem_cgroup *user_events_get_memcg(struct mm_struct *mm);
struct mem_cgroup *user_events_set_memcg(struct mem_cgroup *memcg);
void user_events_put_memcg(struct mem_cgroup *memcg);

/* user_bit.rs */
int user_events_clear_own(unsigned long addr, u32 mask);
unsigned long user_events_untagged(unsigned long addr);
bool user_events_access_ok(unsigned long addr, unsigned long size);
bool user_events_unpin_written(struct page *page);
bool user_events_vma_is_guarded(struct vm_area_struct *vma);
unsigned long user_events_vma_file_system(struct vm_area_struct *vma);
vm_fault_t user_events_fault_once(struct vm_area_struct *vma, unsigned long addr,
				  unsigned int flags, unsigned int ms);
void user_events_put_page(struct page *page);

/* module_ref.rs */
bool user_events_get_module(void);
void user_events_put_module(void);

/* work_queue.rs */
struct workqueue_struct *user_events_alloc_queue(void);

/* capability.rs */
bool user_events_perfmon_capable(void);

#endif /* USER_EVENTS_HELPERS_H */
