// SPDX-License-Identifier: GPL-2.0
/* Probes of tracepoints, the lists of processes and threads, and the current task. */

#include <linux/preempt.h>
#include <linux/ratelimit.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <trace/events/sched.h>

#include "bindings.h"

void user_events_on_fork(void *data, struct task_struct *parent, struct task_struct *child)
{
	struct user_events_fork_probe *probe = data;
	bool preemption_was_off = enter_probe();

	check_trace_callback_type_sched_process_fork(user_events_on_fork);
	probe->forked(probe, parent, child);
	leave_probe(preemption_was_off);
}

#ifndef USER_EVENTS_KERNEL_6_12
void user_events_on_exit(void *data, struct task_struct *task, bool group_dead)
{
	struct user_events_exit_probe *probe = data;

	check_trace_callback_type_sched_process_exit(user_events_on_exit);
	probe->exit(probe, group_dead);
}
#endif

void user_events_on_exec(void *data, struct task_struct *task, struct linux_binprm *bprm)
{
	struct user_events_exit_probe *probe = data;
	bool preemption_was_off = enter_probe();

	check_trace_callback_type_sched_prepare_exec(user_events_on_exec);
	probe->exec(probe);
	leave_probe(preemption_was_off);
}

void user_events_tracepoint_synchronize_unregister(void)
{
	tracepoint_synchronize_unregister();
}

void user_events_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}

/* The leader of the next process. RCU is read-locked. */
struct task_struct *user_events_next_task(struct task_struct *process)
{
	return next_task(process);
}

/*
 * The next thread of a process, the first one for NULL; NULL after the last. RCU is read-locked.
 * With PROVE_RCU for_each_thread() would also need tasklist_lock, which is not exported.
 */
struct task_struct *user_events_next_thread(struct task_struct *process,
					    struct task_struct *thread)
{
	struct list_head *head = &process->signal->thread_head;

	return list_next_or_null_rcu(head, thread ? &thread->thread_node : head,
				     struct task_struct, thread_node);
}

bool user_events_is_kthread(const struct task_struct *task)
{
	/* A running task changes other flags, but never this one. */
	return data_race(task->flags & PF_KTHREAD);
}

bool user_events_fatal_signal_pending(struct task_struct *task)
{
	return fatal_signal_pending(task);
}

void user_events_poll_wait(struct file *file, struct wait_queue_head *head, poll_table *table)
{
	poll_wait(file, head, table);
}

bool user_events_may_sleep(void)
{
	return preemptible() && rcu_preempt_depth() == 0;
}

void user_events_cond_resched(void)
{
	cond_resched();
}

/* The rate limit of log lines that users can cause. */
bool user_events_ratelimit(void)
{
	static DEFINE_RATELIMIT_STATE(lines, DEFAULT_RATELIMIT_INTERVAL, DEFAULT_RATELIMIT_BURST);

	return __ratelimit(&lines);
}
