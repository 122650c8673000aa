// SPDX-License-Identifier: GPL-2.0

//! Parser for pages of `trace_pipe_raw`.
//!
//! A page is a 64-bit time stamp, a 64-bit count of the bytes in use, and entries. An entry is a
//! 32-bit header, with the type in the low five bits and above it the time since the previous
//! entry, and data in 32-bit words.

/// The largest page of a ring buffer in the tests.
pub const PAGE: usize = 128 << 10;

const PAGE_HEADER: usize = 16;
/// The count of bytes in use; above it are flags for lost entries.
const COUNT_MASK: u64 = 0xf_ffff;

/// Types of entries. 1 to 28 are data of that many words.
const LONG_DATA: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// One record of a trace event.
#[derive(Debug, Clone)]
pub struct Record {
    pub kind: u16,
    /// The thread that wrote the record.
    pub pid: i32,
    /// The whole record with its common fields, padded to whole words.
    pub bytes: Vec<u8>,
}

impl Record {
    /// Makes a record from its bytes with the common fields.
    pub fn new(bytes: &[u8]) -> Record {
        Record {
            kind: u16::from_ne_bytes(bytes[..2].try_into().unwrap()),
            pid: i32::from_ne_bytes(bytes[4..8].try_into().unwrap()),
            bytes: bytes.to_vec(),
        }
    }

    /// The payload. Panics unless the recorded length is `length`, apart from padding to a multiple
    /// of 8 bytes.
    #[track_caller]
    pub fn payload(&self, length: usize) -> Vec<u8> {
        let recorded = self.bytes.len() - 8;
        assert!(
            recorded >= length && recorded < length + 8,
            "a payload of {length} bytes recorded as {recorded}"
        );
        self.bytes[8..8 + length].to_vec()
    }
}

fn word(page: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(page[at..at + 4].try_into().unwrap())
}

/// The bits of a time above those in the header.
fn high_bits(page: &[u8], at: usize) -> u64 {
    u64::from(word(page, at + 4)) << 27
}

/// Adds a page's records to `records`, each with its time on the trace's clock.
pub fn parse(page: &[u8], records: &mut Vec<(u64, Record)>) {
    let mut time = u64::from_ne_bytes(page[..8].try_into().unwrap());
    let count = u64::from_ne_bytes(page[8..16].try_into().unwrap()) & COUNT_MASK;
    let end = PAGE_HEADER + count as usize;
    let mut at = PAGE_HEADER;
    while at < end {
        let header = word(page, at);
        let low_bits = u64::from(header >> 5);
        let (data, length) = match header & 31 {
            PADDING if low_bits == 0 => break,
            PADDING => (None, word(page, at + 4) as usize),
            TIME_EXTEND => {
                time += high_bits(page, at) + low_bits;
                (None, 4)
            }
            TIME_STAMP => {
                // The entry has no room for the highest bits, which stay the same.
                time = ((time >> 59) << 59) | high_bits(page, at) | low_bits;
                (None, 4)
            }
            // The length includes itself.
            LONG_DATA => (Some(at + 8), word(page, at + 4) as usize),
            words => (Some(at + 4), 4 * words as usize),
        };
        let next = at + 4 + length;
        if let Some(start) = data {
            time += low_bits;
            records.push((time, Record::new(&page[start..next])));
        }
        at = next;
    }
}
