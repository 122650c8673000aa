// SPDX-License-Identifier: GPL-2.0

//! Lines of `dynamic_events`: the listed ones, those that make an event, and the fields in those
//! that delete one.

use super::description::{
    cut_name,
    Description, //
};
use super::error::Error;
use super::field::Field;
use super::group::GroupName;
use super::limits::MAX_DESCRIPTION;
use super::text::{
    cut,
    trim_start,
    Pieces,
    Sink, //
};

/// The system that a line may name, before a `/` and the event. The system of another group has a
/// `_` and the group's name behind that.
///
/// C: `USER_EVENTS_SYSTEM` (include/uapi/linux/user_events.h).
const SYSTEM: &[u8] = b"user_events";

impl<'a> Description<'a> {
    /// Parses a line that makes an event, without its `u:`: a description, with an optional system
    /// before the name. Returns the group of the system; `None` is the first.
    ///
    /// C: `user_event_create()` (kernel/trace/trace_events_user.c).
    ///
    /// # Errors
    ///
    /// [`Error::Group`] if no group can have the system; otherwise those of
    /// [`Description::parse`].
    pub fn parse_line(text: &'a [u8]) -> Result<(Option<GroupName<'a>>, Self), Error> {
        let text = trim_start(text);
        match cut(text, b'/') {
            // A `/` behind the first space is not part of the name.
            Some((system, event)) if !system.contains(&b' ') => {
                let group = group_of(system)?;
                Ok((group, Self::parse_listing(event)?))
            }
            _ => Ok((None, Self::parse_listing(text)?)),
        }
    }

    /// Takes a description that [`write_listing`] may have written.
    ///
    /// A listing has a space before each field, even if the description had none, so it can be
    /// longer than [`MAX_DESCRIPTION`]. White space before fields and empty fields do not count
    /// here.
    ///
    /// # Errors
    ///
    /// Those of [`Description::parse`].
    fn parse_listing(text: &'a [u8]) -> Result<Self, Error> {
        if text.len() > MAX_DESCRIPTION {
            let (name, fields) = cut_name(text);
            let packed = Pieces::new(fields).fold(name.len(), |sum, piece| {
                sum.saturating_add(1).saturating_add(piece.len())
            });
            if packed > MAX_DESCRIPTION {
                return Err(Error::TooLong);
            }
        }
        Self::parse_any_length(text)
    }
}

/// Whether `words` are exactly the fields of a listing. They are the fields in a line that deletes
/// an event, cut at white space. No words match any fields.
///
/// C: `user_fields_match()` (kernel/trace/trace_events_user.c), where no words match no fields.
pub fn fields_match<'w>(listing: &[u8], words: impl Iterator<Item = &'w [u8]>) -> bool {
    let (_, fields) = cut_name(listing);
    let mut given = Spaced::new(words).peekable();
    given.peek().is_none() || given.eq(fields.iter().copied())
}

/// The group with this system; `None` is the first.
fn group_of(system: &[u8]) -> Result<Option<GroupName<'_>>, Error> {
    let name = system.strip_prefix(SYSTEM).ok_or(Error::Group)?;
    if name.is_empty() {
        return Ok(None);
    }
    let name = name.strip_prefix(b"_").ok_or(Error::Group)?;
    match GroupName::new(name) {
        Ok(name) => Ok(Some(name)),
        Err(_) => Err(Error::Group),
    }
}

/// Writes a line of `dynamic_events`, without its `u:`: `NAME TYPE NAME; TYPE NAME`, with the size
/// behind a struct. [`Description::parse_line`] reads it. Two events of one name have the same
/// fields if these bytes are the same.
///
/// C: `user_event_show()` (kernel/trace/trace_events_user.c).
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

/// The separator before the next byte of a [`Spaced`] text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    Nothing,
    Space,
    Semicolon,
}

/// A text of words with the white space of a listing: one space between words, `; ` between fields,
/// and none at the ends.
///
/// C: `user_event_argv_split()` and `user_dyn_field_set_string()`
/// (kernel/trace/trace_events_user.c).
struct Spaced<'w, I> {
    words: I,
    /// The part of the current word that was not returned yet.
    word: &'w [u8],
    gap: Gap,
    begun: bool,
}

impl<'w, I: Iterator<Item = &'w [u8]>> Spaced<'w, I> {
    fn new(words: I) -> Self {
        Self {
            words,
            word: &[],
            gap: Gap::Nothing,
            begun: false,
        }
    }
}

impl<'w, I: Iterator<Item = &'w [u8]>> Iterator for Spaced<'w, I> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        loop {
            let Some((&byte, rest)) = self.word.split_first() else {
                self.word = self.words.next()?;
                if self.gap == Gap::Nothing {
                    self.gap = Gap::Space;
                }
                continue;
            };
            if byte == b';' {
                self.word = rest;
                self.gap = Gap::Semicolon;
                continue;
            }
            let gap = if self.begun { self.gap } else { Gap::Nothing };
            self.gap = Gap::Nothing;
            match gap {
                Gap::Nothing => {
                    self.begun = true;
                    self.word = rest;
                    return Some(byte);
                }
                Gap::Space => return Some(b' '),
                Gap::Semicolon => {
                    self.gap = Gap::Space;
                    return Some(b';');
                }
            }
        }
    }
}
