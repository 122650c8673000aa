// SPDX-License-Identifier: GPL-2.0

//! The text of a description, cut into its parts.
//!
//! ```text
//! description = name [ " " [ field { ";" [ field ] } ] ]
//! field       = { white } type " " name  |  { white } "struct " tag " " name " " size
//! ```
//!
//! White space is allowed before a field only; between the words of a field stands one space.

use super::error::Error;
use super::field::Field;
use super::layout::{Fields, COMMON_SIZE};

/// Most bytes of a description, its terminating NUL not counted.
pub const MAX_DESCRIPTION: usize = 511;

/// Most bytes of an event's name: what a directory entry can hold.
pub const MAX_NAME: usize = 255;

/// Files that the kernel makes beside the directories of the events, and the names no directory
/// can have.
const RESERVED_NAMES: [&[u8]; 4] = [b".", b"..", b"enable", b"filter"];

/// A whole description, parsed and valid.
///
/// It borrows the text; the fields are cut out anew each time [`Description::fields`] is walked, so
/// there is nothing to allocate.
///
/// # Invariants
///
/// - `name` passes [`check_name`].
/// - Each field in `fields` can be parsed, their names differ, and their sizes add up to
///   `fixed_size`, which is at most [`MAX_FIXED`](super::MAX_FIXED).
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    name: &'a [u8],
    fields: &'a [u8],
    fixed_size: u32,
}

impl<'a> Description<'a> {
    /// Reads a description, given without the NUL that ends it.
    ///
    /// # Errors
    ///
    /// What is wrong with the length, with the name, or with the first field that is not right: any
    /// [`Error`] that does not speak of a payload.
    pub fn parse(text: &'a [u8]) -> Result<Self, Error> {
        if text.len() > MAX_DESCRIPTION {
            return Err(Error::TooLong);
        }
        Self::parse_listing(text)
    }

    /// Reads a description that may come from [`write_listing`](super::write_listing).
    ///
    /// The listing has a space before each field, which the description may have done without, so
    /// it can be longer than [`MAX_DESCRIPTION`]. Here neither white space before fields nor empty
    /// fields count.
    ///
    /// # Errors
    ///
    /// Those of [`Description::parse`].
    pub fn parse_listing(text: &'a [u8]) -> Result<Self, Error> {
        let (name, fields) = cut(text, b' ').unwrap_or((text, &[]));
        check_name(name)?;

        if text.len() > MAX_DESCRIPTION {
            let packed = Pieces::new(fields).fold(name.len(), |sum, piece| {
                sum.saturating_add(1).saturating_add(piece.len())
            });
            if packed > MAX_DESCRIPTION {
                return Err(Error::TooLong);
            }
        }

        let mut end = COMMON_SIZE;
        let mut pieces = Pieces::new(fields);
        while let Some(piece) = pieces.next() {
            let field = Field::new(Words::split(piece)?, end)?;

            // Few fields fit into a description, so comparing each with each is cheap.
            if pieces.clone().any(|piece| is_named(piece, field.name())) {
                return Err(Error::DuplicateField);
            }

            end = field.end();
        }

        // INVARIANT: Each field was parsed, its name compared with those after it, and `Field::new`
        // lets none end past `MAX_RECORD`.
        Ok(Self {
            name,
            fields,
            fixed_size: end.saturating_sub(COMMON_SIZE),
        })
    }

    /// The event's name, without the fields.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// The fields, in the order in which they lie in the payload.
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(Pieces::new(self.fields))
    }

    /// Bytes of the text, which its listing will have too, give or take some spaces.
    pub fn text_len(&self) -> usize {
        self.name
            .len()
            .saturating_add(1)
            .saturating_add(self.fields.len())
    }

    /// Bytes of payload that the fields themselves take; what locations point to comes after them.
    pub fn fixed_size(&self) -> u32 {
        self.fixed_size
    }
}

/// May an event have this name?
///
/// [`Description::parse`] asks this for the name in the text; whoever derives another name from it
/// asks again.
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
    if name.iter().any(|&byte| is_blank(byte) || byte == b'/') {
        return Err(Error::NameByte);
    }
    if RESERVED_NAMES.contains(&name) {
        return Err(Error::NameReserved);
    }
    Ok(())
}

/// Most words of a field.
const MOST_WORDS: usize = 4;

const EMPTY: &[u8] = &[];

/// Is `field` one of this name?
fn is_named(field: &[u8], name: &[u8]) -> bool {
    // Where the name would be, before the whole is looked at.
    let mut last = field.rsplit(|&byte| byte == b' ').take(2);
    last.any(|word| word == name) && Words::split(field).is_ok_and(|words| words.name == name)
}

/// The words of one field, as they stand in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    /// All words of the type and the name.
    pub(super) spelled: &'a [u8],
    /// All words of the type, with the spaces between them.
    pub(super) type_text: &'a [u8],
    /// The name; never empty.
    pub(super) name: &'a [u8],
    /// The size, which only a struct may and must have.
    pub(super) size: Option<&'a [u8]>,
}

impl<'a> Words<'a> {
    /// Cuts a field, whose leading white space is gone, into its words.
    ///
    /// # Errors
    ///
    /// [`Error::FieldSyntax`] if a word is missing, empty or one too many.
    pub(super) fn split(field: &'a [u8]) -> Result<Self, Error> {
        let mut words = [EMPTY; MOST_WORDS];
        let mut count = 0usize;
        for word in field.split(|&byte| byte == b' ') {
            let place = words.get_mut(count).ok_or(Error::FieldSyntax)?;
            if word.is_empty() {
                return Err(Error::FieldSyntax);
            }
            *place = word;
            count = count.saturating_add(1);
        }

        // How many words the type takes is told by its first ones.
        let type_words: usize = match words {
            [b"__data_loc" | b"__rel_loc", b"unsigned", ..] => 3,
            [b"unsigned" | b"struct" | b"__data_loc" | b"__rel_loc", ..] => 2,
            _ => 1,
        };
        let words = words.get(..count).unwrap_or_default();
        let (type_words, rest) = words
            .split_at_checked(type_words)
            .ok_or(Error::FieldSyntax)?;
        let (name, size) = match (type_words, rest) {
            (_, &[name]) => (name, None),
            ([b"struct", _], &[name, size]) => (name, Some(size)),
            _ => return Err(Error::FieldSyntax),
        };
        // With a space between each two.
        let type_len = type_words
            .iter()
            .fold(type_words.len().saturating_sub(1), |sum, word| {
                sum.saturating_add(word.len())
            });
        let type_text = field.get(..type_len).ok_or(Error::FieldSyntax)?;
        let spelled_len = type_len.saturating_add(1).saturating_add(name.len());
        let spelled = field.get(..spelled_len).ok_or(Error::FieldSyntax)?;

        Ok(Self {
            spelled,
            type_text,
            name,
            size,
        })
    }
}

/// The texts of the fields between the `;`, without white space before them and without the empty
/// ones.
#[derive(Clone, Debug)]
pub(super) struct Pieces<'a> {
    /// What is left of the text; `None` after its end.
    rest: Option<&'a [u8]>,
}

impl<'a> Pieces<'a> {
    /// The pieces of what follows the name in a description.
    fn new(fields: &'a [u8]) -> Self {
        Self { rest: Some(fields) }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while let Some(rest) = self.rest {
            let (piece, rest) = match cut(rest, b';') {
                Some((piece, rest)) => (piece, Some(rest)),
                None => (rest, None),
            };
            self.rest = rest;

            let blanks = piece.iter().take_while(|&&byte| is_white(byte)).count();
            match piece.get(blanks..) {
                None | Some([]) => continue,
                piece => return piece,
            }
        }
        None
    }
}

/// `text` before and after its first `mark`, if there is one.
pub(super) fn cut(text: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == mark)?;
    Some((text.get(..at)?, text.get(at.checked_add(1)?..)?))
}

/// What may stand before a field: the space, and the control bytes that move as it does.
pub(super) fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// A control byte or a space: nothing that may be part of a word which the tracing files show.
pub(super) fn is_blank(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}
