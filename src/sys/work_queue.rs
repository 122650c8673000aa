// SPDX-License-Identifier: GPL-2.0

//! A work queue of the module's own, so that unloading can wait for its work.

use super::bindings;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::workqueue::Queue;

/// An unbound work queue. C: `alloc_workqueue()`.
///
/// Dropping it runs what is queued, waits for what runs, and ends it.
///
/// # Invariants
///
/// The pointer is a work queue that this value owns.
pub(crate) struct OwnedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Work queues may be used and destroyed from any thread.
unsafe impl Send for OwnedQueue {}
// SAFETY: Queueing is thread-safe.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Makes the queue. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Process context, as every caller of a sleeping constructor is.
        let queue = unsafe { bindings::user_events_alloc_queue() };
        // INVARIANT: A fresh queue, known to nobody else.
        Ok(Self(NonNull::new(queue).ok_or(ENOMEM)?))
    }
}

impl OwnedQueue {
    /// Waits until nothing is queued and nothing runs. Only work may queue work meanwhile. May
    /// sleep.
    pub(crate) fn drain(&self) {
        // SAFETY: By the invariant the queue is valid.
        unsafe { bindings::drain_workqueue(self.0.as_ptr()) };
    }
}

impl Deref for OwnedQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: By the invariant the queue is valid for as long as `self` is.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: By the invariant the queue is ours, and the loan rules of `Deref` say that
        // nobody is queueing on it any more.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}
