// SPDX-License-Identifier: GPL-2.0

//! The enablers of an event, and the writing of their bits when the event's state changes.
//!
//! This is the only file of `events` that imports `mms`. The task that changes the state holds
//! `event_mutex`, and writes bits as far as its budget goes; the work queue writes the remaining
//! ones.

use super::event::{
    Event,
    EventRef, //
};
use crate::mms::{
    Budget,
    ByPosition,
    Enabler,
    PartialWrite,
    Position,
    WriteStopped, //
};
use crate::sorted_arcs::{
    Insertion,
    NodeMemory,
    Order,
    Shortfall,
    SortedArcs, //
};
use crate::sys::event_mutex::EventMutexHeld;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Full,
    Relaxed,
    Release, //
};
use kernel::sync::{
    Arc,
    MutexGuard, //
};

pub(super) struct Enablers {
    by_position: SortedArcs<Enabler, ByPosition>,
    /// Where the writing of bits has stopped since the last change of the state.
    cursor: Option<WriteCursor>,
}

/// The bits that are still to be written: of the enabler at `position` in the mms from `mm_key` on,
/// and of all enablers behind it.
struct WriteCursor {
    position: Position,
    mm_key: usize,
    /// Held until the writing goes on.
    _partly: Option<PartialWrite>,
}

/// The enablers of an event, locked: `UserEvent::enablers`. A change of the state is written after
/// the lock is released.
pub(crate) struct EventEnablersGuard<'a> {
    event: &'a Event,
    enablers: MutexGuard<'a, Enablers>,
}

impl Enablers {
    pub(super) const fn new() -> Self {
        Self {
            by_position: SortedArcs::new(),
            cursor: None,
        }
    }

    /// Writes `value` to the bits from the cursor on, as many as the budget allows.
    fn write_from_cursor(&mut self, value: bool, mut budget: Budget) {
        let Some(cursor) = self.cursor.take() else {
            return;
        };
        let leaves = (self.by_position).slices_from(|other| other.position().cmp(&cursor.position));
        for mut leaf in leaves {
            while let Some(first) = leaf.first() {
                // The bits of one page are neighbours, but may continue in the next leaf. Most
                // pages have one bit.
                let is_in_same_page = |other: &Arc<Enabler>| other.is_in_same_page(first);
                let second = leaf.get(1).filter(|other| is_in_same_page(other));
                let in_page = second.map_or(1, |_| leaf.partition_point(is_in_same_page));
                let (enablers, rest) = leaf.split_at_checked(in_page).unwrap_or((leaf, &[]));
                leaf = rest;
                let position = first.position();
                let goes_on = position == cursor.position;
                let mm_key = if goes_on { cursor.mm_key } else { 0 };
                let written = first.set().write(enablers, value, mm_key, &mut budget);
                if let Err(WriteStopped { mm_key, partly }) = written {
                    self.cursor = Some(WriteCursor {
                        position,
                        mm_key,
                        _partly: partly,
                    });
                    return;
                }
            }
        }
    }
}

impl EventEnablersGuard<'_> {
    /// The value for the bits. If it changes after this, all bits are written again.
    pub(crate) fn value(&self) -> bool {
        !self.event.consumers().is_none()
    }

    /// The value for the bit of an enabler; `None` if the enabler has been removed.
    pub(crate) fn value_for(&self, enabler: &Arc<Enabler>) -> Option<bool> {
        let listed = (self.enablers.by_position).get(ByPosition::cmp_to(enabler));
        listed.is_some().then(|| self.value())
    }

    /// Adds an enabler, the bit of which is written from then on when the state changes. A drop of
    /// the result instead of `keep()` removes the enabler. Does not allocate.
    ///
    /// # Errors
    ///
    /// What `memory` is short of.
    pub(crate) fn try_insert<'a>(
        &'a mut self,
        enabler: &'a Arc<Enabler>,
        memory: &mut NodeMemory<Enabler>,
    ) -> Result<Insertion<'a, Enabler, ByPosition>, Shortfall> {
        self.enablers.by_position.try_insert(enabler, memory)
    }

    /// Removes an enabler. Its bit is not written any more once this returns.
    pub(crate) fn remove(&mut self, enabler: &Arc<Enabler>) {
        // The caller has a reference, too, so nothing is freed under the lock.
        let _ = (self.enablers.by_position).remove(ByPosition::cmp_to(enabler));
    }

    /// Records that a bit was written later than the state changed: as one more change, unless the
    /// change of the state has no number yet. `event` is the event of this guard.
    pub(crate) fn record_late_write(&self, event: &EventRef) {
        if !self.is_being_written() && event.record_change() {
            event.to_arc().queue_remaining();
        }
    }

    /// Whether a change of the state is being written, or about to be.
    pub(crate) fn is_being_written(&self) -> bool {
        self.enablers.cursor.is_some() || self.event.toggle_pending.load(Relaxed) != 0
    }

    /// Whether the bit of an enabler is still to be written in the memory of the mm with this key.
    pub(crate) fn is_pending(&self, enabler: &Enabler, mm_key: usize) -> bool {
        if self.event.toggle_pending.load(Relaxed) != 0 {
            return true;
        }
        // Bits of one page are written together: some behind the first may be written already.
        self.enablers.cursor.as_ref().is_some_and(|cursor| {
            let position = enabler.position();
            position > cursor.position || position == cursor.position && mm_key >= cursor.mm_key
        })
    }
}

impl Event {
    /// Locks the enablers. May sleep. Holders of `event_mutex` may wait for this lock, so its
    /// holders do not wait for memory. Inside of the lock of a set, outside of the lock of its
    /// members.
    pub(crate) fn lock_enablers(&self) -> EventEnablersGuard<'_> {
        EventEnablersGuard {
            event: self,
            enablers: self.enablers.lock(),
        }
    }

    /// Writes bits after a change of the state, and queues the remaining ones if the budget does
    /// not suffice. If a task holds the lock, as one that registers does, all bits are queued.
    pub(super) fn write_enablers(self: &Arc<Self>, held: &EventMutexHeld) {
        // Before the lock is tried: its holder sees this, and leaves the writing to the work queue.
        self.toggle_pending.store(1, Release);
        let is_left = match self.enablers.try_lock() {
            Some(enablers) => self.write_pending(enablers, Budget::under_event_mutex(held)),
            None => true,
        };
        if is_left {
            self.queue_remaining();
        }
    }

    /// Starts over if the state has changed, and writes bits from the cursor on, as many as the
    /// budget allows. Records the change when all are written. Returns whether bits, or waiters for
    /// the change, are left.
    fn write_pending(&self, mut enablers: MutexGuard<'_, Enablers>, budget: Budget) -> bool {
        if self.toggle_pending.xchg(0, Full) != 0 {
            // From the first: bits that are left of an earlier change are among them.
            enablers.cursor = Some(WriteCursor {
                position: Position::FIRST,
                mm_key: 0,
                _partly: None,
            });
        }
        let was_left = enablers.cursor.is_some();
        enablers.write_from_cursor(!self.consumers().is_none(), budget);
        enablers.cursor.is_some() || was_left && self.record_change()
    }

    /// Queues [`Self::write_remaining`]. Any context.
    fn queue_remaining(self: &Arc<Self>) {
        self.run_later(self.group().idle().queue());
    }

    /// Writes remaining bits, for a limited time, as other work and a further change of the state
    /// may be waiting. Then wakes the waiters for the change, without a lock, as they may be many.
    pub(super) fn write_remaining(self: &Arc<Self>) {
        self.write_pending(self.enablers.lock(), Budget::on_workqueue());
        if self.lock_enablers().is_being_written() {
            self.queue_remaining();
        } else {
            self.group().changes().queue().wake();
        }
    }

    pub(crate) fn change_seq(&self) -> u64 {
        self.change_seq.get()
    }

    /// Records a change that the bits show. Returns whether there are waiters to be woken.
    fn record_change(&self) -> bool {
        self.group().changes().record(&self.change_seq)
    }
}
