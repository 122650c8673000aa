// SPDX-License-Identifier: GPL-2.0

//! Learning of forks, and doing something in the child before it runs.
//!
//! C: the tracepoint `sched_process_fork` (trace/events/sched.h), which fires in the parent when
//! the child is complete and does not run yet, and `task_work_add()` (linux/task_work.h): work that
//! a task does before it next returns to user space. For a new task that is before its first
//! instruction there.

use super::bindings::{
    self,
    task_struct,
    user_events_fork_probe, //
};
use super::symbols;
use super::task_work::{
    Reservation,
    TaskWork, //
};
use super::tracepoint::Probes;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::str::{
    BStr,
    CStr, //
};
use kernel::sync::Arc;

/// What is told of forks.
pub(crate) trait ForkListener: Send + Sync + Sized + 'static {
    /// What a child gets of its parent. Dropped, in a context that may sleep, if the child never
    /// runs.
    type Inheritance: Send + 'static;

    /// Inheritances in the log line about a child that is killed for lack of memory.
    const INHERITANCES: &'static str;

    /// Does a child of the task with this address space get anything? Must not sleep.
    fn may_inherit(&self, parent: &MmWithUser) -> bool;

    /// The current task, whose address space is `parent`, has forked a child with an address space
    /// of its own. `None`: the child gets nothing. Must not sleep.
    fn forked(&self, parent: &MmWithUser) -> Option<Self::Inheritance>;

    /// The current task is the child, which has not run in user space yet. May sleep.
    fn inherit(self: &Arc<Self>, child: &MmWithUser, inheritance: Self::Inheritance);
}

/// Tells a listener of forks until dropped, and waits then for the calls that are under way.
pub(crate) struct ForkProbe<L: ForkListener> {
    _probes: Probes<user_events_fork_probe, Arc<L>>,
}

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
        };
        let fork = bindings::user_events_on_fork as *const ();
        let tracepoints = [(&symbols::SCHED_PROCESS_FORK, fork)];
        // SAFETY: The compiler compares the types of both where the probe is. That is what the
        // probe takes its data for.
        let probes = unsafe { Probes::new(&tracepoints, probe, listener) }?;
        Ok(Self { _probes: probes })
    }

    /// # Safety
    ///
    /// For the probe: `probe` is what it was called with, and `child` a task that does not run
    /// yet, which the current task has forked.
    unsafe extern "C" fn forked(
        probe: *mut user_events_fork_probe,
        _parent: *mut task_struct,
        child: *mut task_struct,
    ) {
        // SAFETY: Promised by the caller.
        let listener = unsafe { Probes::<_, Arc<L>>::listener(probe) };
        // SAFETY: The child is alive: it does not run before this returns.
        let child_mm = unsafe { (*child).mm };
        let parent = current!();
        let Some(parent) = parent.mm() else {
            return;
        };
        // Not a thread, nor a child that shares the memory.
        if child_mm.is_null() || child_mm == parent.as_raw() || !listener.may_inherit(parent) {
            return;
        }
        // Allocated first: dropping an inheritance may sleep, which is not allowed here.
        let Ok(reservation) = Reservation::<ChildWork<L>>::new_nofail() else {
            // The child never runs without its inheritance, and its parent gets to know.
            // SAFETY: As above.
            unsafe { kill_child(child, L::INHERITANCES) };
            return;
        };
        let Some(inheritance) = listener.forked(parent) else {
            return;
        };
        let work = ChildWork {
            listener: listener.clone(),
            inheritance,
            mm: child_mm as usize,
        };
        // It fails for a task that is exiting, which one that has not run cannot be, and when the
        // module is being unloaded: then nothing is registered.
        // SAFETY: As above.
        drop(unsafe { reservation.add(child, work) });
    }
}

/// Kills a child for which there is no memory, and logs that. C: `send_sig()`.
///
/// # Safety
///
/// `child` must not have run yet, nor run before this returns.
unsafe fn kill_child(child: *mut task_struct, inheritances: &str) {
    // SAFETY: Changes the state of the rate limit only, which has a lock.
    if unsafe { bindings::user_events_ratelimit() } {
        // SAFETY: The child is alive. Its name is a string that only the child itself changes.
        let (name, pid) = unsafe {
            let name = (&raw const (*child).comm).cast();
            (CStr::from_char_ptr(name), (*child).pid)
        };
        let name = BStr::from_bytes(name.to_bytes());
        pr_warn!("no memory for the {inheritances} of {name}[{pid}]: killing it\n");
    }
    // SAFETY: The child is alive.
    unsafe { kernel::bindings::send_sig(kernel::bindings::SIGKILL as c_int, child, 1) };
}
