// SPDX-License-Identifier: GPL-2.0

//! The events of one group, by name: making, finding and removing them. C: `struct user_event_group`, of which there is
//! one there.

use super::changes::Changes;
use super::event::{
    Event,
    EventDesc,
    EventRef,
    KVecSink,
    RegFlags,
    UserEvent, //
};
use super::idle::{
    IdleEvents,
    REFERENCE_POLL, //
};
use super::limits::{
    ByteRate,
    MaxEvents, //
};
use super::naming::{
    Naming,
    Systems, //
};
use super::open_files::OpenFiles;
use super::table::Events;
use crate::schema::{
    self,
    Description,
    GroupLimits,
    GroupName, //
};
use crate::sys::event_mutex::{
    EventMutexGuard,
    EventMutexLocked, //
};
use crate::sys::kernel_crate::prelude::*;
use crate::sys::symbols::Symbols;
use crate::sys::sysctl::SysctlU32;
use crate::sys::trace_event::Removal;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;

/// How many events the first group may have, unless the administrator sets another number. C: `max_user_events`.
const MAX_EVENTS: u32 = 32768;

/// A group of events, whose names are its own.
///
/// The events are protected by `event_mutex`, which the trace core holds anyway whenever it shows,
/// enables or deletes one.
#[pin_data]
pub(crate) struct Group {
    symbols: Symbols,
    idle: Arc<IdleEvents>,
    systems: Systems,
    max_events: MaxEvents,
    byte_rate: Option<ByteRate>,
    pub(super) open_files: OpenFiles,
    events: EventMutexLocked<Events>,
    #[pin]
    changes: Changes,
}

/// What a group has, and how much of it is used.
pub(crate) struct Usage {
    /// Its events.
    pub(crate) events: u32,
    /// Those of them that there is a reference to, or that the trace core refers to.
    pub(crate) used_events: usize,
    /// Its data files that are open.
    pub(crate) open_files: usize,
}

impl Group {
    /// The first group, whose most events are `kernel.user_events_max`, or one with a name. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        symbols: Symbols,
        idle: &Arc<IdleEvents>,
        named: Option<(GroupName<'_>, GroupLimits)>,
    ) -> Result<Arc<Self>> {
        let (systems, max_events, byte_rate) = match named {
            None => {
                let max_events = SysctlU32::new(c"user_events_max", MAX_EVENTS)?;
                (Systems::first()?, MaxEvents::Sysctl(max_events), None)
            }
            Some((name, limits)) => (
                Systems::of_group(name)?,
                MaxEvents::Fixed(limits.events),
                limits.bytes_per_second.map(ByteRate::new),
            ),
        };
        let group = pin_init!(Self {
            symbols,
            idle: idle.clone(),
            systems,
            max_events,
            byte_rate,
            open_files: OpenFiles::new(),
            events: EventMutexLocked::new(Events::new()),
            changes <- Changes::new(),
        });
        Arc::pin_init(group, GFP_KERNEL_ACCOUNT)
    }

    /// Where tracefs shows the events.
    pub(crate) fn systems(&self) -> &Systems {
        &self.systems
    }

    /// How many bytes of payload may be recorded in a second, if that is limited.
    pub(crate) fn byte_rate(&self) -> Option<&ByteRate> {
        self.byte_rate.as_ref()
    }

    /// The changes of its events.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The events that wait for their removal, of all groups.
    pub(super) fn idle(&self) -> &Arc<IdleEvents> {
        &self.idle
    }

    /// A reference to the event that `description` describes, which is made if there is none. May sleep. The
    /// caller keeps the module loaded for as long as the reference exists.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when the event exists with other fields, and is not to be one of several
    /// formats; `EMFILE` when the group has too many events; `EINVAL` when a format's name would be too
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
        if events.count >= self.max_events.get() {
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
        // As many as there are formats: without memory the caller gets an error, and the log nothing.
        let flags = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
        let mut found = KVVec::new();
        let events = self.events.get(&held);
        if let Some(event) = events.named.get(|event| event.key().cmp(name)) {
            found.push(event.clone(), flags)?;
        }
        let formats = events.formats.values_from(|event| event.key().cmp(name));
        for event in formats.take_while(|event| event.registered_name() == name) {
            found.push(event.clone(), flags)?;
        }
        if found.is_empty() {
            return Err(ENOENT);
        }
        if found.iter().any(|event| event.is_busy(&held)) {
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

    /// Removes an event, unless it is used or has been removed.
    ///
    /// # Errors
    ///
    /// `EBUSY` when the trace core refers to it.
    pub(super) fn retire(&self, event: &Arc<Event>) -> Result {
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

    /// What the group has now, and how much of it is used. May sleep.
    pub(crate) fn usage(&self) -> Usage {
        let held = EventMutexGuard::lock(self.symbols);
        let events = self.events.get(&held);
        let used = events.by_id.values().filter(|event| event.is_busy(&held));
        Usage {
            events: events.count,
            used_events: used.count(),
            open_files: self.open_files.count(),
        }
    }

    /// Removes all events, and lets the group be used no more. May sleep; `event_mutex` is held for as long as
    /// that takes, so that no consumer comes in between.
    ///
    /// # Errors
    ///
    /// `EBUSY` when an event is used, or something in the trace core refers to it, or a data file is open. Nothing
    /// has changed then.
    pub(crate) fn close_unused(&self) -> Result {
        let mut held = EventMutexGuard::lock(self.symbols);
        let is_used = (self.events.get(&held).by_id.values()).any(|event| event.is_busy(&held));
        if is_used {
            return Err(EBUSY);
        }
        // What is not used now is not from here on: that takes an open file, or `event_mutex`.
        self.open_files.close()?;
        loop {
            let Some(event) = self.events.get(&held).by_id.values().next().cloned() else {
                return Ok(());
            };
            if let Err(error) = self.remove(event.removal(&mut held)) {
                self.open_files.reopen();
                return Err(error);
            }
        }
    }

    /// Removes all events. For the module's exit: there is no reference to any event, and none can be taken any
    /// more. May sleep.
    ///
    /// An event that the trace core still refers to has to be waited for; the administrator is told
    /// how to end that.
    pub(crate) fn close(&self) {
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
    }
}
