// SPDX-License-Identifier: GPL-2.0

//! The enablers of an event: which bits show its state, and which of them are still to be written.
//!
//! This is the one place where `events` knows of `mms`. A change of the state is noted under `event_mutex`, and
//! bits are written there as far as a budget goes; the work queue goes on where that has stopped.

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

/// The enablers of an event.
pub(super) struct Enablers {
    by_position: SortedArcs<Enabler, ByPosition>,
    /// From where on the bits have not been written since the state changed last.
    cursor: Option<WriteCursor>,
}

/// Bits that are still to be written: those of the enabler at a position in the memory of the mms from one
/// on, and those of all enablers behind it.
struct WriteCursor {
    position: Position,
    mm_key: usize,
    /// Held until the writing has gone on.
    _partly: Option<PartialWrite>,
}

/// The enablers of an event, locked: `UserEvent::enablers`. The state that they show does not change unnoticed
/// while this exists.
pub(crate) struct EventEnablersGuard<'a> {
    event: &'a Event,
    enablers: MutexGuard<'a, Enablers>,
}

impl Enablers {
    /// None.
    pub(super) const fn new() -> Self {
        Self {
            by_position: SortedArcs::new(),
            cursor: None,
        }
    }

    /// Writes `value` to bits that are deferred, as many as the budget allows.
    fn write_from_cursor(&mut self, value: bool, mut budget: Budget) {
        let Some(cursor) = self.cursor.take() else {
            return;
        };
        let leaves = (self.by_position).slices_from(|other| other.position().cmp(&cursor.position));
        for mut leaf in leaves {
            while let Some(first) = leaf.first() {
                // Those of one page lie side by side, but for the end of a leaf. Most are alone.
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
    /// What the bits are to be. When that changes after it was read here, they are all written after that.
    pub(crate) fn value(&self) -> bool {
        !self.event.consumers().is_none()
    }

    /// What the bit of an enabler is to be; `None` if it is not the event's any more.
    pub(crate) fn value_for(&self, enabler: &Arc<Enabler>) -> Option<bool> {
        let listed = (self.enablers.by_position).get(ByPosition::cmp_to(enabler));
        listed.is_some().then(|| self.value())
    }

    /// Adds an enabler, whose bit is written from then on when the state changes. It is taken out again if the
    /// result is dropped instead of kept. Does not allocate.
    ///
    /// # Errors
    ///
    /// The memory that `memory` is short of.
    pub(crate) fn try_insert<'a>(
        &'a mut self,
        enabler: &'a Arc<Enabler>,
        memory: &mut NodeMemory<Enabler>,
    ) -> Result<Insertion<'a, Enabler, ByPosition>, Shortfall> {
        self.enablers.by_position.try_insert(enabler, memory)
    }

    /// Takes out an enabler. Its bit is not written any more once this returns.
    pub(crate) fn remove(&mut self, enabler: &Arc<Enabler>) {
        // The caller has it, too, so nothing is freed under the lock.
        let _ = (self.enablers.by_position).remove(ByPosition::cmp_to(enabler));
    }

    /// A bit was written later than the state has changed: that is one more change, unless the
    /// other one has not got its number yet. `event` is this one.
    pub(crate) fn record_late_write(&self, event: &EventRef) {
        if !self.is_being_written() && event.record_change() {
            event.to_arc().queue_remaining();
        }
    }

    /// Is a change of the state being written, or about to be?
    pub(crate) fn is_being_written(&self) -> bool {
        self.enablers.cursor.is_some() || self.event.toggle_pending.load(Relaxed) != 0
    }

    /// Is the bit of an enabler in the memory of the mm with this key still to be written, since the state
    /// changed?
    pub(crate) fn is_pending(&self, enabler: &Enabler, mm_key: usize) -> bool {
        if self.event.toggle_pending.load(Relaxed) != 0 {
            return true;
        }
        // Those of one page are written together: what stands behind the first may be done.
        self.enablers.cursor.as_ref().is_some_and(|cursor| {
            let position = enabler.position();
            position > cursor.position || position == cursor.position && mm_key >= cursor.mm_key
        })
    }
}

impl Event {
    /// Locks the enablers. May sleep. Holders of `event_mutex` may wait for this lock, so memory is not waited for
    /// with it. Inside of the lock of a set, outside of the one of its members.
    pub(crate) fn lock_enablers(&self) -> EventEnablersGuard<'_> {
        EventEnablersGuard {
            event: self,
            enablers: self.enablers.lock(),
        }
    }

    /// The state has changed: writes bits, and has those written later that the budget does not
    /// allow. Where the lock is taken, as by a task that registers, nothing is waited for: the work
    /// queue writes them.
    pub(super) fn write_enablers(self: &Arc<Self>, held: &EventMutexHeld) {
        // Before the lock is tried: its holder, which sees this, leaves the writing to
        // the work queue.
        self.toggle_pending.store(1, Release);
        let is_left = match self.enablers.try_lock() {
            Some(enablers) => self.write_pending(enablers, Budget::under_event_mutex(held)),
            None => true,
        };
        if is_left {
            self.queue_remaining();
        }
    }

    /// Begins to write bits, if the state has changed, and goes on with those that are deferred, as
    /// many as the budget allows; notes the change when all are written. Returns whether there is
    /// something left to do: bits, or tasks that wait for the change.
    fn write_pending(&self, mut enablers: MutexGuard<'_, Enablers>, budget: Budget) -> bool {
        if self.toggle_pending.xchg(0, Full) != 0 {
            // All anew: what an earlier change has left is written with them.
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

    /// Has [`Self::write_remaining`] called by the work queue. Any context.
    fn queue_remaining(self: &Arc<Self>) {
        self.run_later(self.group().idle().queue());
    }

    /// Goes on with bits that are deferred, for a while: other work may be waiting, and a change of
    /// the state. Then those who wait for the change are woken, with no lock held, as they may be
    /// many.
    pub(super) fn write_remaining(self: &Arc<Self>) {
        self.write_pending(self.enablers.lock(), Budget::on_workqueue());
        if self.lock_enablers().is_being_written() {
            self.queue_remaining();
        } else {
            self.group().changes().queue().wake();
        }
    }

    /// The number of the last change of the state, as [`ChangeSeq::get`].
    pub(crate) fn change_seq(&self) -> u64 {
        self.change_seq.get()
    }

    /// The state has changed, and the bits show it. Returns whether there are waiters to be
    /// woken for that.
    fn record_change(&self) -> bool {
        self.group().changes().record(&self.change_seq)
    }
}
