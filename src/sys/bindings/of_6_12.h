/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Definitions that the headers of 6.12 lack, or that differ there, with the names of newer headers.
 * This file goes with the support of 6.12.
 */
#ifndef USER_EVENTS_OF_6_12_H
#define USER_EVENTS_OF_6_12_H

#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/srcu.h>
#include <linux/tracepoint.h>

/*
 * In 7.x readers of tracepoints are readers of tracepoint_srcu. In 6.12 they have preemption off,
 * for which RCU waits.
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
 * A probe takes spinlocks. With PREEMPT_RT these sleep, which an RCU reader may do, but not code
 * with preemption off. So the probe becomes an RCU reader, for which the removal of probes waits as
 * well, and turns preemption on, which its caller has off for the probe alone. The removal of the
 * ftrace hook waits for RCU tasks, for which a task that waits for a spinlock counts as preempted.
 * Returns whether preemption was off, for leave_probe().
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
