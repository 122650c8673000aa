// SPDX-License-Identifier: GPL-2.0

//! The bytes of a record: room for the common fields, and behind it a payload.
//!
//! ftrace fills in the common fields in its own buffer, perf where the record lies. C:
//! `struct trace_entry` (linux/trace_events.h).

use super::ring_buffer::HEADER_SIZE;
use core::marker::PhantomData;
use core::mem::{
    size_of,
    size_of_val,
    MaybeUninit, //
};
use core::ptr::NonNull;
use kernel::prelude::*;

/// Memory for a record: perf wants it to begin where a word does.
pub(crate) type Word = MaybeUninit<u64>;

const _: () = assert!(HEADER_SIZE % size_of::<Word>() == 0);

/// How many words the record of a payload of so many bytes takes, with a NUL behind it.
pub(crate) const fn words_for(payload_len: usize) -> usize {
    HEADER_SIZE / size_of::<Word>() + payload_len / size_of::<Word>() + 1
}

/// Room for the common fields, a payload, and behind that a NUL that may become a part of it.
///
/// # Invariants
///
/// At `start`, which is aligned as a word is, lie [`HEADER_SIZE`] bytes and `payload_len` more, for
/// `'a` used by nothing else. The latter are initialised.
pub(crate) struct RecordBuf<'a> {
    start: NonNull<u64>,
    payload_len: usize,
    _memory: PhantomData<&'a mut [Word]>,
}

impl<'a> RecordBuf<'a> {
    /// Has `fill` write a payload of so many bytes behind the room, and puts a NUL behind it.
    ///
    /// # Errors
    ///
    /// `E2BIG` when the memory is less than [`words_for`] says; what `fill` returns.
    ///
    /// # Safety
    ///
    /// `fill` must have written all that it is given if it succeeds.
    #[inline(always)]
    pub(super) unsafe fn read(
        memory: &'a mut [Word],
        payload_len: usize,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result,
    ) -> Result<Self> {
        if payload_len >= size_of_val(memory).saturating_sub(HEADER_SIZE) {
            return Err(E2BIG);
        }
        let start = NonNull::from(memory).cast::<u64>();
        // SAFETY: The memory is ours for `'a`, and holds more than `HEADER_SIZE` and `payload_len`
        // bytes. What is behind the room for the common fields is borrowed by nothing else
        // meanwhile.
        let payload_and_nul = unsafe {
            let payload = start.cast::<MaybeUninit<u8>>().add(HEADER_SIZE);
            NonNull::slice_from_raw_parts(payload, payload_len + 1).as_mut()
        };
        if let Some((nul, payload)) = payload_and_nul.split_last_mut() {
            fill(payload)?;
            nul.write(0);
        }
        // INVARIANT: By the promise about `fill` the payload is written, and the NUL has just been.
        Ok(Self {
            start,
            payload_len: payload_len + 1,
            _memory: PhantomData,
        })
    }

    /// The payload, and what is behind it if that belongs to it.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        // SAFETY: By the invariant they are there, initialised, and what is done with the common
        // fields is done elsewhere.
        unsafe {
            let payload = self.start.cast::<u8>().add(HEADER_SIZE);
            NonNull::slice_from_raw_parts(payload, self.payload_len).as_ref()
        }
    }

    /// The same for a shorter time.
    #[inline]
    pub(super) fn reborrow(&mut self) -> RecordBuf<'_> {
        // INVARIANT: `self` is borrowed for as long, so nothing else uses the memory.
        RecordBuf {
            start: self.start,
            payload_len: self.payload_len,
            _memory: PhantomData,
        }
    }

    /// The payload is one byte less.
    #[inline]
    pub(super) fn without_last(mut self) -> Self {
        // INVARIANT: Fewer bytes than there are.
        self.payload_len = self.payload_len.saturating_sub(1);
        self
    }

    /// Bytes of the record, the common fields included.
    #[inline]
    pub(super) fn size(&self) -> usize {
        // By the invariant there are so many in memory.
        HEADER_SIZE.wrapping_add(self.payload_len)
    }

    /// Where the record lies. The common fields there may be written, and what is behind them read.
    #[inline]
    pub(super) fn as_mut_ptr(&mut self) -> *mut u64 {
        self.start.as_ptr()
    }
}
