// SPDX-License-Identifier: GPL-2.0

//! The numbers of state changes of a group's events: an open file reports each change once.
//!
//! An event keeps the number of its last change. An open file keeps the number of the group's last
//! change at its last poll, and compares this number with those of its events (`FileEvents::poll`
//! in `uapi`). A change gets its number when its bits have been written, as far as that takes no
//! waiting. So when a poll reports a change, the bits show it and all changes before it. A bit that
//! is written later than that is a change of its own.

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

/// The number of the last change of an event; 0: none.
pub(super) struct ChangeSeq(Atomic<u64>);

impl ChangeSeq {
    pub(super) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// The number. Meaningful only up to a [`Changes::last`] that was read before. Any context.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The changes of a group's events.
#[pin_data]
pub(crate) struct Changes {
    /// The number of the last change. Numbers are stored in the events with the lock held.
    #[pin]
    last: SpinLock<u64>,
    #[pin]
    queue: PollQueue,
}

impl Changes {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            last <- new_spinlock!(0, "Changes::last"),
            queue <- PollQueue::new(c"Changes::queue", static_lock_class!()),
        })
    }

    /// The number of the last change. All events have their numbers up to this one. Any context but
    /// interrupts.
    pub(crate) fn last(&self) -> u64 {
        *self.last.lock()
    }

    pub(crate) fn queue(&self) -> &PollQueue {
        &self.queue
    }

    /// Gives a change of an event the next number. Returns whether there are waiters to be woken.
    /// Any context but interrupts.
    pub(super) fn record(&self, change_seq: &ChangeSeq) -> bool {
        let mut last = self.last.lock();
        *last += 1;
        change_seq.0.store(*last, Relaxed);
        drop(last);
        self.queue.is_waited_on()
    }
}
