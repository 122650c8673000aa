// SPDX-License-Identifier: GPL-2.0

//! Learning of forks, and doing something in the child before it runs.
//!
//! C: the tracepoint `sched_process_fork` (trace/events/sched.h), which fires in the parent when
//! the child is complete and does not run yet, and `task_work_add()` (linux/task_work.h): work that
//! a task does before it next returns to user space. For a new task that is before its first
//! instruction there.

use super::bindings::{self, callback_head, mm_struct, task_struct, user_events_fork_probe};
use super::module_ref::ModuleRef;
use core::cell::UnsafeCell;
use core::mem::{align_of, size_of, MaybeUninit};
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
    fn inherit(self: &Arc<Self>, child: Child<'_>, inheritance: Self::Inheritance);
}

/// A child that has not run yet. It is the current task.
pub(crate) struct Child<'a> {
    mm: &'a MmWithUser,
    started: u64,
}

impl Child<'_> {
    /// Its address space.
    pub(crate) fn mm(&self) -> &MmWithUser {
        self.mm
    }

    /// When it got its start time: nanoseconds since boot, after its memory was copied.
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// Has it been killed?
    pub(crate) fn is_dying(&self) -> bool {
        // SAFETY: Asks about the current task only.
        unsafe { bindings::user_events_is_dying() }
    }
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
#[repr(C)]
struct ChildWork<L: ForkListener> {
    head: callback_head,
    listener: Arc<L>,
    inheritance: L::Inheritance,
    /// Only compared.
    mm: *mut mm_struct,
    started: u64,
    /// Last, so that it is dropped last.
    _module: ModuleRef,
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
        let Ok(module) = ModuleRef::get() else {
            return;
        };
        // Before the inheritance is taken: what must not sleep must not have to drop it.
        let Some(room) = Self::room() else {
            // It never runs without what it was to get, and its parent learns of it.
            // SAFETY: The child is alive: it does not run before this returns.
            unsafe { bindings::user_events_kill_orphan(child) };
            return;
        };
        let Some(inheritance) = probe.listener.forked(parent) else {
            return;
        };
        // SAFETY: The child is alive: it does not run before this returns.
        let (mm, started) = unsafe {
            (
                bindings::user_events_task_mm(child),
                bindings::user_events_start_time(child),
            )
        };
        let work = KBox::write(
            room,
            ChildWork {
                head: callback_head {
                    next: ptr::null_mut(),
                    func: Some(Self::run),
                },
                listener: probe.listener.clone(),
                inheritance,
                mm,
                started,
                _module: module,
            },
        );
        let work = KBox::into_raw(work);
        // SAFETY: The child is alive, and `head`, the first field, stays in place until `run` has
        // taken the box back.
        if unsafe { bindings::user_events_add_task_work(child, work.cast()) } != 0 {
            // SAFETY: The child is exiting and did not take it, so it is still ours. This is only
            // for completeness: a task that has not run yet cannot be exiting.
            drop(unsafe { KBox::from_raw(work) });
        }
    }

    /// Room for a child's work. Never `None` where sleeping is allowed.
    fn room() -> Option<KBox<MaybeUninit<ChildWork<L>>>> {
        // SAFETY: Asks about the current context only.
        if !unsafe { bindings::user_events_may_sleep() } {
            return KBox::new_uninit(GFP_ATOMIC).ok();
        }
        const { assert!(align_of::<ChildWork<L>>() <= align_of::<u64>()) };
        // SAFETY: Sleeping is allowed, as just asked.
        let room = unsafe { bindings::user_events_alloc_nofail(size_of::<ChildWork<L>>()) };
        // SAFETY: It comes from the allocator of `KBox`, and is large enough; that allocator aligns
        // everything for a u64. It is ours alone and need not be initialized.
        Some(unsafe { KBox::from_raw(room.cast()) })
    }

    /// # Safety
    ///
    /// For the task work: `head` is one that `forked` added to the current task.
    unsafe extern "C" fn run(head: *mut callback_head) {
        // SAFETY: The first field of a `ChildWork<L>` that was made a raw pointer from a box, and
        // is run once.
        let work = unsafe { KBox::from_raw(head.cast::<ChildWork<L>>()) };
        let ChildWork {
            listener,
            inheritance,
            mm: forked_mm,
            started,
            _module,
            ..
        } = KBox::into_inner(work);
        let task = current!();
        match task.mm() {
            Some(mm) if mm.as_raw() == forked_mm => {
                listener.inherit(Child { mm, started }, inheritance);
            }
            // It was killed, and its address space is gone.
            _ => drop(inheritance),
        }
        drop(listener);
    }
}

impl<L: ForkListener> Drop for ForkProbe<L> {
    fn drop(&mut self) {
        // SAFETY: By the invariant it is registered. This waits for those who are in `forked`.
        unsafe { bindings::user_events_remove_fork_probe(self.0.probe.get()) };
        // SAFETY: Process context. The works that were added keep the module loaded, so they have
        // all run but for their last instructions.
        unsafe { bindings::user_events_wait_for_task_work() };
    }
}
