// SPDX-License-Identifier: GPL-2.0

//! The check whether a payload is a valid record of an event.
//!
//! A location is a 32-bit number, with a size in the upper half and an offset in the lower one. The
//! kernel follows the locations of a record in a buffer without a check of the bounds, so they are
//! checked before.

use super::error::Error;
use super::limits::COMMON_SIZE;

/// A `__data_loc` or `__rel_loc` field, for the check of payloads.
///
/// C: `struct user_event_validator` (kernel/trace/trace_events_user.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Offset of the field in the payload, in bytes.
    at: u32,
    /// The place in the record from which its value counts.
    base: u32,
    /// The data is characters and must end in NUL. C: `VALIDATOR_ENSURE_NULL`.
    string: bool,
}

impl Location {
    /// The location in the 4 bytes `at` in the record, which counts from `base`: the start of the
    /// record or, where C has `VALIDATOR_REL`, the end of the field.
    pub(super) fn new(at: u32, base: u32, string: bool) -> Self {
        Self {
            // No field lies in front of the payload.
            at: at.saturating_sub(COMMON_SIZE),
            base,
            string,
        }
    }
}

/// The bytes that a valid payload needs behind it in a buffer. C has nothing like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing.
    Complete,
    /// One more byte, a NUL, recorded as part of the payload.
    ///
    /// Filters, histograms and event probes take a size of zero to mean "up to the NUL". An empty
    /// string is valid wherever it lies, also at the very end of the payload, and they would read
    /// on from there past the record. With a NUL at the end they stay inside it.
    NeedsNul,
}

/// Checks that a payload of `len` bytes can hold all fields, which take `fixed_size` bytes.
///
/// C: the comparison with `min_size` in `user_events_write_core()`
/// (kernel/trace/trace_events_user.c).
///
/// # Errors
///
/// [`Error::PayloadShort`].
pub fn check_len(len: usize, fixed_size: usize) -> Result<(), Error> {
    if len < fixed_size {
        return Err(Error::PayloadShort);
    }
    Ok(())
}

/// Checks that `payload`, the bytes behind the write index, is a valid record of an event whose
/// fields take `fixed_size` bytes, `locations` among them.
///
/// Takes time by the number of locations alone.
///
/// C: `user_event_validate()` (kernel/trace/trace_events_user.c).
///
/// # Errors
///
/// - those of [`check_len`];
/// - [`Error::LocationOutOfBounds`] if the data of a location is not wholly in the payload or,
///   being empty, lies outside of the record;
/// - [`Error::MissingNul`] if the data is characters and the last is not NUL.
pub fn check_payload(
    payload: &[u8],
    fixed_size: u32,
    locations: &[Location],
) -> Result<Ending, Error> {
    check_len(
        payload.len(),
        usize::try_from(fixed_size).unwrap_or(usize::MAX),
    )?;
    // Positions in the record. None of the sums can overflow 64 bits.
    let start_of_payload = u64::from(COMMON_SIZE);
    let end_of_record = start_of_payload.saturating_add(payload.len() as u64);
    let mut ending = Ending::Complete;

    for location in locations {
        let value = value_at(payload, location.at).ok_or(Error::LocationOutOfBounds)?;
        let start = u64::from(location.base).saturating_add(u64::from(value & 0xffff));
        let size = u64::from(value >> 16);
        let end = start.saturating_add(size);

        if end > end_of_record {
            return Err(Error::LocationOutOfBounds);
        }
        if size == 0 {
            if location.string && (start == end_of_record || payload.last() != Some(&0)) {
                ending = Ending::NeedsNul;
            }
            continue;
        }
        if start < start_of_payload {
            return Err(Error::LocationOutOfBounds);
        }
        if location.string && byte_before(payload, end) != Some(0) {
            return Err(Error::MissingNul);
        }
    }
    Ok(ending)
}

/// The value of the location `at` in the payload. It has the byte order of the machine.
fn value_at(payload: &[u8], at: u32) -> Option<u32> {
    let bytes = payload.get(usize::try_from(at).ok()?..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

/// The byte of the payload that lies before `end` in the record.
fn byte_before(payload: &[u8], end: u64) -> Option<u8> {
    let at = end.checked_sub(u64::from(COMMON_SIZE))?.checked_sub(1)?;
    payload.get(usize::try_from(at).ok()?).copied()
}
