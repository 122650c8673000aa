// SPDX-License-Identifier: GPL-2.0

//! The hot path: from the bytes of a write to the buffers of the consumers.
//!
//! The payload is read once, checked once and handed to each consumer from where it was read to; a
//! long one is read to where a trace instance stores it. There is no lock, and no allocation, for a
//! payload of up to [`MAX_ON_STACK`] bytes.

mod event_index;
mod event_table;
mod spare_memory;

pub(crate) use event_table::EventTable;

use crate::events::{
    ByteRate,
    EventRef,
    Tally, //
};
use crate::schema::{
    self,
    MAX_FIXED, //
};
use crate::sys::record_buf::{
    self,
    RecordBuf,
    Word, //
};
use crate::sys::write_source::WriteSource;
use kernel::prelude::*;

/// Bytes of the write index.
const INDEX_SIZE: usize = size_of::<u32>();

/// The longest payload that is copied also for trace instances. To read a longer one to where an
/// instance stores it takes less.
const MAX_COPIED: usize = 512;

/// The longest payload that is copied to the stack.
const MAX_ON_STACK: usize = 1024;

/// Words of the stack that its record takes.
const ON_STACK: usize = record_buf::words_for(MAX_ON_STACK);

/// What a record takes in a buffer beside its payload, as it is counted for a limit: the common
/// fields, and at most as much for the buffer's own header and what fills up its last word.
const RECORD_OVERHEAD: usize = 16;

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
/// none of them can ever take a payload of that size; `EDQUOT` when the event's group may record no
/// more in this second; `ENOMEM`. Nothing is recorded then.
#[inline(always)]
pub(crate) fn write(events: &EventTable, mut source: impl WriteSource) -> Result<usize> {
    let len = source.len();
    let index = source.read_u32()?;
    let payload_len = len.saturating_sub(INDEX_SIZE);
    let event = find(events, index, payload_len)?;
    let wanted = event.consumers_relaxed();
    if wanted.is_none() {
        return Err(EBADF);
    }
    let result = if wanted.has_limit() {
        write_within_limit(event, events, payload_len, source)
    } else {
        write_short(event, events, payload_len, source)
    };
    if let Err(error) = result {
        event.refuse();
        return Err(error);
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

/// Records what is within no limit. Apart, so that a write that ends sooner does not pay for the
/// buffer.
#[inline(never)]
fn write_short(
    event: &EventRef,
    events: &EventTable,
    payload_len: usize,
    mut source: impl WriteSource,
) -> Result {
    if payload_len > MAX_COPIED && !event.consumers().has_perf() {
        let mut tally = Tally::default();
        let then = |outcome| tally.ftrace(outcome);
        if let Some(result) = event.record_in_place(&source, payload_len, then) {
            result?;
            return tally.add_to(event.misses());
        }
    }
    if payload_len > MAX_ON_STACK {
        return write_long(event, events, payload_len, source);
    }
    let mut memory = [Word::uninit(); ON_STACK];
    record(event, source.read_record(&mut memory, payload_len)?, None)
}

/// Words before a long record. The memory begins where a page does, and a record lies a little
/// behind that in ftrace's buffer: some processors take ten times as long for a copy (`REP MOVSB`)
/// to a place a little further in its page than the source.
const WORDS_APART: usize = 8;

/// Records what is too long for the stack.
#[cold]
#[inline(never)]
fn write_long(
    event: &EventRef,
    events: &EventTable,
    payload_len: usize,
    mut source: impl WriteSource,
) -> Result {
    if payload_len > MAX_PAYLOAD {
        return Err(E2BIG);
    }
    let words = WORDS_APART + record_buf::words_for(payload_len);
    let mut memory = events.spare().take(words)?;
    let room = memory.spare_capacity_mut().get_mut(WORDS_APART..);
    let result = source
        .read_record(room.unwrap_or_default(), payload_len)
        .and_then(|bytes| record_apart(event, bytes));
    events.spare().keep(memory);
    result
}

/// Records what is within the limit of the event's group, if that fits on the stack. What does not
/// asks for the limit by itself.
#[cold]
#[inline(never)]
fn write_within_limit(
    event: &EventRef,
    events: &EventTable,
    payload_len: usize,
    mut source: impl WriteSource,
) -> Result {
    if payload_len > MAX_ON_STACK {
        return write_long(event, events, payload_len, source);
    }
    let mut memory = [Word::uninit(); ON_STACK];
    record_apart(event, source.read_record(&mut memory, payload_len)?)
}

/// [`record`], not many times in the module for what takes its time anyway.
#[inline(never)]
fn record_apart(event: &EventRef, bytes: RecordBuf<'_>) -> Result {
    record(event, bytes, event.group().byte_rate())
}

/// Checks a payload and hands it to each consumer. A NUL that is not part of it comes last.
#[inline(always)]
fn record(event: &EventRef, bytes: RecordBuf<'_>, byte_rate: Option<&ByteRate>) -> Result {
    let size = bytes.payload().len().saturating_add(RECORD_OVERHEAD - 1);
    let record = event.check(bytes)?;
    let charged = match byte_rate {
        Some(byte_rate) => Some((byte_rate, byte_rate.charge(size)?)),
        None => None,
    };

    let mut tally = Tally::default();
    let mut delivery = record.deliver();
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
