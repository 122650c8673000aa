// SPDX-License-Identifier: GPL-2.0

//! Records of a trace event: the check, and the delivery to consumers.
//!
//! Filters, triggers, histograms, event probes and eBPF follow the locations in a record without
//! checks of bounds. So consumers take no bytes, but a [`Record`], which exists only after the
//! check, and only for the event of the check. A long payload is checked where a trace instance
//! stores it, before anything can read it there.

use super::super::event_files::ReadGuard;
use super::super::perf;
use super::super::record_buf::RecordBuf;
use super::super::ring_buffer::NotRecorded;
use super::super::write_source::WriteSource;
use super::{
    EventRef,
    TraceEvent,
    TraceEventOwner, //
};
use crate::schema::{
    self,
    Ending, //
};
use core::mem::MaybeUninit;
use core::slice;

/// A payload that is a valid record of an event, and the event, which is referenced, and so stays
/// registered.
///
/// # Invariants
///
/// [`schema::check_payload`] has found the payload of `bytes` valid for the fields of `event`, or
/// the payload without its last byte, a NUL.
pub(crate) struct Record<'a, O: TraceEventOwner> {
    event: &'a TraceEvent<O>,
    bytes: RecordBuf<'a>,
}

impl<O: TraceEventOwner> EventRef<O> {
    /// Checks a payload, which is followed by a NUL.
    ///
    /// # Errors
    ///
    /// Those of [`schema::check_payload`].
    #[inline]
    pub(crate) fn check<'a>(
        &'a self,
        payload_and_nul: RecordBuf<'a>,
    ) -> Result<Record<'a, O>, schema::Error> {
        let (nul, payload) = payload_and_nul
            .payload()
            .split_last()
            .ok_or(schema::Error::PayloadShort)?;
        let bytes = match self.ending(payload)? {
            // A full array of characters has no NUL, and event probes read on to the next one.
            Ending::Complete if !self.has_chars => payload_and_nul.without_last(),
            Ending::Complete => payload_and_nul,
            Ending::NeedsNul if *nul == 0 => payload_and_nul,
            Ending::NeedsNul => return Err(schema::Error::MissingNul),
        };
        // INVARIANT: Just checked, with the `fixed_size` and `locations` of the event's fields.
        Ok(Record { event: self, bytes })
    }

    /// Checks a payload, and returns how it ends.
    #[inline]
    fn ending(&self, payload: &[u8]) -> Result<Ending, schema::Error> {
        match &self.locations {
            None => {
                schema::check_len(payload.len(), self.fixed_size())?;
                Ok(Ending::Complete)
            }
            Some(locations) => schema::check_payload(payload, self.fixed_size, locations),
        }
    }

    /// Reads a payload directly to the buffer of a trace instance, and copies it from there to the
    /// other instances, as [`Delivery::ftrace`]. Perf does not get the record. Returns `None`
    /// without a record if the payload cannot be read without sleeping, or the instance has
    /// triggers or no room.
    ///
    /// # Errors
    ///
    /// Those of [`schema::check_payload`].
    #[inline(never)]
    pub(crate) fn record_in_place(
        &self,
        source: &impl WriteSource,
        payload_len: usize,
        mut then: impl FnMut(Result<(), NotRecorded>),
    ) -> Option<Result<(), schema::Error>> {
        let reader = self.files.read_lock();
        let mut files = reader.files();
        let first = files.next()?;
        // A NUL follows arrays of characters, as in `check`.
        let len = payload_len.checked_add(self.has_chars.into())?;
        let mut error = None;
        let fill = |room: &mut [MaybeUninit<u8>]| {
            let Some((payload, nul)) = room.split_at_mut_checked(payload_len) else {
                return false;
            };
            if !source.read_rest_nofault(payload) {
                return false;
            }
            nul.fill(MaybeUninit::new(0));
            // SAFETY: Both parts, which are all of `room`, were written.
            let record = unsafe { slice::from_raw_parts(room.as_ptr().cast(), room.len()) };
            match self.ending(record.get(..payload_len).unwrap_or_default()) {
                Ok(Ending::NeedsNul) if !self.has_chars => return false,
                Ok(_) => {}
                Err(why) => {
                    error = Some(why);
                    return false;
                }
            }
            for file in files {
                // SAFETY: A file of this event, for which the record was just found valid.
                then(unsafe { file.record_next_instance(record) });
            }
            true
        };
        // SAFETY: As above. `fill` returns `true` only after it has written its whole argument.
        if unsafe { first.record_in_place(len, fill) } {
            then(Ok(()));
            return Some(Ok(()));
        }
        error.map(Err)
    }
}

impl<'a, O: TraceEventOwner> Record<'a, O> {
    /// Starts the delivery of the record. Preemption is off until the result is dropped.
    #[inline]
    pub(crate) fn deliver(self) -> Delivery<'a, O> {
        Delivery {
            reader: self.event.files.read_lock(),
            record: self,
        }
    }
}

/// The delivery of a record to the consumers of its event, with preemption off.
pub(crate) struct Delivery<'a, O: TraceEventOwner> {
    record: Record<'a, O>,
    reader: ReadGuard<'a>,
}

impl<O: TraceEventOwner> Delivery<'_, O> {
    /// Stores the record in each trace instance in which the event is enabled, and passes each
    /// result to `then`.
    #[inline(always)]
    pub(crate) fn ftrace(&self, mut then: impl FnMut(Result<(), NotRecorded>)) {
        let payload = self.record.bytes.payload();
        let mut files = self.reader.files();
        let Some(first) = files.next() else {
            return;
        };
        // SAFETY: The event's list has files of that event, for which the record is valid.
        then(unsafe { first.record(payload) });
        for file in files {
            // SAFETY: As above.
            then(unsafe { file.record_next_instance(payload) });
        }
    }

    /// Submits the record to perf and eBPF, if they are attached.
    #[inline(always)]
    pub(crate) fn perf(&mut self) -> Option<Result<(), NotRecorded>> {
        let record = &mut self.record;
        if !record.event.consumers().has_perf() {
            return None;
        }
        // SAFETY: Perf is attached: the flag was read in the read-side critical section, and perf
        // clears it, and waits for readers, before it frees anything. The record is valid for the
        // event.
        Some(unsafe {
            let call = record.event.call.get();
            let perf_events = || {
                record
                    .event
                    .consumer_state
                    .get()
                    .map(|state| &state.perf_events)
            };
            perf::record(call, perf_events, record.bytes.reborrow())
        })
    }
}
