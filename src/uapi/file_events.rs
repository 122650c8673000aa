// SPDX-License-Identifier: GPL-2.0

//! The state of one open file: its events by write index, the changes that its polls have reported,
//! and memory for its writes.

use super::event_index::EventIndex;
use crate::events::{
    Changes,
    EventRef, //
};
use crate::sys::append_vec::AppendVec;
use crate::sys::poll::{
    Poll, //
    PollKind,
};
use crate::write::RecordBufCache;
use core::mem;
use kernel::prelude::*;
use kernel::sync::Mutex;
use kernel::{
    new_mutex,
    static_lock_class, //
};

/// The events that were registered through one open file.
///
/// Indices count from 0. An entry stays until the file is closed, so entries are read without a
/// lock.
#[pin_data]
pub(crate) struct FileEvents {
    #[pin]
    events: AppendVec<EventRef, EventIndex>,
    #[pin]
    record_bufs: RecordBufCache,
    #[pin]
    poll_state: Mutex<PollState>,
}

/// The changes of the events that polls have reported, by the numbers of [`Changes`].
struct PollState {
    /// The group's last change at the last poll of [`PollKind::Consume`].
    reported: u64,
    /// The group's last change at the last poll of [`PollKind::Subscribe`]: that waiter polls again
    /// before it reports.
    offered: u64,
    /// The events' changes up to this number are ignored: an event was registered after a change of
    /// its state, which is not to be reported.
    base: u64,
    /// A change is to be reported, whatever its number.
    is_owed: bool,
    /// A change is to be offered to new waiters, whatever its number.
    is_offer_owed: bool,
}

impl FileEvents {
    pub(crate) fn new() -> impl PinInit<Self> {
        let poll_state = PollState {
            reported: 0,
            offered: 0,
            base: 0,
            is_owed: false,
            is_offer_owed: false,
        };
        pin_init!(Self {
            events <- AppendVec::new(
                EventIndex::new(),
                c"FileEvents::events",
                static_lock_class!()
            ),
            record_bufs <- RecordBufCache::new(),
            poll_state <- new_mutex!(poll_state, "FileEvents::poll_state"),
        })
    }

    /// Memory for long records.
    #[inline]
    pub(super) fn record_bufs(&self) -> &RecordBufCache {
        &self.record_bufs
    }

    /// The event with this index. Takes no lock.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&EventRef> {
        self.events.get(index)
    }

    /// The index of `event`, which is added if it has none. `seen` is the last number of `changes`
    /// before its bit was registered. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EMFILE` when no index is left.
    pub(crate) fn add(&self, event: EventRef, changes: &Changes, seen: u64) -> Result<u32> {
        let id = event.id();
        let id_at = |index| self.get(index).map(|event| event.id());
        let mut append = self.events.lock();
        if let Some(index) = append.state().get(id, id_at) {
            // The caller's reference is dropped without the lock.
            drop(append);
            return Ok(index);
        }
        append.state().reserve(id_at)?;
        append.reserve()?;
        // No poll runs between the read of the number and the entry in the table.
        let mut poll_state = self.poll_state.lock();
        let changed = event.change_seq();
        let index = append.push(event)?;
        append.state().insert(id, index);
        let since = poll_state.reported.max(poll_state.base);
        if changed > seen {
            // A poll meanwhile has not found the event in the table.
            (poll_state.is_owed, poll_state.is_offer_owed) = (true, true);
        } else if since < changed {
            // That change is older than the registration. Changes of other events are still to be
            // reported.
            let is_owed = self.has_changed(index, since, seen);
            poll_state.is_owed |= is_owed;
            poll_state.is_offer_owed |= is_owed && poll_state.offered < seen;
            poll_state.base = seen;
        }
        drop(poll_state);
        drop(append);
        if changed > seen {
            changes.queue().wake();
        }
        Ok(index)
    }

    /// Whether one of the first `count` events has its last change after `since`, up to `last`.
    fn has_changed(&self, count: u32, since: u64, last: u64) -> bool {
        let mut events = (0..count).map_while(|index| self.get(index));
        events.any(|event| (since + 1..=last).contains(&event.change_seq()))
    }

    /// Returns whether an event has changed since the last report, if the poll requests that. Adds
    /// the poll to the queue that a later change wakes. `changes` are those of the events' group.
    /// May sleep.
    pub(crate) fn poll<'a>(&'a self, poll: &Poll<'a>, changes: &'a Changes) -> bool {
        poll.wait(changes.queue());
        if !poll.wants_pri() {
            return false;
        }
        let mut poll_state = self.poll_state.lock();
        let last = changes.last();
        let kind = poll.kind();
        let before = match kind {
            PollKind::Consume => poll_state.reported,
            PollKind::Subscribe => poll_state.reported.max(poll_state.offered),
        };
        let since = before.max(poll_state.base);
        let mut is_owed = mem::take(&mut poll_state.is_offer_owed);
        match kind {
            PollKind::Consume => {
                is_owed = mem::take(&mut poll_state.is_owed);
                poll_state.reported = last;
            }
            PollKind::Subscribe => poll_state.offered = last,
        }
        let is_pri = is_owed || last > since && self.has_changed(u32::MAX, since, last);
        drop(poll_state);
        if is_pri && kind == PollKind::Subscribe {
            // A new waiter drops the result, or takes it for a report of its own: the wake-up makes
            // either poll once more.
            changes.queue().wake();
        }
        is_pri && kind == PollKind::Consume
    }
}
