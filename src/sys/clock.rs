// SPDX-License-Identifier: GPL-2.0

//! Time since boot.

use kernel::bindings;

/// Seconds since boot, as of the last tick, without reading a clock. C: `ktime_get_seconds()`
/// (linux/timekeeping.h).
pub(crate) fn seconds() -> u64 {
    // SAFETY: Any context but NMI, in which no code of the module runs. The result is not negative.
    unsafe { bindings::ktime_get_seconds() as u64 }
}
