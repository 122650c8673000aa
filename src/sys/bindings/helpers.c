// SPDX-License-Identifier: GPL-2.0
/*
 * C helpers for src/sys/. See helpers.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/jiffies.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/perf_event.h>
#include <linux/pid_namespace.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <linux/task_work.h>
#include <linux/timekeeping.h>
#include <linux/timer.h>
#include <linux/trace_events.h>
#include <linux/tracefs.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>
#include <asm/futex.h>
#include <trace/events/sched.h>

#include "helpers.h"

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

DEFINE_STATIC_CALL(kallsyms_call, absent_kallsyms_lookup_name);
DEFINE_STATIC_CALL(tracefs_remove_call, absent_tracefs_remove);
DEFINE_STATIC_CALL(print_fields_call, absent_print_event_fields);
DEFINE_STATIC_CALL(find_event_file_call, absent_find_event_file);

static struct mutex *event_mutex_ptr;
static struct mutex *dyn_event_ops_mutex_ptr;
static struct list_head *dyn_event_list_ptr;
static struct list_head *dyn_event_ops_list_ptr;
static struct list_head *trace_arrays_ptr;

/* A kprobe, once registered, knows the address of the symbol it sits on. */
static void *find_kallsyms_lookup_name(void)
{
	struct kprobe kp = { .symbol_name = "kallsyms_lookup_name" };
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

void user_events_lock_event_mutex(void)
{
	mutex_lock(event_mutex_ptr);
}

void user_events_unlock_event_mutex(void)
{
	mutex_unlock(event_mutex_ptr);
}

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

static enum print_line_t print_record(struct trace_iterator *iter, int flags,
				      struct trace_event *event)
{
	return static_call(print_fields_call)(iter, event);
}

/* The trace core fills in what is left out. */
struct trace_event_functions user_events_print_functions = {
	.trace = print_record,
};

int user_events_reg(struct trace_event_call *call, enum trace_reg type,
		    void *data)
{
	const struct user_events_call_ops *ops = call->data;

	return ops->reg(call, type, data);
}

/*
 * The trace core frees event files and perf's lists after
 * tracepoint_synchronize_unregister(), so a reader of either must be one that
 * this waits for: a reader of tracepoint_srcu. Preemption is off besides,
 * since the ring buffer and perf work on this CPU's data.
 */
struct srcu_ctr __percpu *user_events_enter_probes(void)
{
	struct srcu_ctr __percpu *ctr;

	ctr = srcu_read_lock_fast_notrace(&tracepoint_srcu);
	preempt_disable_notrace();
	return ctr;
}

void user_events_leave_probes(struct srcu_ctr __percpu *ctr)
{
	preempt_enable_notrace();
	srcu_read_unlock_fast_notrace(&tracepoint_srcu, ctr);
}

static void free_probe(struct rcu_head *rcu)
{
	kfree(container_of(rcu, struct user_events_probe, rcu));
}

void user_events_free_probe(struct user_events_probe *probe)
{
	call_srcu(&tracepoint_srcu, &probe->rcu, free_probe);
}

void user_events_probe_barrier(void)
{
	srcu_barrier(&tracepoint_srcu);
}

static void on_fork(void *data, struct task_struct *parent,
		    struct task_struct *child)
{
	struct user_events_fork_probe *probe = data;

	/* Who has registered something has a notifier; most have not. */
	if (parent->mm && mm_has_notifiers(parent->mm) &&
	    child->mm && parent->mm != child->mm)
		probe->forked(probe, child);
}

static void find_fork(struct tracepoint *tp, void *data)
{
	struct user_events_fork_probe *probe = data;

	if (!strcmp(tp->name, "sched_process_fork"))
		probe->tp = tp;
}

int user_events_add_fork_probe(struct user_events_fork_probe *probe)
{
	check_trace_callback_type_sched_process_fork(on_fork);
	for_each_kernel_tracepoint(find_fork, probe);
	if (!probe->tp)
		return -ENOENT;
	return tracepoint_probe_register(probe->tp, on_fork, probe);
}

void user_events_remove_fork_probe(struct user_events_fork_probe *probe)
{
	tracepoint_probe_unregister(probe->tp, on_fork, probe);
	tracepoint_synchronize_unregister();
}

static void on_leaving(struct user_events_leave_probe *probe)
{
	struct mm_struct *mm = current->mm;

	if (mm && mm_has_notifiers(mm) && atomic_read(&mm->mm_users) == 1 &&
	    preemptible())
		probe->leaving(probe);
}

static void on_exit(void *data, struct task_struct *task, bool group_dead)
{
	on_leaving(data);
}

static void on_exec(void *data, struct task_struct *task,
		    struct linux_binprm *bprm)
{
	on_leaving(data);
}

static void find_leaving(struct tracepoint *tp, void *data)
{
	struct user_events_leave_probe *probe = data;

	if (!strcmp(tp->name, "sched_process_exit"))
		probe->exit = tp;
	if (!strcmp(tp->name, "sched_prepare_exec"))
		probe->exec = tp;
}

int user_events_add_leave_probe(struct user_events_leave_probe *probe)
{
	int ret;

	check_trace_callback_type_sched_process_exit(on_exit);
	check_trace_callback_type_sched_prepare_exec(on_exec);
	for_each_kernel_tracepoint(find_leaving, probe);
	if (!probe->exit || !probe->exec)
		return -ENOENT;
	ret = tracepoint_probe_register(probe->exit, on_exit, probe);
	if (ret)
		return ret;
	ret = tracepoint_probe_register(probe->exec, on_exec, probe);
	if (ret) {
		tracepoint_probe_unregister(probe->exit, on_exit, probe);
		tracepoint_synchronize_unregister();
	}
	return ret;
}

void user_events_remove_leave_probe(struct user_events_leave_probe *probe)
{
	tracepoint_probe_unregister(probe->exec, on_exec, probe);
	tracepoint_probe_unregister(probe->exit, on_exit, probe);
	tracepoint_synchronize_unregister();
}

int user_events_add_task_work(struct task_struct *task,
			      struct callback_head *work)
{
	return task_work_add(task, work, TWA_RESUME);
}

/*
 * A task that has given back its reference to the module at the end of a task
 * work may still be in the last instructions of it. It neither sleeps there nor
 * returns to user space, which is what this waits for.
 */
void user_events_wait_for_task_work(void)
{
	synchronize_rcu_tasks();
}

struct mm_struct *user_events_task_mm(struct task_struct *task)
{
	return task->mm;
}

u64 user_events_start_time(struct task_struct *task)
{
	return task->start_time;
}

bool user_events_is_dying(void)
{
	return fatal_signal_pending(current);
}

/*
 * For probes of tracepoints: they run as readers of SRCU, or on other kernels of
 * RCU with preemption off.
 */
bool user_events_may_sleep(void)
{
	return preemptible();
}

void *user_events_alloc_nofail(size_t size)
{
	return kmalloc(size, GFP_KERNEL | __GFP_NOFAIL);
}

/* A child that must not run: it would do so without what it was to inherit. */
void user_events_kill_orphan(struct task_struct *child)
{
	pr_warn_ratelimited("no memory for the registrations of %s[%d]: killing it\n",
			    child->comm, task_pid_nr(child));
	send_sig(SIGKILL, child, 1);
}

/*
 * The process after this one, or the first one after NULL; NULL after the last. A
 * process here is the leader of its threads. RCU is read-locked.
 */
struct task_struct *user_events_next_process(struct task_struct *process)
{
	process = next_task(process ?: &init_task);
	return process == &init_task ? NULL : process;
}

/*
 * The address space of any of a process's threads: the leader may have exited. RCU
 * is read-locked; for_each_thread() would on kernels with PROVE_RCU also ask for
 * tasklist_lock, which modules do not see.
 */
const struct mm_struct *user_events_process_mm(struct task_struct *process)
{
	const struct mm_struct *mm = NULL;
	struct task_struct *thread;

	/* One that works in the address space of others. */
	if (process->flags & PF_KTHREAD)
		return NULL;
	list_for_each_entry_rcu(thread, &process->signal->thread_head, thread_node) {
		mm = READ_ONCE(thread->mm);
		if (mm)
			break;
	}
	return mm;
}

/* As the current task sees it; 0 if it does not. */
pid_t user_events_process_id(struct task_struct *process)
{
	return task_tgid_nr_ns(process, task_active_pid_ns(current));
}

/* @name has room for TASK_COMM_LEN bytes. */
void user_events_process_name(struct task_struct *process, char *name)
{
	strscpy_pad(name, process->comm, TASK_COMM_LEN);
}

u64 user_events_now(void)
{
	return ktime_get_ns();
}

bool user_events_soft_disabled(struct trace_event_file *file)
{
	return trace_trigger_soft_disabled(file);
}

struct hlist_head *user_events_perf_head(struct trace_event_call *call)
{
	return this_cpu_ptr(call->perf_events);
}

bool user_events_has_bpf(struct trace_event_call *call)
{
	return bpf_prog_array_valid(call);
}

void user_events_fetch_caller_regs(struct pt_regs *regs)
{
	perf_fetch_caller_regs(regs);
}

bool user_events_call_is_referenced(struct trace_event_call *call)
{
	return atomic_read(&call->refcnt) != 0;
}

/*
 * Has the top tracer made the event's directory? Not so when it ran out of memory
 * there, which it tells nobody. event_mutex is held. The tracer is the last of the
 * list, always, and begins with its place there. Cheap for an event that is new: it
 * is the first that the trace core comes upon.
 */
bool user_events_has_directory(struct trace_event_call *call)
{
	struct trace_array *top = (struct trace_array *)trace_arrays_ptr->prev;
	struct trace_event_file *file;

	file = static_call(find_event_file_call)(top, call->class->system,
						 trace_event_name(call));
	return file && file->event_call == call && file->ei;
}

/* Does somebody else use the address space, too? Any context. */
bool user_events_mm_is_shared(struct mm_struct *mm)
{
	return atomic_read(&mm->mm_users) != 1;
}

/*
 * Clears bits of a word of the current task's memory, atomically, if that takes no
 * fault that sleeps. Any context.
 */
int user_events_clear_own(unsigned long addr, u32 mask)
{
	int old, ret;

	pagefault_disable();
	ret = arch_futex_atomic_op_inuser(FUTEX_OP_ANDN, mask, &old,
					  (u32 __user *)addr);
	pagefault_enable();
	return ret;
}

bool user_events_access_ok(unsigned long addr, unsigned long size)
{
	return access_ok((const void __user *)addr, size);
}

/*
 * Ends the pinning of a page that was just written to. False if the page could
 * not be marked as written to without waiting for somebody who has locked it.
 *
 * A page that is dirty now is written back after now, with what was written.
 */
bool user_events_unpin_written(struct page *page)
{
	struct folio *folio = page_folio(page);
	bool marked = folio_test_dirty(folio);

	if (!marked && folio_trylock(folio)) {
		folio_mark_dirty(folio);
		folio_unlock(folio);
		marked = true;
	}
	unpin_user_page(page);
	return marked;
}

/* A wait that ends at a certain time. */
struct deadline {
	struct timer_list	timer;
	struct task_struct	*task;
};

static void deadline_passed(struct timer_list *timer)
{
	struct deadline *deadline = container_of(timer, struct deadline, timer);

	send_sig(SIGKILL, deadline->task, 1);
}

/*
 * fixup_user_fault() that gives up after a time: -EINTR. For kernel threads.
 *
 * A fault that nobody answers, of userfaultfd for example, can only be left when
 * the task is killed. A kernel thread ignores that signal except for as long as
 * it allows it, and it does not die of it then: it just does not wait.
 */
int user_events_fault_in_within(struct mm_struct *mm, unsigned long addr,
				unsigned int flags, unsigned int ms)
{
	struct deadline deadline = { .task = current };
	bool unlocked = false;
	int ret;

	if (WARN_ON_ONCE(!(current->flags & PF_KTHREAD)))
		return -EINVAL;

	allow_signal(SIGKILL);
	timer_setup_on_stack(&deadline.timer, deadline_passed, 0);
	mod_timer(&deadline.timer, jiffies + msecs_to_jiffies(ms));
	ret = fixup_user_fault(mm, addr, flags, &unlocked);
	timer_delete_sync(&deadline.timer);
	timer_destroy_on_stack(&deadline.timer);
	disallow_signal(SIGKILL);
	flush_signals(current);
	return ret;
}

void user_events_put_page(struct page *page)
{
	put_page(page);
}

bool user_events_get_module(void)
{
	return try_module_get(THIS_MODULE);
}

void user_events_put_module(void)
{
	module_put(THIS_MODULE);
}

struct workqueue_struct *user_events_alloc_queue(void)
{
	return alloc_workqueue("user_events", WQ_UNBOUND, 0);
}

bool user_events_perfmon_capable(void)
{
	return perfmon_capable();
}
