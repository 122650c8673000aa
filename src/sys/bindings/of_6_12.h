/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the headers of 6.12 lack or have otherwise, by the names that newer ones give it, told
 * apart by what the headers have. This file goes with the support of 6.12.
 */
#ifndef USER_EVENTS_OF_6_12_H
#define USER_EVENTS_OF_6_12_H

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
#else
struct srcu_ctr;
#define srcu_read_lock_fast_notrace(srcu) ((void)(srcu), (struct srcu_ctr __percpu *)NULL)
#define srcu_read_unlock_fast_notrace(srcu, ctr) ((void)(srcu), (void)(ctr))
#define call_after_tracepoint_readers(head, func) call_rcu(head, func)
#define barrier_of_tracepoint_readers() rcu_barrier()
#endif

#endif /* USER_EVENTS_OF_6_12_H */
