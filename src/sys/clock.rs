// SPDX-License-Identifier: GPL-2.0

//! The time since boot.

use kernel::bindings;

/// Nanoseconds since boot, on the clock that tasks' start times are taken from. C:
/// `ktime_get_ns()` (linux/timekeeping.h).
pub(crate) fn now() -> u64 {
    // SAFETY: May be called in any context but NMI; nothing here runs in one.
    unsafe { bindings::ktime_get() as u64 }
}
