// SPDX-License-Identifier: GPL-2.0

//! Ranges of a group's events, for listings, which show one event at a time.

use crate::events::{
    Event,
    Group, //
};

/// The events with the numbers of a range. Events that come or go meanwhile do not change the order
/// of the others.
#[derive(Clone, Copy)]
pub(crate) struct EventRange {
    from: u64,
    /// The number behind the last one.
    end: u64,
}

impl EventRange {
    /// All events that exist now: so a listing ends, although events are made meanwhile.
    pub(crate) fn all(group: &Group) -> Self {
        Self {
            from: 0,
            end: group.next_id(),
        }
    }

    /// Calls `show` for the first event of the range that still exists, with `event_mutex` held.
    /// Returns the rest of the range and the result of `show`; `None` if the range has no event.
    /// May sleep.
    pub(crate) fn with_first<T>(
        self,
        group: &Group,
        show: impl FnOnce(&Event) -> T,
    ) -> Option<(Self, T)> {
        let end = self.end;
        let shown = group.with_event_from(self.from, |event| {
            let from = event.id() + 1;
            (from <= end).then(|| (Self { from, end }, show(event)))
        });
        shown.flatten()
    }
}
