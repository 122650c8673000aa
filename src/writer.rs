// SPDX-License-Identifier: GPL-2.0

//! The hot path: from the bytes of a write to the buffers of those who listen.
//!
//! The payload is copied once, checked once and handed to each consumer. There is no lock, and no
//! allocation for a payload of up to [`ON_STACK`] bytes.

use crate::event::{Event, Use};
use crate::files::event_table::EventTable;
use crate::misses::Tally;
use crate::schema::{Ending, MAX_FIXED};
use crate::sys::source::Source;
use core::mem::MaybeUninit;
use kernel::prelude::*;

/// Bytes of the index in front of a payload.
const INDEX: usize = 4;

/// The longest payload that is copied to the stack.
const ON_STACK: usize = 512;

/// The longest payload that any buffer can hold.
const LONGEST: usize = MAX_FIXED as usize;

/// Records what `source` holds: a write index of `events`, and a payload. May sleep for user
/// memory. Returns how long `source` was.
///
/// # Errors
///
/// `EFAULT` when it is shorter than an index, cannot be read, or a location in the payload is not
/// right; `EINVAL` when the index is negative, or the payload is shorter than the event's fields;
/// `ENOENT` when the file has no such index; `EBADF` when nobody listens; `E2BIG` when nobody who
/// listens can ever take a payload of that size; `ENOMEM`. Nothing is recorded then.
#[inline]
pub(crate) fn write(events: &EventTable, mut source: impl Source) -> Result<usize> {
    let len = source.len();
    let mut room = [MaybeUninit::uninit(); INDEX + ON_STACK + 1];
    match room.get_mut(..=len) {
        // All of it at once. If only a part can be read, what is wrong with that comes first.
        Some(room) => {
            let read = source.read_and_nul(room);
            let (index, payload_and_nul) = split_index(read)?;
            let event = find(events, index, len)?;
            if read.len() <= len {
                return Err(EFAULT);
            }
            record(event, payload_and_nul)?;
        }
        None => write_long(events, source)?,
    }
    Ok(len)
}

/// The index, and what is behind it; the NUL that was put last is not part of an index.
#[inline]
fn split_index(read: &[u8]) -> Result<(i32, &[u8])> {
    let (index, rest) = read.split_first_chunk().ok_or(EFAULT)?;
    if rest.is_empty() {
        return Err(EFAULT);
    }
    Ok((i32::from_ne_bytes(*index), rest))
}

/// The event for an index in front of a record that is `len` bytes long, if somebody wants it.
#[inline]
fn find(events: &EventTable, index: i32, len: usize) -> Result<&Use> {
    let index = u32::try_from(index).map_err(|_| EINVAL)?;
    let event = events.get(index).ok_or(ENOENT)?;
    if len < INDEX + event.fixed_size() {
        return Err(EINVAL);
    }
    if event.consumers().is_none() {
        return Err(EBADF);
    }
    Ok(event)
}

/// Records what is too long for the stack.
#[cold]
fn write_long(events: &EventTable, mut source: impl Source) -> Result {
    let len = source.len();
    let mut room = [MaybeUninit::uninit(); INDEX + 1];
    let (index, _) = split_index(source.read_and_nul(&mut room))?;
    let event = find(events, index, len)?;
    let payload_len = source.len();
    if payload_len > LONGEST {
        return Err(E2BIG);
    }
    let mut payload = KVVec::with_capacity(payload_len + 1, GFP_KERNEL)?;
    source.read_rest(&mut payload)?;
    payload.push(0, GFP_KERNEL)?;
    record(event, &payload)
}

/// Checks a payload and hands it to each consumer. A NUL that is not part of it comes last.
#[inline]
fn record(event: &Event, payload_and_nul: &[u8]) -> Result {
    let (_, payload) = payload_and_nul.split_last().ok_or(EINVAL)?;
    let payload = match event.check_payload(payload)? {
        Ending::Complete => payload,
        Ending::NeedsNul => payload_and_nul,
    };

    let mut tally = Tally::default();
    let delivery = event.deliver();
    for file in delivery.files() {
        tally.ftrace(file.record(payload));
    }
    if let Some(outcome) = delivery.perf(payload) {
        tally.perf(outcome);
    }
    drop(delivery);
    tally.settle(event.misses())
}
