/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the headers of 6.12 lack or have otherwise, by the names that newer ones give it, told
 * apart by what the headers have. This file goes with the support of 6.12.
 */
#ifndef USER_EVENTS_OF_6_12_H
#define USER_EVENTS_OF_6_12_H

#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/srcu.h>
#include <linux/tracepoint.h>

/*
 * 7.x: readers of tracepoints are readers of tracepoint_srcu. Those of 6.12 have preemption off,
 * which is what RCU waits for.
 */
#ifdef SRCU_READ_FLAVOR_FAST
#define call_after_tracepoint_readers(head, func) call_srcu(&tracepoint_srcu, head, func)
#define barrier_of_tracepoint_readers() srcu_barrier(&tracepoint_srcu)
#define enter_probe() false
#define leave_probe(preemption_was_off) ((void)(preemption_was_off))
#else
struct srcu_ctr;
#define srcu_read_lock_fast_notrace(srcu) ((void)(srcu), (struct srcu_ctr __percpu *)NULL)
#define srcu_read_unlock_fast_notrace(srcu, ctr) ((void)(srcu), (void)(ctr))
#define call_after_tracepoint_readers(head, func) call_rcu(head, func)
#define barrier_of_tracepoint_readers() rcu_barrier()

/*
 * A probe takes spinlocks. With PREEMPT_RT they sleep, and a reader of RCU may wait for them,
 * which code with preemption off may not. So a probe is such a reader, for which those who take
 * probes away wait just as well; ftrace waits for RCU tasks, and a task that waits for a spinlock
 * counts as one that was preempted. Callers have preemption off for the probe alone, if at all.
 */
static inline bool enter_probe(void)
{
	bool preemption_was_off = IS_ENABLED(CONFIG_PREEMPT_RT) && preempt_count() != 0;

	rcu_read_lock();
	if (preemption_was_off)
		preempt_enable_notrace();
	return preemption_was_off;
}

static inline void leave_probe(bool preemption_was_off)
{
	if (preemption_was_off)
		preempt_disable_notrace();
	rcu_read_unlock();
}
#endif

#endif /* USER_EVENTS_OF_6_12_H */
