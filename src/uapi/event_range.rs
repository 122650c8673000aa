// SPDX-License-Identifier: GPL-2.0

//! Events from one to another, as the listings go through them one by one.

use crate::events::{
    Event,
    Registry, //
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
    pub(crate) fn all(registry: &Registry) -> Self {
        Self {
            from: 0,
            end: registry.next_id(),
        }
    }

    /// Calls `show` for the first that is still there, with `event_mutex` held. Returns those behind
    /// it, and what `show` returns; `None` if there is none.
    pub(crate) fn with_first<T>(
        self,
        registry: &Registry,
        show: impl FnOnce(&Event) -> T,
    ) -> Option<(Self, T)> {
        let end = self.end;
        let shown = registry.with_event_from(self.from, |event| {
            let from = event.id() + 1;
            (from <= end).then(|| (Self { from, end }, show(event)))
        });
        shown.flatten()
    }
}
