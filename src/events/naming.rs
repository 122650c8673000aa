// SPDX-License-Identifier: GPL-2.0

//! The names of events in tracefs: the systems of a group, and the names in them.

use crate::schema::{
    self,
    GroupName,
    Sink, //
};
use crate::sys::trace_event::{
    EventClass,
    TraceEventOwner, //
};
use core::fmt::{
    self,
    Write, //
};
use core::num::NonZero;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Where the trace core shows an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Under the name that it was registered with.
    Single,
    /// As one of several formats of that name, with a number that no other format has: from 1 on,
    /// shown less one. C: `EVENT_MULTI_FORMAT`.
    Multi(NonZero<u64>),
}

/// The system of the first group's events, and the beginning of those of other groups. C:
/// `USER_EVENTS_SYSTEM`; `USER_EVENTS_MULTI_SYSTEM` is that of formats.
const FIRST_SYSTEM: &[u8] = b"user_events";

/// The two systems of a group: of events that are alone with their name, and of formats.
pub(crate) struct Systems<O> {
    single: Arc<EventClass<O>>,
    multi: Arc<EventClass<O>>,
}

impl<O: TraceEventOwner> Systems<O> {
    /// The systems of the first group.
    pub(super) fn first() -> Result<Self> {
        Ok(Self {
            single: EventClass::new(&[FIRST_SYSTEM])?,
            multi: EventClass::new(&[FIRST_SYSTEM, b"_multi"])?,
        })
    }

    /// The systems of the group with this name.
    pub(super) fn of_group(name: GroupName<'_>) -> Result<Self> {
        Ok(Self {
            single: EventClass::new(&[FIRST_SYSTEM, b"_", name.bytes()])?,
            multi: EventClass::new(&[FIRST_SYSTEM, b"_", name.bytes(), b"_multi"])?,
        })
    }

    pub(super) fn class(&self, naming: Naming) -> &Arc<EventClass<O>> {
        match naming {
            Naming::Single => &self.single,
            Naming::Multi(_) => &self.multi,
        }
    }

    pub(crate) fn contains(&self, system: &[u8]) -> bool {
        [&self.single, &self.multi]
            .iter()
            .any(|class| class.system() == system)
    }

    /// The system of events that are alone with their name.
    pub(crate) fn single(&self) -> &[u8] {
        self.single.system()
    }

    /// The name of the group; `None` for the first, which has none.
    pub(crate) fn group_name(&self) -> Option<&[u8]> {
        self.single.system().get(FIRST_SYSTEM.len() + 1..)
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

impl fmt::Write for KVecSink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

/// The name in tracefs of one format of the event that is registered as `name`.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` when the name would be too long.
pub(super) fn format_name(name: &[u8], number: NonZero<u64>) -> Result<KVec<u8>> {
    let mut shown = KVecSink(KVec::new());
    shown.put(name)?;
    write!(shown, ".{:x}", number.get() - 1).map_err(|_| ENOMEM)?;
    schema::check_name(&shown.0)?;
    Ok(shown.0)
}
