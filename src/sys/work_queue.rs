// SPDX-License-Identifier: GPL-2.0

//! A work queue of the module's own, so that unloading can wait for its work.

use super::{
    bindings,
    delayed_work, //
};
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};
use kernel::time::{
    delay::fsleep,
    Delta, //
};
use kernel::workqueue::{
    Queue,
    RawWorkItem, //
};

/// How many queues there are.
static QUEUES: Atomic<usize> = Atomic::new(0);

/// An unbound work queue. C: `alloc_workqueue()`.
///
/// Dropping it waits for delayed work, runs what is queued, waits for what runs, and ends it. Its
/// own work must not drop it: that would wait for itself.
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
    /// Makes the queue. Its workers show its name. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        // SAFETY: It asks for nothing but to be allowed to sleep: where that is not so, the kernel
        // says so, and no memory is misused.
        let queue = unsafe { bindings::user_events_alloc_workqueue(name.as_char_ptr()) };
        let queue = NonNull::new(queue).ok_or(ENOMEM)?;
        QUEUES.fetch_add(1, Relaxed);
        // INVARIANT: A fresh queue, known to nothing else.
        Ok(Self(queue))
    }

    /// The queue, valid as long as `self` is.
    pub(super) fn as_ptr(&self) -> *mut bindings::workqueue_struct {
        self.0.as_ptr()
    }

    /// Queues work; see [`Queue::enqueue`]. That is the one thing that is done with a [`Queue`]
    /// here: its delayed work would come to a queue that may have ended by then. That of
    /// [`delayed_work`] does not.
    pub(crate) fn enqueue<W, const ID: u64>(&self, work: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        // SAFETY: By the invariant the queue is valid for as long as `self` is.
        let queue: &Queue = unsafe { Queue::from_raw(self.0.as_ptr()) };
        queue.enqueue(work)
    }

    /// Waits for what is queued or runs now. Work that is queued after this call is not waited for. May
    /// sleep; work of this queue would wait for itself.
    pub(crate) fn flush(&self) {
        // SAFETY: By the invariant the queue is valid.
        unsafe { bindings::__flush_workqueue(self.0.as_ptr()) };
    }

    /// Waits until nothing is queued and nothing runs. May sleep.
    ///
    /// Work that is queued meanwhile, by what is not work of this queue, is lost with a kernel
    /// warning, and its memory too. So is delayed work whose time comes meanwhile: cancel it
    /// before.
    pub(crate) fn drain(&self) {
        // SAFETY: By the invariant the queue is valid.
        unsafe { bindings::drain_workqueue(self.0.as_ptr()) };
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        wait_for_none(&delayed_work::PENDING);
        // SAFETY: By the invariant the queue is ours. It is not lent any more, so nothing but its own
        // work can queue on it, and that is waited for. No timer is left to do so.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
        QUEUES.fetch_sub(1, Release);
    }
}

/// Waits until a count is 0, which takes no time but by a mistake. May sleep.
fn wait_for_none(count: &Atomic<usize>) {
    while count.load(Acquire) != 0 {
        fsleep(Delta::from_millis(10));
    }
}

/// Waits until all queues have ended, whatever shared them: pending work may own the last reference
/// to its queue. For the module's exit. May sleep.
pub(super) fn barrier() {
    wait_for_none(&QUEUES);
}
