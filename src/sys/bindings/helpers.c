// SPDX-License-Identifier: GPL-2.0
/*
 * C helpers for src/sys/: macros and inline functions of the kernel. See helpers.h.
 */

#include <linux/capability.h>
#include <linux/instrumented.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/timer.h>
#include <linux/trace_events.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <linux/workqueue.h>
#include <asm/futex.h>

#include "helpers.h"

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

u64 user_events_now(void)
{
	return ktime_get_ns();
}

bool user_events_soft_disabled(struct trace_event_file *file)
{
	return trace_trigger_soft_disabled(file);
}

/*
 * memcpy(), where that is long by the processor's own loop of words: see source.c.
 * Any context.
 */
void user_events_copy(void *to, const void *from, size_t size)
{
#ifdef CONFIG_X86_64
	const size_t last = size - sizeof(u64);
	size_t words = size / sizeof(u64);
	const void *at = from;
	void *room = to;

	if (words) {
		instrument_read(from, size);
		instrument_write(to, size);
		asm volatile("rep movsq"
			     : "+c" (words), "+D" (room), "+S" (at) : : "memory");
		put_unaligned(get_unaligned((const u64 *)(from + last)),
			      (u64 *)(to + last));
		return;
	}
#endif
	memcpy(to, from, size);
}

/*
 * This CPU's perf events of a call; NULL if nobody wants a record that is
 * written here. A program that was attached through another CPU's perf event
 * runs on this CPU, too.
 */
struct hlist_head *user_events_perf_listeners(struct trace_event_call *call)
{
	struct hlist_head *head = this_cpu_ptr(call->perf_events);

	if (hlist_empty(head) && !bpf_prog_array_valid(call))
		return NULL;
	return head;
}

void user_events_fetch_caller_regs(struct pt_regs *regs)
{
	perf_fetch_caller_regs(regs);
}

bool user_events_call_is_referenced(struct trace_event_call *call)
{
	return atomic_read(&call->refcnt) != 0;
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
