// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers that the kernel crate of 6.12 lacks. The prefix is user_events_of_6_12_, and the rest
 * the name in a newer crate. See src/sys/kernel_crate/of_6_12/bindings.rs.
 */

#include <linux/atomic.h>
#include <linux/ftrace.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

/*
 * In 6.12 sched_process_exit fires after the task has left its address space. do_exit() calls
 * exit_mm_release() before. The hook does not recurse. It must not sleep: its removal waits for RCU
 * tasks, and not for a sleeping task.
 */
static void user_events_exit_hook(unsigned long ip, unsigned long parent_ip,
				  struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	struct user_events_exit_probe *probe = ops->private;
	bool preemption_was_off = enter_probe();

	probe->exit(probe, atomic_read(&current->signal->live) == 0);
	leave_probe(preemption_was_off);
}

static struct ftrace_ops user_events_exit_ops = {
	.func = user_events_exit_hook,
	.flags = FTRACE_OPS_FL_PERMANENT,
};

int user_events_add_exit_hook(void *exit_mm_release, struct user_events_exit_probe *probe)
{
	int ret;

	user_events_exit_ops.private = probe;
	ret = ftrace_set_filter_ip(&user_events_exit_ops, (unsigned long)exit_mm_release, 0, 1);
	if (ret == 0)
		ret = register_ftrace_function(&user_events_exit_ops);
	if (ret != 0)
		ftrace_free_filter(&user_events_exit_ops);
	return ret;
}

/*
 * Removes the hook, and waits for running calls. May sleep. After a failure ftrace is disabled for
 * good, and keeps the hook, whose module must not be freed then: so this never returns.
 */
void user_events_remove_exit_hook(void)
{
	if (unregister_ftrace_function(&user_events_exit_ops)) {
		pr_err("ftrace has failed: the module cannot be unloaded\n");
		for (;;)
			schedule_timeout_uninterruptible(MAX_SCHEDULE_TIMEOUT);
	}
	ftrace_free_filter(&user_events_exit_ops);
}

int user_events_of_6_12_atomic_fetch_or_release(int mask, atomic_t *word)
{
	return atomic_fetch_or_release(mask, word);
}

int user_events_of_6_12_atomic_fetch_andnot_release(int mask, atomic_t *word)
{
	return atomic_fetch_andnot_release(mask, word);
}

/* The module needs no alignment beyond that of the allocator. */
void *user_events_of_6_12_krealloc_node_align(const void *memory, size_t size, unsigned long align,
					      gfp_t flags, int node)
{
	return krealloc(memory, size, flags);
}

void user_events_of_6_12_list_add_tail(struct list_head *entry, struct list_head *head)
{
	list_add_tail(entry, head);
}

void user_events_of_6_12_mmap_read_lock(struct mm_struct *mm)
{
	mmap_read_lock(mm);
}

bool user_events_of_6_12_mmap_read_trylock(struct mm_struct *mm)
{
	return mmap_read_trylock(mm);
}

void user_events_of_6_12_mmap_read_unlock(struct mm_struct *mm)
{
	mmap_read_unlock(mm);
}

struct vm_area_struct *user_events_of_6_12_vma_lookup(struct mm_struct *mm, unsigned long addr)
{
	return vma_lookup(mm, addr);
}

void user_events_of_6_12_mmgrab(struct mm_struct *mm)
{
	mmgrab(mm);
}

void user_events_of_6_12_mmdrop(struct mm_struct *mm)
{
	mmdrop(mm);
}

bool user_events_of_6_12_mmget_not_zero(struct mm_struct *mm)
{
	return mmget_not_zero(mm);
}

void user_events_of_6_12_rcu_read_lock(void)
{
	rcu_read_lock();
}

void user_events_of_6_12_rcu_read_unlock(void)
{
	rcu_read_unlock();
}

void user_events_of_6_12_smp_mb(void)
{
	/* The callers name the barrier that this pairs with. */
	smp_mb();
}

struct pid_namespace *user_events_of_6_12_task_active_pid_ns(struct task_struct *task)
{
	return task_active_pid_ns(task);
}

int user_events_of_6_12_task_tgid_nr_ns(struct task_struct *task, struct pid_namespace *ns)
{
	return task_tgid_nr_ns(task, ns);
}
