// SPDX-License-Identifier: GPL-2.0

//! The time since boot.

use kernel::bindings;

/// Whole seconds since boot, as of the last tick: no clock is read for that. C:
/// `ktime_get_seconds()` (linux/timekeeping.h).
pub(crate) fn seconds() -> u64 {
    // SAFETY: May be called in any context but NMI; nothing here runs in one. The time since boot
    // is not negative.
    unsafe { bindings::ktime_get_seconds() as u64 }
}
