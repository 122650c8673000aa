// SPDX-License-Identifier: GPL-2.0
/* The trace core: readers of an event's files, perf, and the type of a callback. */

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
 * besides, since the ring buffer and perf work on this CPU's data.
 */
struct srcu_ctr __percpu *user_events_tracepoint_read_lock(void)
{
	struct srcu_ctr __percpu *ctr;

	ctr = srcu_read_lock_fast_notrace(&tracepoint_srcu);
	preempt_disable_notrace();
	return ctr;
}

void user_events_tracepoint_read_unlock(struct srcu_ctr __percpu *ctr)
{
	preempt_enable_notrace();
	srcu_read_unlock_fast_notrace(&tracepoint_srcu, ctr);
}

/* This CPU's perf events of a call. Preemption is off. */
struct hlist_head *user_events_perf_events(struct trace_event_call *call)
{
	return this_cpu_ptr(call->perf_events);
}

/*
 * Submits a record, with this CPU's registers at this recursion level, which are made to tell of
 * the caller. On arm64 they say where the frame of this very function is, and the stack is followed
 * from there: so the submission has to be within it.
 */
void user_events_perf_submit(void *record, int size, int context, struct trace_event_call *call,
			     struct pt_regs *regs, struct hlist_head *head)
{
	perf_fetch_caller_regs(regs);
	perf_trace_run_bpf_submit(record, size, context, call, 1, regs, head, NULL);
}
