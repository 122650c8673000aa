// SPDX-License-Identifier: GPL-2.0

//! Loading the module in two parts: what can fail, and then what lets it be used.
//!
//! The kernel frees a module whose init fails, whatever holds a reference to it. So nothing may be
//! used before nothing can fail any more: that takes a [`LoadComplete`].
//!
//! # Calls into the module
//!
//! Apart from init and exit the module's code runs in calls that a value of `sys` has the kernel
//! make. The value waits for them before it is gone, or the caller holds the module. So code of the
//! module need not care what keeps it there while it runs, not even when it gives back a reference
//! to the module.
//!
//! | the call | is waited for by |
//! |---|---|
//! | of a file in tracefs | the VFS holds the module until the call has returned |
//! | of a sysctl file's handler | the kernel's own function; the drop of `SysctlU32` waits for it |
//! | of a trace event, by the trace core | `event_mutex` or the lock over the printing functions, which are taken to unregister the event |
//! | of our kind of dynamic event | the lock over the kinds, or `event_mutex`; the drop of `DynEvents` takes the one, unregistering the events the other |
//! | of work | the drop of `OwnedQueue`, which [`Calls`] waits for |
//! | of a tracepoint, or, for exits on 6.12, of ftrace | the drops of `ForkProbe` and `ExitProbe` |
//! | of the timer that wakes a worker | the drop of `WakeTimer` |
//! | of the work of a task | it holds the module; [`Calls`] waits for the instructions behind that |
//! | of the end of a grace period | [`Calls`] |

use super::{
    event_files,
    task_work,
    work_queue, //
};
use kernel::prelude::*;

/// What is made when the module is loaded, and undone when it is dropped.
pub(crate) trait Load: Send + Sync + Sized {
    /// Makes everything. May sleep.
    ///
    /// # Errors
    ///
    /// Why the module cannot be loaded.
    fn load() -> Result<Self>;

    /// Lets it be used. Nothing of loading fails after this.
    fn publish(&self, load_complete: &LoadComplete);
}

/// Shows that loading the module does not fail any more, or that it is loaded.
///
/// # Invariants
///
/// Exists only while [`Loaded::init`] runs, which returns no error from then on, or while a file is
/// open that was published, so that the module is not unloaded either.
pub(crate) struct LoadComplete(());

impl LoadComplete {
    /// For a call to a file of ours.
    ///
    /// # Safety
    ///
    /// A file that was published must be open for as long as the result lives.
    pub(super) unsafe fn by_open_file() -> Self {
        // INVARIANT: Promised by the caller.
        Self(())
    }
}

/// Which step of loading is to fail; 0 for none. The parameter of that name of the module for the
/// tests, in `bindings/helpers.c`.
#[cfg(USER_EVENTS_FAIL_LOAD)]
pub(crate) fn fail_load_at() -> i32 {
    // SAFETY: Set before the module's code runs, and not changed.
    unsafe { super::bindings::user_events_fail_load_at }
}

/// A module that has been loaded: the type for `module!`. What it is made of is dropped from first
/// to last.
pub(crate) struct Loaded<M>(M, CallBarrier);

/// The calls into the module that no other value waits for. Its drop does.
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
        // First made and last dropped, also when the rest fails.
        let call_barrier = CallBarrier;
        let loaded = Self(M::load()?, call_barrier);
        // INVARIANT: What follows returns no error, and a reference does not outlive it.
        loaded.0.publish(&LoadComplete(()));
        Ok(loaded)
    }
}
