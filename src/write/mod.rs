// SPDX-License-Identifier: GPL-2.0

//! The hot path: from the bytes of a write to the buffers of the consumers.
//!
//! The payload is copied once, checked once and handed to each consumer. There is no lock, and no
//! allocation for a payload of up to [`MAX_ON_STACK`] bytes.

mod event_index;
mod event_table;

pub(crate) use event_table::EventTable;

use crate::events::{
    ByteRate,
    Event,
    EventRef,
    Tally, //
};
use crate::schema::{
    self,
    MAX_FIXED, //
};
use crate::sys::source::{
    Source,
    INDEX_SIZE, //
};
use core::mem::MaybeUninit;
use kernel::prelude::*;

/// The longest payload that is copied to the stack.
const MAX_ON_STACK: usize = 1024;

/// The longest payload that any buffer can hold.
const MAX_PAYLOAD: usize = MAX_FIXED as usize;

/// Records what `source` holds: a write index of `events`, and a payload. May sleep for user
/// memory. Returns how long `source` was.
///
/// # Errors
///
/// `EFAULT` when it is shorter than an index, cannot be read, or a location in the payload is not
/// right; `EINVAL` when the index is negative, or the payload is shorter than the event's fields;
/// `ENOENT` when the file has no such index; `EBADF` when the event has no consumers; `E2BIG` when
/// none of them can ever take a payload of that size; `EDQUOT` when the event's group may record no more in this second;
/// `ENOMEM`. Nothing is recorded then.
#[inline]
pub(crate) fn write(events: &EventTable, mut source: impl Source) -> Result<usize> {
    let len = source.len();
    let index = source.read_index()?;
    let payload_len = len.saturating_sub(INDEX_SIZE);
    let event = find(events, index, payload_len)?;
    let wanted = event.wanted();
    if wanted.is_none() {
        return Err(EBADF);
    }
    if wanted.has_limit() {
        write_within_limit(event, payload_len, source)?;
    } else if payload_len <= MAX_ON_STACK {
        write_short(event, payload_len, source)?;
    } else {
        write_long(event, payload_len, source)?;
    }
    Ok(len)
}

/// The event with this index, if that can have a payload of so many bytes.
#[inline]
fn find(events: &EventTable, index: u32, payload_len: usize) -> Result<&EventRef> {
    if index > i32::MAX as u32 {
        return Err(EINVAL);
    }
    let event = events.get(index).ok_or(ENOENT)?;
    schema::check_len(payload_len, event.fixed_size())?;
    Ok(event)
}

/// Records what fits on the stack. Apart, so that a write that ends sooner does not pay for the buffer.
#[inline(never)]
fn write_short(event: &Event, payload_len: usize, mut source: impl Source) -> Result {
    let mut buf = [MaybeUninit::uninit(); MAX_ON_STACK + 1];
    let buf = buf.get_mut(..=payload_len).ok_or(E2BIG)?;
    record(event, source.read_payload_and_nul(buf)?, None)
}

/// Records what is too long for the stack.
#[cold]
fn write_long(event: &Event, payload_len: usize, mut source: impl Source) -> Result {
    if payload_len > MAX_PAYLOAD {
        return Err(E2BIG);
    }
    let mut buf = KVVec::with_capacity(payload_len + 1, GFP_KERNEL_ACCOUNT)?;
    let buf = buf.spare_capacity_mut().get_mut(..=payload_len);
    record_apart(event, source.read_payload_and_nul(buf.ok_or(E2BIG)?)?)
}

/// Records what is within the limit of the event's group, if that fits on the stack. What does not asks for the limit by
/// itself.
#[cold]
#[inline(never)]
fn write_within_limit(event: &Event, payload_len: usize, mut source: impl Source) -> Result {
    if payload_len > MAX_ON_STACK {
        return write_long(event, payload_len, source);
    }
    let mut buf = [MaybeUninit::uninit(); MAX_ON_STACK + 1];
    let buf = buf.get_mut(..=payload_len).ok_or(E2BIG)?;
    record_apart(event, source.read_payload_and_nul(buf)?)
}

/// [`record`], not many times in the module for what takes its time anyway.
#[inline(never)]
fn record_apart(event: &Event, payload_and_nul: &[u8]) -> Result {
    record(event, payload_and_nul, event.group().byte_rate())
}

/// Checks a payload and hands it to each consumer. A NUL that is not part of it comes last.
#[inline(always)]
fn record(event: &Event, payload_and_nul: &[u8], byte_rate: Option<&ByteRate>) -> Result {
    let record = event.check(payload_and_nul)?;
    let charged = match byte_rate {
        Some(byte_rate) => {
            let payload_len = payload_and_nul.len().saturating_sub(1);
            Some((byte_rate, byte_rate.charge(payload_len)?))
        }
        None => None,
    };

    let mut tally = Tally::default();
    let delivery = record.deliver();
    delivery.ftrace(|outcome| tally.ftrace(outcome));
    if let Some(outcome) = delivery.perf() {
        tally.perf(outcome);
    }
    drop(delivery);
    let result = tally.add_to(event.misses());
    if let (Err(_), Some((byte_rate, charged))) = (result, charged) {
        byte_rate.give_back(charged);
    }
    result
}
