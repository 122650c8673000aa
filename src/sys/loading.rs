// SPDX-License-Identifier: GPL-2.0

//! Loading the module in two steps: one that can fail, and one that publishes.
//!
//! The kernel frees a module whose init fails, whatever references to it exist. So nothing may be
//! usable while loading can still fail: publishing takes a [`LoadComplete`].
//!
//! # Calls into the module
//!
//! Except for init and exit, the module's code runs in calls that the kernel makes because of a
//! value of `sys`. The drop of that value waits for the calls, or the caller holds the module. So
//! the code need not care what keeps the module loaded while it runs, not even when it gives up a
//! reference to the module.
//!
//! - Files in tracefs: the VFS holds the module during the call.
//! - Handlers of sysctl files: functions of the kernel; the drop of `SysctlU32` waits for them.
//! - Callbacks of a trace event: the trace core holds `event_mutex` or `trace_event_sem`, which
//!   unregistering the event takes.
//! - Callbacks of the kind of dynamic event: the trace core holds `dyn_event_ops_mutex`, which the
//!   drop of `DynEvents` takes, or `event_mutex`, as for a trace event.
//! - Work: the drop of `OwnedQueue`, for which [`CallBarrier`] waits.
//! - Probes, and on 6.12 the hook of ftrace: the drops of `ForkProbe` and `ExitProbe`.
//! - The timer that wakes a worker: the drop of `WakeTimer`.
//! - The work of a task holds the module; [`CallBarrier`] waits for the instructions after that.
//! - Callbacks after a grace period: [`CallBarrier`].

use super::{
    event_files,
    task_work,
    work_queue, //
};
use kernel::prelude::*;

/// The state of the loaded module. Dropping it unloads.
pub(crate) trait Load: Send + Sync + Sized {
    /// Creates everything. May sleep.
    ///
    /// # Errors
    ///
    /// The module is not loaded then.
    fn load() -> Result<Self>;

    /// Lets the module be used. Loading cannot fail any more.
    fn publish(&self, complete: &LoadComplete);
}

/// Proof that loading cannot fail any more, or that the module is loaded.
///
/// # Invariants
///
/// Exists only in the part of [`Loaded::init`] that returns no error, or while a published file is
/// open, so that the module is not unloaded either.
pub(crate) struct LoadComplete(());

impl LoadComplete {
    /// For a call to a published file.
    ///
    /// # Safety
    ///
    /// A published file must be open while the result exists.
    pub(super) unsafe fn by_open_file() -> Self {
        // INVARIANT: By the safety requirement.
        Self(())
    }
}

/// The step of loading that is to fail; 0 for none. Set by the parameter `fail_load_at` of the
/// module for tests, see `bindings/helpers.c`.
#[cfg(USER_EVENTS_FAIL_LOAD)]
pub(crate) fn fail_load_at() -> i32 {
    // SAFETY: Written before the module's code runs, and not after.
    unsafe { super::bindings::user_events_fail_load_at }
}

/// The loaded module, for `module!`. Its fields are dropped in order.
pub(crate) struct Loaded<M>(M, CallBarrier);

/// Waits in its drop for the calls into the module for which no other value waits.
struct CallBarrier;

impl Drop for CallBarrier {
    fn drop(&mut self) {
        work_queue::barrier();
        task_work::barrier();
        event_files::barrier();
    }
}

impl<M: Load> kernel::Module for Loaded<M> {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // Created first and dropped last, also if loading fails.
        let call_barrier = CallBarrier;
        let loaded = Self(M::load()?, call_barrier);
        // INVARIANT: No error is returned from here on, and the reference does not outlive the
        // call.
        loaded.0.publish(&LoadComplete(()));
        Ok(loaded)
    }
}
