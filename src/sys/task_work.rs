// SPDX-License-Identifier: GPL-2.0

//! Work that a task does itself: before it next returns to user space, or when it exits.
//!
//! C: `task_work_add()` (linux/task_work.h) with `TWA_RESUME`, which neither wakes a task that
//! sleeps nor interrupts a system call.

use super::bindings::{
    self,
    callback_head,
    task_struct, //
};
use super::module_ref::ModuleRef;
use super::task::may_sleep;
use core::mem::{
    align_of,
    size_of,
    MaybeUninit, //
};
use core::ptr;
use kernel::alloc::{
    AllocError,
    Flags, //
};
use kernel::mm::MmWithUser;
use kernel::prelude::*;

/// What a task is to do.
pub(crate) trait TaskWork: Send + Sized + 'static {
    /// Runs once, in the task that it was added to. `mm` is that task's address space; `None` when
    /// the task exits, and has left it. May sleep.
    fn run(self, mm: Option<&MmWithUser>);
}

/// Work in the list of a task. The list's entry comes first, so that its address is the whole's.
#[repr(C)]
struct Node<W> {
    head: callback_head,
    work: W,
    module: ModuleRef,
}

/// Memory for one work of a task.
pub(crate) struct Reservation<W: TaskWork>(KBox<MaybeUninit<Node<W>>>);

impl<W: TaskWork> Reservation<W> {
    /// Gets the memory. May sleep as `flags` say.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(crate) fn new(flags: Flags) -> Result<Self, AllocError> {
        Ok(Self(KBox::new_uninit(flags)?))
    }

    /// As [`Self::new`], and never fails where the current context may sleep. C: `__GFP_NOFAIL`. No
    /// control group is charged, as that may wait for the group.
    ///
    /// # Errors
    ///
    /// There is no memory, and no sleeping.
    pub(crate) fn new_nofail() -> Result<Self, AllocError> {
        if !may_sleep() {
            return Self::new(GFP_ATOMIC);
        }
        let flags = kernel::bindings::GFP_KERNEL | bindings::USER_EVENTS_GFP_NOFAIL;
        // SAFETY: No memory is to be resized, and sleeping is allowed, as just asked.
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
        // SAFETY: That is the allocator of `KBox`, which was asked for that size and alignment. The
        // memory is ours alone and need not be initialized.
        Ok(Self(unsafe { KBox::from_raw(node.cast()) }))
    }

    /// Has a task do `work`. Does not sleep.
    ///
    /// # Errors
    ///
    /// The work, if the task does none any more, or the module is being unloaded.
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
        // SAFETY: The task is alive, says the caller, and `head`, the first field, stays in place
        // until `run` takes the box back.
        if unsafe { bindings::task_work_add(task, node.cast(), mode) } == 0 {
            return Ok(());
        }
        // SAFETY: The task is exiting and did not take it, so the box is still ours.
        let node = unsafe { KBox::from_raw(node) };
        Err(KBox::into_inner(node).work)
    }

    /// # Safety
    ///
    /// For the task: `head` is one that `add` gave it, and is taken out of its list for good.
    unsafe extern "C" fn run(head: *mut callback_head) {
        // SAFETY: The first field of a node that was made a raw pointer from a box, and is run
        // once.
        let node = unsafe { KBox::from_raw(head.cast::<Node<W>>()) };
        let Node { work, module, .. } = KBox::into_inner(node);
        let task = kernel::current!();
        work.run(task.mm());
        drop(module);
    }
}

/// Waits until no task is in the last instructions of a work that has ended. For the module's exit:
/// works that have not ended keep the module loaded. May sleep.
///
/// A task that has given back its reference to the module at the end of a work neither sleeps there
/// nor returns to user space, which is what `synchronize_rcu_tasks()` waits for.
pub(super) fn barrier() {
    // SAFETY: Process context.
    unsafe { bindings::user_events_synchronize_rcu_tasks() };
}
