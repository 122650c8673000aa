// SPDX-License-Identifier: GPL-2.0

//! One event: its texts, its trace event, and the references to it. C: `struct user_event`.
//!
//! An [`EventRef`] is held by an entry of an open file's table, by an enabler, and by the event
//! itself while a consumer is attached. When the last reference is dropped, an event that is not
//! persistent is queued for its removal. Each holder keeps the module loaded.

use super::changes::ChangeSeq;
use super::group::Group;
use super::misses::Misses;
use super::naming::{
    format_name,
    KVecSink,
    Naming, //
};
use super::toggle::Enablers;
use crate::schema::{
    self,
    Description,
    Field, //
};
use crate::sys::event_mutex::{
    EventMutexHeld,
    EventMutexLocked, //
};
use crate::sys::module_ref::ModuleRef;
use crate::sys::string_hash::name_hash;
use crate::sys::trace_event::{
    self,
    TraceEvent,
    TraceEventOwner,
    UnregisteredEvent, //
};
use core::cmp::Ordering;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::{
    Arc,
    Mutex, //
};

/// A user event, which may be registered with the trace core.
pub(crate) type Event = TraceEvent<UserEvent>;

/// A reference to a user event. C: `user_event_get()`, `user_event_put()`.
pub(crate) type EventRef = trace_event::EventRef<UserEvent>;

/// The part of a trace event that is of user events.
#[pin_data]
pub(crate) struct UserEvent {
    /// Unique in the group, also among removed events, and rising: the order of listings.
    id: u64,
    naming: Naming,
    name_hash: u32,
    /// The length of the name that the event was registered with, which the listing begins with.
    name_len: u16,
    persistent: bool,
    group: Arc<Group>,
    #[pin]
    pub(super) enablers: Mutex<Enablers>,
    /// Not 0: the state has changed, and no holder of `enablers` has seen that yet.
    pub(super) toggle_pending: Atomic<i32>,
    pub(super) change_seq: ChangeSeq,
}

/// What an event has from its first consumer on.
pub(crate) struct ConsumerData {
    misses: Misses,
    /// References that are held while a consumer is attached.
    refs: EventMutexLocked<Option<(EventRef, ModuleRef)>>,
}

impl Default for ConsumerData {
    fn default() -> Self {
        Self {
            misses: Misses::new(),
            refs: EventMutexLocked::new(None),
        }
    }
}

/// How an event is registered. C: `reg_flags` of `struct user_event`.
#[derive(Clone, Copy)]
pub(crate) struct RegFlags {
    /// The event stays when there is no reference to it. C: `USER_EVENT_REG_PERSIST`.
    pub(crate) persistent: bool,
    /// Other events may have the same name, with other fields. C: `USER_EVENT_REG_MULTI_FORMAT`.
    pub(crate) multi_format: bool,
}

/// A valid description, with its fields and its listing.
pub(crate) struct EventDesc<'a> {
    description: Description<'a>,
    fields: KVec<Field<'a>>,
    listing: KVecSink,
}

/// The key of an event in its group: a hash of the name, for a quick comparison, the name, and the
/// listing if the event is one of several formats.
pub(super) type EventKey<'a> = (u32, &'a [u8], &'a [u8]);

impl<'a> EventDesc<'a> {
    /// Parses the fields. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and the error of the first field that is not valid.
    pub(crate) fn new(description: Description<'a>) -> Result<Self> {
        let mut fields = KVec::with_capacity(8, GFP_KERNEL_ACCOUNT)?;
        for field in description.fields() {
            fields.push(field?, GFP_KERNEL_ACCOUNT)?;
        }
        let capacity = description.text_len();
        let mut listing = KVecSink(KVec::with_capacity(capacity, GFP_KERNEL_ACCOUNT)?);
        schema::write_listing(description.name(), &fields, &mut listing)?;
        Ok(Self {
            description,
            fields,
            listing,
        })
    }

    pub(super) fn has_plain_name(&self) -> bool {
        self.description.has_plain_name()
    }

    pub(super) fn listing(&self) -> &[u8] {
        &self.listing.0
    }

    pub(super) fn key(&self, is_format: bool) -> EventKey<'_> {
        let name = self.description.name();
        let listing = if is_format { self.listing() } else { &[] };
        (name_hash(name), name, listing)
    }
}

impl UserEvent {
    /// Makes an event that no table lists yet. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` when the name in tracefs would be too long.
    pub(super) fn new(
        group: &Arc<Group>,
        id: u64,
        naming: Naming,
        persistent: bool,
        desc: &EventDesc<'_>,
    ) -> Result<UnregisteredEvent<UserEvent>> {
        let registered_name = desc.description.name();
        let numbered;
        let name = match naming {
            Naming::Single => registered_name,
            Naming::Multi(number) => {
                numbered = format_name(registered_name, number)?;
                numbered.as_slice()
            }
        };
        // Enough for most: conversions and `REC->` are longer than the types for which they stand.
        let mut print_fmt = KVecSink(KVec::with_capacity(
            2 * desc.description.text_len() + 64,
            GFP_KERNEL_ACCOUNT,
        )?);
        schema::write_print_fmt(&desc.fields, &mut print_fmt)?;
        let event = try_pin_init!(Self {
            id,
            naming,
            name_hash: name_hash(registered_name),
            name_len: u16::try_from(registered_name.len()).map_err(|_| EINVAL)?,
            persistent,
            group: group.clone(),
            enablers <- new_mutex!(Enablers::new(), "UserEvent::enablers"),
            toggle_pending: Atomic::new(0),
            change_seq: ChangeSeq::new(),
        }? Error);
        let class = group.systems().class(naming);
        let listing = desc.listing();
        TraceEvent::new_unregistered(class, name, listing, &print_fmt.0, &desc.fields, event)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn name_hash(&self) -> u32 {
        self.name_hash
    }

    pub(super) fn naming(&self) -> Naming {
        self.naming
    }

    pub(crate) fn group(&self) -> &Arc<Group> {
        &self.group
    }

    pub(crate) fn is_persistent(&self) -> bool {
        self.persistent
    }
}

impl Event {
    /// The description in its listed form, in which events of one name differ.
    pub(crate) fn listing(&self) -> &[u8] {
        self.owner_text()
    }

    /// The name that the event was registered with. The one in tracefs is [`TraceEvent::name`].
    pub(crate) fn registered_name(&self) -> &[u8] {
        let name = self.listing().get(..usize::from(self.name_len));
        name.unwrap_or_default()
    }

    /// The records that were missed, if a consumer has ever attached.
    #[inline]
    pub(crate) fn misses(&self) -> Option<&Misses> {
        Some(&self.consumer_data()?.misses)
    }

    /// Counts a write that failed although a consumer was attached. Any context.
    #[cold]
    pub(crate) fn count_failed_write(&self) {
        if let Some(misses) = self.misses() {
            misses.add_failed_write();
        }
    }

    pub(super) fn key(&self) -> EventKey<'_> {
        let format = match self.naming {
            Naming::Single => &[],
            Naming::Multi(_) => self.listing(),
        };
        (self.name_hash, self.registered_name(), format)
    }

    #[inline]
    pub(super) fn cmp_key(&self, key: &EventKey<'_>) -> Ordering {
        (self.name_hash.cmp(&key.0)).then_with(|| self.key().cmp(key))
    }
}

impl TraceEventOwner for UserEvent {
    type ConsumerData = ConsumerData;

    fn first_attaches(event: &Arc<Event>, held: &mut EventMutexHeld) -> Result {
        // The group is closed: its events are being removed, in several holds of the mutex.
        if event.group.open_files.are_closed() {
            return Err(EBUSY);
        }
        let data = event.consumer_data().ok_or(ENOMEM)?;
        let module = ModuleRef::get()?;
        let first = EventRef::get_locked(event, held);
        *data.refs.get_mut(held) = Some((first, module));
        Ok(())
    }

    fn toggled(event: &Arc<Event>, held: &EventMutexHeld) {
        event.write_enablers(held);
    }

    fn run(event: &Arc<Event>) {
        event.write_remaining();
    }

    fn has_limit(event: &Event) -> bool {
        event.group.byte_rate().is_some()
    }

    fn last_detached(event: &Event, held: &mut EventMutexHeld) {
        let references = (event.consumer_data()).and_then(|data| data.refs.get_mut(held).take());
        drop(references);
    }

    #[cold]
    fn last_put(event: Arc<Event>) {
        if !event.persistent {
            // Retiring takes `event_mutex`, which may be held here, and must not happen within a
            // detach.
            let idle = event.group.idle().clone();
            idle.queue_retire(event);
        }
    }
}
