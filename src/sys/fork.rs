// SPDX-License-Identifier: GPL-2.0

//! Learning of forks, and doing something in the child before it runs.
//!
//! C: the tracepoint `sched_process_fork` (trace/events/sched.h), which fires in the parent when
//! the child is complete and does not run yet, and `task_work_add()` (linux/task_work.h): work that
//! a task does before it next returns to user space. For a new task that is before its first
//! instruction there.

use super::bindings::{self, task_struct, user_events_fork_probe};
use super::task_work::{Reservation, TaskWork};
use core::cell::UnsafeCell;
use core::ptr;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Who wants to know of forks.
pub(crate) trait ForkListener: Send + Sync + Sized + 'static {
    /// What a child gets of its parent. Dropped, in a context that may sleep, if the child never
    /// runs.
    type Inheritance: Send + 'static;

    /// Does a child of the task with this address space get anything? Must not sleep.
    fn knows(&self, parent: &MmWithUser) -> bool;

    /// The current task, whose address space is `parent`, has forked a child with an address space
    /// of its own. `None`: the child gets nothing. Must not sleep.
    fn forked(&self, parent: &MmWithUser) -> Option<Self::Inheritance>;

    /// The current task is the child, which has not run in user space yet. May sleep.
    fn inherit(self: &Arc<Self>, child: &MmWithUser, inheritance: Self::Inheritance);
}

/// Tells a listener of forks until dropped.
///
/// # Invariants
///
/// The probe is registered with the tracepoint.
pub(crate) struct ForkProbe<L: ForkListener>(KBox<Probe<L>>);

/// The probe comes first, so that its address is the whole's.
#[repr(C)]
struct Probe<L> {
    probe: UnsafeCell<user_events_fork_probe>,
    listener: Arc<L>,
}

// SAFETY: The C part is only used by the helpers, from any thread, and does not change while it is
// registered.
unsafe impl<L: Send + Sync> Send for Probe<L> {}
// SAFETY: As above.
unsafe impl<L: Send + Sync> Sync for Probe<L> {}

/// What a child does before it runs.
struct ChildWork<L: ForkListener> {
    listener: Arc<L>,
    inheritance: L::Inheritance,
    /// Only compared.
    mm: usize,
}

impl<L: ForkListener> TaskWork for ChildWork<L> {
    fn run(self, mm: Option<&MmWithUser>) {
        match mm {
            Some(mm) if mm.as_raw() as usize == self.mm => {
                self.listener.inherit(mm, self.inheritance);
            }
            // It was killed, and its address space is gone.
            _ => drop(self.inheritance),
        }
    }
}

impl<L: ForkListener> ForkProbe<L> {
    /// Begins to tell `listener` of forks. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when the kernel has no such tracepoint; `ENOMEM`.
    pub(crate) fn new(listener: Arc<L>) -> Result<Self> {
        let probe = user_events_fork_probe {
            forked: Some(Self::forked),
            tp: ptr::null_mut(),
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
            bindings::user_events_add_fork_probe(probe.probe.get())
        })?;
        // INVARIANT: Just registered.
        Ok(Self(probe))
    }

    /// # Safety
    ///
    /// For the tracepoint: `probe` is one that `new` registered, `child` is a task that does not
    /// run yet and has an address space, and the current task is its parent and has another.
    unsafe extern "C" fn forked(probe: *mut user_events_fork_probe, child: *mut task_struct) {
        // SAFETY: The first field of a `Probe<L>` that is not freed before the tracepoint's
        // readers, which we are one of, are gone.
        let probe = unsafe { &*probe.cast_const().cast::<Probe<L>>() };
        let parent = current!();
        let Some(parent) = parent.mm().filter(|mm| probe.listener.knows(mm)) else {
            return;
        };
        // Before the inheritance is taken: what must not sleep must not have to drop it.
        let Ok(room) = Reservation::<ChildWork<L>>::for_sure() else {
            // It never runs without what it was to get, and its parent learns of it.
            // SAFETY: The child is alive: it does not run before this returns.
            unsafe { bindings::user_events_kill_child_without_enablers(child) };
            return;
        };
        let Some(inheritance) = probe.listener.forked(parent) else {
            return;
        };
        let work = ChildWork {
            listener: probe.listener.clone(),
            inheritance,
            // SAFETY: The child is alive: it does not run before this returns.
            mm: unsafe { bindings::user_events_task_mm(child) } as usize,
        };
        // It fails for a task that is exiting, which one that has not run cannot be, and when the
        // module is being unloaded: then nothing is registered.
        // SAFETY: As above.
        drop(unsafe { room.add(child, work) });
    }
}

impl<L: ForkListener> Drop for ForkProbe<L> {
    fn drop(&mut self) {
        // SAFETY: By the invariant it is registered. This waits for those who are in `forked`.
        unsafe { bindings::user_events_remove_fork_probe(self.0.probe.get()) };
    }
}

/// When the current task was made, in nanoseconds by the clock that [`clock::now`](super::clock::now) reads.
/// C: `start_time` of `struct task_struct` (linux/sched.h). It is taken in the fork, when the memory has been
/// copied and nothing that user space could delay is left to be done.
pub(crate) fn start_time() -> u64 {
    // SAFETY: Reads a number of the current task that does not change.
    unsafe { bindings::user_events_start_time() }
}
