// SPDX-License-Identifier: GPL-2.0

//! The events of one open file, by write index, and what is kept for writes to them.

use super::event_index::EventIndex;
use super::spare_memory::SpareMemory;
use crate::events::{
    self,
    EventRef,
    Watch, //
};
use crate::sys::append_vec::AppendVec;
use crate::sys::poll::Poll;
use core::mem;
use kernel::prelude::*;
use kernel::static_lock_class;
use kernel::sync::Arc;

/// The events that were registered through one open file.
///
/// Indices count from 0. An entry stays until the file is closed, so entries are read without a lock.
#[pin_data(PinnedDrop)]
pub(crate) struct EventTable {
    #[pin]
    events: AppendVec<EventRef, Appending>,
    #[pin]
    spare: SpareMemory,
    /// What a poll looks at, and is woken by.
    watch: Arc<Watch>,
}

/// What is changed by adding an event, and by the polls that look for those added since.
struct Appending {
    index: EventIndex,
    /// How many events list the watch: the first ones.
    watched: u32,
    /// Which changes of the events behind those have been seen, by their numbers.
    seen: u64,
    /// Has one of them changed that had been registered, and not been seen?
    has_changed: bool,
}

impl EventTable {
    /// A table without events. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<impl PinInit<Self>> {
        let watch = Watch::new()?;
        let appending = Appending {
            index: EventIndex::new(),
            watched: 0,
            seen: 0,
            has_changed: false,
        };
        Ok(pin_init!(Self {
            events <- AppendVec::new(appending, c"EventTable::events", static_lock_class!()),
            spare <- SpareMemory::new(),
            watch,
        }))
    }

    /// Memory for long records.
    #[inline]
    pub(super) fn spare(&self) -> &SpareMemory {
        &self.spare
    }

    /// The event with this index. Takes no lock.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&EventRef> {
        self.events.get(index)
    }

    /// The index of `event`, which is added if it is not there. `seen` is the number of a change that came before its
    /// bit was registered. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EMFILE` when no index is left.
    pub(crate) fn add(&self, event: EventRef, seen: u64) -> Result<u32> {
        let id = event.id();
        let id_at = |index| self.get(index).map(|event| event.id());
        let mut append = self.events.lock();
        if let Some(index) = append.index.get(id, id_at) {
            // The reference that is not needed is dropped without the lock.
            drop(append);
            return Ok(index);
        }
        append.index.reserve(id_at)?;
        let index = append.push(event)?;
        append.index.insert(id, index);
        self.look_at_added(&mut append, index, seen);
        drop(append);
        // Those who wait poll again, and thereby have the event list the watch.
        self.watch.queue().wake();
        Ok(index)
    }

    /// Keeps account of the changes that no watch is told of, for the first poll: in one number, not one for each event.
    /// Costs something only if events change while others are being registered.
    fn look_at_added(&self, append: &mut Appending, index: u32, seen: u64) {
        if append.watched == index {
            append.seen = seen;
        }
        if append.has_changed || events::last_change() == append.seen {
            return;
        }
        let changed = self.get(index).map_or(0, |event| event.last_change());
        if changed > seen {
            append.has_changed = true;
        } else if changed > append.seen {
            // That was before it was registered, and is not to be reported. What was by then is told from what comes by
            // a higher number, after a look at the others.
            let mut others = (append.watched..index).filter_map(|index| self.get(index));
            append.has_changed = others.any(|event| event.last_change() > append.seen);
            append.seen = seen;
        }
    }

    /// Has the watch told of all events, if there is the memory for that, and of what it has not been told.
    fn watch_added(&self) -> Result {
        let mut append = self.events.lock();
        let mut result = Ok(());
        while let Some(event) = self.get(append.watched) {
            match event.add_watch(&self.watch) {
                Ok(changed) => {
                    append.watched += 1;
                    append.has_changed |= changed > append.seen;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if mem::take(&mut append.has_changed) {
            let _ = self.watch.note(events::next_change());
        }
        result
    }

    /// Has the state of an event changed since the last poll, which was asked for that? If not, the poll is woken when
    /// one does. May sleep.
    ///
    /// Without memory it may be that one has changed: that is reported, as it were missed otherwise.
    pub(crate) fn poll<'a>(&'a self, poll: &Poll<'a>) -> bool {
        let watch = &self.watch;
        // First of all: an event that is registered after the look for those added wakes the poll.
        poll.wait(watch.queue());
        if !poll.asks_for_news() {
            return false;
        }
        let added = self.watch_added();
        let has_changed = watch.take(poll.kind());
        if added.is_err() {
            // Those who are woken by changes only, as edge-triggered epoll sets, poll again.
            watch.queue().wake();
        }
        has_changed || added.is_err()
    }
}

#[pinned_drop]
impl PinnedDrop for EventTable {
    fn drop(self: Pin<&mut Self>) {
        let watched = self.events.lock().watched;
        for event in (0..watched).filter_map(|index| self.get(index)) {
            event.remove_watch(&self.watch);
        }
    }
}
