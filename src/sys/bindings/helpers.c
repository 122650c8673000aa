// SPDX-License-Identifier: GPL-2.0
/*
 * C helpers for src/sys/: macros and inline functions of the kernel. See helpers.h.
 */

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/instrumented.h>
#include <linux/jiffies.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/timer.h>
#include <linux/trace_events.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <linux/userfaultfd_k.h>
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

int user_events_mm_users(struct mm_struct *mm)
{
	return atomic_read(&mm->mm_users);
}

struct mem_cgroup *user_events_get_memcg(struct mm_struct *mm)
{
	return get_mem_cgroup_from_mm(mm);
}

struct mem_cgroup *user_events_set_memcg(struct mem_cgroup *memcg)
{
	return set_active_memcg(memcg);
}

void user_events_put_memcg(struct mem_cgroup *memcg)
{
	mem_cgroup_put(memcg);
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

/* The address without the tag that the current task's address space allows it. */
unsigned long user_events_untagged(unsigned long addr)
{
	return untagged_addr(addr);
}

bool user_events_access_ok(unsigned long addr, unsigned long size)
{
	return access_ok((const void __user *)addr, size);
}

/*
 * Ends the pinning of a page that was just written to. False if the page could
 * not be marked as written to without waiting for somebody who has locked it.
 *
 * A page that is dirty now is written back after now, with what was written: who
 * writes it back clears the mark, with a full barrier, before it reads the page.
 * The atomic operations of arm64 do not order what was written before a later
 * read by themselves.
 */
bool user_events_unpin_written(struct page *page)
{
	struct folio *folio = page_folio(page);
	bool marked;

	/* Pairs with the exchange in folio_clear_dirty_for_io(). */
	smp_mb();
	marked = folio_test_dirty(folio);
	if (!marked && folio_trylock(folio)) {
		folio_mark_dirty(folio);
		folio_unlock(folio);
		marked = true;
	}
	unpin_user_page(page);
	return marked;
}

bool user_events_vma_is_guarded(struct vm_area_struct *vma)
{
	return userfaultfd_armed(vma);
}

/*
 * The magic number of the file system that serves the regular file of a mapping; 0
 * for anonymous memory, also if it was had by way of a file (/dev/zero). All else is
 * served by a driver or a device, wherever its node lies: ULONG_MAX.
 */
unsigned long user_events_vma_file_system(struct vm_area_struct *vma)
{
	const struct inode *inode;

	if (vma_is_anonymous(vma))
		return 0;
	if (!vma->vm_file)
		return ULONG_MAX;
	inode = file_inode(vma->vm_file);
	return S_ISREG(inode->i_mode) ? inode->i_sb->s_magic : ULONG_MAX;
}

/* A task that sleeps is woken each time this is over. */
struct waker {
	struct timer_list	timer;
	struct task_struct	*task;
	unsigned long		period;
};

static void wake_waiter(struct timer_list *timer)
{
	struct waker *waker = container_of(timer, struct waker, timer);

	wake_up_process(waker->task);
	mod_timer(timer, jiffies + waker->period);
}

/*
 * A page fault in another task's memory, with its mmap lock held for reading, that is
 * left when a handler of userfaultfd has not answered in time: handle_mm_fault() sleeps
 * for that answer once, and returns VM_FAULT_RETRY whatever woke it. It may be woken
 * before it sleeps, hence again and again.
 */
vm_fault_t user_events_fault_once(struct vm_area_struct *vma, unsigned long addr,
				  unsigned int flags, unsigned int ms)
{
	struct waker waker = {
		.task = current,
		.period = msecs_to_jiffies(ms),
	};
	vm_fault_t ret;

	timer_setup_on_stack(&waker.timer, wake_waiter, 0);
	mod_timer(&waker.timer, jiffies + waker.period);
	ret = handle_mm_fault(vma, addr, flags, NULL);
	timer_delete_sync(&waker.timer);
	timer_destroy_on_stack(&waker.timer);
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
