// SPDX-License-Identifier: GPL-2.0
/*
 * The process that an address space belongs to.
 */

#include <linux/mm_types.h>
#include <linux/pid_namespace.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/string.h>

#include "helpers.h"

#ifdef CONFIG_MEMCG
/* RCU is read-locked. */
static struct task_struct *find_owner(const struct mm_struct *mm)
{
	struct task_struct *owner = rcu_dereference(mm->owner);

	return owner ? READ_ONCE(owner->group_leader) : NULL;
}
#else
/*
 * One of the threads has the address space: the leader may have exited. RCU is
 * read-locked; for_each_thread() would on kernels with PROVE_RCU also ask for
 * tasklist_lock, which modules do not see.
 */
static bool runs_in(const struct task_struct *process, const struct mm_struct *mm)
{
	const struct task_struct *thread;
	const struct mm_struct *its;

	/*
	 * A kernel thread works in the address space of others. A task changes flags
	 * beside this one while it runs, this one never.
	 */
	if (data_race(process->flags & PF_KTHREAD))
		return false;
	list_for_each_entry_rcu(thread, &process->signal->thread_head, thread_node) {
		its = READ_ONCE(thread->mm);
		if (its)
			return its == mm;
	}
	return false;
}

/* RCU is read-locked. The kernel does not note whose an address space is. */
static struct task_struct *find_owner(const struct mm_struct *mm)
{
	struct task_struct *process;

	for_each_process(process)
		if (runs_in(process, mm))
			return process;
	return NULL;
}
#endif

/**
 * user_events_owner - find the process that an address space belongs to
 * @mm: the address space
 * @id: set to the process's id as the current task sees it; 0 if it does not
 * @name: set to its command name; has room for TASK_COMM_LEN bytes
 *
 * Of several processes that share the address space it is the one for which it
 * was made, or when that has ended another one of them.
 *
 * Context: process context.
 * Return: is there one?
 */
bool user_events_owner(const struct mm_struct *mm, pid_t *id, char *name)
{
	struct task_struct *owner;

	guard(rcu)();
	owner = find_owner(mm);
	if (!owner)
		return false;
	*id = task_tgid_nr_ns(owner, task_active_pid_ns(current));
	strscpy_pad(name, owner->comm, TASK_COMM_LEN);
	return true;
}
