// SPDX-License-Identifier: GPL-2.0

//! One field: its type, size and sign, and whether it tells where more data lies.
//!
//! # Types that the rest of the kernel would misread
//!
//! Filters, histograms, event probes and the trace file do not ask us what a field is. They search
//! the text of its type for certain words, wherever these stand in it:
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
//! and it follows such a location without a look at the bounds, since kernel code made the record.
//! So a `struct my__rel_loc_char`, whose bytes the user may choose freely and nobody checks, would
//! have the kernel read wherever the user likes, and so would `__rel_loc x__data_loc_char[]`, which
//! is checked as counted from its own end and read as counted from the start.
//!
//! The types we let in are safe, because what the search finds is what [`Kind`] says:
//! - integers and arrays of characters have one of a few texts, written out below;
//! - the only free words are the tag of a struct and the element of a location, and neither may
//!   hold `__data_loc`, `__rel_loc`, `cpumask_t`, `[`, `]` or `*`. So the two prefixes tell the
//!   locations, the brackets tell the arrays, and no text is one of the two with the star;
//! - a location is one of characters, whose last byte must be NUL, by the rule of the kernel: when
//!   `char` stands anywhere in its text.
//!
//! What is not misread may still garble the `format` file that tools parse: control bytes, `"`, `%`
//! and `\`. They are refused in types as in names.

use super::command::{is_blank, Words};
use super::error::Error;
use super::layout::{put_number, Sink, MAX_RECORD};
use super::payload::Location;

/// The size of a type that is one integer.
fn integer_size(text: &[u8]) -> Option<u32> {
    match text {
        b"s8" | b"u8" | b"char" | b"unsigned char" => Some(1),
        b"s16" | b"u16" | b"short" | b"unsigned short" => Some(2),
        b"s32" | b"u32" | b"int" | b"unsigned int" => Some(4),
        b"s64" | b"u64" => Some(8),
        _ => None,
    }
}

/// Most elements of an array.
const MAX_ARRAY: u32 = 1024;

/// Most bytes of the number between the brackets of an array.
const MAX_ARRAY_DIGITS: usize = 6;

/// Size of a `__data_loc` or `__rel_loc` field.
const LOCATION_SIZE: u32 = 4;

/// Words by which the kernel tells locations, see the top of this file.
const LOCATION_WORDS: [&[u8]; 3] = [b"__data_loc", b"__rel_loc", b"cpumask_t"];

/// Names to which the kernel gives a meaning in every event: the common fields themselves, and what
/// filters and histograms offer beside them.
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

/// What a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One integer, of 1, 2, 4 or 8 bytes.
    Integer,
    /// An array of characters, NUL-terminated or full.
    Chars {
        /// How many.
        len: u32,
    },
    /// Bytes of which only the user knows the meaning.
    Struct,
    /// Tells where data lies, counted from the start of the record.
    DataLoc {
        /// The data is characters and ends in NUL.
        string: bool,
    },
    /// Tells where data lies, counted from the end of this field.
    RelLoc {
        /// The data is characters and ends in NUL.
        string: bool,
    },
}

impl Kind {
    /// What the type in `words` is, and its size.
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

/// One field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Type and name, as written.
    spelled: &'a [u8],
    type_text: &'a [u8],
    name: &'a [u8],
    kind: Kind,
    offset: u32,
    size: u32,
}

impl<'a> Field<'a> {
    /// The field that `words` describe, at `offset` in the record.
    ///
    /// # Errors
    ///
    /// What is wrong with its type, its name or its size, or [`Error::FixedPartTooLarge`] if it
    /// ends where no record reaches.
    pub(super) fn new(words: Words<'a>, offset: u32) -> Result<Self, Error> {
        let (kind, size) = Kind::of(words)?;
        check_field_name(words.name)?;

        match offset.checked_add(size) {
            Some(end) if end <= MAX_RECORD => Ok(Self {
                spelled: words.spelled,
                type_text: words.type_text,
                name: words.name,
                kind,
                offset,
                size,
            }),
            _ => Err(Error::FixedPartTooLarge),
        }
    }

    /// The type as it was written, e.g. `unsigned char[0x10]` or `struct TAG`.
    pub fn type_text(&self) -> &'a [u8] {
        self.type_text
    }

    /// The name; may hold bytes that are not ASCII.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// Where the field starts, from the start of the record: the first one is at
    /// [`COMMON_SIZE`](super::COMMON_SIZE).
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// How many bytes it takes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Where it ends, and the next field starts.
    pub fn end(&self) -> u32 {
        // `new` has seen that this is no more than `MAX_RECORD`.
        self.offset.saturating_add(self.size)
    }

    /// Whether `format` calls it signed: every type that does not start with `u`.
    pub fn is_signed(&self) -> bool {
        self.type_text.first() != Some(&b'u')
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The number that `format` prints in brackets behind the name of an array of fixed length, or
    /// 0 for all else. `struct ftrace_event_field` calls it `len`.
    pub fn array_len(&self) -> u32 {
        match self.kind {
            Kind::Chars { len } => len,
            _ => 0,
        }
    }

    /// What [`check_payload`](super::check_payload) has to know of it, if it is a location.
    pub fn location(&self) -> Option<Location> {
        match self.kind {
            Kind::DataLoc { string } => Some(Location::new(self.offset, 0, string)),
            Kind::RelLoc { string } => Some(Location::new(self.offset, self.end(), string)),
            _ => None,
        }
    }

    /// Writes the field as a description has it.
    pub(super) fn write_listing<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.put(self.spelled)?;
        if self.kind == Kind::Struct {
            out.put(b" ")?;
            put_number(self.size, out)?;
        }
        Ok(())
    }

    /// What stands behind its name in the print format: the conversion by which it is shown.
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

    /// What stands before and after its name among the arguments of the print format.
    pub(super) fn argument(&self) -> (&'static [u8], &'static [u8]) {
        match self.kind {
            Kind::DataLoc { string: true } => (b", __get_str(", b")"),
            Kind::RelLoc { string: true } => (b", __get_rel_str(", b")"),
            _ => (b", REC->", b""),
        }
    }
}

/// May a field have this name?
fn check_field_name(name: &[u8]) -> Result<(), Error> {
    if name.iter().any(|&byte| is_garbling(byte)) {
        return Err(Error::FieldName);
    }
    if RESERVED_FIELD_NAMES.contains(&name) {
        return Err(Error::ReservedFieldName);
    }
    Ok(())
}

/// May this be the tag of a struct, or the element of a location?
fn check_free_word(word: &[u8]) -> Result<(), Error> {
    let misread = LOCATION_WORDS.iter().any(|mark| contains(word, mark));
    if misread || word.iter().any(|&byte| is_garbling(byte)) {
        return Err(Error::UnsafeType);
    }
    Ok(())
}

/// Would this byte, in a word that `format` shows, change how that file or the type is read?
fn is_garbling(byte: u8) -> bool {
    is_blank(byte) || matches!(byte, b'"' | b'%' | b'\\' | b'[' | b']' | b'*')
}

/// Does `part` stand anywhere in `text`? `part` is not empty.
fn contains(text: &[u8], part: &[u8]) -> bool {
    (0..text.len()).any(|at| text.get(at..).is_some_and(|rest| rest.starts_with(part)))
}

/// The length of an array, from what follows its opening bracket.
///
/// Decimal, octal after `0`, hexadecimal after `0x`, as in C.
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

/// The size of a struct: a decimal number, which may have a `+` before it and one newline after it,
/// as the kernel reads numbers.
fn struct_size(text: &[u8]) -> Result<u32, Error> {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let digits = digits.strip_suffix(b"\n").unwrap_or(digits);
    match number_from(digits, 10) {
        None | Some(0) => Err(Error::StructSize),
        Some(size) => u32::try_from(size).map_err(|_| Error::FixedPartTooLarge),
    }
}

/// The number that `digits` are in base `radix`, or the largest one if it is larger; `None` if one
/// is no digit. No digits at all are 0, which is no length and no size either.
fn number_from(digits: &[u8], radix: u32) -> Option<u64> {
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = char::from(digit).to_digit(radix)?;
        Some(
            number
                .saturating_mul(u64::from(radix))
                .saturating_add(u64::from(digit)),
        )
    })
}
