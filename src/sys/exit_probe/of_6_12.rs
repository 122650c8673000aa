// SPDX-License-Identifier: GPL-2.0

//! The exit of a task on 6.12, where `sched_process_exit` fires after the task has left its address
//! space: an ftrace hook at the start of `exit_mm_release()` (kernel/fork.c).

use super::super::bindings::{
    self,
    user_events_exit_probe, //
};
use super::super::symbols;
use kernel::error::to_result;
use kernel::prelude::*;

/// The ftrace hook. The drop removes it, and waits for running calls.
///
/// # Invariants
///
/// The hook is registered.
pub(super) struct ExitHook(());

impl ExitHook {
    /// Adds the hook. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when the kernel lacks the function; `ENOMEM`; `EBUSY` when `kernel.ftrace_enabled`
    /// is 0; `ENODEV` after ftrace has failed; `EINVAL` when ftrace does not know the function.
    ///
    /// # Safety
    ///
    /// `probe` must be valid until the result is dropped. No other hook may exist.
    pub(super) unsafe fn new(probe: *mut user_events_exit_probe) -> Result<Self> {
        let function = symbols::TASK_EXIT.get::<c_void>();
        if function.is_null() {
            return Err(ENOENT);
        }
        // SAFETY: Not NULL, so the address of `exit_mm_release()`. The rest is the safety
        // requirement.
        to_result(unsafe { bindings::user_events_add_exit_hook(function, probe) })?;
        // INVARIANT: Just registered.
        Ok(Self(()))
    }
}

impl Drop for ExitHook {
    fn drop(&mut self) {
        // SAFETY: The hook is registered by the invariant.
        unsafe { bindings::user_events_remove_exit_hook() };
    }
}
