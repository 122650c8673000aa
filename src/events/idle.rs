// SPDX-License-Identifier: GPL-2.0

//! Events that have lost their last reference, and the work that removes them. C: `put_work` of `struct user_event`.

use super::event::Event;
use crate::sys::work_queue::OwnedQueue;
use kernel::list::{
    List,
    ListArc, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Release, //
};
use kernel::sync::{
    Arc,
    SpinLock, //
};
use kernel::time::{
    delay::fsleep,
    Delta, //
};
use kernel::workqueue::{
    self,
    Work,
    WorkItem, //
};
use kernel::{
    new_spinlock,
    new_work, //
};

/// How long to wait before looking again whether the trace core still refers to an unused event.
/// It does not tell when it stops.
pub(super) const REFERENCE_POLL: Delta = Delta::from_millis(100);

/// The idle events of all groups. One work removes them, however many groups there are.
#[pin_data]
pub(crate) struct IdleEvents {
    queue: Arc<OwnedQueue>,
    /// Events that have lost their last reference. The work is queued, or runs, while there are any.
    #[pin]
    idle: SpinLock<List<Event>>,
    #[pin]
    work: Work<IdleEvents>,
    /// Set once, when the module is unloaded.
    closing: Atomic<bool>,
}

impl IdleEvents {
    /// None yet. `queue` is where work is done that cannot be done where it is noticed. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                queue,
                idle <- new_spinlock!(List::new(), "IdleEvents::idle"),
                work <- new_work!("IdleEvents::work"),
                closing: Atomic::new(false),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// The work queue.
    pub(super) fn queue(&self) -> &OwnedQueue {
        &self.queue
    }

    /// Has an event that has lost its last reference removed by the work queue, unless it gets a new one
    /// first. Any context but interrupts.
    pub(super) fn retire_later(self: &Arc<Self>, event: Arc<Event>) {
        let mut idle = self.idle.lock();
        let is_first = idle.is_empty();
        let listed = ListArc::try_from_arc(event).map(|event| idle.push_back(event));
        drop(idle);
        // Listed already, or queued already, is as good.
        if listed.is_ok() && is_first {
            let _ = self.queue.enqueue::<_, 0>(self.clone());
        }
    }

    /// Removes the events that have lost their last reference. Runs on the work queue; may sleep.
    ///
    /// The trace core can still refer to an event without being attached to it (an event probe, a
    /// histogram); then this waits for it to stop.
    fn retire_idle(&self) {
        let mut batch = List::new();
        let mut referenced = List::new();
        loop {
            // Off the list before it is looked at, and while the lock is held: a task that drops a last
            // reference from here on lists it again. The latest first, as the trace core does not search
            // long for it.
            let mut idle = self.idle.lock();
            if batch.is_empty() {
                batch.push_all_back(&mut idle);
            }
            let next = batch.pop_back().map(ListArc::into_arc);
            drop(idle);
            let is_closing = self.closing.load(Acquire);
            match next {
                Some(event) => {
                    if !is_closing && event.group().retire(&event).is_err() {
                        let listed = ListArc::try_from_arc(event);
                        let _ = listed.map(|event| referenced.push_back(event));
                    }
                }
                None if is_closing || referenced.is_empty() => break,
                None => {
                    fsleep(REFERENCE_POLL);
                    batch.push_all_back(&mut referenced);
                }
            }
        }
    }

    /// Has the work queue look no more whether the trace core still refers to unused events. For the module's
    /// exit: the work queue can be waited for then.
    pub(crate) fn begin_close(&self) {
        self.closing.store(true, Release);
    }

    /// Waits for all work. For the module's exit, after all groups are closed. May sleep.
    pub(crate) fn close(&self) {
        self.begin_close();
        self.queue.drain();
    }
}

workqueue::impl_has_work! {
    impl HasWork<Self> for IdleEvents { self.work }
}

impl WorkItem for IdleEvents {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.retire_idle();
    }
}
