// SPDX-License-Identifier: GPL-2.0

//! Probes of forks, and work in the child before it runs.
//!
//! C: the tracepoint `sched_process_fork` (trace/events/sched.h), which fires in the parent when
//! the child is complete and does not run yet, and `task_work_add()` (linux/task_work.h), whose
//! work a task does before its next return to user space, a new task before its first instruction
//! there.

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

/// Gets the forks of all tasks.
pub(crate) trait ForkListener: Send + Sync + Sized + 'static {
    /// What a child inherits. Dropped in a context that may sleep if the child never runs.
    type Inheritance: Send + 'static;

    /// Inheritances in the log line about a child that is killed for lack of memory.
    const INHERITANCES: &'static str;

    /// Whether a child of a task with this address space may inherit anything. Must not sleep.
    fn may_inherit(&self, parent: &MmWithUser) -> bool;

    /// Called in a task with the address space `parent` that has forked a child with its own
    /// address space. The child inherits nothing if this returns `None`. Must not sleep.
    fn forked(&self, parent: &MmWithUser) -> Option<Self::Inheritance>;

    /// Called in the child, before it runs in user space. May sleep.
    fn inherit(self: &Arc<Self>, child: &MmWithUser, inheritance: Self::Inheritance);
}

/// Calls a listener for each fork until dropped. The drop waits for running calls.
pub(crate) struct ForkProbe<L: ForkListener> {
    _probes: Probes<user_events_fork_probe, Arc<L>>,
}

/// The work of a child before it runs.
struct ChildWork<L: ForkListener> {
    listener: Arc<L>,
    inheritance: L::Inheritance,
    /// Address of the child's `mm_struct`; compared only.
    mm: usize,
}

impl<L: ForkListener> TaskWork for ChildWork<L> {
    fn run(self, mm: Option<&MmWithUser>) {
        match mm {
            Some(mm) if mm.as_raw() as usize == self.mm => {
                self.listener.inherit(mm, self.inheritance);
            }
            // The child was killed, and has left its address space.
            _ => drop(self.inheritance),
        }
    }
}

impl<L: ForkListener> ForkProbe<L> {
    /// Starts to call `listener`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when the kernel lacks the tracepoint; `ENOMEM`.
    pub(crate) fn new(listener: Arc<L>) -> Result<Self> {
        let probe = user_events_fork_probe {
            forked: Some(Self::forked),
        };
        let fork = bindings::user_events_on_fork as *const ();
        let tracepoints = [(&symbols::SCHED_PROCESS_FORK, fork)];
        // SAFETY: The C probe compiles only with the tracepoint's type, and takes its data for a
        // `user_events_fork_probe`.
        let probes = unsafe { Probes::new(&tracepoints, probe, listener) }?;
        Ok(Self { _probes: probes })
    }

    /// # Safety
    ///
    /// For the C probe: `probe` is its data, and `child` a task that the current task has forked
    /// and that does not run yet.
    unsafe extern "C" fn forked(
        probe: *mut user_events_fork_probe,
        _parent: *mut task_struct,
        child: *mut task_struct,
    ) {
        // SAFETY: By the safety requirement.
        let listener = unsafe { Probes::<_, Arc<L>>::listener(probe) };
        // SAFETY: The child is alive: it does not run before this returns.
        let child_mm = unsafe { (*child).mm };
        let parent = current!();
        let Some(parent) = parent.mm() else {
            return;
        };
        // Neither a thread nor a child that shares the address space.
        if child_mm.is_null() || child_mm == parent.as_raw() || !listener.may_inherit(parent) {
            return;
        }
        // Allocated before the inheritance exists, whose drop may sleep.
        let Ok(reservation) = Reservation::<ChildWork<L>>::new_nofail() else {
            // The child never runs without its inheritance: it is killed, which its parent sees.
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
        // Fails for a task that exits, which the child does not before it runs, and while the
        // module is unloaded, when nothing is registered.
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
    // SAFETY: The child is alive: it does not run before this returns.
    unsafe { kernel::bindings::send_sig(kernel::bindings::SIGKILL as c_int, child, 1) };
}
