// SPDX-License-Identifier: GPL-2.0

//! The enablers of an event: which bits show its state, and which of them are still to be written.
//!
//! This is the one place where `events` knows of `mms`. A change of the state is noted under `event_mutex`, and
//! bits are written there as far as a budget goes; the work queue goes on where that has stopped.

use super::event::{
    Event,
    EventRef, //
};
use super::watch::{
    self,
    Batch,
    Watch,
    WatchMemory,
    Watches, //
};
use crate::mms::{
    Budget,
    ByPosition,
    Enabler,
    PartlyWritten,
    Position,
    Stopped, //
};
use crate::sorted_arcs::{
    Insertion,
    Reservation,
    Shortfall,
    SortedArcs, //
};
use crate::sys::event_mutex::EventMutexHeld;
use core::cmp::Ordering;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    MutexGuard, //
};

/// The enablers of an event.
pub(super) struct Enablers {
    by_position: SortedArcs<Enabler, ByPosition>,
    /// From where on the bits have not been written since the state changed last.
    deferred: Option<Deferred>,
    /// The number of the last change of the state; 0: there was none.
    changed: u64,
    /// The open files that are told of it.
    watches: Option<KBox<Watches>>,
}

/// Bits that are still to be written: those of the enabler at a position in the memory of the mms from one
/// on, and those of all enablers behind it.
struct Deferred {
    position: Position,
    mm_key: usize,
    /// Held until the writing has gone on.
    _partly: Option<PartlyWritten>,
}

/// How many times open files are told before other work has its turn.
const MAX_BATCHES: usize = 64;

/// The enablers of an event, locked: `UserEvent::enablers`. The state that they show does not change unnoticed
/// while this exists.
pub(crate) struct EventEnablersGuard<'a> {
    event: &'a Event,
    enablers: MutexGuard<'a, Enablers>,
}

/// Compares to an enabler, to look for it.
fn compare_to(enabler: &Enabler) -> impl Fn(&Arc<Enabler>) -> Ordering {
    let position = enabler.position();
    move |other| other.position().cmp(&position)
}

impl Enablers {
    /// None.
    pub(super) const fn new() -> Self {
        Self {
            by_position: SortedArcs::new(),
            deferred: None,
            changed: 0,
            watches: None,
        }
    }

    /// Writes `value` to bits that are deferred, as many as the budget allows.
    fn write_deferred(&mut self, value: bool, mut budget: Budget) {
        let Some(deferred) = self.deferred.take() else {
            return;
        };
        let leaves = self
            .by_position
            .slices_from(|other| other.position().cmp(&deferred.position));
        // Those of one page lie side by side, but for the end of a leaf.
        let pages = leaves.flat_map(|leaf| leaf.chunk_by(|one, other| one.is_beside(other)));
        for enablers in pages {
            let Some(first) = enablers.first() else {
                continue;
            };
            let position = first.position();
            let mm_key = if position == deferred.position {
                deferred.mm_key
            } else {
                0
            };
            let written = first.set().write(enablers, value, mm_key, &mut budget);
            if let Err(Stopped { mm_key, partly }) = written {
                self.deferred = Some(Deferred {
                    position,
                    mm_key,
                    _partly: partly,
                });
                return;
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
    pub(crate) fn value_for(&self, enabler: &Enabler) -> Option<bool> {
        let listed = self.enablers.by_position.get(compare_to(enabler));
        listed.is_some().then(|| self.value())
    }

    /// Adds an enabler, whose bit is written from then on when the state changes. It is taken out again if the
    /// result is dropped instead of kept. Does not allocate.
    ///
    /// # Errors
    ///
    /// The memory that `reservation` is short of.
    pub(crate) fn try_insert<'a>(
        &'a mut self,
        enabler: &'a Arc<Enabler>,
        reservation: &mut Reservation<Enabler>,
    ) -> Result<Insertion<'a, Enabler, ByPosition>, Shortfall> {
        self.enablers.by_position.try_insert(enabler, reservation)
    }

    /// Takes out an enabler. Its bit is not written any more once this returns.
    pub(crate) fn remove(&mut self, enabler: &Arc<Enabler>) {
        // The caller has it, too, so nothing is freed under the lock.
        let _ = self.enablers.by_position.remove(compare_to(enabler));
    }

    /// The next open files that are to be told, once all bits have been written; and whether there will be something
    /// left to do, bits or files.
    fn next_to_tell(&mut self) -> (Option<Batch>, bool) {
        let enablers = &mut *self.enablers;
        let is_deferred = enablers.deferred.is_some();
        match &mut enablers.watches {
            Some(watches) => (watches.next(), is_deferred || watches.has_untold()),
            None => (None, is_deferred),
        }
    }

    /// Is the bit of an enabler in the memory of the mm with this key still to be written, since the state
    /// changed?
    pub(crate) fn is_deferred(&self, enabler: &Enabler, mm_key: usize) -> bool {
        // Those of one page are written together: what stands behind the first may be done.
        self.enablers.deferred.as_ref().is_some_and(|deferred| {
            let position = enabler.position();
            position > deferred.position
                || position == deferred.position && mm_key >= deferred.mm_key
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

    /// Writes bits that are deferred, as many as the budget allows. Returns whether there are more, or open files that
    /// are to be told.
    fn write_deferred(&self, mut guard: EventEnablersGuard<'_>, budget: Budget) -> bool {
        let value = guard.value();
        let enablers = &mut *guard.enablers;
        enablers.write_deferred(value, budget);
        if enablers.deferred.is_some() {
            return true;
        }
        match &mut enablers.watches {
            Some(watches) => watches.note_first(),
            None => false,
        }
    }

    /// The state has changed: writes bits, and has those written later that the budget does not allow. Then open files
    /// are told, by the work queue, as there may be any number of them, with any number of tasks that wait.
    pub(super) fn write_enablers(self: &Arc<Self>, held: &EventMutexHeld) {
        let mut guard = self.lock_enablers();
        // With the lock held: a task that has read this number or a higher one finds it noted.
        guard.enablers.changed = watch::next_change();
        if let Some(watches) = &mut guard.enablers.watches {
            watches.begin();
        }
        // All anew: what an earlier change has left is written with them.
        guard.enablers.deferred = Some(Deferred {
            position: Position::FIRST,
            mm_key: 0,
            _partly: None,
        });
        if self.write_deferred(guard, Budget::at_once(held)) {
            self.go_on_later();
        }
    }

    /// Has [`Self::go_on`] called by the work queue. Any context.
    fn go_on_later(self: &Arc<Self>) {
        self.run_later(self.group().idle().queue());
    }

    /// Goes on with bits that are deferred, and then with open files that are to be told, each for a while: other work
    /// may be waiting, and a change of the state.
    pub(super) fn go_on(self: &Arc<Self>) {
        let mut is_left = self.write_deferred(self.lock_enablers(), Budget::later());
        for _ in 0..MAX_BATCHES {
            let (batch, has_more) = self.lock_enablers().next_to_tell();
            is_left = has_more;
            match batch {
                Some(batch) => batch.tell(),
                None => break,
            }
        }
        if is_left {
            self.go_on_later();
        }
    }

    /// The number of the last change of the state; 0: there was none. May sleep.
    pub(crate) fn last_change(&self) -> u64 {
        self.lock_enablers().enablers.changed
    }

    /// Has an open file told of changes from now on, which it is not yet. Returns the number of the last one before.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add_watch(&self, watch: &Arc<Watch>) -> Result<u64> {
        let mut memory = WatchMemory::new();
        loop {
            let mut guard = self.lock_enablers();
            let enablers = &mut *guard.enablers;
            let added = Watches::add(&mut enablers.watches, watch, &mut memory);
            let Err(shortfall) = added else {
                // Bits may still be written for the last change: it is told of that as well.
                if let (Some(watches), true) = (&mut enablers.watches, enablers.deferred.is_some())
                {
                    watches.begin();
                }
                return Ok(enablers.changed);
            };
            drop(guard);
            memory.fill(shortfall)?;
        }
    }

    /// Has an open file not told any more. May sleep.
    pub(crate) fn remove_watch(&self, watch: &Watch) {
        let mut guard = self.lock_enablers();
        let unused = Watches::remove(&mut guard.enablers.watches, watch);
        drop(guard);
        drop(unused);
    }
}

impl EventRef {
    /// A bit was written later than the state has changed: open files are told once more. The lock of the event's enablers,
    /// held while it was written, is released. Any context that holds it.
    pub(crate) fn wrote_late(&self, mut of_event: EventEnablersGuard<'_>) {
        let Some(watches) = &mut of_event.enablers.watches else {
            return;
        };
        watches.begin();
        drop(of_event);
        self.to_arc().go_on_later();
    }
}
