// SPDX-License-Identifier: GPL-2.0

//! What the calling task may do.

use kernel::bindings;

/// May the current task monitor the system: CAP_PERFMON or CAP_SYS_ADMIN? C: `perfmon_capable()`
/// (linux/capability.h).
pub(crate) fn perfmon_capable() -> bool {
    // SAFETY: Asks about the current task only; any process context will do.
    let capable = |capability: u32| unsafe { bindings::capable(capability as i32) };
    capable(bindings::CAP_PERFMON) || capable(bindings::CAP_SYS_ADMIN)
}
