// SPDX-License-Identifier: GPL-2.0

//! The exit of a task on 6.12, where `sched_process_exit` fires when the task has left its address
//! space: ftrace calls us where `exit_mm_release()` (kernel/fork.c) begins.

use super::super::bindings::{
    self,
    user_events_exit_probe, //
};
use super::super::symbols;
use kernel::error::to_result;
use kernel::prelude::*;

/// The one hook there is, until this is dropped, which waits for the calls that are under way.
///
/// # Invariants
///
/// The hook is there.
pub(super) struct ExitHook(());

impl ExitHook {
    /// Adds the hook. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when the kernel has no such function; `ENOMEM`; `EBUSY` when
    /// `kernel.ftrace_enabled` is 0; `ENODEV` when ftrace has failed before; `EINVAL` when it does
    /// not know the function.
    ///
    /// # Safety
    ///
    /// `probe` must be valid until the result is dropped. There must be no other hook.
    pub(super) unsafe fn new(probe: *mut user_events_exit_probe) -> Result<Self> {
        let function = symbols::TASK_EXIT.get::<c_void>();
        if function.is_null() {
            return Err(ENOENT);
        }
        // SAFETY: A function of the kernel's. The rest the caller promises.
        to_result(unsafe { bindings::user_events_add_exit_hook(function, probe) })?;
        // INVARIANT: Just added.
        Ok(Self(()))
    }
}

impl Drop for ExitHook {
    fn drop(&mut self) {
        // SAFETY: By the invariant it is there.
        unsafe { bindings::user_events_remove_exit_hook() };
    }
}
