// SPDX-License-Identifier: GPL-2.0

//! The current task: its identity, its capabilities, and whether it may sleep.

use super::bindings;
use kernel::bindings::{
    capable,
    CAP_PERFMON,
    CAP_SYS_ADMIN, //
};
use kernel::prelude::*;

/// Whether the current task may monitor the system. Process context. C: `perfmon_capable()`
/// (linux/capability.h).
pub(crate) fn perfmon_capable() -> bool {
    // SAFETY: `capable()` looks at the current task only, and may be called in process context,
    // which is where tasks call the module.
    let capable = |capability: u32| unsafe { capable(capability as i32) };
    capable(CAP_PERFMON) || capable(CAP_SYS_ADMIN)
}

/// Whether the current context is known to be able to sleep: a task with preemption on, outside of
/// RCU read-side critical sections. Probes of tracepoints are SRCU readers, and RCU readers on
/// 6.12. C: `preemptible()` (linux/preempt.h), `rcu_preempt_depth()` (linux/rcupdate.h).
pub(crate) fn may_sleep() -> bool {
    // SAFETY: Reads the state of the current context only.
    unsafe { bindings::user_events_may_sleep() }
}

/// Whether a fatal signal is pending for the current task.
pub(crate) fn fatal_signal_pending() -> bool {
    let task = current!().as_ptr();
    // SAFETY: The current task is alive.
    unsafe { bindings::user_events_fatal_signal_pending(task) }
}

/// A number that no other existing task has. See
/// [`ListedThread::key`](super::process_list::ListedThread::key).
pub(crate) fn current_key() -> usize {
    current!().as_ptr() as usize
}
