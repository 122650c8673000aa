// SPDX-License-Identifier: GPL-2.0

//! Events without a reference, and the work that removes them. C: `put_work` of `struct
//! user_event`.

use super::event::Event;
use super::kept::KeptEvents;
use crate::sys::work_queue::{
    Delayed,
    OwnedQueue, //
};
use kernel::list::{
    List,
    ListArc, //
};
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::{
    Arc,
    SpinLock, //
};
use kernel::time::Delta;
use kernel::workqueue::{
    self,
    DelayedWork,
    WorkItem, //
};

/// The first and the longest pause before an unused event to which the trace core refers is checked
/// again. The trace core gives no notice when it drops its reference.
pub(crate) const RECHECK_DELAY: Delta = Delta::from_millis(100);
pub(crate) const MAX_RECHECK_DELAY: Delta = Delta::from_millis(6400);

/// The idle events of all groups. One work removes them all.
#[pin_data]
pub(crate) struct IdleEvents {
    queue: Arc<OwnedQueue>,
    /// The removed events of which there may be records.
    pub(super) kept: KeptEvents,
    #[pin]
    idle: SpinLock<IdleLists>,
    #[pin]
    work: DelayedWork<IdleEvents>,
}

struct IdleLists {
    /// Events that lost their last reference. While there are any, the work is queued or runs.
    events: List<Event>,
    /// Events to which the trace core referred when they were checked. The work is at least
    /// scheduled.
    referenced: List<Event>,
    /// The next pause, twice as long as the one before.
    pause: Delta,
    /// Set once, when the module is unloaded: the work forgets all events from then on.
    is_closing: bool,
}

impl IdleEvents {
    /// No events. `queue` runs the work. May sleep.
    pub(crate) fn new(queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        let idle = IdleLists {
            events: List::new(),
            referenced: List::new(),
            pause: RECHECK_DELAY,
            is_closing: false,
        };
        let kept = KeptEvents::new()?;
        Arc::pin_init(
            pin_init!(Self {
                queue,
                kept,
                idle <- new_spinlock!(idle, "IdleEvents::idle"),
                work <- workqueue::new_delayed_work!("IdleEvents::work"),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn queue(&self) -> &OwnedQueue {
        &self.queue
    }

    /// Queues an event that lost its last reference for its removal, unless it gets a new one
    /// first. Any context but interrupts.
    pub(super) fn queue_retire(self: &Arc<Self>, event: Arc<Event>) {
        let mut idle = self.idle.lock();
        idle.pause = RECHECK_DELAY;
        if idle.events.is_empty() {
            self.queue.enqueue_after::<_, 0>(self, Delta::ZERO);
        }
        // Fine if it is listed already. A reference that may be the last is not dropped under the
        // lock.
        let _listed = ListArc::try_from_arc(event).map(|event| {
            event.group().idle_count.fetch_add(1, Relaxed);
            idle.events.push_back(event);
        });
        drop(idle);
    }

    /// Lets the work forget all events and not queue itself again. For the module's exit: the work
    /// queue can be drained then.
    pub(crate) fn begin_close(self: &Arc<Self>) {
        self.idle.lock().is_closing = true;
        self.queue.enqueue_after::<_, 0>(self, Delta::ZERO);
    }

    /// Waits for all work. For the module's exit, after all groups are closed. May sleep.
    pub(crate) fn close(self: &Arc<Self>) {
        self.begin_close();
        self.queue.drain();
    }
}

workqueue::impl_has_delayed_work! {
    impl HasDelayedWork<Self> for IdleEvents { self.work }
}

impl WorkItem for IdleEvents {
    type Pointer = Delayed<Self>;

    /// Removes the events without a reference. Runs on the work queue; may sleep.
    ///
    /// The trace core can refer to an event without being attached to it (an event probe, a
    /// histogram). Such an event is checked again after a pause, or with the next event that
    /// becomes idle.
    fn run(this: Delayed<Self>) {
        let mut batch = List::new();
        let mut referenced = List::new();
        batch.push_all_back(&mut this.idle.lock().referenced);
        loop {
            // An event leaves the list before its check, under the lock: a task that drops a last
            // reference after this lists the event again.
            let mut idle = this.idle.lock();
            if batch.is_empty() || idle.is_closing {
                batch.push_all_back(&mut idle.events);
            }
            if idle.is_closing {
                break;
            }
            let Some(event) = batch.pop_front().map(ListArc::into_arc) else {
                if !referenced.is_empty() {
                    idle.referenced.push_all_back(&mut referenced);
                    this.queue.enqueue_after::<_, 0>(&this, idle.pause);
                    idle.pause = MAX_RECHECK_DELAY.min(idle.pause + idle.pause);
                }
                break;
            };
            drop(idle);
            let group = event.group().clone();
            let is_listed = match group.retire(&event) {
                Ok(()) => false,
                Err(_) => ListArc::try_from_arc(event)
                    .map(|event| referenced.push_back(event))
                    .is_ok(),
            };
            if !is_listed {
                group.idle_count.fetch_sub(1, Relaxed);
            }
        }
    }
}
