// SPDX-License-Identifier: GPL-2.0

//! One registered event: its texts, its trace event, and who uses it.
//!
//! A [`EventRef`] is a value that somebody holds: an open file, a registration of a process, the tracers
//! together. The event is there as long as one exists, and is retired when the last is dropped. The
//! holders keep the module loaded.

use crate::events::misses::Misses;
use crate::events::Registry;
use crate::mms::enabler::{ByPosition, Enabler, Position};
use crate::mms::enablers::{Budget, PartlyWritten, Stopped};
use crate::schema::{self, Description, Field, Sink};
use crate::sorted_arcs::{Reservation, Shortfall, SortedArcs};
use crate::sys::event_mutex::{EventMutexHeld, EventMutexLocked};
use crate::sys::module_ref::ModuleRef;
use crate::sys::trace_event::{self, EventClass, TraceEvent, TraceEventOwner, UnregisteredEvent};
use core::cmp::Ordering;
use core::num::NonZero;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::{Arc, Mutex, MutexGuard};

/// A user event that the trace core can know.
pub(crate) type Event = TraceEvent<UserEvent>;

/// A reference to a user event.
pub(crate) type EventRef = trace_event::EventRef<UserEvent>;

/// What makes a trace event a user event.
#[pin_data]
pub(crate) struct UserEvent {
    /// Unique while the module is loaded, and rising: the order of listings.
    id: u64,
    naming: Naming,
    /// Bytes of the listing that are the name it was registered under.
    name_len: u16,
    /// Does the event stay when nobody uses it?
    persistent: bool,
    misses: Misses,
    registry: Arc<Registry>,
    /// What the tracers hold, while any is attached.
    tracers: EventMutexLocked<Option<(EventRef, ModuleRef)>>,
    /// The bits that show the event's state, in the memory of all processes.
    #[pin]
    enablers: Mutex<Enablers>,
}

/// What is to show the state of an event.
struct Enablers {
    by_position: SortedArcs<Enabler, ByPosition>,
    /// From where on the bits have not been written since the state changed last.
    due: Option<Due>,
}

/// Bits that are still to be written: those of the enabler at a position in the memory of the processes
/// from one on, and those of all enablers behind it.
struct Due {
    position: Position,
    mm_key: usize,
    /// Held until the writing has gone on.
    _partly: Option<PartlyWritten>,
}

/// Why an enabler was not connected.
pub(crate) enum NotConnected<E> {
    /// There has to be memory for it first.
    Shortfall(Shortfall),
    /// Its bit was not written.
    Failed(E),
}

/// Looks for an enabler.
fn itself(enabler: &Enabler) -> impl Fn(&Arc<Enabler>) -> Ordering {
    let position = enabler.position();
    move |other| other.position().cmp(&position)
}

impl Enablers {
    /// Writes `on` to bits that are due, as many as the budget allows.
    fn write_due(&mut self, on: bool, mut budget: Budget) {
        let Some(due) = self.due.take() else {
            return;
        };
        let leaves = self
            .by_position
            .slices_from(|other| other.position().cmp(&due.position));
        // Those of one page lie side by side, but for the end of a leaf.
        let pages = leaves.flat_map(|leaf| leaf.chunk_by(|one, other| one.is_beside(other)));
        for enablers in pages {
            let Some(first) = enablers.first() else {
                continue;
            };
            let position = first.position();
            let mm_key = if position == due.position {
                due.mm_key
            } else {
                0
            };
            let written = first.set().write(enablers, on, mm_key, &mut budget);
            if let Err(Stopped { mm_key, partly }) = written {
                self.due = Some(Due {
                    position,
                    mm_key,
                    _partly: partly,
                });
                return;
            }
        }
    }
}

/// How an event is asked for.
#[derive(Clone, Copy)]
pub(crate) struct RegFlags {
    /// Is it to stay when nobody uses it?
    pub(crate) persistent: bool,
    /// May other events have the same name, with other fields?
    pub(crate) multi_format: bool,
}

/// Where the trace core shows an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Under the name it was registered with.
    Single,
    /// As one of several formats of that name, with a number that no other format has. They count
    /// from 1, and are shown less one.
    Multi(NonZero<u64>),
}

impl Naming {
    /// The groups of our events in tracefs. C: `USER_EVENTS_SYSTEM`, `USER_EVENTS_MULTI_SYSTEM`.
    pub(crate) const GROUPS: [&'static CStr; 2] = [c"user_events", c"user_events_multi"];

    /// The class of events in the trace core.
    fn class(self) -> &'static EventClass<UserEvent> {
        static CLASSES: [EventClass<UserEvent>; 2] = [
            EventClass::new(Naming::GROUPS[0]),
            EventClass::new(Naming::GROUPS[1]),
        ];
        let [named, formats] = &CLASSES;
        match self {
            Naming::Single => named,
            Naming::Multi(_) => formats,
        }
    }
}

/// As many as a number has.
const HEX_DIGITS: usize = u64::BITS as usize / 4;

/// A number in hexadecimal digits, which are put to the end of `buf`.
fn hex(mut number: u64, buf: &mut [u8; HEX_DIGITS]) -> &[u8] {
    let mut first = HEX_DIGITS;
    for (at, place) in buf.iter_mut().enumerate().rev() {
        let digit = (number % 16) as u8;
        *place = if digit < 10 {
            b'0' + digit
        } else {
            b'a' + (digit - 10)
        };
        first = at;
        number /= 16;
        if number == 0 {
            break;
        }
    }
    buf.get(first..).unwrap_or_default()
}

/// The name in tracefs of a format of the events that are registered as `name`.
fn name_of_format(name: &[u8], number: NonZero<u64>) -> Result<KVec<u8>> {
    let mut digits = [0; HEX_DIGITS];
    let suffix = hex(number.get() - 1, &mut digits);
    let length = name.len() + 1 + suffix.len();
    let mut shown = KVec::with_capacity(length, GFP_KERNEL_ACCOUNT)?;
    shown.extend_from_slice(name, GFP_KERNEL_ACCOUNT)?;
    shown.extend_from_slice(b".", GFP_KERNEL_ACCOUNT)?;
    shown.extend_from_slice(suffix, GFP_KERNEL_ACCOUNT)?;
    schema::check_name(&shown)?;
    Ok(shown)
}

/// What an event is to be: a description, its fields, and what it lists as.
#[derive(Clone, Copy)]
pub(crate) struct EventDesc<'a> {
    pub(crate) description: &'a Description<'a>,
    pub(crate) fields: &'a [Field<'a>],
    pub(crate) listing: &'a [u8],
}

/// A buffer as a place for the schema's texts.
pub(crate) struct KVecSink(pub(crate) KVec<u8>);

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
    /// Makes an event that nobody knows or uses yet. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` when the name in tracefs would be too long.
    pub(crate) fn new(
        registry: &Arc<Registry>,
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
        let format_name;
        let name = match naming {
            Naming::Single => registered_name,
            Naming::Multi(number) => {
                format_name = name_of_format(registered_name, number)?;
                format_name.as_slice()
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
            name_len: u16::try_from(registered_name.len()).map_err(|_| EINVAL)?,
            persistent,
            misses: Misses::new(),
            registry: registry.clone(),
            tracers: EventMutexLocked::new(None),
            enablers <- new_mutex!(
                Enablers {
                    by_position: SortedArcs::new(),
                    due: None,
                },
                "UserEvent::enablers"
            ),
        }? Error);
        TraceEvent::new_unregistered(naming.class(), name, listing, &print_fmt.0, fields, event)
    }

    /// Unique, and higher for events made later.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Where the trace core shows it.
    pub(crate) fn naming(&self) -> Naming {
        self.naming
    }

    /// Where it is registered.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Does the event stay when nobody uses it?
    pub(crate) fn is_persistent(&self) -> bool {
        self.persistent
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

    /// What no other event in the same [`Naming`] has: the name, or for a format the listing.
    pub(crate) fn key(&self) -> &[u8] {
        match self.naming {
            Naming::Single => self.registered_name(),
            Naming::Multi(_) => self.listing(),
        }
    }

    /// What the bits are to say. When that changes after it was read with the lock of the enablers held,
    /// they are all written after that.
    fn is_wanted(&self) -> bool {
        !self.consumers().is_none()
    }

    /// Writes the event's state to `enabler`'s bit and keeps it up to date from then on, with the memory in
    /// `reservation`.
    ///
    /// `write` writes; it is called with the lock held under which the state changes.
    ///
    /// # Errors
    ///
    /// What `reservation` is short of, or what `write` fails with; the enabler is not connected then.
    pub(crate) fn connect<E>(
        &self,
        enabler: &Arc<Enabler>,
        reservation: &mut Reservation<Enabler>,
        write: impl FnOnce(bool) -> Result<(), E>,
    ) -> Result<(), NotConnected<E>> {
        // Whoever holds `event_mutex` may wait for the lock, so memory is not waited for with it.
        let mut enablers = self.enablers.lock();
        enablers
            .by_position
            .insert_with(enabler, reservation)
            .map_err(NotConnected::Shortfall)?;
        let result = write(self.is_wanted());
        if result.is_err() {
            // The caller has it, too.
            let _ = enablers.by_position.remove(itself(enabler));
        }
        result.map_err(NotConnected::Failed)
    }

    /// Forgets an enabler. Its bit is not written any more once this returns.
    pub(crate) fn disconnect(&self, enabler: &Arc<Enabler>) {
        // The caller has it, too, so nothing is freed under the lock.
        let _ = self.enablers.lock().by_position.remove(itself(enabler));
    }

    /// Writes the event's state by `write`, if `enabler` is still connected. `write` is called with
    /// the lock held under which the state changes.
    ///
    /// # Errors
    ///
    /// What `write` fails with.
    pub(crate) fn rewrite<E>(
        &self,
        enabler: &Enabler,
        write: impl FnOnce(bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let enablers = self.enablers.lock();
        if enablers.by_position.get(itself(enabler)).is_some() {
            write(self.is_wanted())
        } else {
            Ok(())
        }
    }

    /// Writes bits that are due, as many as the budget allows, and has the others written later.
    fn write_due(self: &Arc<Self>, mut enablers: MutexGuard<'_, Enablers>, budget: Budget) {
        enablers.write_due(self.is_wanted(), budget);
        let is_due = enablers.due.is_some();
        drop(enablers);
        if is_due {
            self.run_later(self.registry.queue());
        }
    }

    /// Is the bit of an enabler in the memory of the process with this key still to be written, since the
    /// event's state changed?
    pub(crate) fn is_due(&self, enabler: &Enabler, mm_key: usize) -> bool {
        let enablers = self.enablers.lock();
        // Those of one page are written together: what stands behind the first may be done.
        enablers.due.as_ref().is_some_and(|due| {
            let position = enabler.position();
            position > due.position || position == due.position && mm_key >= due.mm_key
        })
    }
}

impl TraceEventOwner for UserEvent {
    fn first_attaches(event: &Arc<Event>, held: &mut EventMutexHeld) -> Result {
        let module = ModuleRef::get()?;
        let first = EventRef::get_locked(event, held);
        *event.tracers.get_mut(held) = Some((first, module));
        Ok(())
    }

    fn toggled(event: &Arc<Event>, held: &EventMutexHeld) {
        let mut enablers = event.enablers.lock();
        // All anew: what an earlier change has left is written with them.
        enablers.due = Some(Due {
            position: Position::FIRST,
            mm_key: 0,
            _partly: None,
        });
        event.write_due(enablers, Budget::at_once(held));
    }

    fn run(event: &Arc<Event>) {
        // Once: other work may be waiting, and a change of the state.
        event.write_due(event.enablers.lock(), Budget::later());
    }

    fn last_detached(event: &Event, held: &mut EventMutexHeld) {
        let tracers = event.tracers.get_mut(held).take();
        drop(tracers);
    }

    fn last_put(event: Arc<Event>) {
        if !event.persistent {
            // Retiring takes `event_mutex`, which may be held right here, and must not happen in
            // the middle of a detach.
            let registry = event.registry.clone();
            registry.retire_later(event);
        }
    }
}
