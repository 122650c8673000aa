// SPDX-License-Identifier: GPL-2.0

//! One field: its type, size and sign, and whether it is a location of more data.
//!
//! # Types that the rest of the kernel would misread
//!
//! Filters, histograms, event probes and the trace file recognize a field by the text of its type.
//! They search the text for certain words, wherever these stand:
//!
//! | the text holds | the kernel then takes the field for |
//! |---|---|
//! | `__data_loc` and `char` | a location of a string, counted from the start of the record |
//! | `__data_loc` and `cpumask_t` | a location of a CPU mask of the size the running system needs |
//! | `__rel_loc` and `char` | a location of a string, counted from the end of the field |
//! | `__data_loc` or `__rel_loc`, 4 bytes large | a location of bytes, by the trace file |
//! | `[` and `char` | a string as long as the field |
//! | exactly `char *` or `const char *` | the address of a string in the kernel's memory |
//!
//! (C: `filter_assign_type()` in kernel/trace/trace_events_filter.c, `print_fields()` in
//! kernel/trace/trace_output.c.) The kernel follows such a location without a check of the bounds,
//! as it expects records of kernel code. So a `struct my__rel_loc_char`, the bytes of which are up
//! to the user and not checked, would let the user choose the memory that the kernel reads. So
//! would `__rel_loc x__data_loc_char[]`, which is checked as counted from its own end and read as
//! counted from the start.
//!
//! The accepted types are safe, because the search finds the same kind as [`Kind`]:
//! - integers and arrays of characters have one of a few texts, written out below;
//! - the only free words are the tag of a struct and the element of a location, and neither may
//!   hold `__data_loc`, `__rel_loc`, `cpumask_t`, `[`, `]` or `*`. So only locations have the two
//!   prefixes, only arrays have brackets, and no text is one of the two with the star;
//! - a location is one of characters, the last byte of which must be NUL, by the rule of the
//!   kernel: if `char` stands anywhere in its text.
//!
//! A type that is not misread may still garble the `format` file that tools parse: control bytes,
//! `"`, `%` and `\`. They are refused in types as in names.

use super::error::Error;
use super::limits::{
    MAX_ARRAY,
    MAX_ARRAY_DIGITS,
    MAX_RECORD, //
};
use super::payload::Location;
use super::text::{
    contains,
    ends_word,
    number_from,
    put_number,
    Sink,
    Words, //
};

/// The size of a type that is one integer, in bytes. C: `user_field_size()`.
fn integer_size(text: &[u8]) -> Option<u32> {
    match text {
        b"s8" | b"u8" | b"char" | b"unsigned char" => Some(1),
        b"s16" | b"u16" | b"short" | b"unsigned short" => Some(2),
        b"s32" | b"u32" | b"int" | b"unsigned int" => Some(4),
        b"s64" | b"u64" => Some(8),
        _ => None,
    }
}

/// Size of a `__data_loc` or `__rel_loc` field.
const LOCATION_SIZE: u32 = 4;

/// Words by which the kernel recognizes locations, see the top of this file.
const LOCATION_WORDS: [&[u8]; 3] = [b"__data_loc", b"__rel_loc", b"cpumask_t"];

/// Names that have a meaning in every event: the common fields, and those that filters and
/// histograms add.
///
/// C: `trace_define_common_fields()` and `trace_define_generic_fields()`
/// (kernel/trace/trace_events.c), `parse_field()` (kernel/trace/trace_events_hist.c).
const RESERVED_FIELD_NAMES: [&[u8]; 8] = [
    b"common_type",
    b"common_flags",
    b"common_preempt_count",
    b"common_pid",
    b"common_cpu",
    b"common_comm",
    b"common_timestamp",
    b"common_stacktrace",
];

/// The kind of a field, which the trace core has to find in the text of its type, too.
///
/// C: the `FILTER_*` of `filter_assign_type()` (include/linux/trace_events.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One integer, of 1, 2, 4 or 8 bytes.
    Integer,
    /// An array of characters, NUL-terminated or full.
    Chars {
        /// Their number.
        len: u32,
    },
    /// Bytes that are opaque to the kernel.
    Struct,
    /// The location of data, counted from the start of the record: `__data_loc`.
    DataLoc {
        /// The data is characters and ends in NUL.
        string: bool,
    },
    /// The location of data, counted from the end of this field: `__rel_loc`.
    RelLoc {
        /// The data is characters and ends in NUL.
        string: bool,
    },
}

impl Kind {
    /// The kind and the size of the type in `words`.
    ///
    /// C: `user_field_size()` (kernel/trace/trace_events_user.c), which accepts more.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownType`], [`Error::UnsafeType`], [`Error::ArrayLength`],
    /// [`Error::StructSize`], or [`Error::FixedPartTooLarge`] if the size has more than 32 bits.
    fn of(words: Words<'_>) -> Result<(Self, u32), Error> {
        let text = words.type_text;

        if let Some(size) = integer_size(text) {
            return Ok((Kind::Integer, size));
        }

        if let Some(tag) = text.strip_prefix(b"struct ") {
            check_free_word(tag)?;
            let size = words.size.ok_or(Error::StructSize)?;
            return Ok((Kind::Struct, struct_size(size)?));
        }

        let signless = text.strip_prefix(b"unsigned ").unwrap_or(text);
        if let Some(rest) = signless.strip_prefix(b"char[") {
            let len = array_length(rest)?;
            return Ok((Kind::Chars { len }, len));
        }

        let string = contains(text, b"char");
        let (kind, element) = if let Some(element) = text.strip_prefix(b"__data_loc ") {
            (Kind::DataLoc { string }, element)
        } else if let Some(element) = text.strip_prefix(b"__rel_loc ") {
            (Kind::RelLoc { string }, element)
        } else {
            return Err(Error::UnknownType);
        };

        let element = element.strip_prefix(b"unsigned ").unwrap_or(element);
        match element.strip_suffix(b"[]") {
            None | Some([]) => Err(Error::UnknownType),
            Some(element) => check_free_word(element).map(|()| (kind, LOCATION_SIZE)),
        }
    }
}

/// One field of an event. All sizes and offsets are in bytes.
///
/// C: `struct ftrace_event_field` (kernel/trace/trace.h), and for a location also
/// `struct user_event_validator` (kernel/trace/trace_events_user.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Type and name, as written.
    type_and_name: &'a [u8],
    type_text: &'a [u8],
    name: &'a [u8],
    kind: Kind,
    offset: u32,
    size: u32,
}

impl<'a> Field<'a> {
    /// The field of these `words`, at `offset` in the record.
    ///
    /// C: `user_event_parse_field()`, `user_event_add_field()` (kernel/trace/trace_events_user.c).
    ///
    /// # Errors
    ///
    /// The error of its type, its name or its size, or [`Error::FixedPartTooLarge`] if it ends past
    /// the largest record.
    pub(super) fn new(words: Words<'a>, offset: u32) -> Result<Self, Error> {
        let (kind, size) = Kind::of(words)?;
        check_field_name(words.name)?;

        match offset.checked_add(size) {
            Some(end) if end <= MAX_RECORD => Ok(Self {
                type_and_name: words.type_and_name,
                type_text: words.type_text,
                name: words.name,
                kind,
                offset,
                size,
            }),
            _ => Err(Error::FixedPartTooLarge),
        }
    }

    /// The type as it was written, e.g. `unsigned char[0x10]` or `struct TAG`. C: `type`.
    pub fn type_text(&self) -> &'a [u8] {
        self.type_text
    }

    /// The name, which may hold bytes that are not ASCII. C: `name`.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// The size, which is never 0. C: `size`.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The offset of its end in the record, where the next field starts.
    pub fn end(&self) -> u32 {
        // `new` has checked that this is no more than `MAX_RECORD`.
        self.offset.saturating_add(self.size)
    }

    /// Whether it is signed, as `format` shows it: its type does not start with `u`. C:
    /// `is_signed`.
    pub fn is_signed(&self) -> bool {
        self.type_text.first() != Some(&b'u')
    }

    /// The kind of the field. C: `filter_type`.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it is an array of characters, which has no NUL if it is full.
    pub fn is_chars(&self) -> bool {
        matches!(self.kind, Kind::Chars { .. })
    }

    /// The field for [`check_payload`](super::check_payload), if it is a location.
    pub fn location(&self) -> Option<Location> {
        match self.kind {
            Kind::DataLoc { string } => Some(Location::new(self.offset, 0, string)),
            Kind::RelLoc { string } => Some(Location::new(self.offset, self.end(), string)),
            _ => None,
        }
    }

    /// Writes the field as `dynamic_events` lists it.
    ///
    /// C: `user_field_set_string()` (kernel/trace/trace_events_user.c).
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub(super) fn write_listing<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.put(self.type_and_name)?;
        if self.kind == Kind::Struct {
            out.put(b" ")?;
            put_number(self.size, out)?;
        }
        Ok(())
    }

    /// The text behind its name in the print format: the conversion by which it is shown.
    ///
    /// C: `user_field_format()` (kernel/trace/trace_events_user.c).
    pub(super) fn conversion(&self) -> &'static [u8] {
        match (self.kind, self.size, self.is_signed()) {
            (Kind::Integer, 8, true) => b"=%lld",
            (Kind::Integer, 8, false) => b"=%llu",
            (Kind::Integer, _, true) => b"=%d",
            (Kind::Integer, _, false) => b"=%u",
            (Kind::Chars { .. }, ..) => b"=%s",
            (Kind::DataLoc { string: true } | Kind::RelLoc { string: true }, ..) => b"=%s",
            (Kind::DataLoc { string: false } | Kind::RelLoc { string: false }, ..) => b"=%llu",
            (Kind::Struct, ..) => b"=%llu",
        }
    }

    /// The text before and after its name among the arguments of the print format.
    ///
    /// C: `user_field_is_dyn_string()` (kernel/trace/trace_events_user.c).
    pub(super) fn argument(&self) -> (&'static [u8], &'static [u8]) {
        match self.kind {
            Kind::DataLoc { string: true } => (b", __get_str(", b")"),
            Kind::RelLoc { string: true } => (b", __get_rel_str(", b")"),
            _ => (b", REC->", b""),
        }
    }
}

/// Checks that a field may have this name.
///
/// # Errors
///
/// [`Error::FieldName`] or [`Error::ReservedFieldName`].
fn check_field_name(name: &[u8]) -> Result<(), Error> {
    if name.iter().any(|&byte| is_garbling(byte)) {
        return Err(Error::FieldName);
    }
    if RESERVED_FIELD_NAMES.contains(&name) {
        return Err(Error::ReservedFieldName);
    }
    Ok(())
}

/// Checks that a word may be the tag of a struct, or the element of a location.
///
/// # Errors
///
/// [`Error::UnsafeType`].
fn check_free_word(word: &[u8]) -> Result<(), Error> {
    let misread = LOCATION_WORDS.iter().any(|mark| contains(word, mark));
    if misread || word.iter().any(|&byte| is_garbling(byte)) {
        return Err(Error::UnsafeType);
    }
    Ok(())
}

/// Whether this byte, in a word of `format`, would change how that file or the type is read.
fn is_garbling(byte: u8) -> bool {
    ends_word(byte) || matches!(byte, b'"' | b'%' | b'\\' | b'[' | b']' | b'*')
}

/// The length of an array, from the text behind its opening bracket.
///
/// Decimal, octal after `0`, hexadecimal after `0x`, with a `+` before it or not.
///
/// C: `user_field_array_size()` (kernel/trace/trace_events_user.c).
///
/// # Errors
///
/// [`Error::ArrayLength`].
fn array_length(text: &[u8]) -> Result<u32, Error> {
    let number = text.strip_suffix(b"]").ok_or(Error::ArrayLength)?;
    if number.len() > MAX_ARRAY_DIGITS {
        return Err(Error::ArrayLength);
    }

    let digits = number.strip_prefix(b"+").unwrap_or(number);
    let len = match digits {
        [b'0', b'x' | b'X', hex @ ..] => number_from(hex, 16),
        [b'0', octal @ ..] => number_from(octal, 8),
        decimal => number_from(decimal, 10),
    };
    match len.and_then(|len| u32::try_from(len).ok()) {
        Some(len) if (1..=MAX_ARRAY).contains(&len) => Ok(len),
        _ => Err(Error::ArrayLength),
    }
}

/// The size of a struct: a decimal number, which may have a `+` before it and one newline behind
/// it.
///
/// C: `kstrtou32()` (lib/kstrtox.c), for which a number of more than 32 bits is no number.
///
/// # Errors
///
/// [`Error::StructSize`], or [`Error::FixedPartTooLarge`] if it has more than 32 bits.
fn struct_size(text: &[u8]) -> Result<u32, Error> {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let digits = digits.strip_suffix(b"\n").unwrap_or(digits);
    match number_from(digits, 10) {
        None | Some(0) => Err(Error::StructSize),
        Some(size) => u32::try_from(size).map_err(|_| Error::FixedPartTooLarge),
    }
}
