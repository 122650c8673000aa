// SPDX-License-Identifier: GPL-2.0

//! Handing a record to perf, and to eBPF programs on perf events.
//!
//! A perf event copies a record into its ring buffer from where it was read to: C has it copied to a buffer of the trace
//! core's first, which ends at 8 KB (`perf_trace_buf_alloc()`). What bounds a record is perf's format, a sample of which has 16 bits
//! for its size. The kernel does not look whether a sample is larger, and its ring buffer would be garbage from there
//! on. So what else is in the samples of an event is counted here.
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
use super::record_bytes::RecordBytes;
use super::ring_buffer::{
    copy_payload,
    NotRecorded,
    HEADER, //
};
use core::mem::{
    offset_of,
    size_of, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

/// The largest record that the trace core's buffer holds, common fields included; asking for more would WARN.
const MAX_BUFFERED: usize = bindings::PERF_MAX_TRACE_SIZE as usize;
const _: () = assert!(MAX_BUFFERED % 8 == 0);

/// The largest sample: the last multiple of 8 that its header can tell of.
const MAX_SAMPLE: u64 = u16::MAX as u64 & !7;

/// The largest record that a sample holds that has nothing else, common fields included.
const MAX_RECORD_SIZE: usize =
    MAX_SAMPLE as usize - size_of::<perf_event_header>() - size_of::<u32>();

/// The most perf events of a call on a CPU with which a record of more than [`MAX_BUFFERED`] bytes is given to them: each
/// copies it, and more, with interrupts off. Those that do not want it count, too.
const MAX_LISTENERS: usize = 32;

/// Submits the common fields and the payload to perf events on this CPU and to eBPF.
///
/// # Safety
///
/// `call` must be alive, and perf attached to it: since before the current context became a reader
/// of `tracepoint_srcu`, with preemption off, which it must be. The payload must be a valid record of the
/// event: filters follow its locations, and programs read its fields, without a look at the bounds.
#[inline(always)]
pub(super) unsafe fn record(
    call: *mut trace_event_call,
    mut record: RecordBytes<'_>,
) -> Result<(), NotRecorded> {
    let size = record.size();
    // SAFETY: The call is alive. The pointer is looked at only: `bpf_prog_array_valid()` reads it so as well.
    let programs = unsafe { (&raw const (*call).prog_array).read_volatile() };
    if !programs.is_null() || size > MAX_BUFFERED {
        // SAFETY: As the caller promises.
        return unsafe { record_other(call, record) };
    }
    // SAFETY: Perf is attached, so the call has per-CPU lists, which perf frees only after readers like us are gone.
    // Preemption is off. The record has `size` bytes, of which the common fields are written there. It is valid for the
    // event, says the caller.
    let error = unsafe {
        bindings::user_events_perf_tp_event(call, record.as_mut_ptr().cast(), size as i32)
    };
    if error == 0 {
        Ok(())
    } else {
        Err(why_not(error))
    }
}

/// Why perf has not taken a record.
#[cold]
fn why_not(error: c_int) -> NotRecorded {
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
unsafe fn record_other(
    call: *mut trace_event_call,
    record: RecordBytes<'_>,
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
        // SAFETY: As the caller promises, and the record is larger than that buffer.
        unsafe { record_large(call, head, record) }
    }
}

/// Submits a record from the trace core's own buffer. A program may read all of that, behind the record, too.
///
/// # Safety
///
/// As for [`record`]; `head` must be this CPU's list of the call, and the record must not be larger than [`MAX_BUFFERED`].
unsafe fn record_buffered(
    call: *mut trace_event_call,
    head: *mut hlist_head,
    record: &RecordBytes<'_>,
) -> Result<(), NotRecorded> {
    let size = record.size();
    // The buffer is handed out in whole u64s, and the limit is one of these.
    let alloc_size = size.next_multiple_of(8);
    let (mut regs, mut context) = (ptr::null_mut(), 0);
    // SAFETY: Preemption is off, `alloc_size` is within the limit, and perf is attached: the per-CPU
    // buffers exist.
    let entry =
        unsafe { bindings::perf_trace_buf_alloc(alloc_size as i32, &mut regs, &mut context) };
    let Some(entry) = NonNull::new(entry) else {
        return Err(NotRecorded::Missed);
    };
    // SAFETY: The allocation gave us this CPU's registers and `alloc_size` bytes for the record at this
    // recursion level, until they are submitted. `size <= alloc_size`. The submission fills in the common fields.
    unsafe {
        copy_payload(record.payload(), entry.as_ptr().cast::<u8>().add(HEADER));
        bindings::user_events_perf_submit(entry.as_ptr(), size as i32, context, call, regs, head);
    }
    Ok(())
}

/// Submits a record from where it lies, if each perf event of the list can take it. A program may read [`MAX_BUFFERED`]
/// bytes, which are all of the record's.
///
/// # Safety
///
/// As for [`record`]; `head` must be this CPU's list of the call, and the record must be larger than [`MAX_BUFFERED`].
unsafe fn record_large(
    call: *mut trace_event_call,
    head: *mut hlist_head,
    mut record: RecordBytes<'_>,
) -> Result<(), NotRecorded> {
    let size = record.size();
    // An event that is scheduled in, or given siblings, is so by an interrupt: none comes between the look at the list and
    // the use of it.
    let _off = InterruptsOff::new();
    // SAFETY: The list is of this CPU and in use by perf, as the caller is a reader.
    let fits = unsafe { all_can_take(head, size) };
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
    // SAFETY: As in `record`. The registers are this CPU's, which only a task uses, with preemption off.
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

/// Is there room for a record of `size` bytes in the samples of each event of a list, and are these not too many to be
/// given it with interrupts off?
///
/// # Safety
///
/// The list must be one of this CPU's for a call, with interrupts off.
unsafe fn all_can_take(head: *mut hlist_head, size: usize) -> bool {
    // SAFETY: The list is there, says the caller, and changes only on this CPU, which nothing interrupts.
    let mut next = unsafe { (&raw const (*head).first).read_volatile() };
    for _ in 0..MAX_LISTENERS {
        if next.is_null() {
            return true;
        }
        // SAFETY: A link in the list is that of a perf event, which is alive while it is in the list. Its attributes and
        // these sizes stay as they are while nothing interrupts. Other processors change other members, so there is no
        // reference to all of it.
        let (attr, added) = unsafe {
            let event = next
                .byte_sub(offset_of!(perf_event, hlist_entry))
                .cast_const()
                .cast::<perf_event>();
            let added = u64::from((*event).header_size) + u64::from((*event).id_header_size);
            (&(*event).attr, added)
        };
        if !can_take(attr, added, size) {
            return false;
        }
        // SAFETY: As above.
        next = unsafe { (&raw const (*next).next).read_volatile() };
    }
    next.is_null()
}

/// Is there room for a record of `size` bytes in a sample of an event with such attributes, whatever else is in it? What
/// always takes the same are `added` bytes beside the header.
///
/// C: `perf_prepare_sample()` (kernel/events/core.c). It makes what comes from the stack (`PERF_SAMPLE_STACK_USER`) and from an AUX
/// buffer fit, but looks no more at the former after it has added registers or the latter.
fn can_take(attr: &perf_event_attr, added: u64, size: usize) -> bool {
    const WORD: u64 = size_of::<u64>() as u64;
    if attr.exclude_kernel() != 0 {
        // It has no sample of what the kernel does for a program.
        return true;
    }
    let has = |kind: bindings::perf_event_sample_format| attr.sample_type & u64::from(kind) != 0;
    if !has(bindings::perf_event_sample_format_PERF_SAMPLE_RAW) {
        return true;
    }

    let mut words = 0_u64;
    if has(bindings::perf_event_sample_format_PERF_SAMPLE_CALLCHAIN) {
        // How many there are, the entries, and marks between them.
        let marks = u64::from(bindings::PERF_MAX_CONTEXTS_PER_STACK);
        words += 1 + u64::from(attr.sample_max_stack) + marks;
    }
    if has(bindings::perf_event_sample_format_PERF_SAMPLE_BRANCH_STACK) {
        // None, as this is no event of the hardware.
        words += 1;
    }
    if has(bindings::perf_event_sample_format_PERF_SAMPLE_REGS_USER) {
        words += 1 + u64::from(attr.sample_regs_user.count_ones());
    }
    let regs_intr = has(bindings::perf_event_sample_format_PERF_SAMPLE_REGS_INTR);
    if regs_intr {
        words += 1 + u64::from(attr.sample_regs_intr.count_ones());
    }
    let aux = has(bindings::perf_event_sample_format_PERF_SAMPLE_AUX);
    if aux {
        words += 1;
    }
    if has(bindings::perf_event_sample_format_PERF_SAMPLE_STACK_USER) {
        // Two sizes. The kernel rounds what it makes fit, and wants room for that, too.
        words += 3;
        if regs_intr || aux {
            words += u64::from(attr.sample_stack_user).div_ceil(WORD);
        }
    }
    let fixed = size_of::<perf_event_header>() as u64 + added;
    let record = (size as u64 + size_of::<u32>() as u64).next_multiple_of(WORD);
    fixed + words * WORD + record <= MAX_SAMPLE
}

/// Interrupts are off on this CPU until this is dropped.
///
/// # Invariants
///
/// They were turned off by the current context, which found them in the state that `flags` tells of.
struct InterruptsOff {
    flags: usize,
    _same_context: NotThreadSafe,
}

impl InterruptsOff {
    fn new() -> Self {
        // INVARIANT: Just turned off.
        Self {
            // SAFETY: Undone by the drop, in the same context.
            flags: unsafe { bindings::user_events_local_irq_save() },
            _same_context: NotThreadSafe,
        }
    }
}

impl Drop for InterruptsOff {
    fn drop(&mut self) {
        // SAFETY: By the invariant.
        unsafe { bindings::user_events_local_irq_restore(self.flags) };
    }
}
