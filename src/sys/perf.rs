// SPDX-License-Identifier: GPL-2.0

//! Submitting a record to perf, and to eBPF programs on perf events.
//!
//! A perf event copies a record to its ring buffer from the buffer of the write. C copies it to a
//! buffer of the trace core first, which ends at 8 KB (`perf_trace_buf_alloc()`). Here perf's
//! format is the bound: a sample has 16 bits for its size, which the kernel does not check, and a
//! larger sample spoils the ring buffer from there on. So [`PerfEvents::open`] computes what else
//! the samples of a perf event can contain.
//!
//! C: `perf_tp_event()`, `perf_trace_run_bpf_submit()` (linux/trace_events.h).

use super::bindings::{
    self,
    hlist_head,
    perf_event,
    perf_event_attr,
    perf_event_header,
    trace_event_call, //
};
use super::event_mutex::{
    EventMutexHeld,
    EventMutexLocked, //
};
use super::record_buf::RecordBuf;
use super::ring_buffer::{
    copy_payload,
    NotRecorded,
    HEADER_SIZE, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNode, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The largest record in the trace core's buffer, with the common fields. A request for more would
/// WARN.
const MAX_BUFFERED: usize = bindings::PERF_MAX_TRACE_SIZE as usize;
const _: () = assert!(MAX_BUFFERED % 8 == 0);

/// The largest sample in bytes: the last multiple of 8 that fits the header.
const MAX_SAMPLE: u64 = u16::MAX as u64 & !7;

/// The largest record in a sample of nothing else, with the common fields.
const MAX_RECORD_SIZE: usize =
    MAX_SAMPLE as usize - size_of::<perf_event_header>() - size_of::<u32>();

/// The largest part of a sample for the counts of a group, in bytes. C:
/// `perf_event_validate_size()`.
const MAX_GROUP_READ: u64 = 16 * 1024;

/// The open perf events of a trace event. All of them get a record of more than [`MAX_BUFFERED`]
/// bytes, or none.
pub(super) struct PerfEvents {
    /// By the largest record, with the common fields, that always fits a sample of the perf event.
    by_max_record: EventMutexLocked<RBTree<(u32, usize), ()>>,
    /// The smallest of these.
    max_record: Atomic<u32>,
}

impl PerfEvents {
    /// No perf events.
    pub(super) fn new() -> Self {
        Self {
            by_max_record: EventMutexLocked::new(RBTree::new()),
            max_record: Atomic::new(MAX_RECORD_SIZE as u32),
        }
    }

    /// Adds a perf event that is being opened, and in no per-CPU list yet. No record that is too
    /// large for it is on its way when this returns. Sleeps.
    ///
    /// # Safety
    ///
    /// `event` must be alive.
    pub(super) unsafe fn open(
        &self,
        event: *const perf_event,
        held: &mut EventMutexHeld,
    ) -> Result {
        // SAFETY: The event is alive, and its attributes do not change.
        let max_record = max_record(unsafe { &(*event).attr });
        // Not charged: a memory cgroup at its limit may delay that, while others wait for the
        // mutex.
        let node = RBTreeNode::new((max_record, event.addr()), (), GFP_KERNEL)?;
        self.by_max_record.get_mut(held).insert(node);
        if max_record < self.max_record.load(Relaxed) {
            self.max_record.store(max_record, Relaxed);
            // Earlier writers are readers of `tracepoint_srcu`.
            // SAFETY: Waits only.
            unsafe { bindings::user_events_tracepoint_synchronize_unregister() };
        }
        Ok(())
    }

    /// Removes a perf event that is in no per-CPU list any more.
    ///
    /// # Safety
    ///
    /// As for [`Self::open`].
    pub(super) unsafe fn close(&self, event: *const perf_event, held: &mut EventMutexHeld) {
        // SAFETY: As in `open`.
        let max_record = max_record(unsafe { &(*event).attr });
        let by_max_record = self.by_max_record.get_mut(held);
        by_max_record.remove(&(max_record, event.addr()));
        let least = by_max_record
            .cursor_front()
            .map(|first| first.current().0 .0);
        self.max_record
            .store(least.unwrap_or(MAX_RECORD_SIZE as u32), Relaxed);
    }
}

/// Submits a record to the perf events of this CPU, and to eBPF.
///
/// # Safety
///
/// `call` must be alive, and `perf_events` return those of it. The current context must be a reader
/// of `tracepoint_srcu` with preemption off, and perf have been attached to `call` since before.
/// The payload must be a valid record of the event: filters follow its locations, and programs read
/// its fields, without checks of bounds.
#[inline(always)]
pub(super) unsafe fn record<'a>(
    call: *mut trace_event_call,
    perf_events: impl FnOnce() -> Option<&'a PerfEvents>,
    mut record: RecordBuf<'_>,
) -> Result<(), NotRecorded> {
    let size = record.size();
    // SAFETY: The call is alive. The pointer is compared only; `bpf_prog_array_valid()` reads it in
    // the same way.
    let programs = unsafe { (&raw const (*call).prog_array).read_volatile() };
    if !programs.is_null() || size > MAX_BUFFERED {
        // SAFETY: The safety requirements are the same.
        return unsafe { record_slow(call, perf_events(), record) };
    }
    // SAFETY: Perf is attached, so the call has per-CPU lists, which perf frees only after readers
    // like this one. Preemption is off. The record has `size` bytes, and room for the common
    // fields, which are written there, and is valid for the event.
    let error = unsafe {
        bindings::user_events_perf_tp_event(call, record.as_mut_ptr().cast(), size as i32)
    };
    if error == 0 {
        Ok(())
    } else {
        Err(failure_reason(error))
    }
}

/// The reason for which perf has not taken a record.
#[cold]
fn failure_reason(error: c_int) -> NotRecorded {
    if error == ENOENT.to_errno() {
        NotRecorded::Unwanted
    } else {
        NotRecorded::Missed
    }
}

/// [`record`] with a program attached, or of a record that is larger than the trace core's buffer.
///
/// # Safety
///
/// As for [`record`].
#[cold]
#[inline(never)]
unsafe fn record_slow(
    call: *mut trace_event_call,
    perf_events: Option<&PerfEvents>,
    record: RecordBuf<'_>,
) -> Result<(), NotRecorded> {
    // SAFETY: Perf is attached, so the call has per-CPU lists, which perf frees only after readers
    // like this one. Preemption is off.
    let head = unsafe { bindings::user_events_perf_events(call) };
    // A program that is attached through a perf event of another CPU runs on this CPU, too.
    // SAFETY: The list exists, see above, and the call is alive. Both pointers are compared only;
    // `hlist_empty()` and `bpf_prog_array_valid()` read them in the same way.
    let wanted = unsafe {
        let (first, programs) = (&raw const (*head).first, &raw const (*call).prog_array);
        !first.read_volatile().is_null() || !programs.read_volatile().is_null()
    };
    if record.size() > MAX_RECORD_SIZE {
        return Err(NotRecorded::TooLarge { wanted });
    }
    if !wanted {
        return Err(NotRecorded::Unwanted);
    }
    if record.size() <= MAX_BUFFERED {
        // SAFETY: As for this function.
        unsafe { record_buffered(call, head, &record) }
    } else {
        let max_record = perf_events.map(|events| events.max_record.load(Relaxed) as usize);
        let fits = max_record.is_some_and(|max| record.size() <= max);
        // SAFETY: As for this function; the record is larger than the buffer, and fits each perf
        // event if `fits`: one that it does not fit enters the list only after this reader.
        unsafe { record_large(call, head, record, fits) }
    }
}

/// Submits a record from the trace core's buffer. A program may read all of the buffer, also beyond
/// the record.
///
/// # Safety
///
/// As for [`record`]. `head` must be this CPU's list of the call, and the record at most
/// [`MAX_BUFFERED`] bytes.
unsafe fn record_buffered(
    call: *mut trace_event_call,
    head: *mut hlist_head,
    record: &RecordBuf<'_>,
) -> Result<(), NotRecorded> {
    let size = record.size();
    // The buffer has whole u64s, and [`MAX_BUFFERED`] is a multiple.
    let alloc_size = size.next_multiple_of(8);
    let (mut regs, mut context) = (ptr::null_mut(), 0);
    // SAFETY: Preemption is off, `alloc_size` is within the limit, and perf is attached, so the
    // per-CPU buffers exist.
    let entry =
        unsafe { bindings::perf_trace_buf_alloc(alloc_size as i32, &mut regs, &mut context) };
    let Some(entry) = NonNull::new(entry) else {
        return Err(NotRecorded::Missed);
    };
    // SAFETY: Until the submission the registers and the `alloc_size` bytes, of which the record
    // takes `size`, belong to this recursion level of this CPU. The submission writes the common
    // fields.
    unsafe {
        copy_payload(
            record.payload(),
            entry.as_ptr().cast::<u8>().add(HEADER_SIZE),
        );
        bindings::user_events_perf_submit(entry.as_ptr(), size as i32, context, call, regs, head);
    }
    Ok(())
}

/// Submits a record from its own memory, to perf events only if it `fits`. A program may read
/// [`MAX_BUFFERED`] bytes, which all belong to the record.
///
/// # Safety
///
/// As for [`record`]. `head` must be this CPU's list of the call, the record must fit its perf
/// events if `fits`, and be larger than [`MAX_BUFFERED`].
unsafe fn record_large(
    call: *mut trace_event_call,
    head: *mut hlist_head,
    mut record: RecordBuf<'_>,
    fits: bool,
) -> Result<(), NotRecorded> {
    let size = record.size();
    // SAFETY: The call is alive. The pointer is compared only.
    let programs = unsafe { (&raw const (*call).prog_array).read_volatile() };
    if !fits && programs.is_null() {
        return Err(NotRecorded::TooLarge { wanted: true });
    }
    // A program gets the record also if no sample has room.
    let mut none = hlist_head::default();
    let head = if fits { head } else { &raw mut none };
    // SAFETY: Preemption is off, so the context belongs to this CPU until the submission.
    let context = unsafe { bindings::perf_swevent_get_recursion_context() };
    if context < 0 {
        return Err(NotRecorded::Missed);
    }
    // SAFETY: As in `record`. Only a task with preemption off uses this CPU's registers.
    unsafe {
        let regs = bindings::user_events_perf_regs();
        let entry = record.as_mut_ptr().cast();
        bindings::user_events_perf_submit(entry, size as i32, context, call, regs, head);
    }
    if fits {
        Ok(())
    } else {
        Err(NotRecorded::Missed)
    }
}

/// The largest record, with the common fields, that always fits a sample of a perf event with these
/// attributes.
///
/// C: `perf_prepare_sample()` (kernel/events/core.c). It shrinks the user stack
/// (`PERF_SAMPLE_STACK_USER`) and the data of an AUX buffer to what fits, but does not check the
/// former again after it has added registers or the latter.
fn max_record(attr: &perf_event_attr) -> u32 {
    const WORD: u64 = size_of::<u64>() as u64;
    let mut kinds = attr.sample_type;
    let mut has = |kind: bindings::perf_event_sample_format| {
        let kind = u64::from(kind);
        let has = kinds & kind != 0;
        kinds &= !kind;
        has
    };
    let has_record = has(bindings::perf_event_sample_format_PERF_SAMPLE_RAW);
    if attr.exclude_kernel() != 0 || !has_record {
        // No samples of the kernel, or none with a record.
        return MAX_RECORD_SIZE as u32;
    }

    let mut words = 0_u64;
    if has(bindings::perf_event_sample_format_PERF_SAMPLE_READ) {
        let group = u64::from(bindings::perf_event_read_format_PERF_FORMAT_GROUP);
        words += match attr.read_format & group {
            0 => 1 + u64::from(attr.read_format.count_ones()),
            // A group can get siblings.
            _ => MAX_GROUP_READ / WORD,
        };
    }
    if has(bindings::perf_event_sample_format_PERF_SAMPLE_CALLCHAIN) {
        // The number of entries, the entries, and marks between them.
        let marks = u64::from(bindings::PERF_MAX_CONTEXTS_PER_STACK);
        words += 1 + u64::from(attr.sample_max_stack) + marks;
    }
    if has(bindings::perf_event_sample_format_PERF_SAMPLE_REGS_USER) {
        words += 1 + u64::from(attr.sample_regs_user.count_ones());
    }
    let regs_intr = has(bindings::perf_event_sample_format_PERF_SAMPLE_REGS_INTR);
    if regs_intr {
        words += 1 + u64::from(attr.sample_regs_intr.count_ones());
    }
    let aux = attr.sample_type & u64::from(bindings::perf_event_sample_format_PERF_SAMPLE_AUX) != 0;
    if has(bindings::perf_event_sample_format_PERF_SAMPLE_STACK_USER) {
        // Two sizes, and a word for the kernel's rounding.
        words += 3;
        if regs_intr || aux {
            words += u64::from(attr.sample_stack_user).div_ceil(WORD);
        }
    }
    // One word for each of the other kinds. Of branches, which an event of software has none of,
    // and of AUX data, only the number.
    words += u64::from(kinds.count_ones());
    let others = size_of::<u32>() as u64 + size_of::<perf_event_header>() as u64 + words * WORD;
    MAX_SAMPLE.saturating_sub(others) as u32
}
