// SPDX-License-Identifier: GPL-2.0

//! Tasks. 7.x: `kernel::task`. C: linux/sched.h.

use crate::bindings;
use crate::mm::MmWithUser;
use crate::types::NotThreadSafe;
use core::ops::Deref;
use core::ptr::NonNull;

pub use tree::task::*;

/// All tasks that sleep, whether signals wake them or not. C: `TASK_NORMAL`.
pub const TASK_NORMAL: crate::ffi::c_uint =
    bindings::TASK_INTERRUPTIBLE | bindings::TASK_UNINTERRUPTIBLE;

/// The current task.
#[repr(transparent)]
pub struct CurrentTask(Task, NotThreadSafe);

impl Deref for CurrentTask {
    type Target = Task;

    fn deref(&self) -> &Task {
        &self.0
    }
}

/// Leads to the current task, in it.
#[doc(hidden)]
pub struct CurrentRef(NonNull<CurrentTask>);

impl CurrentRef {
    /// # Safety
    ///
    /// It must not outlive the task.
    #[inline]
    pub unsafe fn new() -> Self {
        // SAFETY: Asks only; there is a current task.
        Self(unsafe { NonNull::new_unchecked(bindings::get_current().cast()) })
    }
}

impl Deref for CurrentRef {
    type Target = CurrentTask;

    fn deref(&self) -> &CurrentTask {
        // SAFETY: The current task is alive while it runs, as it does here: this is not `Send`.
        unsafe { self.0.as_ref() }
    }
}

impl CurrentTask {
    /// Its address space, which it has until it exits or execs.
    #[inline]
    pub fn mm(&self) -> Option<&MmWithUser> {
        // SAFETY: A task's own pointer is changed by itself only, and keeps the address space.
        unsafe {
            let mm = (*self.as_ptr()).mm;
            NonNull::new(mm).map(|mm| MmWithUser::from_raw(mm.as_ptr()))
        }
    }

    /// Its pid namespace; `None` for a task that has exited.
    pub fn active_pid_ns(&self) -> Option<&PidNamespace> {
        // SAFETY: The namespace of the current task, which keeps it until it is released.
        unsafe {
            bindings::task_active_pid_ns(self.as_ptr())
                .cast::<PidNamespace>()
                .as_ref()
        }
    }
}

/// A pid namespace. C: `struct pid_namespace`.
#[repr(transparent)]
pub struct PidNamespace(tree::types::Opaque<bindings::pid_namespace>);

/// What tasks of a newer crate have beside this one's.
pub trait TaskExt {
    /// The structure.
    fn as_ptr(&self) -> *mut bindings::task_struct;

    /// The id of its thread group in a pid namespace; 0 if it is not in there.
    fn tgid_nr_ns(&self, ns: Option<&PidNamespace>) -> bindings::pid_t;
}

impl TaskExt for Task {
    #[inline]
    fn as_ptr(&self) -> *mut bindings::task_struct {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    fn tgid_nr_ns(&self, ns: Option<&PidNamespace>) -> bindings::pid_t {
        let ns = ns.map_or(core::ptr::null_mut(), |ns| ns.0.get());
        // SAFETY: The task is valid, as the reference shows; so is the namespace, or it is NULL,
        // for which the current task's is taken.
        unsafe { bindings::task_tgid_nr_ns(self.as_ptr(), ns) }
    }
}

/// The current task.
#[macro_export]
macro_rules! current {
    () => {
        // SAFETY: It is dropped in the expression or the function that this stands in, which the
        // task runs.
        &*unsafe { $crate::task::CurrentRef::new() }
    };
}
