// SPDX-License-Identifier: GPL-2.0

//! The names of events in tracefs: one event a name, or several formats of it.

use super::event::UserEvent;
use crate::schema;
use crate::sys::trace_event::EventClass;
use core::num::NonZero;
use kernel::prelude::*;
use kernel::str::CStr;

/// Where the trace core shows an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Under the name it was registered with.
    Single,
    /// As one of several formats of that name, with a number that no other format has. They count
    /// from 1, and are shown less one. C: `EVENT_MULTI_FORMAT`.
    Multi(NonZero<u64>),
}

impl Naming {
    /// The groups of our events in tracefs. C: `USER_EVENTS_SYSTEM`, `USER_EVENTS_MULTI_SYSTEM`.
    pub(crate) const GROUPS: [&'static CStr; 2] = [c"user_events", c"user_events_multi"];

    /// The class of events in the trace core.
    pub(super) fn class(self) -> &'static EventClass<UserEvent> {
        static CLASSES: [EventClass<UserEvent>; 2] = [
            EventClass::new(Naming::GROUPS[0]),
            EventClass::new(Naming::GROUPS[1]),
        ];
        let [single, multi] = &CLASSES;
        match self {
            Naming::Single => single,
            Naming::Multi(_) => multi,
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
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` when it would be too long.
pub(super) fn name_of_format(name: &[u8], number: NonZero<u64>) -> Result<KVec<u8>> {
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
