// SPDX-License-Identifier: GPL-2.0

//! The events of a group, by name and by age.

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

pub(super) struct GroupEvents {
    /// By name and, among the formats of a name, by listing.
    pub(super) by_name: SortedArcs<Event, ByName>,
    pub(super) by_id: SortedArcs<Event, ById>,
    pub(super) count: u32,
    /// How many events have ever been added.
    pub(super) additions: u64,
    pub(super) next_id: u64,
    /// The number of the next format, from 1 on.
    pub(super) next_format: NonZero<u64>,
}

impl GroupEvents {
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

    /// Adds an event. Takes memory from `memory`, and allocates none.
    ///
    /// # Errors
    ///
    /// The memory that does not suffice, and what it lacks; nothing has changed then.
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

    /// The event before `last`, or the last one if that is `None`: of all, by age, or of those that
    /// were registered as `name`.
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

    /// A number that no event had before. The number of an event whose registration failed is not
    /// used again: the event may be on its way to the work queue.
    pub(super) fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Raises `next_format` above the number of the event, if the event is a format.
    pub(super) fn advance_next_format(&mut self, event: &Event) {
        if let Naming::Multi(number) = event.naming() {
            self.next_format = number.saturating_add(1);
        }
    }

    pub(super) fn remove(&mut self, event: &Arc<Event>) {
        let removed = self.by_id.remove(ById::cmp_to(event));
        if removed.is_some() {
            let _ = self.by_name.remove(ByName::cmp_to(event));
            self.count -= 1;
        }
    }
}

/// By name, and formats of one name by listing.
pub(super) struct ByName;

impl Order<Event> for ByName {
    fn cmp_to(event: &Arc<Event>) -> impl Fn(&Arc<Event>) -> Ordering {
        let key = event.key();
        move |other| other.cmp_key(&key)
    }
}

pub(super) struct ById;

impl Order<Event> for ById {
    fn cmp_to(event: &Arc<Event>) -> impl Fn(&Arc<Event>) -> Ordering {
        let id = event.id();
        move |other| other.id().cmp(&id)
    }
}
