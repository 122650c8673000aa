// SPDX-License-Identifier: GPL-2.0

//! Is this byte string a valid record?
//!
//! A location is a 32-bit number, size in the upper half and offset in the lower one. Once a record
//! is in a buffer the kernel follows it without a look at the bounds, so it is checked before.

use super::error::Error;
use super::layout::COMMON_SIZE;

/// A `__data_loc` or `__rel_loc` field, as much of it as checking a payload needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Where in the record the field lies.
    at: u32,
    /// What its offset counts from, in the record.
    base: u32,
    /// The data is characters and must end in NUL.
    string: bool,
}

impl Location {
    /// The location in the 4 bytes `at` in the record, whose offset counts from `base`.
    pub(super) fn new(at: u32, base: u32, string: bool) -> Self {
        Self { at, base, string }
    }
}

/// What a valid payload needs behind it in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing.
    Complete,
    /// One more byte, a NUL, recorded as part of the payload.
    ///
    /// Filters, histograms and event probes take a size of zero to mean "up to the NUL". An empty
    /// string is valid wherever it lies, also at the very end of the payload, and they would read
    /// on from there into whatever comes next. With a NUL at the end they stay inside the record.
    NeedsNul,
}

/// Is `payload`, the bytes after the write index, a valid record of an event whose fields take
/// `fixed_size` bytes, `locations` among them?
///
/// Time goes with the number of locations alone.
///
/// # Errors
///
/// - [`Error::PayloadShort`] if it does not hold all fields;
/// - [`Error::LocationOutOfBounds`] if a location tells of bytes that are not all in the payload,
///   or, telling of none, points out of the record;
/// - [`Error::MissingNul`] if one tells of characters and the last is not NUL.
pub fn check_payload(
    payload: &[u8],
    fixed_size: u32,
    locations: &[Location],
) -> Result<Ending, Error> {
    let len = payload.len() as u64;
    if len < u64::from(fixed_size) {
        return Err(Error::PayloadShort);
    }
    if locations.is_empty() {
        return Ok(Ending::Complete);
    }

    // Positions in the record. None of the sums can overflow 64 bits.
    let start_of_payload = u64::from(COMMON_SIZE);
    let end_of_record = start_of_payload.saturating_add(len);
    let ends_in_nul = payload.last() == Some(&0);
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
            if location.string && (start == end_of_record || !ends_in_nul) {
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

/// The value of the location `at` in the record, in the byte order of the machine.
fn value_at(payload: &[u8], at: u32) -> Option<u32> {
    let at = usize::try_from(at.checked_sub(COMMON_SIZE)?).ok()?;
    let bytes = payload.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

/// The byte of the payload that lies before `end` in the record.
fn byte_before(payload: &[u8], end: u64) -> Option<u8> {
    let at = end.checked_sub(u64::from(COMMON_SIZE))?.checked_sub(1)?;
    payload.get(usize::try_from(at).ok()?).copied()
}
