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
use crate::sys::task_work;
use core::mem;
use kernel::prelude::*;
use kernel::static_lock_class;
use kernel::sync::{
    Arc,
    SetOnce, //
};
use kernel::time::delay::fsleep;
use kernel::time::Delta;

/// How long is waited for memory without which a poll cannot wait.
const ALLOC_RETRY: Delta = Delta::from_millis(10);

/// The events that were registered through one open file.
///
/// Indices count from 0. An entry stays until the file is closed, so entries are read without a lock.
#[pin_data(PinnedDrop)]
pub(crate) struct EventTable {
    #[pin]
    events: AppendVec<EventRef, Appending>,
    #[pin]
    spare: SpareMemory,
    /// What a poll looks at, and is woken by. Made when the file is first polled for changes.
    watch: SetOnce<Arc<Watch>>,
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
    /// A table without events.
    pub(crate) fn new() -> impl PinInit<Self> {
        let appending = Appending {
            index: EventIndex::new(),
            watched: 0,
            seen: 0,
            has_changed: false,
        };
        pin_init!(Self {
            events <- AppendVec::new(appending, c"EventTable::events", static_lock_class!()),
            spare <- SpareMemory::new(),
            watch: SetOnce::new(),
        })
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
        if let Some(watch) = self.watch.as_ref() {
            // Those who wait poll again, and thereby have the event list the watch.
            watch.queue().wake();
        }
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

    /// The watch; `None` if there is no memory for it, and the current task is killed. May sleep.
    fn watch(&self) -> Option<&Arc<Watch>> {
        loop {
            if let Some(watch) = self.watch.as_ref() {
                return Some(watch);
            }
            match Watch::new() {
                Ok(watch) => {
                    // One task at a time, so that all find it there, and which one was first does not matter.
                    let _append = self.events.lock();
                    let _ = self.watch.populate(watch);
                }
                // There would be nothing to wait for. An epoll set that is to have the file would never be woken.
                Err(_) if task_work::fatal_signal_pending() => return None,
                Err(_) => fsleep(ALLOC_RETRY),
            }
        }
    }

    /// Has the watch told of all events, if there is the memory for that, and of what it has not been told.
    fn watch_added(&self, watch: &Arc<Watch>) -> Result {
        let mut append = self.events.lock();
        let mut result = Ok(());
        while let Some(event) = self.get(append.watched) {
            match event.add_watch(watch) {
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
            let _ = watch.note(events::next_change());
        }
        result
    }

    /// Has the state of an event changed since the last poll? If not, the poll is woken when one does. May sleep.
    ///
    /// Without memory it may be that one has changed: that is reported, as it were missed otherwise.
    pub(crate) fn poll<'a>(&'a self, poll: &Poll<'a>) -> bool {
        let Some(watch) = self.watch() else {
            return true;
        };
        let added = self.watch_added(watch);
        poll.wait(watch.queue());
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
        let Some(watch) = self.watch.as_ref() else {
            return;
        };
        let watched = self.events.lock().watched;
        for event in (0..watched).filter_map(|index| self.get(index)) {
            event.remove_watch(watch);
        }
    }
}
