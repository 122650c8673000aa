// SPDX-License-Identifier: GPL-2.0

//! What the calling task may do.

use super::bindings;

/// May the current task monitor the system: CAP_PERFMON or CAP_SYS_ADMIN? C: `perfmon_capable()`.
pub(crate) fn perfmon_capable() -> bool {
    // SAFETY: Asks about the current task only; any process context will do.
    unsafe { bindings::user_events_perfmon_capable() }
}
