/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C helpers for src/sys/: macros, inline functions, per-CPU variables and
 * static calls, which Rust cannot reach by itself. None of them decides
 * anything.
 */
#ifndef USER_EVENTS_HELPERS_H
#define USER_EVENTS_HELPERS_H

#include <linux/srcu.h>
#include <linux/trace_events.h>
#include <linux/types.h>

struct dentry;

/* symbols.rs: what the kernel has but does not export */
const char *user_events_resolve_symbols(void);
void user_events_lock_event_mutex(void);
void user_events_unlock_event_mutex(void);
void user_events_tracefs_remove(struct dentry *dentry);
enum print_line_t user_events_print_fields(struct trace_iterator *iter,
					   struct trace_event *event);

/**
 * struct user_events_probe - one trace event file that takes records
 * @rcu: frees the probe after the readers of the list are gone
 * @next: next probe of the same event, or NULL
 * @file: the trace event file of one trace instance
 */
struct user_events_probe {
	struct rcu_head			rcu;
	struct user_events_probe	*next;
	struct trace_event_file		*file;
};

/* probe_list.rs: the read side that the trace core waits for */
struct srcu_ctr __percpu *user_events_enter_probes(void);
void user_events_leave_probes(struct srcu_ctr __percpu *ctr);
void user_events_free_probe(struct user_events_probe *probe);
void user_events_probe_barrier(void);

/* ring_buffer.rs */
bool user_events_soft_disabled(struct trace_event_file *file);

/* perf.rs */
struct hlist_head *user_events_perf_head(struct trace_event_call *call);
bool user_events_has_bpf(struct trace_event_call *call);
void user_events_fetch_caller_regs(struct pt_regs *regs);

/* trace_event.rs */
bool user_events_call_is_referenced(struct trace_event_call *call);

/* address_space.rs */
struct mmu_notifier *user_events_subscribe(const struct mmu_notifier_ops *ops,
					   struct mm_struct *mm);

/* remote_page.rs */
bool user_events_access_ok(unsigned long addr, unsigned long size);

#endif /* USER_EVENTS_HELPERS_H */
