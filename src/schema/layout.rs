// SPDX-License-Identifier: GPL-2.0

//! All fields of an event together: what the tracing files show of them, and whether two events
//! have the same ones.

use super::command::{Description, Pieces, Words};
use super::field::Field;
use super::payload::Location;

/// Size of the fields that the kernel puts at the start of every record (`struct trace_entry`).
pub const COMMON_SIZE: u32 = 8;

/// Size of the largest record that a trace buffer can be set up to hold.
///
/// A record lies within one sub-buffer, and `buffer_subbuf_size_kb` allows these up to 128 pages
/// (order 7), of 4096 bytes here. Of that go 16 bytes for the time stamp and the fill mark of the
/// sub-buffer, 4 for the header of the record and 4 for its length, which all but small ones need.
/// perf holds less. Where pages are larger, the bound stays the same: megabytes of fixed fields
/// are a mistake there, too.
pub const MAX_RECORD: u32 = 128 * 4096 - 16 - 4 - 4;

/// Most bytes that the fields of an event may take together.
pub const MAX_FIXED: u32 = MAX_RECORD - COMMON_SIZE;

/// Where text goes that is written piece by piece.
///
/// Not [`core::fmt::Write`], since names may hold bytes that are not UTF-8.
pub trait Sink {
    /// Why no more could be taken.
    type Error;

    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// The fields of a [`Description`], in the order in which they lie in the payload.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    pieces: Pieces<'a>,
    /// Where the next field starts in the record.
    offset: u32,
}

impl<'a> Fields<'a> {
    /// The fields in the pieces of a valid description.
    pub(super) fn new(pieces: Pieces<'a>) -> Self {
        Self {
            pieces,
            offset: COMMON_SIZE,
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        // By the invariants of `Description` each piece is a field; if one were not, there would be
        // no more fields.
        let words = Words::split(self.pieces.next()?).ok()?;
        let field = Field::new(words, self.offset).ok()?;
        self.offset = field.end();
        Some(field)
    }
}

impl core::iter::FusedIterator for Fields<'_> {}

impl<'a> Description<'a> {
    /// The fields that tell where data lies: what [`check_payload`](super::check_payload) needs.
    pub fn locations(&self) -> impl Iterator<Item = Location> + 'a {
        self.fields().filter_map(|field| field.location())
    }

    /// Do both have the same fields: types as written, names, sizes, order?
    ///
    /// The name of the event does not matter, nor does white space before a field.
    pub fn same_fields(&self, other: &Description<'_>) -> bool {
        let mut others = other.fields();
        let same = self.fields().all(|field| {
            others.next().is_some_and(|other| {
                (field.type_text(), field.name(), field.size())
                    == (other.type_text(), other.name(), other.size())
            })
        });
        same && others.next().is_none()
    }
}

/// Writes `NAME TYPE NAME; TYPE NAME`, with their size behind structs: what `dynamic_events` shows
/// behind the prefix. It can be parsed again.
///
/// # Errors
///
/// Those of `out`.
pub fn write_listing<S: Sink>(
    name: &[u8],
    fields: &[Field<'_>],
    out: &mut S,
) -> Result<(), S::Error> {
    out.put(name)?;
    let mut before: &[u8] = b" ";
    for field in fields {
        out.put(before)?;
        field.write_listing(out)?;
        before = b"; ";
    }
    Ok(())
}

/// Writes what `format` shows as `print fmt`: `"a=%u b=%s", REC->a, __get_rel_str(b)`, or `""`
/// without fields.
///
/// # Errors
///
/// Those of `out`.
pub fn write_print_fmt<S: Sink>(fields: &[Field<'_>], out: &mut S) -> Result<(), S::Error> {
    out.put(b"\"")?;
    let mut before: &[u8] = b"";
    for field in fields {
        out.put(before)?;
        out.put(field.name())?;
        out.put(field.conversion())?;
        before = b" ";
    }
    out.put(b"\"")?;

    for field in fields {
        let (open, close) = field.argument();
        out.put(open)?;
        out.put(field.name())?;
        out.put(close)?;
    }
    Ok(())
}

/// Writes `number` in decimal.
pub(super) fn put_number<S: Sink>(mut number: u32, out: &mut S) -> Result<(), S::Error> {
    let mut digits = *b"4294967295";
    let mut start = 0;
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = u8::try_from(number % 10).map_or(b'0', |value| value.saturating_add(b'0'));
        start = at;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.put(digits.get(start..).unwrap_or_default())
}
