// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks: how they come and go, and work that they do.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/pid_namespace.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/task_work.h>
#include <linux/tracepoint.h>
#include <trace/events/sched.h>

#include "helpers.h"

static void on_fork(void *data, struct task_struct *parent,
		    struct task_struct *child)
{
	struct user_events_fork_probe *probe = data;

	if (parent->mm && child->mm && parent->mm != child->mm)
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

static void on_exit(void *data, struct task_struct *task, bool group_dead)
{
	struct user_events_exit_probe *probe = data;

	/* Of the threads of a group the last one tells of all. */
	if (group_dead)
		probe->leaving(probe);
}

static void on_exec(void *data, struct task_struct *task,
		    struct linux_binprm *bprm)
{
	struct user_events_exit_probe *probe = data;

	probe->leaving(probe);
}

static void find_leaving(struct tracepoint *tp, void *data)
{
	struct user_events_exit_probe *probe = data;

	if (!strcmp(tp->name, "sched_process_exit"))
		probe->exit = tp;
	if (!strcmp(tp->name, "sched_prepare_exec"))
		probe->exec = tp;
}

int user_events_add_exit_probe(struct user_events_exit_probe *probe)
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

void user_events_remove_exit_probe(struct user_events_exit_probe *probe)
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
	return kmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_NOFAIL);
}

/* A child that must not run: it would do so without what it was to inherit. */
void user_events_kill_child_without_enablers(struct task_struct *child)
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

	/*
	 * One that works in the address space of others. A task changes flags beside this
	 * one while it runs, this one never.
	 */
	if (data_race(process->flags & PF_KTHREAD))
		return NULL;
	list_for_each_entry_rcu(thread, &process->signal->thread_head, thread_node) {
		mm = READ_ONCE(thread->mm);
		if (mm)
			break;
	}
	return mm;
}

/*
 * Has the last thread of a process still to pass sched_process_exit? Not known, and
 * false, while a thread is in an exec: it may have passed sched_prepare_exec, and has
 * its old address space for a while after that. RCU is read-locked.
 */
bool user_events_process_is_to_leave(struct task_struct *process)
{
	struct task_struct *thread;

	if (!atomic_read(&process->signal->live))
		return false;
	list_for_each_entry_rcu(thread, &process->signal->thread_head, thread_node) {
		/* A task sets it beside others of its bits, which are not looked at. */
		if (data_race((bool)thread->in_execve))
			return false;
	}
	return true;
}

/*
 * The thread of a process after this one, or the first one after NULL; NULL after the
 * last. RCU is read-locked.
 */
struct task_struct *user_events_next_thread(struct task_struct *process,
					    struct task_struct *thread)
{
	struct list_head *head = &process->signal->thread_head;
	struct list_head *next;

	next = rcu_dereference(list_next_rcu(thread ? &thread->thread_node : head));
	return next == head ? NULL : list_entry(next, struct task_struct, thread_node);
}

u64 user_events_start_time(void)
{
	return current->start_time;
}

/* So many forks of one process are looked at, in one pass over its threads. */
#define MAX_FORKS	32

/*
 * Visits the tasks of a process that are in a fork. Each has an entry in a list of its
 * process from the start of copy_process() until the child is in the list of
 * processes, and the entry is on the task's stack. siglock is held. False if they are
 * too many.
 */
static bool visit_forks_of(struct task_struct *process,
			   struct user_events_fork_visitor *visitor)
{
	unsigned long entries[MAX_FORKS];
	struct multiprocess_signals *fork;
	struct task_struct *thread;
	int i, count = 0, found = 0;

	hlist_for_each_entry(fork, &process->signal->multiprocess, node) {
		if (count == MAX_FORKS)
			return false;
		entries[count++] = (unsigned long)fork;
	}
	if (!count)
		return true;
	list_for_each_entry_rcu(thread, &process->signal->thread_head, thread_node) {
		for (i = 0; i < count; i++) {
			if (entries[i] - (unsigned long)thread->stack < THREAD_SIZE) {
				visitor->each(visitor, thread);
				found++;
			}
		}
		if (found == count)
			break;
	}
	return true;
}

/* The same for the other processes with this address space. RCU is read-locked. */
static bool visit_forks_of_others(const struct mm_struct *mm,
				  struct user_events_fork_visitor *visitor)
{
	struct sighand_struct *sighand;
	struct task_struct *process;
	unsigned long flags;
	bool all = true;

	for_each_process(process) {
		if (same_thread_group(process, current) || user_events_process_mm(process) != mm)
			continue;
		sighand = rcu_dereference(process->sighand);
		if (!sighand)
			continue;
		/* The lock is there even if the process is being freed just now. */
		spin_lock_irqsave(&sighand->siglock, flags);
		if (sighand == rcu_access_pointer(process->sighand))
			all &= visit_forks_of(process, visitor);
		spin_unlock_irqrestore(&sighand->siglock, flags);
	}
	return all;
}

/*
 * Visits the tasks that are in a fork of the current task's address space. RCU is
 * read-locked. False if there are so many that some were not visited.
 */
bool user_events_visit_forks(struct mm_struct *mm,
			     struct user_events_fork_visitor *visitor)
{
	int users, live;
	bool all;

	spin_lock_irq(&current->sighand->siglock);
	all = visit_forks_of(current, visitor);
	/*
	 * Each thread that lives uses the address space, and while the lock is held
	 * there are none that are new. So if there are no more users, there were none but
	 * these when the users were counted.
	 */
	users = atomic_read(&mm->mm_users);
	/* The users are counted first. Pairs with the full barrier of a thread that exits. */
	smp_rmb();
	live = atomic_read(&current->signal->live);
	spin_unlock_irq(&current->sighand->siglock);
	if (users > live)
		all &= visit_forks_of_others(mm, visitor);
	return all;
}

/*
 * May there be a child that is in the list of processes, of which the tracepoint has not
 * told yet, and that has a copy of this address space? It is a child of a task in that, or
 * (CLONE_PARENT) has the same program. RCU is read-locked.
 */
bool user_events_is_fork_ending(struct mm_struct *mm)
{
	const struct file *program = rcu_access_pointer(mm->exe_file);
	struct task_struct *process;
	bool found = false;

	for_each_process(process) {
		if (!(READ_ONCE(process->__state) & TASK_NEW))
			continue;
		if (READ_ONCE(rcu_dereference(process->real_parent)->mm) == mm)
			return true;
		task_lock(process);
		found = process->mm && rcu_access_pointer(process->mm->exe_file) == program;
		task_unlock(process);
		if (found)
			break;
	}
	return found;
}
