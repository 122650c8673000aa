// SPDX-License-Identifier: GPL-2.0

//! The hot path: from the bytes of a write to the buffers of the consumers.
//!
//! The payload is read once, checked once, and copied to each consumer from where it was read to. A
//! long one is read into the buffer of a trace instance. A payload of up to [`MAX_ON_STACK`] bytes
//! takes no lock and no allocation.

mod buf_cache;

pub(crate) use buf_cache::RecordBufCache;

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

/// The longest payload in bytes that is always read to the stack and copied. A longer one for trace
/// instances alone is read into the buffer of an instance, which is cheaper.
const MAX_COPIED: usize = 512;

/// The longest payload in bytes that is read to the stack.
const MAX_ON_STACK: usize = 1024;

/// Words of the stack for the record of such a payload.
const ON_STACK: usize = record_buf::words_for(MAX_ON_STACK);

/// Bytes of a record beside its payload, as a limit counts them: the common fields, and as much for
/// the buffer's header and padding.
const RECORD_OVERHEAD: usize = 16;

/// The longest payload that any buffer can hold.
const MAX_PAYLOAD: usize = MAX_FIXED as usize;

/// Records the next `payload_len` bytes of `source` as a payload of `event`. May sleep for user
/// memory.
///
/// # Errors
///
/// `EFAULT` when the payload cannot be read, or a location in it is not valid; `EINVAL` when it is
/// shorter than the event's fields; `EBADF` when the event has no consumers; `E2BIG` when none of
/// them can ever take a payload of that size; `EDQUOT` when the event's group may record no more in
/// this second; `ENOMEM`. Nothing is recorded then.
#[inline(always)]
pub(crate) fn write(
    event: &EventRef,
    cache: &RecordBufCache,
    payload_len: usize,
    source: impl WriteSource,
) -> Result {
    schema::check_len(payload_len, event.fixed_size())?;
    let wanted = event.consumers_relaxed();
    if wanted.is_none() {
        return Err(EBADF);
    }
    let result = if wanted.has_limit() {
        write_rate_limited(event, cache, payload_len, source)
    } else {
        write_unlimited(event, cache, payload_len, source)
    };
    if result.is_err() {
        event.count_failed_write();
    }
    result
}

/// Records a payload of a group without a limit of bytes. Out of line, so that a write that ends
/// earlier does not pay for the buffer.
#[inline(never)]
fn write_unlimited(
    event: &EventRef,
    cache: &RecordBufCache,
    payload_len: usize,
    mut source: impl WriteSource,
) -> Result {
    if payload_len > MAX_COPIED && !event.consumers().has_perf() {
        let mut tally = Tally::default();
        let then = |outcome| tally.ftrace(outcome);
        if let Some(result) = event.record_in_place(&source, payload_len, then) {
            result?;
            return tally.add_to(|| event.misses());
        }
    }
    if payload_len > MAX_ON_STACK {
        return write_long(event, cache, payload_len, source);
    }
    let mut memory = [Word::uninit(); ON_STACK];
    record(event, source.read_record(&mut memory, payload_len)?, None)
}

/// Words in front of a long record. The memory begins where a page does, and a record lies a little
/// behind the start of a page in ftrace's buffer: some processors take ten times as long for a copy
/// (`REP MOVSB`) if the destination lies a little further in its page than the source.
const WORDS_APART: usize = 8;

/// Records a payload that is too long for the stack.
#[cold]
#[inline(never)]
fn write_long(
    event: &EventRef,
    cache: &RecordBufCache,
    payload_len: usize,
    mut source: impl WriteSource,
) -> Result {
    if payload_len > MAX_PAYLOAD {
        return Err(E2BIG);
    }
    let words = WORDS_APART + record_buf::words_for(payload_len);
    let mut memory = cache.take(words)?;
    let room = memory.spare_capacity_mut().get_mut(WORDS_APART..);
    let result = source
        .read_record(room.unwrap_or_default(), payload_len)
        .and_then(|bytes| record_cold(event, bytes));
    cache.keep(memory);
    result
}

/// Records a payload within the limit of the event's group. One that is too long for the stack goes
/// to [`write_long`], which checks the limit itself.
#[cold]
#[inline(never)]
fn write_rate_limited(
    event: &EventRef,
    cache: &RecordBufCache,
    payload_len: usize,
    mut source: impl WriteSource,
) -> Result {
    if payload_len > MAX_ON_STACK {
        return write_long(event, cache, payload_len, source);
    }
    let mut memory = [Word::uninit(); ON_STACK];
    record_cold(event, source.read_record(&mut memory, payload_len)?)
}

/// [`record`] for the slow paths, out of line, within the limit of the event's group if it has one.
#[inline(never)]
fn record_cold(event: &EventRef, bytes: RecordBuf<'_>) -> Result {
    record(event, bytes, event.group().byte_rate())
}

/// Checks a payload and delivers it to each consumer. The last byte of `bytes` is a NUL behind the
/// payload.
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
    let result = tally.add_to(|| event.misses());
    if let (Err(_), Some((byte_rate, charged))) = (result, charged) {
        byte_rate.uncharge(charged);
    }
    result
}
