// SPDX-License-Identifier: GPL-2.0

//! Learning that a thread group is about to leave its address space for good.
//!
//! C: the tracepoints `sched_process_exit` and `sched_prepare_exec` (trace/events/sched.h). Both fire
//! in the task that leaves, before it gives back its reference to the address space, and when it
//! cannot return to user space there any more: whatever fails in an exec after the second kills
//! the task.

use super::bindings::{self, user_events_exit_probe};
use core::cell::UnsafeCell;
use core::ptr;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Who wants to know of leaving tasks.
pub(crate) trait ExitListener: Send + Sync + 'static {
    /// The current task, the last of its thread group or about to exec, leaves `mm`, and runs no user
    /// code there any more. Other tasks may use it. To sleep is allowed
    /// if the context says so, and not for long.
    fn leaving(&self, mm: &MmWithUser);
}

/// Tells a listener of leaving tasks until dropped.
///
/// # Invariants
///
/// The probe is registered with both tracepoints.
pub(crate) struct ExitProbe<L: ExitListener>(KBox<Probe<L>>);

/// The probe comes first, so that its address is the whole's.
#[repr(C)]
struct Probe<L> {
    probe: UnsafeCell<user_events_exit_probe>,
    listener: Arc<L>,
}

// SAFETY: The C part is only used by the helpers, from any thread, and does not change while it is
// registered.
unsafe impl<L: Send + Sync> Send for Probe<L> {}
// SAFETY: As above.
unsafe impl<L: Send + Sync> Sync for Probe<L> {}

impl<L: ExitListener> ExitProbe<L> {
    /// Begins to tell `listener` of leaving tasks. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when the kernel has no such tracepoints; `ENOMEM`.
    pub(crate) fn new(listener: Arc<L>) -> Result<Self> {
        let probe = user_events_exit_probe {
            leaving: Some(Self::leaving),
            exit: ptr::null_mut(),
            exec: ptr::null_mut(),
        };
        let probe = KBox::new(
            Probe {
                probe: UnsafeCell::new(probe),
                listener,
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The probe stays in place in its box until it is removed.
        kernel::error::to_result(unsafe {
            bindings::user_events_add_exit_probe(probe.probe.get())
        })?;
        // INVARIANT: Just registered.
        Ok(Self(probe))
    }

    /// # Safety
    ///
    /// For the tracepoints: `probe` is one that `new` registered.
    unsafe extern "C" fn leaving(probe: *mut user_events_exit_probe) {
        // SAFETY: The first field of a `Probe<L>` that is not freed before the tracepoints'
        // readers, which we are one of, are gone.
        let probe = unsafe { &*probe.cast_const().cast::<Probe<L>>() };
        if let Some(mm) = current!().mm() {
            probe.listener.leaving(mm);
        }
    }
}

impl<L: ExitListener> Drop for ExitProbe<L> {
    fn drop(&mut self) {
        // SAFETY: By the invariant it is registered. This waits for those who are in `leaving`.
        unsafe { bindings::user_events_remove_exit_probe(self.0.probe.get()) };
    }
}
