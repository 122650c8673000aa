// SPDX-License-Identifier: GPL-2.0

//! The memory of a record: room for the common fields, and the payload.
//!
//! ftrace writes the common fields in its own buffer, and perf in this memory. C: `struct
//! trace_entry` (linux/trace_events.h).

use super::ring_buffer::HEADER_SIZE;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use kernel::prelude::*;

/// Memory for records, which perf needs aligned to a word.
pub(crate) type Word = MaybeUninit<u64>;

const _: () = assert!(HEADER_SIZE % size_of::<Word>() == 0);

/// The words of a record with a payload of `payload_len` bytes, and a NUL.
pub(crate) const fn words_for(payload_len: usize) -> usize {
    HEADER_SIZE / size_of::<Word>() + payload_len / size_of::<Word>() + 1
}

/// Room for the common fields, a payload, and a NUL that may become part of it.
///
/// # Invariants
///
/// At `start`, which is aligned to a word, are [`HEADER_SIZE`] bytes, and `payload_len` initialised
/// ones, that nothing else uses for `'a`.
pub(crate) struct RecordBuf<'a> {
    start: NonNull<u64>,
    payload_len: usize,
    _memory: PhantomData<&'a mut [Word]>,
}

impl<'a> RecordBuf<'a> {
    /// Calls `fill` to write a payload of `payload_len` bytes, and adds a NUL.
    ///
    /// # Errors
    ///
    /// `E2BIG` when `memory` is smaller than [`words_for`]; the errors of `fill`.
    ///
    /// # Safety
    ///
    /// `fill` must have initialised its whole argument if it succeeds.
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
        // SAFETY: The memory is borrowed for `'a`, and has more than `HEADER_SIZE + payload_len`
        // bytes. Nothing else borrows the part behind the common fields meanwhile.
        let payload_and_nul = unsafe {
            let payload = start.cast::<MaybeUninit<u8>>().add(HEADER_SIZE);
            NonNull::slice_from_raw_parts(payload, payload_len + 1).as_mut()
        };
        if let Some((nul, payload)) = payload_and_nul.split_last_mut() {
            fill(payload)?;
            nul.write(0);
        }
        // INVARIANT: `fill` has written the payload by the safety requirement, and the NUL was just
        // written.
        Ok(Self {
            start,
            payload_len: payload_len + 1,
            _memory: PhantomData,
        })
    }

    /// The payload, with the NUL if that is part of it.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        // SAFETY: The bytes are initialised by the invariant. Only the common fields are written,
        // elsewhere.
        unsafe {
            let payload = self.start.cast::<u8>().add(HEADER_SIZE);
            NonNull::slice_from_raw_parts(payload, self.payload_len).as_ref()
        }
    }

    /// Reborrows the memory.
    #[inline]
    pub(super) fn reborrow(&mut self) -> RecordBuf<'_> {
        // INVARIANT: `self` is borrowed as long, so nothing else uses the memory.
        RecordBuf {
            start: self.start,
            payload_len: self.payload_len,
            _memory: PhantomData,
        }
    }

    /// Removes the last byte of the payload.
    #[inline]
    pub(super) fn without_last(mut self) -> Self {
        // INVARIANT: Fewer bytes than there are.
        self.payload_len = self.payload_len.saturating_sub(1);
        self
    }

    /// Bytes of the record, the common fields included.
    #[inline]
    pub(super) fn size(&self) -> usize {
        // Does not overflow: by the invariant these bytes are in memory.
        HEADER_SIZE.wrapping_add(self.payload_len)
    }

    /// The start of the record. The common fields may be written, and all other bytes read.
    #[inline]
    pub(super) fn as_mut_ptr(&mut self) -> *mut u64 {
        self.start.as_ptr()
    }
}
