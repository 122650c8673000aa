// SPDX-License-Identifier: GPL-2.0

//! All events, by name.

use crate::event::{Event, Use, UserEvent};
use crate::schema::Description;
use crate::sys::event_mutex::{ByEventMutex, EventMutexGuard, EventMutexHeld};
use crate::sys::symbols::Symbols;
use crate::sys::work_queue::OwnedQueue;
use core::cmp::Ordering;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta};

/// Most events at once.
const MOST_EVENTS: usize = 32768;

/// How long to wait before looking again whether the trace core still refers to an unused event.
/// It does not tell when it stops.
const RETRY_AFTER: Delta = Delta::from_millis(100);

/// All events of the system.
///
/// The events are protected by `event_mutex`, which the trace core holds anyway whenever it shows,
/// enables or deletes one.
pub(crate) struct Registry {
    symbols: Symbols,
    queue: OwnedQueue,
    events: ByEventMutex<Events>,
    /// Set once, when the module is unloaded.
    closing: Atomic<bool>,
}

/// The events, by name and by age.
struct Events {
    by_name: RBTree<Name, Arc<Event>>,
    by_id: RBTree<u64, Arc<Event>>,
    count: usize,
    next_id: u64,
}

impl Events {
    /// The event called `name`.
    fn find(&self, name: &Name) -> Option<&Arc<Event>> {
        self.by_name.get(name)
    }

    /// Forgets an event.
    fn remove(&mut self, name: &Name, id: u64) {
        if self.by_name.remove(name).is_some() {
            self.by_id.remove(&id);
            self.count -= 1;
        }
    }
}

/// A name as a key.
struct Name(KVec<u8>);

impl Name {
    /// A copy of `name`.
    fn new(name: &[u8]) -> Result<Self> {
        let mut copy = KVec::new();
        copy.extend_from_slice(name, GFP_KERNEL_ACCOUNT)?;
        Ok(Self(copy))
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.as_slice().cmp(other.0.as_slice())
    }
}

impl Registry {
    /// An empty registry.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(symbols: Symbols) -> Result<Arc<Self>> {
        let events = Events {
            by_name: RBTree::new(),
            by_id: RBTree::new(),
            count: 0,
            next_id: 0,
        };
        Ok(Arc::new(
            Self {
                symbols,
                queue: OwnedQueue::new()?,
                events: ByEventMutex::new(events),
                closing: Atomic::new(false),
            },
            GFP_KERNEL,
        )?)
    }

    /// Where work is done that cannot be done where it is noticed.
    pub(crate) fn queue(&self) -> &OwnedQueue {
        &self.queue
    }

    /// A use of the event that `description` describes; it is made if there is none. May sleep.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when the event exists with other fields, `EMFILE` when there are too many
    /// events, `ENODEV` when the module is being unloaded, `ENOMEM`, and what the trace core fails
    /// with.
    pub(crate) fn register(
        self: &Arc<Self>,
        description: &Description<'_>,
        persistent: bool,
    ) -> Result<Use> {
        let name = Name::new(description.name())?;
        let mut held = EventMutexGuard::lock(self.symbols);

        if let Some(event) = self.events.get(&held).find(&name) {
            if event.has_fields_of(description) {
                return Use::first(event, &held);
            }
            // One that nobody uses is about to be retired: it is not in the way.
            let event = event.clone();
            if event.is_used() || event.is_persistent() {
                return Err(EADDRINUSE);
            }
            self.remove(&event, &name, &mut held)
                .map_err(|_| EADDRINUSE)?;
        }

        let events = self.events.get_mut(&mut held);
        if events.count >= MOST_EVENTS {
            return Err(EMFILE);
        }
        let id = events.next_id;
        events.next_id += 1;
        let event = UserEvent::new(self, id, description, persistent)?;
        let by_name = RBTreeNode::new(name, event.clone(), GFP_KERNEL_ACCOUNT)?;
        let by_id = RBTreeNode::new(id, event.clone(), GFP_KERNEL_ACCOUNT)?;
        let first = Use::first(&event, &held)?;
        event.publish(&mut held)?;

        let events = self.events.get_mut(&mut held);
        events.by_name.insert(by_name);
        events.by_id.insert(by_id);
        events.count += 1;
        Ok(first)
    }

    /// Deletes the event called `name`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is none; `EPERM` when it is persistent and `may_delete_persistent` is
    /// not set; `EBUSY` when it is used.
    pub(crate) fn delete(&self, name: &[u8], may_delete_persistent: bool) -> Result {
        let name = Name::new(name)?;
        let mut held = EventMutexGuard::lock(self.symbols);
        let event = self.events.get(&held).find(&name).ok_or(ENOENT)?.clone();
        if event.is_persistent() && !may_delete_persistent {
            return Err(EPERM);
        }
        self.remove(&event, &name, &mut held)
    }

    /// Takes an unused event away from the trace core and forgets it.
    fn remove(&self, event: &Arc<Event>, name: &Name, held: &mut EventMutexHeld) -> Result {
        if event.is_used() {
            return Err(EBUSY);
        }
        event.withdraw(held)?;
        self.events.get_mut(held).remove(name, event.id());
        Ok(())
    }

    /// Removes an event that has lost its last user, unless it has got a new one since. Runs on
    /// the work queue; may sleep.
    ///
    /// The trace core can still refer to an event without being attached to it (an event probe, a
    /// histogram); then this waits for it to stop.
    pub(crate) fn retire(&self, event: Arc<Event>) {
        let Ok(name) = Name::new(event.name()) else {
            // Without memory the event stays until it is used, registered or unloaded again.
            return;
        };
        while !self.closing.load(Acquire) {
            let mut held = EventMutexGuard::lock(self.symbols);
            let is_known = self
                .events
                .get(&held)
                .find(&name)
                .is_some_and(|known| known.id() == event.id());
            if !is_known || event.is_used() || self.remove(&event, &name, &mut held).is_ok() {
                return;
            }
            drop(held);
            fsleep(RETRY_AFTER);
        }
    }

    /// Calls `each` for every event, the oldest first. `event_mutex` is held meanwhile.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&Event)) {
        let held = EventMutexGuard::lock(self.symbols);
        for event in self.events.get(&held).by_id.values() {
            each(event);
        }
    }

    /// Removes all events and waits for all work. For the module's exit: nobody uses any event, and
    /// nobody can begin to. May sleep.
    ///
    /// An event that the trace core still refers to has to be waited for; the administrator is told
    /// how to end that.
    pub(crate) fn close(&self) {
        self.closing.store(true, Release);
        let mut told = false;
        loop {
            let mut held = EventMutexGuard::lock(self.symbols);
            let Some(event) = self.events.get(&held).by_id.values().next().cloned() else {
                break;
            };
            let removed = event.withdraw(&mut held);
            if removed.is_ok() {
                let events = self.events.get_mut(&mut held);
                if let Ok(name) = Name::new(event.name()) {
                    events.remove(&name, event.id());
                }
                continue;
            }
            drop(held);
            if !told {
                told = true;
                pr_warn!(
                    "unloading waits for event probes and triggers that refer to its events\n"
                );
            }
            fsleep(RETRY_AFTER);
        }
        self.queue.drain();
    }
}
