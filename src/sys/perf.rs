// SPDX-License-Identifier: GPL-2.0

//! Handing a record to perf, and to eBPF programs on perf events.
//!
//! C: `perf_trace_buf_alloc()`, `perf_trace_run_bpf_submit()` (linux/trace_events.h).

use super::bindings;
use super::ring_buffer::{NotRecorded, HEADER};
use core::ptr::{self, NonNull};

/// The largest record perf's buffer holds, common fields included; asking for more would WARN.
const LARGEST: usize = bindings::PERF_MAX_TRACE_SIZE as usize;

/// Submits the common fields and `payload` to perf events on this CPU and to eBPF.
///
/// # Safety
///
/// `call` must be alive, and perf attached to it: since before the current context became a reader
/// of `tracepoint_srcu`, with preemption off, which it must be.
#[inline]
pub(super) unsafe fn record(
    call: *mut bindings::trace_event_call,
    payload: &[u8],
) -> Result<(), NotRecorded> {
    let size = HEADER.saturating_add(payload.len());
    // SAFETY: Promised by the caller.
    let head = unsafe { listeners(call) };
    // The buffer is handed out in whole u64s.
    let Some(room) = size
        .checked_next_multiple_of(8)
        .filter(|room| *room <= LARGEST)
    else {
        return Err(NotRecorded::TooLarge {
            wanted: head.is_some(),
        });
    };
    let Some(head) = head else {
        return Err(NotRecorded::Unwanted);
    };
    let (mut regs, mut context) = (ptr::null_mut(), 0);
    // SAFETY: Preemption is off, `room` is within the limit, and perf is attached: the per-CPU
    // buffers exist.
    let entry = unsafe { bindings::perf_trace_buf_alloc(room as i32, &mut regs, &mut context) };
    let Some(entry) = NonNull::new(entry) else {
        return Err(NotRecorded::Missed);
    };
    // SAFETY: The allocation gave us this CPU's registers and `room` bytes for the record at this
    // recursion level, until they are submitted. `HEADER + payload.len() <= room`. The submission
    // fills in the common fields.
    unsafe {
        bindings::user_events_fetch_caller_regs(regs);
        ptr::copy_nonoverlapping(
            payload.as_ptr(),
            entry.as_ptr().cast::<u8>().add(HEADER),
            payload.len(),
        );
        bindings::perf_trace_run_bpf_submit(
            entry.as_ptr(),
            size as i32,
            context,
            call,
            1,
            regs,
            head,
            ptr::null_mut(),
        );
    }
    Ok(())
}

/// This CPU's perf events of `call`; `None` if nobody wants a record that is written here.
///
/// # Safety
///
/// As for [`record`].
#[inline]
unsafe fn listeners(call: *mut bindings::trace_event_call) -> Option<*mut bindings::hlist_head> {
    // SAFETY: Perf is attached, so the call has per-CPU lists, which perf frees only after readers
    // like us are gone.
    let head = unsafe { bindings::user_events_perf_head(call) };
    // SAFETY: As above. An interrupt may change the list meanwhile, hence the volatile read of a
    // pointer that is only compared. A program attached through another CPU's perf event runs on
    // this CPU too.
    let nobody = unsafe {
        ptr::addr_of!((*head).first).read_volatile().is_null()
            && !bindings::user_events_has_bpf(call)
    };
    (!nobody).then_some(head)
}
