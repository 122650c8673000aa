// SPDX-License-Identifier: GPL-2.0
/* The trace core: readers of an event's files, perf, and the type of a callback. */

#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/srcu.h>

#include "bindings.h"

int user_events_reg(struct trace_event_call *call, enum trace_reg type, void *data)
{
	const struct user_events_call_ops *ops = call->data;

	return ops->reg(call, type, data);
}

/*
 * The trace core frees event files and perf's lists after tracepoint_synchronize_unregister(), so a
 * reader of either must be one that this waits for: a reader of tracepoint_srcu. Preemption is off
 * besides, since the ring buffer and perf work on this CPU's data; around all of it, as who waits
 * would wait for a reader that is preempted at the end.
 */
notrace struct srcu_ctr __percpu *user_events_tracepoint_read_lock(void)
{
	preempt_disable_notrace();
	return srcu_read_lock_fast_notrace(&tracepoint_srcu);
}

notrace void user_events_tracepoint_read_unlock(struct srcu_ctr __percpu *ctr)
{
	srcu_read_unlock_fast_notrace(&tracepoint_srcu, ctr);
	preempt_enable_notrace();
}

/* Has @func called when all that are readers now have ended. */
void user_events_call_after_readers(struct rcu_head *head, rcu_callback_t func)
{
	call_after_tracepoint_readers(head, func);
}

/* Waits for all those calls. */
void user_events_barrier_of_readers(void)
{
	barrier_of_tracepoint_readers();
}

/* This CPU's perf events of a call. Preemption is off. */
struct hlist_head *user_events_perf_events(struct trace_event_call *call)
{
	return this_cpu_ptr(call->perf_events);
}

/* Only tasks submit records, with preemption off: so there is one at a time on a CPU. */
static DEFINE_PER_CPU(struct pt_regs, perf_regs);

struct pt_regs *user_events_perf_regs(void)
{
	return this_cpu_ptr(&perf_regs);
}

/*
 * Submits a record to this CPU's perf events of a call, with registers that are made to tell of the
 * caller: 0, -ENOENT if there are none, or -EBUSY in a submission. On arm64 the registers say where
 * the frame of this very function is, and the stack is followed from there: so all is within it.
 */
notrace int user_events_perf_tp_event(struct trace_event_call *call, void *record, int size)
{
	struct hlist_head *head = this_cpu_ptr(call->perf_events);
	struct pt_regs *regs;
	int context;

	if (hlist_empty(head))
		return -ENOENT;
	context = perf_swevent_get_recursion_context();
	if (context < 0)
		return -EBUSY;
	regs = this_cpu_ptr(&perf_regs);
	perf_fetch_caller_regs(regs);
	perf_tp_event(call->event.type, 1, record, size, regs, head, context, NULL);
	return 0;
}

/* The same where a program is attached, or may be. */
void user_events_perf_submit(void *record, int size, int context, struct trace_event_call *call,
			     struct pt_regs *regs, struct hlist_head *head)
{
	perf_fetch_caller_regs(regs);
	perf_trace_run_bpf_submit(record, size, context, call, 1, regs, head, NULL);
}
