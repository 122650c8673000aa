// SPDX-License-Identifier: GPL-2.0

//! The changes of the states of a group's events, of which open files report each once.
//!
//! Each change has a number, which the event keeps until it changes again. An open file keeps the
//! number of the last change when it was polled, and compares that with its events'
//! (`FileEvents::poll` of `uapi`). A change gets its number when the bits
//! that show it have been written, as far as that can be done without waiting: so whichever number
//! a program has been told of last, all that came before can be seen in its bits. A bit that has to
//! be written later than that is a change of its own.

use crate::sys::poll::PollQueue;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::SpinLock;
use kernel::{
    new_spinlock,
    static_lock_class, //
};

/// The number of the last change of an event. 0: there was none.
pub(super) struct ChangeSeq(Atomic<u64>);

impl ChangeSeq {
    /// The event has not changed.
    pub(super) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// The number. It is of use if it is no higher than [`Changes::last`] was before. Any context.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The changes of a group's events.
#[pin_data]
pub(crate) struct Changes {
    /// The number of the last one. What has a number up to this one is in the events, which are
    /// changed with the lock held.
    #[pin]
    last: SpinLock<u64>,
    #[pin]
    queue: PollQueue,
}

impl Changes {
    /// None yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            last <- new_spinlock!(0, "Changes::last"),
            queue <- PollQueue::new(c"Changes::queue", static_lock_class!()),
        })
    }

    /// The number of the last change. Any context but interrupts.
    pub(crate) fn last(&self) -> u64 {
        *self.last.lock()
    }

    /// Those who wait for changes.
    pub(crate) fn queue(&self) -> &PollQueue {
        &self.queue
    }

    /// An event has changed. Returns whether there are waiters, which are to be woken. Any
    /// context but interrupts.
    pub(super) fn record(&self, change_seq: &ChangeSeq) -> bool {
        let mut last = self.last.lock();
        *last += 1;
        change_seq.0.store(*last, Relaxed);
        drop(last);
        self.queue.is_waited_on()
    }
}
