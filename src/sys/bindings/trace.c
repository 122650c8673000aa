// SPDX-License-Identifier: GPL-2.0
/* Readers of an event's files, perf, and a callback of the trace core. */

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
 * The trace core frees event files and perf's lists after tracepoint_synchronize_unregister(), so
 * their readers must be readers of tracepoint_srcu. The ring buffer and perf use this CPU's data,
 * so preemption is off, too; around the whole section, as otherwise a reader that is preempted at
 * the end would delay the waiter.
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

/* Calls @func after all current readers. */
void user_events_call_after_readers(struct rcu_head *head, rcu_callback_t func)
{
	call_after_tracepoint_readers(head, func);
}

/* Waits for all calls of user_events_call_after_readers(). */
void user_events_barrier_of_readers(void)
{
	barrier_of_tracepoint_readers();
}

/* This CPU's perf events of a call. Preemption is off. */
struct hlist_head *user_events_perf_events(struct trace_event_call *call)
{
	return this_cpu_ptr(call->perf_events);
}

/* Only tasks with preemption off submit records, so one at a time on each CPU. */
static DEFINE_PER_CPU(struct pt_regs, perf_regs);

struct pt_regs *user_events_perf_regs(void)
{
	return this_cpu_ptr(&perf_regs);
}

/*
 * Submits a record to this CPU's perf events of a call, with registers of the caller. Returns 0,
 * -ENOENT without perf events, or -EBUSY in a recursion. On arm64 the registers contain the frame
 * of this function, from which the stack is unwound, so the submission must be in here.
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

/* As user_events_perf_tp_event(), also to eBPF programs. */
void user_events_perf_submit(void *record, int size, int context, struct trace_event_call *call,
			     struct pt_regs *regs, struct hlist_head *head)
{
	perf_fetch_caller_regs(regs);
	perf_trace_run_bpf_submit(record, size, context, call, 1, regs, head, NULL);
}
