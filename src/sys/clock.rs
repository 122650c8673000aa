// SPDX-License-Identifier: GPL-2.0

//! The time since boot.

use kernel::bindings;

/// Nanoseconds since boot, on the clock that tasks' start times are taken from. C:
/// `ktime_get_ns()` (linux/timekeeping.h).
pub(crate) fn now() -> u64 {
    // SAFETY: May be called in any context but NMI; nothing here runs in one.
    unsafe { bindings::ktime_get() as u64 }
}

/// Whole seconds on the same clock, as of the last tick: no clock is read for that. C: `ktime_get_seconds()`
/// (linux/timekeeping.h).
pub(crate) fn seconds() -> u64 {
    // SAFETY: As above. The time since boot is not negative.
    unsafe { bindings::ktime_get_seconds() as u64 }
}
