// SPDX-License-Identifier: GPL-2.0

//! The names of events in tracefs: the systems of a group, and the names in them.

use crate::schema::{
    self,
    GroupName, //
};
use crate::sys::trace_event::{
    EventClass,
    TraceEventOwner, //
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
const FIRST: &[u8] = b"user_events";

/// The two systems of a group: of events that are alone with their name, and of formats.
pub(crate) struct Systems<O> {
    single: Arc<EventClass<O>>,
    multi: Arc<EventClass<O>>,
}

impl<O: TraceEventOwner> Systems<O> {
    /// The systems of the first group.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn first() -> Result<Self> {
        Ok(Self {
            single: EventClass::new(&[FIRST])?,
            multi: EventClass::new(&[FIRST, b"_multi"])?,
        })
    }

    /// The systems of the group with this name.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn of_group(name: GroupName<'_>) -> Result<Self> {
        Ok(Self {
            single: EventClass::new(&[FIRST, b"_", name.bytes()])?,
            multi: EventClass::new(&[FIRST, b"_", name.bytes(), b"_multi"])?,
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
        self.single.system().get(FIRST.len() + 1..)
    }
}

/// The most digits of a number.
const HEX_DIGITS: usize = u64::BITS as usize / 4;

/// A number in hexadecimal digits, at the end of `buf`.
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

/// The name in tracefs of one format of the event that is registered as `name`.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` when the name would be too long.
pub(super) fn format_name(name: &[u8], number: NonZero<u64>) -> Result<KVec<u8>> {
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
