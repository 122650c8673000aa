// SPDX-License-Identifier: GPL-2.0

//! The events of one open file, by write index, and what is kept for writes to them.

use super::event_index::EventIndex;
use super::spare_memory::SpareMemory;
use crate::events::EventRef;
use crate::sys::append_vec::AppendVec;
use kernel::prelude::*;
use kernel::static_lock_class;

/// The events that were registered through one open file.
///
/// Indices count from 0. An entry stays until the file is closed, so entries are read without a lock.
#[pin_data]
pub(crate) struct EventTable {
    #[pin]
    events: AppendVec<EventRef, EventIndex>,
    #[pin]
    spare: SpareMemory,
}

impl EventTable {
    /// A table without events.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            events <- AppendVec::new(EventIndex::new(), c"EventTable::events", static_lock_class!()),
            spare <- SpareMemory::new(),
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

    /// The index of `event`, which is added if it is not there. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EMFILE` when no index is left.
    pub(crate) fn add(&self, event: EventRef) -> Result<u32> {
        let id = event.id();
        let id_at = |index| self.get(index).map(|event| event.id());
        let mut append = self.events.lock();
        if let Some(index) = append.get(id, id_at) {
            // The reference that is not needed is dropped without the lock.
            drop(append);
            return Ok(index);
        }
        append.reserve(id_at)?;
        let index = append.push(event)?;
        append.insert(id, index);
        Ok(index)
    }
}
