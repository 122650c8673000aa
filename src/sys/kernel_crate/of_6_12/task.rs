// SPDX-License-Identifier: GPL-2.0

//! Tasks. 7.x: `kernel::task`. C: linux/sched.h.

use crate::bindings;
use crate::mm::MmWithUser;
use crate::types::NotThreadSafe;
use core::ops::Deref;
use core::ptr::NonNull;

pub use tree::task::*;

/// The states of sleeping tasks. C: `TASK_NORMAL`.
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

/// A pointer to the current task.
#[doc(hidden)]
pub struct CurrentRef(NonNull<CurrentTask>);

impl CurrentRef {
    /// # Safety
    ///
    /// The value must not outlive the task.
    #[inline]
    pub unsafe fn new() -> Self {
        // SAFETY: Any context has a current task.
        Self(unsafe { NonNull::new_unchecked(bindings::get_current().cast()) })
    }
}

impl Deref for CurrentRef {
    type Target = CurrentTask;

    fn deref(&self) -> &CurrentTask {
        // SAFETY: The current task is alive while it runs, as it does here: the type is not `Send`.
        unsafe { self.0.as_ref() }
    }
}

impl CurrentTask {
    /// The address space, until the task exits or execs.
    #[inline]
    pub fn mm(&self) -> Option<&MmWithUser> {
        // SAFETY: Only the task itself changes the pointer, for which it holds a reference to the
        // address space.
        unsafe {
            let mm = (*self.as_ptr()).mm;
            NonNull::new(mm).map(|mm| MmWithUser::from_raw(mm.as_ptr()))
        }
    }

    /// The pid namespace; `None` for a task that has exited.
    pub fn active_pid_ns(&self) -> Option<&PidNamespace> {
        // SAFETY: The current task keeps its namespace until it is released.
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

/// Methods of a newer crate's tasks.
pub trait TaskExt {
    /// C's structure.
    fn as_ptr(&self) -> *mut bindings::task_struct;

    /// The thread group id in a pid namespace; 0 if the task is not in there.
    fn tgid_nr_ns(&self, ns: Option<&PidNamespace>) -> bindings::pid_t;
}

impl TaskExt for Task {
    #[inline]
    fn as_ptr(&self) -> *mut bindings::task_struct {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    fn tgid_nr_ns(&self, ns: Option<&PidNamespace>) -> bindings::pid_t {
        let ns = ns.map_or(core::ptr::null_mut(), |ns| ns.0.get());
        // SAFETY: The reference keeps the task valid. The namespace is valid, or NULL for that of
        // the current task.
        unsafe { bindings::task_tgid_nr_ns(self.as_ptr(), ns) }
    }
}

/// The current task.
#[macro_export]
macro_rules! current {
    () => {
        // SAFETY: Dropped in the expression or function of the macro, which the task runs.
        &*unsafe { $crate::task::CurrentRef::new() }
    };
}
