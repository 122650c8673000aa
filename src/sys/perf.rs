// SPDX-License-Identifier: GPL-2.0

//! Handing a record to perf, and to eBPF programs on perf events.
//!
//! C: `perf_trace_buf_alloc()`, `perf_trace_run_bpf_submit()` (linux/trace_events.h).

use super::bindings;
use super::ring_buffer::{
    copy_payload,
    NotRecorded,
    HEADER, //
};
use core::ptr::{
    self,
    NonNull, //
};

/// The largest record perf's buffer holds, common fields included; asking for more would WARN.
const MAX_RECORD_SIZE: usize = bindings::PERF_MAX_TRACE_SIZE as usize;
const _: () = assert!(MAX_RECORD_SIZE % 8 == 0);

/// Submits the common fields and `payload` to perf events on this CPU and to eBPF.
///
/// # Safety
///
/// `call` must be alive, and perf attached to it: since before the current context became a reader
/// of `tracepoint_srcu`, with preemption off, which it must be. `payload` must be a valid record of the
/// event: filters follow its locations, and programs read its fields, without a look at the bounds.
#[inline(never)]
pub(super) unsafe fn record(
    call: *mut bindings::trace_event_call,
    payload: &[u8],
) -> Result<(), NotRecorded> {
    // No slice is so long that this overflows.
    let size = HEADER.wrapping_add(payload.len());
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
    if size > MAX_RECORD_SIZE {
        return Err(NotRecorded::TooLarge { wanted });
    }
    if !wanted {
        return Err(NotRecorded::Unwanted);
    }
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
    // recursion level, until they are submitted. `HEADER + payload.len() <= alloc_size`. The submission
    // fills in the common fields.
    unsafe {
        copy_payload(payload, entry.as_ptr().cast::<u8>().add(HEADER));
        bindings::user_events_perf_submit(entry.as_ptr(), size as i32, context, call, regs, head);
    }
    Ok(())
}
