// SPDX-License-Identifier: GPL-2.0

//! The time since boot.

use super::bindings;

/// Nanoseconds since boot, on the clock that tasks' start times are taken from. C:
/// `ktime_get_ns()`.
pub(crate) fn now() -> u64 {
    // SAFETY: May be called in any context but NMI; nothing here runs in one.
    unsafe { bindings::user_events_now() }
}
