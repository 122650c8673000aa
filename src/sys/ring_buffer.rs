// SPDX-License-Identifier: GPL-2.0

//! Storing a record in the ring buffer of a trace instance.
//!
//! C: `trace_event_buffer_reserve()`, `trace_event_buffer_commit()` (linux/trace_events.h).

use super::bindings;
use crate::schema::COMMON_SIZE;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{
    self,
    NonNull, //
};

/// Bytes of the common fields at the start of a record.
pub(super) const HEADER_SIZE: usize = size_of::<bindings::trace_entry>();
// The schema counts the offsets of fields from there.
const _: () = assert!(HEADER_SIZE == COMMON_SIZE as usize);

/// Flags of a file that need `trigger_soft_disabled()`.
const SOFT_DISABLE_FLAGS: usize = (1 << bindings::EVENT_FILE_FL_TRIGGER_MODE_BIT)
    | SOFT_DISABLED
    | (1 << bindings::EVENT_FILE_FL_PID_FILTER_BIT);

/// Nothing is stored in the file.
const SOFT_DISABLED: usize = 1 << bindings::EVENT_FILE_FL_SOFT_DISABLED_BIT;

/// The file has triggers with a condition, which see the record when it is committed.
const TRIGGER_COND: usize = 1 << bindings::EVENT_FILE_FL_TRIGGER_COND_BIT;

/// The reason for which a consumer has not stored a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotRecorded {
    /// The record is filtered by process, or this CPU has no perf event.
    Unwanted,
    /// The buffer is off or full, or this is a recursion.
    Missed,
    /// The consumer can never take a record of this size. It is `wanted` if it would not be
    /// filtered.
    TooLarge { wanted: bool },
}

/// An event's file in one trace instance. C: `struct trace_event_file`.
///
/// # Invariants
///
/// For `'a` the file is alive, the current context has preemption off, and is a reader for which
/// the trace core waits before it frees files and buffers.
pub(super) struct EventFile<'a> {
    file: NonNull<bindings::trace_event_file>,
    _reader: PhantomData<&'a ()>,
}

impl EventFile<'_> {
    /// # Safety
    ///
    /// The type invariants must hold, and `file` not be NULL.
    #[inline]
    pub(super) unsafe fn from_raw(file: *mut bindings::trace_event_file) -> Self {
        // INVARIANT: By the safety requirement.
        Self {
            // SAFETY: Not NULL by the safety requirement.
            file: unsafe { NonNull::new_unchecked(file) },
            _reader: PhantomData,
        }
    }

    /// Stores the common fields and `payload` as a record, after filters and triggers.
    ///
    /// With a filter, or a trigger that has a condition, the kernel sets the record aside first,
    /// and does not report whether it has found room then: the record counts as stored.
    ///
    /// # Safety
    ///
    /// `payload` must be a valid record of the file's event: filters, triggers, histograms and
    /// event probes follow its locations without checks of bounds.
    #[inline(always)]
    pub(super) unsafe fn record(&self, payload: &[u8]) -> Result<(), NotRecorded> {
        let file = self.file.as_ptr();
        // SAFETY: The file is alive by the invariant. Its flags change meanwhile, hence the
        // volatile read.
        let flags = unsafe { ptr::addr_of!((*file).flags).read_volatile() };
        if flags & SOFT_DISABLE_FLAGS != 0 && self.trigger_soft_disabled(flags) {
            return Err(NotRecorded::Unwanted);
        }
        // No slice is so long that this overflows.
        let size = HEADER_SIZE.wrapping_add(payload.len());
        let mut buffer = MaybeUninit::<bindings::trace_event_buffer>::uninit();
        let buffer = buffer.as_mut_ptr();
        // SAFETY: A local variable. If the reservation fails, only this member is read, see
        // `failure_reason`.
        unsafe { ptr::addr_of_mut!((*buffer).buffer).write(ptr::null_mut()) };
        // SAFETY: The file is alive, and preemption is off.
        let entry = unsafe { bindings::trace_event_buffer_reserve(buffer, file, size) };
        let Some(entry) = NonNull::new(entry) else {
            // SAFETY: Written above, and by the kernel if the reservation got that far.
            let ring_buffer = unsafe { (*buffer).buffer };
            return Err(Self::failure_reason(ring_buffer, flags, size));
        };
        // SAFETY: `size` bytes are reserved at `entry`: the common fields, which are written
        // already, and the payload. Nothing else uses the record yet.
        unsafe { copy_payload(payload, entry.as_ptr().cast::<u8>().add(HEADER_SIZE)) };
        // SAFETY: The reservation has initialised `buffer`.
        unsafe { bindings::trace_event_buffer_commit(buffer) };
        Ok(())
    }

    /// Calls `fill` to write the payload of a record to the ring buffer. The record is discarded if
    /// `fill` returns `false`. Returns whether the record was stored, or dropped by a filter. If
    /// not, [`Self::record`] finds the reason.
    ///
    /// # Safety
    ///
    /// If `fill` returns `true`, it must have initialised its whole argument with a valid record of
    /// the file's event.
    pub(super) unsafe fn record_in_place(
        &self,
        payload_len: usize,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> bool,
    ) -> bool {
        let file = self.file.as_ptr();
        // SAFETY: As in `record`.
        let flags = unsafe { ptr::addr_of!((*file).flags).read_volatile() };
        if flags & SOFT_DISABLE_FLAGS != 0 {
            return false;
        }
        let size = HEADER_SIZE.saturating_add(payload_len);
        let mut buffer = MaybeUninit::<bindings::trace_event_buffer>::uninit();
        let buffer = buffer.as_mut_ptr();
        // SAFETY: As in `record`.
        let entry = unsafe { bindings::trace_event_buffer_reserve(buffer, file, size) };
        let Some(entry) = NonNull::new(entry.cast::<u8>()) else {
            return false;
        };
        // SAFETY: `size` bytes are reserved at `entry`, of which the first `HEADER_SIZE` are
        // written already. Nothing else uses the record yet.
        let payload = unsafe {
            let payload = entry.add(HEADER_SIZE).cast::<MaybeUninit<u8>>();
            NonNull::slice_from_raw_parts(payload, payload_len).as_mut()
        };
        let is_right = fill(payload);
        let mut soft_disabled = MaybeUninit::<bindings::trace_event_file>::zeroed();
        if !is_right {
            // The trace core discards each record of a soft-disabled file, and reads only the flags
            // of such a file.
            let soft_disabled = soft_disabled.as_mut_ptr();
            // SAFETY: Local variables.
            unsafe {
                (&raw mut (*soft_disabled).flags).write(SOFT_DISABLED);
                (&raw mut (*buffer).trace_file).write(soft_disabled);
            }
        }
        // SAFETY: The reservation has initialised `buffer`, with a file that lives until here.
        unsafe { bindings::trace_event_buffer_commit(buffer) };
        is_right
    }

    /// [`Self::record`] for further instances. Not inlined: an event is mostly enabled in one
    /// instance, whose code should not prepare for a loop.
    ///
    /// # Safety
    ///
    /// As for [`Self::record`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn record_next_instance(&self, payload: &[u8]) -> Result<(), NotRecorded> {
        // SAFETY: The safety requirements are the same.
        unsafe { self.record(payload) }
    }

    /// Whether the record is not to be stored. Runs triggers without a condition. C:
    /// `trace_trigger_soft_disabled()`, which is inline, for a file with [`SOFT_DISABLE_FLAGS`].
    #[cold]
    fn trigger_soft_disabled(&self, flags: usize) -> bool {
        if flags & TRIGGER_COND != 0 {
            return false;
        }
        // SAFETY: The file is alive by the invariant.
        unsafe { bindings::__trace_trigger_soft_disabled(self.file.as_ptr()) }
    }

    /// The reason of a failed reservation, which the kernel does not return. It stores the ring
    /// buffer as soon as it tries one.
    #[cold]
    fn failure_reason(
        ring_buffer: *mut bindings::trace_buffer,
        flags: usize,
        size: usize,
    ) -> NotRecorded {
        if ring_buffer.is_null() {
            return NotRecorded::Unwanted;
        }
        if flags & TRIGGER_COND != 0 {
            // The last try was with the trace core's temporary buffer, which takes less, and from
            // which only triggers see the record.
            return NotRecorded::Missed;
        }
        // SAFETY: The ring buffer belongs to the instance of a live file.
        if size > unsafe { bindings::ring_buffer_max_event_size(ring_buffer) } {
            NotRecorded::TooLarge { wanted: true }
        } else {
            NotRecorded::Missed
        }
    }
}

/// Copies a payload to a record. A short one takes a few words from its start and a few from its
/// end, which overlap, instead of a call of `memcpy()`.
///
/// # Safety
///
/// `to` must have room for the payload that nothing else uses.
#[inline]
pub(super) unsafe fn copy_payload(payload: &[u8], to: *mut u8) {
    let (from, len) = (payload.as_ptr(), payload.len());
    let copy = |at: usize, count: usize| {
        // SAFETY: `at + count` is at most `len` in all calls below, and `to` has room for `len`
        // bytes by the safety requirement.
        unsafe { ptr::copy_nonoverlapping(from.add(at), to.add(at), count) };
    };
    let both_ends = |count: usize| {
        copy(0, count);
        copy(len - count, count);
    };
    match len {
        4..=8 => both_ends(4),
        9..=16 => both_ends(8),
        17..=32 => both_ends(16),
        33..=64 => both_ends(32),
        65..=128 => both_ends(64),
        _ => copy(0, len),
    }
}
