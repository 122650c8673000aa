// SPDX-License-Identifier: GPL-2.0

//! All events, by name: making, finding and removing them. C: `struct user_event_group`.
//!
//! | an event is | when | goes on to |
//! |---|---|---|
//! | unregistered | it is being made, with `event_mutex` held; then only the tables know it | *in use*; or is freed, if the trace core does not take it |
//! | in use | there is an [`EventRef`] | *unused*, when the last is dropped |
//! | unused, persistent | it was made so, and there is no reference | *in use*, when it is registered again; *removed*, when it is deleted |
//! | unused, idle | it is not persistent: it is on the list `idle`, or just taken from there | *in use*, when it is registered again; *removed*, by the work queue, when it is deleted, or when its name is registered with other fields |
//! | removed | the trace core and the tables have forgotten it | is freed with the last pointer to it |
//!
//! The trace core can refer to an event that is unused (an event probe, a histogram, a trigger), and does not tell
//! when it stops. Such an event cannot be removed: the work queue looks at it again, and so does unloading.
//!
//! - [`event`]: one event; [`naming`]: its name in tracefs; [`misses`]: records that consumers could not take.
//! - [`enablers`]: the bits that show its state.
//! - [`table`]: the tables of all.

mod enablers;
mod event;
mod misses;
mod naming;
mod table;

pub(crate) use event::{
    Event,
    EventRef,
    RegFlags,
    UserEvent, //
};
pub(crate) use misses::Tally;
pub(crate) use naming::Naming;

use crate::schema::{
    self,
    Description, //
};
use crate::sys::event_mutex::{
    EventMutexGuard,
    EventMutexLocked, //
};
use crate::sys::kernel_crate::prelude::*;
use crate::sys::symbols::Symbols;
use crate::sys::sysctl::SysctlU32;
use crate::sys::trace_event::Removal;
use crate::sys::work_queue::OwnedQueue;
use event::{
    EventDesc,
    KVecSink, //
};
use kernel::list::{
    List,
    ListArc, //
};
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Release, //
};
use kernel::sync::{
    Arc,
    SpinLock, //
};
use kernel::time::{
    delay::fsleep,
    Delta, //
};
use kernel::workqueue::{
    self,
    Work,
    WorkItem, //
};
use kernel::{
    new_spinlock,
    new_work, //
};
use table::Events;

/// How many events there may be at once, unless the administrator sets another number. C: `max_user_events`.
const MAX_EVENTS: u32 = 32768;

/// How long to wait before looking again whether the trace core still refers to an unused event.
/// It does not tell when it stops.
const REFERENCE_POLL: Delta = Delta::from_millis(100);

/// All events of the system.
///
/// The events are protected by `event_mutex`, which the trace core holds anyway whenever it shows,
/// enables or deletes one.
#[pin_data]
pub(crate) struct Registry {
    symbols: Symbols,
    queue: Arc<OwnedQueue>,
    /// Events that have lost their last reference. The work is queued, or runs, while there are any.
    #[pin]
    idle: SpinLock<List<Event>>,
    #[pin]
    work: Work<Registry>,
    /// `kernel.user_events_max`.
    max: SysctlU32,
    events: EventMutexLocked<Events>,
    /// Set once, when the module is unloaded.
    closing: Atomic<bool>,
}

impl Registry {
    /// An empty registry, and `kernel.user_events_max`. `queue` is where work is done that cannot be done where it
    /// is noticed. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(symbols: Symbols, queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                symbols,
                queue,
                idle <- new_spinlock!(List::new(), "Registry::idle"),
                work <- new_work!("Registry::work"),
                max: SysctlU32::new(c"user_events_max", MAX_EVENTS)?,
                events: EventMutexLocked::new(Events::new()),
                closing: Atomic::new(false),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// The work queue.
    fn queue(&self) -> &OwnedQueue {
        &self.queue
    }

    /// A reference to the event that `description` describes, which is made if there is none. May sleep. The
    /// caller keeps the module loaded for as long as the reference exists.
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
        flags: RegFlags,
    ) -> Result<EventRef> {
        // Each walk over the description's own fields reads the text again.
        let mut fields = KVec::with_capacity(8, GFP_KERNEL_ACCOUNT)?;
        for field in description.fields() {
            fields.push(field, GFP_KERNEL_ACCOUNT)?;
        }
        let mut listing = KVecSink(KVec::with_capacity(
            description.text_len(),
            GFP_KERNEL_ACCOUNT,
        )?);
        schema::write_listing(description.name(), &fields, &mut listing)?;
        let listing = listing.0;
        let mut held = EventMutexGuard::lock(self.symbols);

        let events = self.events.get(&held);
        let found = if flags.multi_format {
            events.formats.get(|event| event.key().cmp(&listing))
        } else {
            let name = description.name();
            events.named.get(|event| event.key().cmp(name))
        };
        if let Some(event) = found.cloned() {
            if event.listing() == listing.as_slice() {
                return Ok(EventRef::get_locked(&event, &held));
            }
            // One that is idle is about to be removed: it is not in the way.
            if event.is_used() || event.is_persistent() {
                return Err(EADDRINUSE);
            }
            self.remove(event.removal(&mut held))
                .map_err(|_| EADDRINUSE)?;
        }

        let events = self.events.get_mut(&mut held);
        if events.count >= self.max.get() {
            return Err(EMFILE);
        }
        let id = events.take_id();
        let naming = if flags.multi_format {
            Naming::Multi(events.next_format)
        } else {
            Naming::Single
        };
        let desc = EventDesc {
            description,
            fields: &fields,
            listing: &listing,
        };
        let unregistered = UserEvent::new(self, id, naming, flags.persistent, desc)?;
        let event = unregistered.event().clone();
        self.events.get_mut(&mut held).add(&event)?;
        let first = EventRef::get_locked(&event, &held);
        if let Err(error) = unregistered.register(&mut held) {
            self.events.get_mut(&mut held).remove(&event);
            return Err(error);
        }
        self.events.get_mut(&mut held).count_format(&event);
        Ok(first)
    }

    /// Deletes the event registered as `name`, in all its formats. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is none; `EBUSY` when one of them is used; `EPERM` when one is
    /// persistent and `may_delete_persistent` is not set. None is deleted then.
    pub(crate) fn delete(&self, name: &[u8], may_delete_persistent: bool) -> Result {
        let mut held = EventMutexGuard::lock(self.symbols);
        let mut found = KVec::new();
        let events = self.events.get(&held);
        if let Some(event) = events.named.get(|event| event.key().cmp(name)) {
            found.push(event.clone(), GFP_KERNEL_ACCOUNT)?;
        }
        let formats = events.formats.values_from(|event| event.key().cmp(name));
        for event in formats.take_while(|event| event.registered_name() == name) {
            found.push(event.clone(), GFP_KERNEL_ACCOUNT)?;
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
            self.remove(event.removal(&mut held))?;
        }
        Ok(())
    }

    /// Takes an unused event away from the trace core and forgets it.
    ///
    /// # Errors
    ///
    /// `EBUSY` when it is used, or something in the trace core refers to it.
    pub(crate) fn remove(&self, removal: Removal<'_, UserEvent>) -> Result {
        if removal.event().is_used() {
            return Err(EBUSY);
        }
        let (event, held) = removal.unregister()?;
        self.events.get_mut(held).remove(event);
        Ok(())
    }

    /// Has an event that has lost its last reference removed by the work queue, unless it gets a new one
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

    /// Removes the events that have lost their last reference. Runs on the work queue; may sleep.
    ///
    /// The trace core can still refer to an event without being attached to it (an event probe, a
    /// histogram); then this waits for it to stop.
    fn retire_idle(&self) {
        let mut batch = List::new();
        let mut referenced = List::new();
        loop {
            // Off the list before it is looked at, and while the lock is held: a task that drops a last
            // reference from here on lists it again. The latest first, as the trace core does not search
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
                    fsleep(REFERENCE_POLL);
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
        let by_id = &self.events.get(&held).by_id;
        let is_known = by_id.get(|other| other.id().cmp(&event.id())).is_some();
        if is_known && !event.is_used() {
            self.remove(event.removal(&mut held))?;
        }
        Ok(())
    }

    /// Calls `show` for the first event with this number or a higher one, with `event_mutex` held,
    /// and returns what it returns; `None` if there is no such event. May sleep.
    pub(crate) fn with_event_from<T>(&self, id: u64, show: impl FnOnce(&Event) -> T) -> Option<T> {
        let held = EventMutexGuard::lock(self.symbols);
        let by_id = &self.events.get(&held).by_id;
        let event = by_id.get_from(|event| event.id().cmp(&id))?;
        Some(show(event))
    }

    /// The number that the next event gets. May sleep.
    pub(crate) fn next_id(&self) -> u64 {
        let held = EventMutexGuard::lock(self.symbols);
        self.events.get(&held).next_id
    }

    /// Has the work queue look no more whether the trace core still refers to unused events. For the module's
    /// exit: the work queue can be waited for then.
    pub(crate) fn begin_close(&self) {
        self.closing.store(true, Release);
    }

    /// Removes all events and waits for all work. For the module's exit: there is no reference to any event, and
    /// none can be taken any more. May sleep.
    ///
    /// An event that the trace core still refers to has to be waited for; the administrator is told
    /// how to end that.
    pub(crate) fn close(&self) {
        self.begin_close();
        let mut warned = false;
        loop {
            let mut held = EventMutexGuard::lock(self.symbols);
            let Some(event) = self.events.get(&held).by_id.values().next().cloned() else {
                break;
            };
            if self.remove(event.removal(&mut held)).is_ok() {
                continue;
            }
            drop(held);
            if !warned {
                warned = true;
                pr_warn!(
                    "unloading waits for event probes and triggers that refer to its events\n"
                );
            }
            fsleep(REFERENCE_POLL);
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
