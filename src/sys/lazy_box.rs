// SPDX-License-Identifier: GPL-2.0

//! A box that most of its owners never need.

use super::event_mutex::EventMutexHeld;
use super::load_acquire::LoadAcquire;
use core::ptr;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Release, //
};

/// A box that is made when it is first needed, and is there from then on.
///
/// # Invariants
///
/// The pointer is NULL, or that of a [`KBox`], which is never replaced.
pub(super) struct LazyBox<T>(Atomic<*mut T>);

// SAFETY: Sending the box sends the `T`.
unsafe impl<T: Send> Send for LazyBox<T> {}
// SAFETY: A shared box hands out shared references to the `T`, and may get its `T` from another
// thread.
unsafe impl<T: Send + Sync> Sync for LazyBox<T> {}

impl<T> LazyBox<T> {
    /// None yet.
    pub(super) const fn new() -> Self {
        // INVARIANT: NULL.
        Self(Atomic::new(ptr::null_mut()))
    }

    /// What is in it, if it was needed. Any context.
    pub(super) fn get(&self) -> Option<&T> {
        // SAFETY: By the invariant the box stays while `self` is borrowed, and is complete when the
        // pointer is seen.
        unsafe { self.0.load_acquire().as_ref() }
    }

    /// What is in it: a `new` one if it was not needed before. Not charged: a memory cgroup at its
    /// limit may delay that, and others wait for the mutex.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn get_or_new(&self, new: fn() -> T, _held: &EventMutexHeld) -> Result<&T> {
        if self.get().is_none() {
            // INVARIANT: It is NULL, and no other task makes one, as that would hold the mutex.
            (self.0).store(KBox::into_raw(KBox::new(new(), GFP_KERNEL)?), Release);
        }
        self.get().ok_or(ENOMEM)
    }
}

impl<T> Drop for LazyBox<T> {
    fn drop(&mut self) {
        let pointer = *self.0.get_mut();
        if !pointer.is_null() {
            // SAFETY: By the invariant, and it is used no more.
            drop(unsafe { KBox::from_raw(pointer) });
        }
    }
}
