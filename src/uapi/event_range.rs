// SPDX-License-Identifier: GPL-2.0

//! Events of a group from one to another, as the listings go through them one by one.

use crate::events::{
    Event,
    Group, //
};

/// The events with numbers from one to another. What comes or goes meanwhile changes neither the
/// order nor the place of the others.
#[derive(Clone, Copy)]
pub(crate) struct EventRange {
    from: u64,
    /// The first that is not among them.
    end: u64,
}

impl EventRange {
    /// All that there are now: a listing comes to its end, however many are made meanwhile.
    pub(crate) fn all(group: &Group) -> Self {
        Self {
            from: 0,
            end: group.next_id(),
        }
    }

    /// Calls `show` for the first that is still there, with `event_mutex` held. Returns those behind
    /// it, and what `show` returns; `None` if there is none.
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
