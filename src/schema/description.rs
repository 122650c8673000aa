// SPDX-License-Identifier: GPL-2.0

//! A description: the name of an event and its fields, as a program registers them.
//!
//! ```text
//! description = name [ " " [ field { ";" [ field ] } ] ]
//! field       = { white } type " " name  |  { white } "struct " tag " " name " " size
//! ```
//!
//! White space may stand before a field only; between the words of a field is one space.

use super::error::Error;
use super::field::Field;
use super::limits::{
    COMMON_SIZE,
    MAX_DESCRIPTION,
    MAX_NAME, //
};
use super::text::{
    cut,
    ends_word,
    is_plain,
    Pieces,
    Sink,
    Words, //
};

/// Files that the trace core makes beside the directories of the events, and names that no
/// directory can have.
const RESERVED_NAMES: [&[u8]; 4] = [b".", b"..", b"enable", b"filter"];

/// A description with a valid name. It borrows the text, from which [`Description::fields`] parses
/// the fields.
///
/// C: the argument of `user_event_parse()` (kernel/trace/trace_events_user.c).
///
/// # Invariants
///
/// `name` passes [`check_name`].
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    name: &'a [u8],
    fields: &'a [u8],
}

impl<'a> Description<'a> {
    /// Takes a description, without the NUL that ends it.
    ///
    /// C: `user_event_parse_cmd()` (kernel/trace/trace_events_user.c).
    ///
    /// # Errors
    ///
    /// [`Error::TooLong`], and those of [`check_name`].
    pub fn parse(text: &'a [u8]) -> Result<Self, Error> {
        if text.len() > MAX_DESCRIPTION {
            return Err(Error::TooLong);
        }
        Self::parse_any_length(text)
    }

    /// [`Description::parse`] for a text whose length the caller has checked.
    ///
    /// # Errors
    ///
    /// Those of [`check_name`].
    pub(super) fn parse_any_length(text: &'a [u8]) -> Result<Self, Error> {
        let (name, fields) = cut_name(text);
        check_name(name)?;
        Ok(Self { name, fields })
    }

    /// The event's name, without the fields.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// Whether all tools take the name for one word. perf reads no recording that has an event with
    /// another name.
    pub fn has_plain_name(&self) -> bool {
        is_plain(self.name)
    }

    /// Parses the fields, in the order in which they lie in the payload. The description is valid
    /// if each can be parsed: the names differ then, and the sizes add up to no more than
    /// [`MAX_FIXED`](super::MAX_FIXED).
    ///
    /// C: `user_event_parse_fields()` (kernel/trace/trace_events_user.c).
    ///
    /// # Errors
    ///
    /// For the first field that is not valid, any [`Error`] but those of names, groups and
    /// payloads. The fields behind that one mean nothing.
    pub fn fields(&self) -> impl Iterator<Item = Result<Field<'a>, Error>> + 'a {
        Fields {
            pieces: Pieces::new(self.fields),
            offset: COMMON_SIZE,
        }
    }

    /// The length of the text in bytes. Its listing has the same length, but for white space, the
    /// sizes of structs, and empty fields.
    pub fn text_len(&self) -> usize {
        self.name
            .len()
            .saturating_add(1)
            .saturating_add(self.fields.len())
    }
}

/// The fields of a [`Description`].
struct Fields<'a> {
    pieces: Pieces<'a>,
    /// The offset of the next field in the record.
    offset: u32,
}

impl<'a> Fields<'a> {
    fn parse_field(&mut self, piece: &'a [u8]) -> Result<Field<'a>, Error> {
        let field = Field::new(Words::split(piece)?, self.offset)?;

        // A description has few fields, so comparing each with each is cheap.
        let mut others = self.pieces.clone();
        if others.any(|other| is_named(other, field.name())) {
            return Err(Error::DuplicateField);
        }

        self.offset = field.end();
        Ok(field)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.pieces.next()?;
        Some(self.parse_field(piece))
    }
}

/// The name in a description, and the text behind the space that follows.
pub(super) fn cut_name(text: &[u8]) -> (&[u8], &[u8]) {
    cut(text, b' ').unwrap_or((text, &[]))
}

/// Checks that an event may have this name.
///
/// [`Description::parse`] checks the name in the text. A caller that derives another name from that
/// checks the other one, too.
///
/// # Errors
///
/// [`Error::NameEmpty`], [`Error::NameTooLong`], [`Error::Flags`], [`Error::NameByte`] or
/// [`Error::NameReserved`].
pub fn check_name(name: &[u8]) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::NameEmpty);
    }
    if name.len() > MAX_NAME {
        return Err(Error::NameTooLong);
    }
    if name.contains(&b':') {
        return Err(Error::Flags);
    }
    if name.iter().any(|&byte| ends_word(byte) || byte == b'/') {
        return Err(Error::NameByte);
    }
    if RESERVED_NAMES.contains(&name) {
        return Err(Error::NameReserved);
    }
    Ok(())
}

/// Whether `field` has this name.
fn is_named(field: &[u8], name: &[u8]) -> bool {
    // The two words that may be the name are compared first, which takes less than cutting all.
    let mut last = field.rsplit(|&byte| byte == b' ').take(2);
    last.any(|word| word == name) && Words::split(field).is_ok_and(|words| words.name == name)
}

/// Writes the `print fmt` of the file `format`: `"a=%u b=%s", REC->a, __get_rel_str(b)`, or `""`
/// without fields.
///
/// C: `user_event_set_print_fmt()` (kernel/trace/trace_events_user.c).
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
