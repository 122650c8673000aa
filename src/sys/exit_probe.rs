// SPDX-License-Identifier: GPL-2.0

//! Learning that a thread group is about to leave its address space for good.
//!
//! C: the tracepoints `sched_process_exit` and `sched_prepare_exec` (trace/events/sched.h). Both
//! fire in the task that leaves, before it gives back its reference to the address space, and when
//! it cannot return to user space there any more: whatever fails in an exec after the second kills
//! the task.

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
    /// The current task, the last one of the process, exits: none of its threads lives any more.
    Exit,
    /// The current task exits, and leaves one thread that lives, and may be in an exec.
    LastButOne,
    /// The current task execs. Other threads of the process run until it ends them.
    Exec,
}

/// What is told of tasks that leave.
pub(crate) trait ExitListener: Send + Sync + 'static {
    /// The current task leaves `mm`, and runs no user code there any more. Others may. To sleep is
    /// allowed if the context says so, and not for long.
    fn leaving(&self, mm: &MmWithUser, how: Leaving);
}

/// Tells a listener of leaving tasks until dropped, and waits then for the calls that are under
/// way.
pub(crate) struct ExitProbe<L: ExitListener> {
    #[cfg(USER_EVENTS_KERNEL_6_12)]
    _hook: of_6_12::ExitHook,
    _probes: Probes<user_events_exit_probe, Arc<L>>,
}

impl<L: ExitListener> ExitProbe<L> {
    /// Begins to tell `listener` of leaving tasks. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when the kernel has no such tracepoints; `ENOMEM`.
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
        // SAFETY: The compiler compares the types where the probes are. That is what both take
        // their data for.
        let probes = unsafe { Probes::new(&tracepoints, probe, listener) }?;
        Ok(Self {
            // SAFETY: The data is as long there as the probes, which are dropped after the hook.
            // One module has one `ExitProbe` at a time.
            #[cfg(USER_EVENTS_KERNEL_6_12)]
            _hook: unsafe { of_6_12::ExitHook::new(probes.data()) }?,
            _probes: probes,
        })
    }

    /// # Safety
    ///
    /// For the probe: `probe` is what it was called with.
    unsafe extern "C" fn exit(probe: *mut user_events_exit_probe, group_dead: bool) {
        let how = match group_dead {
            true => Leaving::Exit,
            false if process_list::one_live_thread_left() => Leaving::LastButOne,
            false => return,
        };
        // SAFETY: Promised by the caller.
        unsafe { Self::leaving(probe, how) };
    }

    /// # Safety
    ///
    /// As for `exit`.
    unsafe extern "C" fn exec(probe: *mut user_events_exit_probe) {
        // SAFETY: Promised by the caller.
        unsafe { Self::leaving(probe, Leaving::Exec) };
    }

    /// # Safety
    ///
    /// As for `exit`.
    unsafe fn leaving(probe: *mut user_events_exit_probe, how: Leaving) {
        // SAFETY: Promised by the caller.
        let listener = unsafe { Probes::<_, Arc<L>>::listener(probe) };
        if let Some(mm) = current!().mm() {
            listener.leaving(mm, how);
        }
    }
}
