// SPDX-License-Identifier: GPL-2.0

//! One event: its texts, its trace event, and the references to it. C: `struct user_event`.
//!
//! An [`EventRef`] is held by an entry of an open file's table, by an enabler, and by the event itself while a
//! consumer is attached. The event is retired when the last is dropped, unless it is persistent. The holders keep
//! the module loaded.

use super::changes::ChangeSeq;
use super::group::Group;
use super::misses::Misses;
use super::naming::{
    format_name,
    Naming, //
};
use super::toggle::Enablers;
use crate::schema::{
    self,
    Description,
    Field,
    Sink, //
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
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::{
    Arc,
    Mutex, //
};

/// A user event that the trace core can know.
pub(crate) type Event = TraceEvent<UserEvent>;

/// A reference to a user event. C: what `user_event_get()` takes and `user_event_put()` drops.
pub(crate) type EventRef = trace_event::EventRef<UserEvent>;

/// What makes a trace event a user event.
#[pin_data]
pub(crate) struct UserEvent {
    /// Unique while the module is loaded, and rising: the order of listings.
    id: u64,
    naming: Naming,
    name_hash: u32,
    /// Bytes of the listing that are the name it was registered under.
    name_len: u16,
    /// Does the event stay when there is no reference to it?
    persistent: bool,
    misses: Misses,
    group: Arc<Group>,
    /// What the consumers hold, while any is attached.
    consumer_refs: EventMutexLocked<Option<(EventRef, ModuleRef)>>,
    /// The bits that show the event's state, in the memory of all mms.
    #[pin]
    pub(super) enablers: Mutex<Enablers>,
    /// Not 0: the state has changed, and the holder of `enablers` has not seen it.
    pub(super) toggle_pending: Atomic<i32>,
    /// See [`Self::failed_writes`].
    failed_writes: Atomic<u32>,
    pub(super) change_seq: ChangeSeq,
}

/// How an event is registered. C: `reg_flags` of `struct user_event`.
#[derive(Clone, Copy)]
pub(crate) struct RegFlags {
    /// Is it to stay when there is no reference to it? C: `USER_EVENT_REG_PERSIST`.
    pub(crate) persistent: bool,
    /// May other events have the same name, with other fields? C: `USER_EVENT_REG_MULTI_FORMAT`.
    pub(crate) multi_format: bool,
}

/// What an event is to be: a description, its fields, and what it lists as.
#[derive(Clone, Copy)]
pub(crate) struct EventDesc<'a> {
    pub(crate) description: &'a Description<'a>,
    pub(crate) fields: &'a [Field<'a>],
    pub(crate) listing: &'a [u8],
}

/// What no other event of a group has: a hash of its name, which is compared quickly, the name, and
/// for a format the listing.
pub(super) type EventKey<'a> = (u32, &'a [u8], &'a [u8]);

impl<'a> EventDesc<'a> {
    /// The key of the event.
    pub(super) fn key(&self, is_format: bool) -> EventKey<'a> {
        let (name, listing) = (self.description.name(), self.listing);
        (name_hash(name), name, if is_format { listing } else { &[] })
    }
}

/// A buffer for the schema's texts.
pub(super) struct KVecSink(pub(super) KVec<u8>);

impl Sink for KVecSink {
    type Error = Error;

    fn put(&mut self, bytes: &[u8]) -> Result {
        if bytes.is_empty() {
            return Ok(());
        }
        Ok(self.0.extend_from_slice(bytes, GFP_KERNEL_ACCOUNT)?)
    }
}

impl UserEvent {
    /// Makes an event that nothing knows or refers to yet. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` when the name in tracefs would be too long.
    pub(super) fn new(
        group: &Arc<Group>,
        id: u64,
        naming: Naming,
        persistent: bool,
        desc: EventDesc<'_>,
    ) -> Result<UnregisteredEvent<UserEvent>> {
        let EventDesc {
            description,
            fields,
            listing,
        } = desc;
        let registered_name = description.name();
        let numbered;
        let name = match naming {
            Naming::Single => registered_name,
            Naming::Multi(number) => {
                numbered = format_name(registered_name, number)?;
                numbered.as_slice()
            }
        };
        // The conversions and `REC->` are longer than the types that they stand for.
        let mut print_fmt = KVecSink(KVec::with_capacity(
            2 * description.text_len() + 64,
            GFP_KERNEL_ACCOUNT,
        )?);
        schema::write_print_fmt(fields, &mut print_fmt)?;
        let event = try_pin_init!(Self {
            id,
            naming,
            name_hash: name_hash(registered_name),
            name_len: u16::try_from(registered_name.len()).map_err(|_| EINVAL)?,
            persistent,
            misses: Misses::new(),
            group: group.clone(),
            consumer_refs: EventMutexLocked::new(None),
            enablers <- new_mutex!(Enablers::new(), "UserEvent::enablers"),
            toggle_pending: Atomic::new(0),
            failed_writes: Atomic::new(0),
            change_seq: ChangeSeq::new(),
        }? Error);
        let class = group.systems().class(naming);
        TraceEvent::new_unregistered(class, name, listing, &print_fmt.0, fields, event)
    }

    /// Unique, and higher for events made later.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// A hash of the name it was registered under.
    pub(super) fn name_hash(&self) -> u32 {
        self.name_hash
    }

    /// Where the trace core shows it.
    pub(super) fn naming(&self) -> Naming {
        self.naming
    }

    /// The group that it is in.
    pub(crate) fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Does the event stay when there is no reference to it?
    pub(crate) fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Counts a write that failed though there was a consumer. Any context.
    #[cold]
    pub(crate) fn count_failed_write(&self) {
        self.failed_writes.fetch_add(1, Relaxed);
    }

    /// Writes that failed though there was a consumer, modulo 2³²: programs seldom look.
    pub(crate) fn failed_writes(&self) -> u32 {
        self.failed_writes.load(Relaxed)
    }

    /// The records that consumers could not take.
    #[inline]
    pub(crate) fn misses(&self) -> &Misses {
        &self.misses
    }
}

impl Event {
    /// The description as it is listed, which tells events with the same name apart.
    pub(crate) fn listing(&self) -> &[u8] {
        self.owner_text()
    }

    /// The name it was registered under. Not always the one in tracefs, see [`TraceEvent::name`].
    pub(crate) fn registered_name(&self) -> &[u8] {
        let name = self.listing().get(..usize::from(self.name_len));
        name.unwrap_or_default()
    }

    /// As [`EventDesc::key`].
    pub(super) fn key(&self) -> EventKey<'_> {
        let format = match self.naming {
            Naming::Single => &[],
            Naming::Multi(_) => self.listing(),
        };
        (self.name_hash, self.registered_name(), format)
    }

    /// How its key compares to this one.
    #[inline]
    pub(super) fn cmp_key(&self, key: &EventKey<'_>) -> Ordering {
        (self.name_hash.cmp(&key.0)).then_with(|| self.key().cmp(key))
    }
}

impl TraceEventOwner for UserEvent {
    fn first_attaches(event: &Arc<Event>, held: &mut EventMutexHeld) -> Result {
        // While the events of a group are removed, in several holds of the mutex.
        if event.group.open_files.are_closed() {
            return Err(EBUSY);
        }
        let module = ModuleRef::get()?;
        let first = EventRef::get_locked(event, held);
        *event.consumer_refs.get_mut(held) = Some((first, module));
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
        let references = event.consumer_refs.get_mut(held).take();
        drop(references);
    }

    #[cold]
    fn last_put(event: Arc<Event>) {
        if !event.persistent {
            // Retiring takes `event_mutex`, which may be held right here, and must not happen in
            // the middle of a detach.
            let idle = event.group.idle().clone();
            idle.queue_retire(event);
        }
    }
}
