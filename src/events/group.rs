// SPDX-License-Identifier: GPL-2.0

//! The events of one group, by name: making, finding and visiting them. C: `struct
//! user_event_group`, of which C has only one.

use super::changes::Changes;
use super::event::{
    Event,
    EventDesc,
    EventRef,
    RegFlags,
    UserEvent, //
};
use super::group_events::GroupEvents;
use super::idle::IdleEvents;
use super::kept::KeptKey;
use super::limits::{
    ByteRate,
    MaxEvents, //
};
use super::naming::{
    Naming,
    Systems, //
};
use super::open_files::OpenFiles;
use crate::schema::{
    GroupLimits,
    GroupName, //
};
use crate::sorted_arcs::NodeMemory;
use crate::sys::event_mutex::{
    EventMutexGuard,
    EventMutexLocked, //
};
use crate::sys::kernel_crate::prelude::*;
use crate::sys::symbols::CheckedSymbols;
use crate::sys::sysctl::SysctlU32;
use crate::sys::trace_event::UnregisteredEvent;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;
use kernel::time::{
    delay::fsleep,
    Delta, //
};

/// The most events of the first group, unless `kernel.user_events_max` is set. C:
/// `max_user_events`.
const DEFAULT_MAX_EVENTS: u32 = 32768;

/// The cost of the work in one hold of `event_mutex`: the most, that of a look at an event, and
/// that of a removal, for which the trace core searches its lists.
pub(super) const MAX_COST: usize = 256;
pub(super) const LOOK_COST: usize = 1;
pub(super) const REMOVAL_COST: usize = MAX_COST / 16;

/// The time between two holds.
const PAUSE: Delta = Delta::from_micros(20);

/// A group of events, with names of its own.
///
/// The events are protected by `event_mutex`, which the trace core holds whenever it shows, enables
/// or deletes an event.
#[pin_data]
pub(crate) struct Group {
    pub(super) symbols: CheckedSymbols,
    idle: Arc<IdleEvents>,
    systems: Systems<UserEvent>,
    max_events: MaxEvents,
    byte_rate: ByteRate,
    any_names: Atomic<bool>,
    pub(super) open_files: OpenFiles,
    /// How many events are on the list of [`IdleEvents`].
    pub(super) idle_count: Atomic<usize>,
    pub(super) events: EventMutexLocked<GroupEvents>,
    kept: EventMutexLocked<usize>,
    #[pin]
    changes: Changes,
}

/// How much of a group exists and is used.
pub(crate) struct Usage {
    pub(crate) events: usize,
    /// Events to which there is a reference, or to which the trace core refers.
    pub(crate) used_events: usize,
    /// Data files.
    pub(crate) open_files: usize,
}

impl Group {
    /// The first group, limited by `kernel.user_events_max`, or one with a name. May sleep.
    pub(crate) fn new(
        symbols: CheckedSymbols,
        idle: &Arc<IdleEvents>,
        named: Option<(GroupName<'_>, GroupLimits)>,
    ) -> Result<Arc<Self>> {
        let (systems, max_events, byte_rate, any_names) = match named {
            None => {
                let max_events = SysctlU32::new(c"user_events_max", DEFAULT_MAX_EVENTS)?;
                (Systems::first()?, MaxEvents::Sysctl(max_events), 0, true)
            }
            Some((name, limits)) => (
                Systems::of_group(name)?,
                MaxEvents::Line(Atomic::new(limits.events)),
                limits.bytes_per_second,
                limits.any_names,
            ),
        };
        let group = pin_init!(Self {
            symbols,
            idle: idle.clone(),
            systems,
            max_events,
            byte_rate: ByteRate::new(byte_rate),
            any_names: Atomic::new(any_names),
            open_files: OpenFiles::new(),
            idle_count: Atomic::new(0),
            events: EventMutexLocked::new(GroupEvents::new()),
            kept: EventMutexLocked::new(0),
            changes <- Changes::new(),
        });
        Arc::pin_init(group, GFP_KERNEL_ACCOUNT)
    }

    pub(crate) fn systems(&self) -> &Systems<UserEvent> {
        &self.systems
    }

    /// The limit of bytes in a second, if there is one.
    pub(crate) fn byte_rate(&self) -> Option<&ByteRate> {
        (self.byte_rate.per_second() != 0).then_some(&self.byte_rate)
    }

    pub(crate) fn limits(&self) -> GroupLimits {
        GroupLimits {
            events: self.max_events.get(),
            bytes_per_second: self.byte_rate.per_second(),
            any_names: self.any_names.load(Relaxed),
        }
    }

    /// Sets the limits. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` when the group has more events; nothing has changed then.
    pub(crate) fn set_limits(&self, limits: GroupLimits) -> Result {
        // First, so that no event is added meanwhile beyond the new limit.
        let before = self.max_events.get();
        self.max_events.set(limits.events);
        loop {
            let count = self.events.get(&EventMutexGuard::lock(self.symbols)).count;
            if count <= limits.events {
                break;
            }
            if self.make_room(count).is_err() {
                self.max_events.set(before);
                return Err(EBUSY);
            }
        }
        self.any_names.store(limits.any_names, Relaxed);
        self.byte_rate.set(limits.bytes_per_second);
        // Each event caches whether its records are limited.
        self.for_each_event(None, |event, held| {
            event.limit_changed(held);
            Ok(LOOK_COST)
        })
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// How many of its events are kept.
    pub(super) fn kept(&self) -> &EventMutexLocked<usize> {
        &self.kept
    }

    pub(super) fn idle(&self) -> &Arc<IdleEvents> {
        &self.idle
    }

    /// A reference to the event with this description, which is made if it does not exist. May
    /// sleep. The caller keeps the module loaded while the reference exists.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when the event exists with other fields, and is not to be one of several
    /// formats; `EINTR` when the current task is killed; `EMFILE` when the group has too many
    /// events; `EINVAL` when the group takes plain names only, which formats do not have, or when a
    /// format's name would be too long; `ENODEV` when no number is left; `ENOMEM`, and the errors
    /// of the trace core.
    pub(crate) fn register(
        self: &Arc<Self>,
        desc: &EventDesc<'_>,
        flags: RegFlags,
    ) -> Result<EventRef> {
        let is_plain = desc.has_plain_name() && !flags.multi_format;
        if !(is_plain || self.any_names.load(Relaxed)) {
            return Err(EINVAL);
        }
        let key = desc.key(flags.multi_format);
        let kept_key = KeptKey {
            group: self,
            listing: desc.listing(),
            hash: key.0,
            is_format: flags.multi_format,
        };
        // Filled and freed without the mutex: the memory cgroup may delay an allocation.
        let mut memory = [NodeMemory::new(), NodeMemory::new()];
        let (mut made, mut looked_at): (Option<UnregisteredEvent<UserEvent>>, _) = (None, None);
        loop {
            let mut held = EventMutexGuard::lock(self.symbols);
            let events = self.events.get_mut(&mut held);
            let naming = match flags.multi_format {
                true => Naming::Multi(events.next_format),
                false => Naming::Single,
            };
            // Searched again only if an event was added meanwhile.
            let mut found = None;
            if looked_at.replace(events.additions) != Some(events.additions) {
                found = (events.by_name.get(|event| event.cmp_key(&key))).cloned();
            }
            if let Some(event) = found {
                if event.listing() == desc.listing() {
                    return Ok(EventRef::get_locked(&event, &held));
                }
                // An idle event is about to be removed, and is removed now.
                if event.is_used() || event.is_persistent() {
                    return Err(EADDRINUSE);
                }
                self.remove(event.removal(&mut held))
                    .map_err(|_| EADDRINUSE)?;
            }
            let events = self.events.get_mut(&mut held);
            let count = events.count;
            if count >= self.max_events.get() {
                drop(held);
                self.make_room(count)?;
                continue;
            }
            // Made anew if another task has taken the number of the format.
            let Some(unregistered) = made.take_if(|made| made.event().naming() == naming) else {
                let id = events.take_id();
                drop(held);
                made = Some(UserEvent::new(self, id, naming, flags.persistent, desc)?);
                continue;
            };
            let event = unregistered.event().clone();
            if let Err((memory, shortfall)) = events.add(&event, &mut memory) {
                drop(held);
                made = Some(unregistered);
                memory.fill(shortfall)?;
                continue;
            }
            let first = EventRef::get_locked(&event, &held);
            let kept = self.idle.kept.take(kept_key, &mut held);
            if let Err((error, kept)) = unregistered.register(kept, &mut held) {
                self.events.get_mut(&mut held).remove(&event);
                if let Some(kept) = kept {
                    self.idle.kept.add(kept, &mut held);
                }
                return Err(error);
            }
            self.events.get_mut(&mut held).advance_next_format(&event);
            return Ok(first);
        }
    }

    /// Calls `visit`, with `event_mutex` held, for each event, the newest first, or for each that
    /// was registered as `name`, until `visit` fails. `visit` returns the cost of its work; after
    /// [`MAX_COST`] the mutex is released for a moment. May sleep.
    pub(super) fn for_each_event(
        &self,
        name: Option<&[u8]>,
        mut visit: impl FnMut(&Arc<Event>, &mut EventMutexGuard) -> Result<usize>,
    ) -> Result {
        let mut last: Option<Arc<Event>> = None;
        loop {
            let mut held = EventMutexGuard::lock(self.symbols);
            let mut left = MAX_COST;
            while left > 0 {
                let events = self.events.get(&held);
                let Some(event) = events.prev_event(name, last.as_deref()).cloned() else {
                    return Ok(());
                };
                left = left.saturating_sub(visit(&event, &mut held)?);
                last = Some(event);
            }
            drop(held);
            // Without a pause this task would take the mutex before those that spin for it.
            fsleep(PAUSE);
        }
    }

    /// Calls `show` for the event with this number, or with the next one that exists. `event_mutex`
    /// is held meanwhile. Returns the result of `show`; `None` if there is no such event. May
    /// sleep.
    pub(crate) fn with_event_from<T>(&self, id: u64, show: impl FnOnce(&Event) -> T) -> Option<T> {
        let held = EventMutexGuard::lock(self.symbols);
        let by_id = &self.events.get(&held).by_id;
        let event = by_id.get_from(|event| event.id().cmp(&id))?;
        Some(show(event))
    }

    /// A number above those of all events. May sleep.
    pub(crate) fn next_id(&self) -> u64 {
        let held = EventMutexGuard::lock(self.symbols);
        self.events.get(&held).next_id
    }

    /// Counts the events and open files. May sleep.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage {
            events: 0,
            used_events: 0,
            open_files: self.open_files.count(),
        };
        // The visit cannot fail.
        let _ = self.for_each_event(None, |event, held| {
            usage.events += 1;
            usage.used_events += usize::from(event.is_busy(held));
            Ok(LOOK_COST)
        });
        usage
    }
}
