// SPDX-License-Identifier: GPL-2.0

//! Removed events, the records of which may still be in the trace buffers. The trace core prints
//! these records by them, and the same event gets its number back if it is registered again. No
//! listing shows them.

use super::event::{
    Event,
    UserEvent, //
};
use super::group::Group;
use super::naming::Naming;
use crate::sys::event_mutex::{
    EventMutexHeld,
    EventMutexLocked, //
};
use crate::sys::trace_event::{
    EventClass,
    Instances,
    KeptEvent,
    KeptList, //
};
use kernel::prelude::*;
use kernel::sync::Arc;

/// The most events that are kept, of all groups. Each takes some 1000 bytes, which stay charged to
/// the memory cgroup of the program that registered it.
const MAX_KEPT: usize = 4096;

/// The number of lists. The hash of the name selects one.
const LISTS: usize = 64;

pub(super) struct KeptEvents {
    lists: [KeptList<UserEvent>; LISTS],
    count: EventMutexLocked<usize>,
    /// The class of a kept event while [`Instances::reset_buffers`] adds it to the trace core
    /// again.
    class: Arc<EventClass<UserEvent>>,
}

/// How an event that is kept is found again: by its group, its description, and whether it is one
/// of several formats.
#[derive(Clone, Copy)]
pub(super) struct KeptKey<'a> {
    pub(super) group: &'a Arc<Group>,
    pub(super) listing: &'a [u8],
    pub(super) hash: u32,
    pub(super) is_format: bool,
}

impl KeptKey<'_> {
    fn matches(&self, event: &Event) -> bool {
        event.name_hash() == self.hash
            && event.listing() == self.listing
            && Arc::ptr_eq(event.group(), self.group)
            && matches!(event.naming(), Naming::Multi(_)) == self.is_format
    }
}

impl KeptEvents {
    /// No events. May sleep.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            lists: [const { KeptList::new() }; LISTS],
            count: EventMutexLocked::new(0),
            class: EventClass::new(&[b"user_events.gone"])?,
        })
    }

    fn list(&self, hash: u32, held: &EventMutexHeld) -> Option<&KeptList<UserEvent>> {
        let is_any = *self.count.get(held) != 0;
        is_any.then_some(self.lists.get(hash as usize % LISTS)?)
    }

    /// Takes an event out, if it is kept.
    pub(super) fn take(
        &self,
        key: KeptKey<'_>,
        held: &mut EventMutexHeld,
    ) -> Option<KeptEvent<UserEvent>> {
        let list = self.list(key.hash, held)?;
        let taken = list
            .extract(|kept, _| key.matches(kept.event()), held)
            .pop(held)?;
        self.adjust_counts(&taken, held, |count| count.saturating_sub(1));
        Some(taken)
    }

    fn adjust_counts(
        &self,
        kept: &KeptEvent<UserEvent>,
        held: &mut EventMutexHeld,
        change: fn(usize) -> usize,
    ) {
        for count in [&self.count, kept.event().group().kept()] {
            let count = count.get_mut(held);
            *count = change(*count);
        }
    }

    /// Keeps an event. If there are more than [`MAX_KEPT`] then, forgets the older half of the
    /// events of the group with the most, list by list. Returns whether events were forgotten. May
    /// sleep.
    pub(super) fn add(&self, kept: KeptEvent<UserEvent>, held: &mut EventMutexHeld) -> bool {
        let hash = kept.event().name_hash();
        if let Some(list) = self.lists.get(hash as usize % LISTS) {
            self.adjust_counts(&kept, held, |count| count + 1);
            list.push(kept, held);
        }
        // If there is no memory for that, the next event tries again.
        *self.count.get(held) > MAX_KEPT && self.forget_half(held).is_ok()
    }

    fn forget_half(&self, held: &mut EventMutexHeld) -> Result {
        let groups =
            (self.lists.iter()).flat_map(|list| list.iter(held).map(|kept| kept.event().group()));
        let Some(group) = groups.max_by_key(|group| *group.kept().get(held)) else {
            return Ok(());
        };
        let mut forgotten = Instances::NONE;
        for list in &self.lists {
            let its = || (list.iter(held)).filter(|kept| Arc::ptr_eq(kept.event().group(), group));
            // The newer ones come first.
            for older in its().skip(its().count() / 2) {
                forgotten.add_all(older.event().recorded_in(held));
            }
        }
        self.forget(&forgotten, held)
    }

    /// Forgets all events. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(super) fn forget_all(&self, held: &mut EventMutexHeld) -> Result {
        let mut forgotten = Instances::NONE;
        for kept in self.lists.iter().flat_map(|list| list.iter(held)) {
            forgotten.add_all(kept.event().recorded_in(held));
        }
        self.forget(&forgotten, held)
    }

    /// Gives back the numbers of all events, without a reset of the buffers.
    pub(super) fn drop_all(&self, held: &mut EventMutexHeld) {
        for list in &self.lists {
            while list.pop(held).is_some() {}
        }
    }

    /// Resets the buffers of these instances, and forgets the events that were recorded in no
    /// others.
    fn forget(&self, forgotten: &Instances, held: &mut EventMutexHeld) -> Result {
        for list in &self.lists {
            // `reset_buffers` takes any kept event.
            if let Some(kept) = list.pop(held) {
                let reset = forgotten.reset_buffers(&kept, &self.class, held);
                list.push(kept, held);
                reset?;
                break;
            }
        }
        for list in &self.lists {
            let gone = list.extract(
                |kept, held| forgotten.contains_all(kept.event().recorded_in(held)),
                held,
            );
            while let Some(kept) = gone.pop(held) {
                self.adjust_counts(&kept, held, |count| count.saturating_sub(1));
            }
        }
        Ok(())
    }
}
