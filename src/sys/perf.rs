// SPDX-License-Identifier: GPL-2.0

//! Handing a record to perf, and to eBPF programs on perf events.
//!
//! A perf event copies a record into its ring buffer from where it was read to: C has it copied to
//! a buffer of the trace core's first, which ends at 8 KB (`perf_trace_buf_alloc()`). What bounds a
//! record is perf's format, a sample of which has 16 bits for its size. The kernel does not look
//! whether a sample is larger, and its ring buffer would be garbage from there on. So what else can
//! be in the samples of a perf event is counted when it is opened.
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
use core::mem::size_of;
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

/// The largest record that the trace core's buffer holds, common fields included; asking for more
/// would WARN.
const MAX_BUFFERED: usize = bindings::PERF_MAX_TRACE_SIZE as usize;
const _: () = assert!(MAX_BUFFERED % 8 == 0);

/// The largest sample: the last multiple of 8 that its header can tell of.
const MAX_SAMPLE: u64 = u16::MAX as u64 & !7;

/// The largest record that a sample holds that has nothing else, common fields included.
const MAX_RECORD_SIZE: usize =
    MAX_SAMPLE as usize - size_of::<perf_event_header>() - size_of::<u32>();

/// What the counts of a group take in a sample at most. C: `perf_event_validate_size()`.
const MAX_GROUP_READ: u64 = 16 * 1024;

/// The perf events that are open for a trace event. More than [`MAX_BUFFERED`] bytes are given to
/// all of them, or to none.
pub(super) struct PerfEvents {
    /// By the largest record that a sample holds whatever else is in it, common fields included.
    by_max_record: EventMutexLocked<RBTree<(u32, usize), ()>>,
    /// The least of those.
    max_record: Atomic<u32>,
}

impl PerfEvents {
    /// None.
    pub(super) fn new() -> Self {
        Self {
            by_max_record: EventMutexLocked::new(RBTree::new()),
            max_record: Atomic::new(MAX_RECORD_SIZE as u32),
        }
    }

    /// A perf event is opened, and in no list of a processor yet. When this returns, no record is
    /// on its way that would be too large for it. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `event` must be alive.
    pub(super) unsafe fn open(
        &self,
        event: *const perf_event,
        held: &mut EventMutexHeld,
    ) -> Result {
        // SAFETY: The event is alive, and its attributes stay as they are.
        let max_record = max_record(unsafe { &(*event).attr });
        // Not charged: a memory cgroup at its limit may delay that, and others wait for the mutex.
        let node = RBTreeNode::new((max_record, event.addr()), (), GFP_KERNEL)?;
        self.by_max_record.get_mut(held).insert(node);
        if max_record < self.max_record.load(Relaxed) {
            self.max_record.store(max_record, Relaxed);
            // Writers before this are readers of `tracepoint_srcu`.
            // SAFETY: Waits only.
            unsafe { bindings::user_events_tracepoint_synchronize_unregister() };
        }
        Ok(())
    }

    /// A perf event is closed, and in no list any more.
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

/// Submits the common fields and the payload to perf events on this CPU and to eBPF.
///
/// # Safety
///
/// `call` must be alive, `perf_events` give those of it, and perf be attached to it: since before
/// the current context became a reader of `tracepoint_srcu`, with preemption off, which it must be.
/// The payload must be a valid record of the event: filters follow its locations, and programs read
/// its fields, without a look at the bounds.
#[inline(always)]
pub(super) unsafe fn record<'a>(
    call: *mut trace_event_call,
    perf_events: impl FnOnce() -> Option<&'a PerfEvents>,
    mut record: RecordBuf<'_>,
) -> Result<(), NotRecorded> {
    let size = record.size();
    // SAFETY: The call is alive. The pointer is looked at only: `bpf_prog_array_valid()` reads it
    // so as well.
    let programs = unsafe { (&raw const (*call).prog_array).read_volatile() };
    if !programs.is_null() || size > MAX_BUFFERED {
        // SAFETY: As the caller promises.
        return unsafe { record_slow(call, perf_events(), record) };
    }
    // SAFETY: Perf is attached, so the call has per-CPU lists, which perf frees only after readers
    // like us are gone. Preemption is off. The record has `size` bytes, of which the common fields
    // are written there. It is valid for the event, says the caller.
    let error = unsafe {
        bindings::user_events_perf_tp_event(call, record.as_mut_ptr().cast(), size as i32)
    };
    if error == 0 {
        Ok(())
    } else {
        Err(failure_reason(error))
    }
}

/// Why perf has not taken a record.
#[cold]
fn failure_reason(error: c_int) -> NotRecorded {
    if error == ENOENT.to_errno() {
        NotRecorded::Unwanted
    } else {
        NotRecorded::Missed
    }
}

/// [`record`], where a program is attached, or the record is larger than the trace core's buffer.
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
    // like us are gone. Preemption is off.
    let head = unsafe { bindings::user_events_perf_events(call) };
    // A program that was attached through another CPU's perf event runs on this CPU, too.
    // SAFETY: The list is there, as just said, and the call is alive. Both pointers are looked at
    // only: `hlist_empty()` and `bpf_prog_array_valid()` read them so as well.
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
        // SAFETY: As the caller promises.
        unsafe { record_buffered(call, head, &record) }
    } else {
        let max_record = perf_events.map(|events| events.max_record.load(Relaxed) as usize);
        let fits = max_record.is_some_and(|max| record.size() <= max);
        // SAFETY: As the caller promises, the record is larger than that buffer, and each perf
        // event can take it if `fits`: one that cannot is put into the list after this, as the
        // current context is a reader.
        unsafe { record_large(call, head, record, fits) }
    }
}

/// Submits a record from the trace core's own buffer. A program may read all of that, behind the
/// record, too.
///
/// # Safety
///
/// As for [`record`]; `head` must be this CPU's list of the call, and the record must not be larger
/// than [`MAX_BUFFERED`].
unsafe fn record_buffered(
    call: *mut trace_event_call,
    head: *mut hlist_head,
    record: &RecordBuf<'_>,
) -> Result<(), NotRecorded> {
    let size = record.size();
    // The buffer is handed out in whole u64s, and the limit is one of these.
    let alloc_size = size.next_multiple_of(8);
    let (mut regs, mut context) = (ptr::null_mut(), 0);
    // SAFETY: Preemption is off, `alloc_size` is within the limit, and perf is attached: the
    // per-CPU buffers exist.
    let entry =
        unsafe { bindings::perf_trace_buf_alloc(alloc_size as i32, &mut regs, &mut context) };
    let Some(entry) = NonNull::new(entry) else {
        return Err(NotRecorded::Missed);
    };
    // SAFETY: The allocation gave us this CPU's registers and `alloc_size` bytes for the record at
    // this recursion level, until they are submitted. `size <= alloc_size`. The submission fills in
    // the common fields.
    unsafe {
        copy_payload(
            record.payload(),
            entry.as_ptr().cast::<u8>().add(HEADER_SIZE),
        );
        bindings::user_events_perf_submit(entry.as_ptr(), size as i32, context, call, regs, head);
    }
    Ok(())
}

/// Submits a record from where it lies, to perf events if it `fits`. A program may read
/// [`MAX_BUFFERED`] bytes, which are all of the record's.
///
/// # Safety
///
/// As for [`record`]; `head` must be this CPU's list of the call, whose perf events can take the
/// record if it `fits`, and the record must be larger than [`MAX_BUFFERED`].
unsafe fn record_large(
    call: *mut trace_event_call,
    head: *mut hlist_head,
    mut record: RecordBuf<'_>,
    fits: bool,
) -> Result<(), NotRecorded> {
    let size = record.size();
    // SAFETY: The call is alive. The pointer is looked at only.
    let programs = unsafe { (&raw const (*call).prog_array).read_volatile() };
    if !fits && programs.is_null() {
        return Err(NotRecorded::TooLarge { wanted: true });
    }
    // A program takes what the samples have no room for.
    let mut none = hlist_head::default();
    let head = if fits { head } else { &raw mut none };
    // SAFETY: Preemption is off.
    let context = unsafe { bindings::perf_swevent_get_recursion_context() };
    if context < 0 {
        return Err(NotRecorded::Missed);
    }
    // SAFETY: As in `record`. The registers are this CPU's, which only a task uses, with preemption
    // off.
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

/// The largest record that a sample of an event with such attributes holds, whatever else is in it,
/// common fields included.
///
/// C: `perf_prepare_sample()` (kernel/events/core.c). It makes what comes from the stack
/// (`PERF_SAMPLE_STACK_USER`) and from an AUX buffer fit, but looks no more at the former after it
/// has added registers or the latter.
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
        // It has no sample of what the kernel does for a program, or no record in it.
        return MAX_RECORD_SIZE as u32;
    }

    let mut words = 0_u64;
    if has(bindings::perf_event_sample_format_PERF_SAMPLE_READ) {
        let group = u64::from(bindings::perf_event_read_format_PERF_FORMAT_GROUP);
        words += match attr.read_format & group {
            0 => 1 + u64::from(attr.read_format.count_ones()),
            // It can get siblings.
            _ => MAX_GROUP_READ / WORD,
        };
    }
    if has(bindings::perf_event_sample_format_PERF_SAMPLE_CALLCHAIN) {
        // How many there are, the entries, and marks between them.
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
        // Two sizes. The kernel rounds what it makes fit, and wants room for that, too.
        words += 3;
        if regs_intr || aux {
            words += u64::from(attr.sample_stack_user).div_ceil(WORD);
        }
    }
    // One for each of the rest: of the branches, of which there are none as this is no event of the
    // hardware, and from an AUX buffer, the number.
    words += u64::from(kinds.count_ones());
    let others = size_of::<u32>() as u64 + size_of::<perf_event_header>() as u64 + words * WORD;
    MAX_SAMPLE.saturating_sub(others) as u32
}
