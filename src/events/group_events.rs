// SPDX-License-Identifier: GPL-2.0

//! The tables of all events.

use super::event::Event;
use super::naming::Naming;
use crate::sorted_arcs::{
    NodeMemory,
    Order,
    Shortfall,
    SortedArcs, //
};
use crate::sys::string_hash::name_hash;
use core::cmp::Ordering;
use core::num::NonZero;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The events, by name and by age.
pub(super) struct GroupEvents {
    /// By name: the one that is alone with it, then the formats, by listing.
    pub(super) by_name: SortedArcs<Event, ByName>,
    /// By age.
    pub(super) by_id: SortedArcs<Event, ById>,
    /// How many there are.
    pub(super) count: u32,
    /// How many have been added.
    pub(super) additions: u64,
    /// The number that the next event gets.
    pub(super) next_id: u64,
    /// The number of the next format. Counts from 1.
    pub(super) next_format: NonZero<u64>,
}

impl GroupEvents {
    /// No events.
    pub(super) const fn new() -> Self {
        Self {
            by_name: SortedArcs::new(),
            by_id: SortedArcs::new(),
            count: 0,
            additions: 0,
            next_id: 0,
            next_format: NonZero::<u64>::MIN,
        }
    }

    /// Adds an event, in the room there is and that of `memory`. Allocates nothing.
    ///
    /// # Errors
    ///
    /// The memory that lacks something, and what; nothing has changed then.
    pub(super) fn add<'a>(
        &mut self,
        event: &Arc<Event>,
        [by_name, by_id]: &'a mut [NodeMemory<Event>; 2],
    ) -> Result<(), (&'a mut NodeMemory<Event>, Shortfall)> {
        if let Err(shortfall) = self.by_id.insert_with(event, by_id) {
            return Err((by_id, shortfall));
        }
        if let Err(shortfall) = self.by_name.insert_with(event, by_name) {
            let _ = self.by_id.remove(ById::cmp_to(event));
            return Err((by_name, shortfall));
        }
        self.count += 1;
        self.additions += 1;
        Ok(())
    }

    /// The event before `last`, or the last one: of all, by age; or of those that are registered as
    /// `name`.
    pub(super) fn prev_event(
        &self,
        name: Option<&[u8]>,
        last: Option<&Event>,
    ) -> Option<&Arc<Event>> {
        let Some(name) = name else {
            return (self.by_id).get_before(|event| match last {
                Some(last) => event.id().cmp(&last.id()),
                None => Ordering::Less,
            });
        };
        let hash = name_hash(name);
        let event = self.by_name.get_before(|event| match (last, event.key()) {
            (Some(last), _) => event.cmp_key(&last.key()),
            (None, key) => (key.0, key.1).cmp(&(hash, name)).then(Ordering::Less),
        });
        event.filter(|event| event.registered_name() == name)
    }

    /// A number that no event has had, not even one that could not be registered: that one may still
    /// be on its way to the work queue.
    pub(super) fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// The next format gets another number than this event, if that is one.
    pub(super) fn count_format(&mut self, event: &Event) {
        if let Naming::Multi(number) = event.naming() {
            self.next_format = number.saturating_add(1);
        }
    }

    /// Forgets an event.
    pub(super) fn remove(&mut self, event: &Arc<Event>) {
        let removed = self.by_id.remove(ById::cmp_to(event));
        if removed.is_some() {
            let _ = self.by_name.remove(ByName::cmp_to(event));
            self.count -= 1;
        }
    }
}

/// By name, and formats of one by listing.
pub(super) struct ByName;

impl Order<Event> for ByName {
    fn cmp_to(event: &Arc<Event>) -> impl Fn(&Arc<Event>) -> Ordering {
        let key = event.key();
        move |other| other.cmp_key(&key)
    }
}

/// By age.
pub(super) struct ById;

impl Order<Event> for ById {
    fn cmp_to(event: &Arc<Event>) -> impl Fn(&Arc<Event>) -> Ordering {
        let id = event.id();
        move |other| other.id().cmp(&id)
    }
}
