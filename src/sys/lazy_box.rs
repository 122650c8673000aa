// SPDX-License-Identifier: GPL-2.0

//! A box that is allocated on first use.

use super::event_mutex::EventMutexHeld;
use super::load_acquire::LoadAcquire;
use core::ptr;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Release, //
};

/// A box that is allocated on first use, and never replaced.
///
/// # Invariants
///
/// The pointer is NULL, or that of a [`KBox`] that is never replaced.
pub(super) struct LazyBox<T>(Atomic<*mut T>);

// SAFETY: Sending the box sends the `T`.
unsafe impl<T: Send> Send for LazyBox<T> {}
// SAFETY: A shared box lends shared references to the `T`, which may be from another thread.
unsafe impl<T: Send + Sync> Sync for LazyBox<T> {}

impl<T> LazyBox<T> {
    /// An empty box.
    pub(super) const fn new() -> Self {
        // INVARIANT: NULL.
        Self(Atomic::new(ptr::null_mut()))
    }

    /// The content, if it is allocated. Any context.
    pub(super) fn get(&self) -> Option<&T> {
        // SAFETY: By the invariant the box exists while `self` is borrowed. The acquire shows its
        // whole content.
        unsafe { self.0.load_acquire().as_ref() }
    }

    /// The content, which is created by `new` on first use. Not charged: a memory cgroup at its
    /// limit may delay that, while others wait for the mutex.
    pub(super) fn get_or_new(&self, new: fn() -> T, _held: &EventMutexHeld) -> Result<&T> {
        if self.get().is_none() {
            // INVARIANT: The pointer is NULL, and no other task sets it, as `event_mutex` is held.
            (self.0).store(KBox::into_raw(KBox::new(new(), GFP_KERNEL)?), Release);
        }
        self.get().ok_or(ENOMEM)
    }
}

impl<T> Drop for LazyBox<T> {
    fn drop(&mut self) {
        let pointer = *self.0.get_mut();
        if !pointer.is_null() {
            // SAFETY: The pointer of a box by the invariant, used for the last time.
            drop(unsafe { KBox::from_raw(pointer) });
        }
    }
}
