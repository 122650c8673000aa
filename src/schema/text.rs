// SPDX-License-Identifier: GPL-2.0

//! The texts of descriptions: cutting them into fields, words and numbers, and writing them.

use super::error::Error;
use super::limits::MAX_WORDS;

/// A buffer for text that is written piece by piece.
///
/// Not [`core::fmt::Write`], since names may hold bytes that are not UTF-8.
pub trait Sink {
    /// The reason for which the sink did not take the bytes.
    type Error;

    /// Appends `bytes`.
    ///
    /// # Errors
    ///
    /// The sink's own, e.g. that it is full. Bytes that were written before remain in it.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// The words of one field, as they stand in the text.
///
/// C: `type`, `name` and `size` of `user_event_parse_field()` (kernel/trace/trace_events_user.c).
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    /// All words of the type and the name.
    pub(super) type_and_name: &'a [u8],
    /// All words of the type, with the spaces between them.
    pub(super) type_text: &'a [u8],
    /// The name; never empty.
    pub(super) name: &'a [u8],
    /// The size, in a struct only.
    pub(super) size: Option<&'a [u8]>,
}

impl<'a> Words<'a> {
    /// Cuts a field, without the white space before it, into its words.
    ///
    /// # Errors
    ///
    /// [`Error::FieldSyntax`] if a word is missing, empty or one too many.
    pub(super) fn split(field: &'a [u8]) -> Result<Self, Error> {
        const EMPTY: &[u8] = &[];

        let mut words = [EMPTY; MAX_WORDS];
        let mut count = 0usize;
        for word in field.split(|&byte| byte == b' ') {
            let place = words.get_mut(count).ok_or(Error::FieldSyntax)?;
            if word.is_empty() {
                return Err(Error::FieldSyntax);
            }
            *place = word;
            count = count.saturating_add(1);
        }

        // The first words determine how many of them the type has.
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
        let len = type_len.saturating_add(1).saturating_add(name.len());
        let type_and_name = field.get(..len).ok_or(Error::FieldSyntax)?;

        Ok(Self {
            type_and_name,
            type_text,
            name,
            size,
        })
    }
}

/// The texts of the fields between the `;`, without white space before them and without the empty
/// ones.
///
/// C: the loop of `user_event_parse_fields()` (kernel/trace/trace_events_user.c).
#[derive(Clone, Debug)]
pub(super) struct Pieces<'a> {
    /// The rest of the text; `None` after its end.
    rest: Option<&'a [u8]>,
}

impl<'a> Pieces<'a> {
    /// The pieces of the text behind the name in a description.
    pub(super) fn new(fields: &'a [u8]) -> Self {
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

            let piece = trim_start(piece);
            if !piece.is_empty() {
                return Some(piece);
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

/// `text` without the white space that it begins with. C: `skip_spaces()` (lib/string_helpers.c).
pub(super) fn trim_start(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|&&byte| is_white(byte)).count();
    text.get(blanks..).unwrap_or_default()
}

/// Whether this is white space, which may stand before a field.
///
/// C: `isspace()` (lib/ctype.c), which also takes byte 0xa0, a part of letters in UTF-8.
pub(super) fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Whether this is a control byte or a space, which no word in the tracing files may hold; or a
/// `#`, from which on the trace core ignores a line that is written to such a file.
pub(super) fn ends_word(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f || byte == b'#'
}

/// Whether this is a word of letters of ASCII, digits and `_`.
pub(super) fn is_plain(word: &[u8]) -> bool {
    let is_right = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    word.iter().all(is_right)
}

/// Whether `part`, which is not empty, stands anywhere in `text`. C: `strstr()`.
pub(super) fn contains(text: &[u8], part: &[u8]) -> bool {
    (0..text.len()).any(|at| text.get(at..).is_some_and(|rest| rest.starts_with(part)))
}

/// The number of these `digits` in base `radix`, or the largest number if it is larger; `None` if
/// one of them is no digit. Without digits it is 0, which is neither a length nor a size.
pub(super) fn number_from(digits: &[u8], radix: u32) -> Option<u64> {
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = char::from(digit).to_digit(radix)?;
        Some(
            number
                .saturating_mul(u64::from(radix))
                .saturating_add(u64::from(digit)),
        )
    })
}

/// Writes `number` in decimal.
///
/// # Errors
///
/// Those of `out`.
pub(super) fn put_number<S: Sink>(mut number: u32, out: &mut S) -> Result<(), S::Error> {
    // The length is that of the largest number.
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
