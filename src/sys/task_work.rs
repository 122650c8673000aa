// SPDX-License-Identifier: GPL-2.0

//! Work that a task does itself, before its next return to user space or when it exits.
//!
//! C: `task_work_add()` (linux/task_work.h) with `TWA_RESUME`, which neither wakes a sleeping task
//! nor interrupts a system call.

use super::bindings::{
    self,
    callback_head,
    task_struct, //
};
use super::module_ref::ModuleRef;
use super::task::may_sleep;
use core::mem::MaybeUninit;
use core::ptr;
use kernel::alloc::{
    AllocError,
    Flags, //
};
use kernel::mm::MmWithUser;
use kernel::prelude::*;

/// The work.
pub(crate) trait TaskWork: Send + Sized + 'static {
    /// Runs once, in the task that the work was added to. `mm` is the task's address space; `None`
    /// if the task exits, and has left it. May sleep.
    fn run(self, mm: Option<&MmWithUser>);
}

/// Work in the list of a task. `head` comes first, so that its address is that of the node.
#[repr(C)]
struct Node<W> {
    head: callback_head,
    work: W,
    module: ModuleRef,
}

/// Memory for a task's work.
pub(crate) struct Reservation<W: TaskWork>(KBox<MaybeUninit<Node<W>>>);

impl<W: TaskWork> Reservation<W> {
    /// Allocates the memory. May sleep if `flags` allow it.
    pub(crate) fn new(flags: Flags) -> Result<Self, AllocError> {
        Ok(Self(KBox::new_uninit(flags)?))
    }

    /// As [`Self::new`], but cannot fail if the current context may sleep. Charges no memory
    /// cgroup, as that may wait for the cgroup. C: `__GFP_NOFAIL`.
    ///
    /// # Errors
    ///
    /// No memory, in a context that may not sleep.
    pub(crate) fn new_nofail() -> Result<Self, AllocError> {
        if !may_sleep() {
            return Self::new(GFP_ATOMIC);
        }
        let flags = kernel::bindings::GFP_KERNEL | bindings::USER_EVENTS_GFP_NOFAIL;
        // SAFETY: Nothing is resized, and `may_sleep()` was just checked.
        let node = unsafe {
            kernel::bindings::krealloc_node_align(
                ptr::null(),
                size_of::<Node<W>>(),
                align_of::<Node<W>>(),
                flags,
                kernel::bindings::NUMA_NO_NODE,
            )
        };
        if node.is_null() {
            return Err(AllocError);
        }
        // SAFETY: The memory is from the allocator of `KBox`, with the size and alignment of a
        // `Node<W>`, belongs to this function, and need not be initialised.
        Ok(Self(unsafe { KBox::from_raw(node.cast()) }))
    }

    /// Adds `work` to a task. Does not sleep.
    ///
    /// # Errors
    ///
    /// The work, if the task has exited too far to do any, or the module is being unloaded.
    ///
    /// # Safety
    ///
    /// `task` must not be freed before this returns.
    pub(super) unsafe fn add(self, task: *mut task_struct, work: W) -> Result<(), W> {
        let Ok(module) = ModuleRef::get() else {
            return Err(work);
        };
        let node = KBox::write(
            self.0,
            Node {
                head: callback_head {
                    next: ptr::null_mut(),
                    func: Some(Self::run),
                },
                work,
                module,
            },
        );
        let node = KBox::into_raw(node);
        let mode = bindings::task_work_notify_mode_TWA_RESUME;
        // SAFETY: The task is alive by the safety requirement, and `head`, the first field, stays
        // in place until `run` takes the box back.
        if unsafe { bindings::task_work_add(task, node.cast(), mode) } == 0 {
            return Ok(());
        }
        // SAFETY: The task exits and did not take the node, which still belongs to this function.
        let node = unsafe { KBox::from_raw(node) };
        Err(KBox::into_inner(node).work)
    }

    /// # Safety
    ///
    /// For the task: `add` gave it `head`, which has left the task's list for good.
    unsafe extern "C" fn run(head: *mut callback_head) {
        // SAFETY: The first field of a node that `add` made of a box, and that runs once.
        let node = unsafe { KBox::from_raw(head.cast::<Node<W>>()) };
        let Node { work, module, .. } = KBox::into_inner(node);
        let task = kernel::current!();
        work.run(task.mm());
        drop(module);
    }
}

/// Waits until no task is in the last instructions of a finished work. For the module's exit;
/// unfinished works hold the module. May sleep.
///
/// Between the release of the module at the end of a work and these instructions a task neither
/// sleeps nor returns to user space, which is what `synchronize_rcu_tasks()` waits for.
pub(super) fn barrier() {
    // SAFETY: Waits only, in process context.
    unsafe { bindings::user_events_synchronize_rcu_tasks() };
}
