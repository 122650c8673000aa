// SPDX-License-Identifier: GPL-2.0

//! Storing a record in the ring buffer of a trace instance.
//!
//! C: `trace_event_buffer_reserve()`, `trace_event_buffer_commit()` (linux/trace_events.h).

use super::bindings;
use crate::schema::COMMON_SIZE;
use core::marker::PhantomData;
use core::mem::{
    size_of,
    MaybeUninit, //
};
use core::ptr::{
    self,
    NonNull, //
};

/// Bytes of the common fields in front of every record.
pub(super) const HEADER_SIZE: usize = size_of::<bindings::trace_entry>();
// Offsets of fields and locations were checked as counted from there.
const _: () = assert!(HEADER_SIZE == COMMON_SIZE as usize);

/// Flags of a file that ask for more than to store the record.
const SOFT_DISABLE_FLAGS: usize = (1 << bindings::EVENT_FILE_FL_TRIGGER_MODE_BIT)
    | SOFT_DISABLED
    | (1 << bindings::EVENT_FILE_FL_PID_FILTER_BIT);

/// Of a file of which nothing is stored.
const SOFT_DISABLED: usize = 1 << bindings::EVENT_FILE_FL_SOFT_DISABLED_BIT;

/// Of a file with triggers that look at the record: they are asked when it is stored.
const TRIGGER_COND: usize = 1 << bindings::EVENT_FILE_FL_TRIGGER_COND_BIT;

/// Why a consumer has not stored a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotRecorded {
    /// The consumer did not ask for it: filtered by process, or no perf event is on this CPU.
    Unwanted,
    /// The consumer could not take it now: buffer off or full, or recursion.
    Missed,
    /// The consumer can never take a record of this size. Did it ask for this one?
    TooLarge { wanted: bool },
}

/// An event's file in one trace instance. C: `struct trace_event_file`.
///
/// # Invariants
///
/// The file is alive for `'a`, and for `'a` the current context has preemption off and is a reader
/// of what the trace core waits for before it frees files and buffers.
pub(super) struct EventFile<'a> {
    file: NonNull<bindings::trace_event_file>,
    _reader: PhantomData<&'a ()>,
}

impl EventFile<'_> {
    /// # Safety
    ///
    /// The caller promises the type invariants, and that `file` is not NULL.
    #[inline]
    pub(super) unsafe fn from_raw(file: *mut bindings::trace_event_file) -> Self {
        // INVARIANT: Promised by the caller.
        Self {
            // SAFETY: Not NULL, says the caller.
            file: unsafe { NonNull::new_unchecked(file) },
            _reader: PhantomData,
        }
    }

    /// Stores the common fields and `payload` as one record, after filters and triggers.
    ///
    /// Where the kernel has to see the record before it knows whether to store it, for a filter or
    /// the condition of a trigger, it sets it aside, and does not tell whether it then found room:
    /// that counts as stored.
    ///
    /// # Safety
    ///
    /// `payload` must be a valid record of the file's event: filters, triggers, histograms and
    /// event probes follow its locations without a look at the bounds.
    #[inline(always)]
    pub(super) unsafe fn record(&self, payload: &[u8]) -> Result<(), NotRecorded> {
        let file = self.file.as_ptr();
        // SAFETY: The file is alive by the invariant. Its flags may change meanwhile, hence the
        // volatile read.
        let flags = unsafe { ptr::addr_of!((*file).flags).read_volatile() };
        if flags & SOFT_DISABLE_FLAGS != 0 && self.trigger_soft_disabled(flags) {
            return Err(NotRecorded::Unwanted);
        }
        // No slice is so long that this overflows.
        let size = HEADER_SIZE.wrapping_add(payload.len());
        let mut buffer = MaybeUninit::<bindings::trace_event_buffer>::uninit();
        let buffer = buffer.as_mut_ptr();
        // SAFETY: The room is ours. What the kernel has not set is not read but this: see
        // `failure_reason`.
        unsafe { ptr::addr_of_mut!((*buffer).buffer).write(ptr::null_mut()) };
        // SAFETY: The file is alive, and preemption is off as the function expects.
        let entry = unsafe { bindings::trace_event_buffer_reserve(buffer, file, size) };
        let Some(entry) = NonNull::new(entry) else {
            // SAFETY: Written above, and by the kernel if it got that far.
            let ring_buffer = unsafe { (*buffer).buffer };
            return Err(Self::failure_reason(ring_buffer, flags, size));
        };
        // SAFETY: `size` bytes were reserved at `entry`: the common fields, which are filled in
        // already, and room for the payload behind them. Nothing else knows the record yet.
        unsafe { copy_payload(payload, entry.as_ptr().cast::<u8>().add(HEADER_SIZE)) };
        // SAFETY: `buffer` is what the reservation made of it.
        unsafe { bindings::trace_event_buffer_commit(buffer) };
        Ok(())
    }

    /// Has `fill` write the payload of a record to where it is stored. The record is thrown away if
    /// `fill` returns `false`. Returns whether the record was stored, or a filter has dropped it:
    /// [`Self::record`] finds out why it was not.
    ///
    /// # Safety
    ///
    /// If `fill` returns `true`, it must have written all that it is given, and that must be a
    /// valid record of the file's event.
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
        // SAFETY: `size` bytes were reserved at `entry`, of which the first `HEADER_SIZE` are
        // filled in already. Nothing else knows the record yet.
        let payload = unsafe {
            let payload = entry.add(HEADER_SIZE).cast::<MaybeUninit<u8>>();
            NonNull::slice_from_raw_parts(payload, payload_len).as_mut()
        };
        let is_right = fill(payload);
        let mut soft_disabled = MaybeUninit::<bindings::trace_event_file>::zeroed();
        if !is_right {
            // The trace core discards each record of a softly disabled file, wherever the record
            // lies, and reads nothing of such a file but the flags.
            let soft_disabled = soft_disabled.as_mut_ptr();
            // SAFETY: Both are ours.
            unsafe {
                (&raw mut (*soft_disabled).flags).write(SOFT_DISABLED);
                (&raw mut (*buffer).trace_file).write(soft_disabled);
            }
        }
        // SAFETY: `buffer` is what the reservation made of it, but for the file, which lives until
        // here.
        unsafe { bindings::trace_event_buffer_commit(buffer) };
        is_right
    }

    /// [`Self::record`], for the instances behind the first one: an event is enabled in one most
    /// often, and what is inlined for that should not prepare for a loop.
    ///
    /// # Safety
    ///
    /// As for [`Self::record`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn record_next_instance(&self, payload: &[u8]) -> Result<(), NotRecorded> {
        // SAFETY: Promised by the caller.
        unsafe { self.record(payload) }
    }

    /// Is the record not to be stored? Triggers that do not look at it are run. C:
    /// `trace_trigger_soft_disabled()`, which is inline, for a file with flags of
    /// [`SOFT_DISABLE_FLAGS`].
    #[cold]
    fn trigger_soft_disabled(&self, flags: usize) -> bool {
        if flags & TRIGGER_COND != 0 {
            return false;
        }
        // SAFETY: The file is alive by the invariant.
        unsafe { bindings::__trace_trigger_soft_disabled(self.file.as_ptr()) }
    }

    /// Tells why a reservation failed. The kernel does not say; but it notes the ring buffer as
    /// soon as it has got to the point of trying.
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
            // Not the instance's, but the trace core's temporary one, which takes less: only
            // triggers would have looked at that.
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

/// Copies a payload into a record. What is short takes a few words from its front and a few from
/// its end, which overlap, instead of the call of a function that counts.
///
/// # Safety
///
/// `to` must have room for the payload, and nothing else know that room.
#[inline]
pub(super) unsafe fn copy_payload(payload: &[u8], to: *mut u8) {
    let (from, len) = (payload.as_ptr(), payload.len());
    let copy = |at: usize, count: usize| {
        // SAFETY: Below, `at + count` is at most `len`, which is what there is, and room for, says
        // the caller.
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
