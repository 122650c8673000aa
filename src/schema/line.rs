// SPDX-License-Identifier: GPL-2.0

//! Lines of `dynamic_events`: making an event, and naming one that exists.

use super::command::{cut, is_white, Description};
use super::error::Error;
use super::layout::Sink;
use core::convert::Infallible;

/// The one group that a line may name, before a `/` and the event.
pub const GROUP: &[u8] = b"user_events";

impl<'a> Description<'a> {
    /// Reads what follows the `u:` in a line that makes an event: a description, before whose name
    /// the group may stand.
    ///
    /// # Errors
    ///
    /// [`Error::Group`] if it is another group; else those of [`Description::parse_listing`].
    pub fn parse_line(text: &'a [u8]) -> Result<Self, Error> {
        let blanks = text.iter().take_while(|&&byte| is_white(byte)).count();
        let text = text.get(blanks..).unwrap_or_default();
        match cut(text, b'/') {
            Some((GROUP, event)) => Self::parse_listing(event),
            // A `/` behind the first space is not part of the name.
            Some((group, _)) if !group.contains(&b' ') => Err(Error::Group),
            _ => Self::parse_listing(text),
        }
    }

    /// Do `words`, the fields in a line that deletes an event, cut at white space, spell exactly
    /// the fields of this description? No words at all mean any fields.
    pub fn fields_are<'w>(&self, words: impl Iterator<Item = &'w [u8]>) -> bool {
        let mut said = Spelled::new(words).peekable();
        if said.peek().is_none() {
            return true;
        }
        let mut comparison = Comparison { said, same: true };
        let mut before: &[u8] = b"";
        for field in self.fields() {
            // It takes whatever it is given.
            let Ok(()) = comparison.put(before);
            let Ok(()) = field.write_listing(&mut comparison);
            before = b"; ";
        }
        comparison.same && comparison.said.next().is_none()
    }
}

/// A text that is only compared with another one.
struct Comparison<I> {
    said: I,
    same: bool,
}

impl<I: Iterator<Item = u8>> Sink for Comparison<I> {
    type Error = Infallible;

    fn put(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        for &byte in bytes {
            self.same &= self.said.next() == Some(byte);
        }
        Ok(())
    }
}

/// What comes before the next byte of a [`Spelled`] text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    Nothing,
    Space,
    Semicolon,
}

/// Words, cut at white space, as a text with one space between words, `; ` between fields, and
/// neither before the first nor after the last.
struct Spelled<'w, I> {
    words: I,
    word: &'w [u8],
    gap: Gap,
    begun: bool,
}

impl<'w, I: Iterator<Item = &'w [u8]>> Spelled<'w, I> {
    fn new(words: I) -> Self {
        Self {
            words,
            word: &[],
            gap: Gap::Nothing,
            begun: false,
        }
    }
}

impl<'w, I: Iterator<Item = &'w [u8]>> Iterator for Spelled<'w, I> {
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
