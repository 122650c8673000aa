// SPDX-License-Identifier: GPL-2.0

//! Probes of tasks that are about to leave their address space for good.
//!
//! C: the tracepoints `sched_process_exit` and `sched_prepare_exec` (trace/events/sched.h). Both
//! fire in the task that leaves, before it drops its reference to the address space, and when it
//! cannot return to user space there: any error in an exec after `sched_prepare_exec` kills the
//! task.

#[cfg(USER_EVENTS_KERNEL_6_12)]
mod of_6_12;

use super::bindings::{
    self,
    user_events_exit_probe, //
};
use super::process_list;
use super::symbols;
use super::tracepoint::Probes;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::sync::Arc;

/// How a process leaves its address space.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The current task exits as the last live thread of its process.
    Exit,
    /// The current task exits, and one live thread is left, which may be in an exec.
    LastButOne,
    /// The current task execs. The other threads of its process run until the exec kills them.
    Exec,
}

/// Gets the tasks that leave an address space.
pub(crate) trait ExitListener: Send + Sync + 'static {
    /// Called in a task that leaves `mm`, and runs no user code there any more. Other tasks may.
    /// May sleep, for a short time, if the context allows it.
    fn leaving(&self, mm: &MmWithUser, how: Leaving);
}

/// Calls a listener for each leaving task until dropped. The drop waits for running calls.
pub(crate) struct ExitProbe<L: ExitListener> {
    #[cfg(USER_EVENTS_KERNEL_6_12)]
    _hook: of_6_12::ExitHook,
    _probes: Probes<user_events_exit_probe, Arc<L>>,
}

impl<L: ExitListener> ExitProbe<L> {
    /// Starts to call `listener`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when the kernel lacks a tracepoint; `ENOMEM`.
    pub(crate) fn new(listener: Arc<L>) -> Result<Self> {
        let probe = user_events_exit_probe {
            exit: Some(Self::exit),
            exec: Some(Self::exec),
        };
        let exec = bindings::user_events_on_exec as *const ();
        let tracepoints = [
            (&symbols::SCHED_PREPARE_EXEC, exec),
            #[cfg(not(USER_EVENTS_KERNEL_6_12))]
            (
                &symbols::TASK_EXIT,
                bindings::user_events_on_exit as *const (),
            ),
        ];
        // SAFETY: The C probes compile only with the tracepoints' types, and take their data for a
        // `user_events_exit_probe`.
        let probes = unsafe { Probes::new(&tracepoints, probe, listener) }?;
        Ok(Self {
            // SAFETY: The data lives as long as the probes, which are dropped after the hook. The
            // module has one `ExitProbe` at a time.
            #[cfg(USER_EVENTS_KERNEL_6_12)]
            _hook: unsafe { of_6_12::ExitHook::new(probes.data()) }?,
            _probes: probes,
        })
    }

    /// # Safety
    ///
    /// For the C probe: `probe` is its data.
    unsafe extern "C" fn exit(probe: *mut user_events_exit_probe, group_dead: bool) {
        let how = match group_dead {
            true => Leaving::Exit,
            false if process_list::one_live_thread_left() => Leaving::LastButOne,
            false => return,
        };
        // SAFETY: By the safety requirement.
        unsafe { Self::leaving(probe, how) };
    }

    /// # Safety
    ///
    /// As for `exit`.
    unsafe extern "C" fn exec(probe: *mut user_events_exit_probe) {
        // SAFETY: By the safety requirement.
        unsafe { Self::leaving(probe, Leaving::Exec) };
    }

    /// # Safety
    ///
    /// As for `exit`.
    unsafe fn leaving(probe: *mut user_events_exit_probe, how: Leaving) {
        // SAFETY: By the safety requirement.
        let listener = unsafe { Probes::<_, Arc<L>>::listener(probe) };
        if let Some(mm) = current!().mm() {
            listener.leaving(mm, how);
        }
    }
}
