// SPDX-License-Identifier: GPL-2.0

//! All events, by name.

use crate::event::{Event, Place, Request, Text, Use, UserEvent};
use crate::schema::Description;
use crate::sys::event_mutex::{ByEventMutex, EventMutexGuard, EventMutexHeld};
use crate::sys::symbols::Symbols;
use crate::sys::sysctl::Number;
use crate::sys::work_queue::OwnedQueue;
use core::cmp::Ordering;
use kernel::list::{List, ListArc};
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::{Arc, SpinLock};
use kernel::time::{delay::fsleep, Delta};
use kernel::workqueue::{self, Work, WorkItem};
use kernel::{new_spinlock, new_work};

/// Most events at once, if the administrator does not say otherwise.
const MOST_EVENTS: u32 = 32768;

/// How long to wait before looking again whether the trace core still refers to an unused event.
/// It does not tell when it stops.
const RETRY_AFTER: Delta = Delta::from_millis(100);

/// All events of the system.
///
/// The events are protected by `event_mutex`, which the trace core holds anyway whenever it shows,
/// enables or deletes one.
#[pin_data]
pub(crate) struct Registry {
    symbols: Symbols,
    queue: OwnedQueue,
    /// Events that have lost their last user. The work is to be done, or at it, while there are any.
    #[pin]
    idle: SpinLock<List<Event>>,
    #[pin]
    work: Work<Registry>,
    most: Number,
    events: ByEventMutex<Events>,
    /// Set once, when the module is unloaded.
    closing: Atomic<bool>,
}

/// The events.
struct Events {
    /// Those that are alone with their name, by name.
    named: RBTree<Key, Arc<Event>>,
    /// Those that share their name with other formats, by listing, so that those with the same name
    /// stand together.
    formats: RBTree<Key, Arc<Event>>,
    /// All, by age.
    by_id: RBTree<u64, Arc<Event>>,
    count: u32,
    next_id: u64,
    next_format: u64,
}

impl Events {
    /// Those that are alone with their name, or those that are not.
    fn keyed(&mut self, place: Place) -> &mut RBTree<Key, Arc<Event>> {
        match place {
            Place::Named => &mut self.named,
            Place::Format(_) => &mut self.formats,
        }
    }

    /// Forgets an event.
    fn remove(&mut self, event: &Arc<Event>) {
        if self.by_id.remove(&event.id()).is_some() {
            self.keyed(event.place()).remove(&Key::Event(event.clone()));
            self.count -= 1;
        }
    }
}

/// What an event is found by: its name, or for a format its listing. Only compared with keys of the
/// same tree.
enum Key {
    Event(Arc<Event>),
    Text(KVec<u8>),
}

impl Key {
    /// A copy of `text`, to look for it.
    fn text(text: &[u8]) -> Result<Self> {
        let mut copy = KVec::new();
        copy.extend_from_slice(text, GFP_KERNEL)?;
        Ok(Self::Text(copy))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Key::Event(event) => match event.place() {
                Place::Named => event.registered_name(),
                Place::Format(_) => event.listing(),
            },
            Key::Text(text) => text,
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl Registry {
    /// An empty registry, and `kernel.user_events_max`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(symbols: Symbols) -> Result<Arc<Self>> {
        let events = Events {
            named: RBTree::new(),
            formats: RBTree::new(),
            by_id: RBTree::new(),
            count: 0,
            next_id: 0,
            next_format: 0,
        };
        Arc::pin_init(
            try_pin_init!(Self {
                symbols,
                queue: OwnedQueue::new()?,
                idle <- new_spinlock!(List::new(), "Registry::idle"),
                work <- new_work!("Registry::work"),
                most: Number::new(c"user_events_max", MOST_EVENTS)?,
                events: ByEventMutex::new(events),
                closing: Atomic::new(false),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Where work is done that cannot be done where it is noticed.
    pub(crate) fn queue(&self) -> &OwnedQueue {
        &self.queue
    }

    /// A use of the event that `description` describes; it is made if there is none. May sleep. The
    /// caller keeps the module loaded for as long as the use exists.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when the event exists with other fields, and is not to be one of several
    /// formats; `EMFILE` when there are too many events; `EINVAL` when a format's name would be too
    /// long; `ENODEV` when the module is being unloaded; `ENOMEM`, and what the trace core fails
    /// with.
    pub(crate) fn register(
        self: &Arc<Self>,
        description: &Description<'_>,
        request: Request,
    ) -> Result<Use> {
        let mut listing = Text(KVec::with_capacity(
            description.text_len(),
            GFP_KERNEL_ACCOUNT,
        )?);
        description.write_listing(&mut listing)?;
        let listing = listing.0;
        let key = Key::text(if request.multi_format {
            &listing
        } else {
            description.name()
        })?;
        let mut held = EventMutexGuard::lock(self.symbols);

        let events = self.events.get(&held);
        let found = if request.multi_format {
            events.formats.get(&key)
        } else {
            events.named.get(&key)
        };
        if let Some(event) = found.cloned() {
            if event.listing() == listing.as_slice() {
                return Ok(Use::first(&event, &held));
            }
            // One that nobody uses is about to be retired: it is not in the way.
            if event.is_used() || event.is_persistent() {
                return Err(EADDRINUSE);
            }
            self.remove(&event, &mut held).map_err(|_| EADDRINUSE)?;
        }

        let events = self.events.get(&held);
        if events.count >= self.most.get() {
            return Err(EMFILE);
        }
        let id = events.next_id;
        let place = if request.multi_format {
            Place::Format(events.next_format)
        } else {
            Place::Named
        };
        let event = UserEvent::new(self, id, place, request.persistent, description, listing)?;
        let by_key = RBTreeNode::new(Key::Event(event.clone()), event.clone(), GFP_KERNEL_ACCOUNT)?;
        let by_id = RBTreeNode::new(id, event.clone(), GFP_KERNEL_ACCOUNT)?;
        let first = Use::first(&event, &held);
        event.publish(&mut held)?;

        let events = self.events.get_mut(&mut held);
        events.keyed(place).insert(by_key);
        events.by_id.insert(by_id);
        events.count += 1;
        events.next_id += 1;
        if request.multi_format {
            events.next_format += 1;
        }
        Ok(first)
    }

    /// Deletes the event registered as `name`, in all its formats. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is none; `EBUSY` when one of them is used; `EPERM` when one is
    /// persistent and `may_delete_persistent` is not set. None is deleted then.
    pub(crate) fn delete(&self, name: &[u8], may_delete_persistent: bool) -> Result {
        let key = Key::text(name)?;
        let mut held = EventMutexGuard::lock(self.symbols);
        let mut found = KVec::new();
        let events = self.events.get_mut(&mut held);
        if let Some(event) = events.named.get(&key) {
            found.push(event.clone(), GFP_KERNEL)?;
        }
        let mut next = events.formats.cursor_lower_bound_mut(&key);
        while let Some(cursor) = next {
            let (_, event) = cursor.current();
            if event.registered_name() != name {
                break;
            }
            found.push(event.clone(), GFP_KERNEL)?;
            next = cursor.move_next();
        }

        if found.is_empty() {
            return Err(ENOENT);
        }
        if found
            .iter()
            .any(|event| event.is_used() || event.is_referenced(&held))
        {
            return Err(EBUSY);
        }
        if !may_delete_persistent && found.iter().any(|event| event.is_persistent()) {
            return Err(EPERM);
        }
        for event in found {
            self.remove(&event, &mut held)?;
        }
        Ok(())
    }

    /// Takes an unused event away from the trace core and forgets it.
    ///
    /// # Errors
    ///
    /// `EBUSY` when it is used, or something in the trace core refers to it.
    pub(crate) fn remove(&self, event: &Arc<Event>, held: &mut EventMutexHeld) -> Result {
        if event.is_used() {
            return Err(EBUSY);
        }
        event.withdraw(held)?;
        self.events.get_mut(held).remove(event);
        Ok(())
    }

    /// Has an event that has lost its last user removed by the work queue, unless it gets a new one
    /// first. Any context but interrupts.
    pub(crate) fn retire_later(self: &Arc<Self>, event: Arc<Event>) {
        let mut idle = self.idle.lock();
        let is_first = idle.is_empty();
        let listed = ListArc::try_from_arc(event).map(|event| idle.push_back(event));
        drop(idle);
        // Listed already, or queued already, is as good.
        if listed.is_ok() && is_first {
            let _ = self.queue.enqueue::<_, 0>(self.clone());
        }
    }

    /// Removes the events that have lost their last user. Runs on the work queue; may sleep.
    ///
    /// The trace core can still refer to an event without being attached to it (an event probe, a
    /// histogram); then this waits for it to stop.
    fn retire_idle(&self) {
        let mut batch = List::new();
        let mut referenced = List::new();
        loop {
            // Off the list before it is looked at, and while the lock is held: whoever drops a last
            // use from here on lists it again. The latest first, as the trace core does not search
            // long for it.
            let mut idle = self.idle.lock();
            if batch.is_empty() {
                batch.push_all_back(&mut idle);
            }
            let next = batch.pop_back().map(ListArc::into_arc);
            drop(idle);
            let is_closing = self.closing.load(Acquire);
            match next {
                Some(event) => {
                    if !is_closing && self.retire(&event).is_err() {
                        let listed = ListArc::try_from_arc(event);
                        let _ = listed.map(|event| referenced.push_back(event));
                    }
                }
                None if is_closing || referenced.is_empty() => break,
                None => {
                    fsleep(RETRY_AFTER);
                    batch.push_all_back(&mut referenced);
                }
            }
        }
    }

    /// Removes an event, unless it is used or has been removed.
    ///
    /// # Errors
    ///
    /// `EBUSY` when the trace core refers to it.
    fn retire(&self, event: &Arc<Event>) -> Result {
        let mut held = EventMutexGuard::lock(self.symbols);
        let is_known = self.events.get(&held).by_id.get(&event.id()).is_some();
        if is_known && !event.is_used() {
            self.remove(event, &mut held)?;
        }
        Ok(())
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
            if self.remove(&event, &mut held).is_ok() {
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

workqueue::impl_has_work! {
    impl HasWork<Self> for Registry { self.work }
}

impl WorkItem for Registry {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.retire_idle();
    }
}
