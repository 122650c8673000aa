// SPDX-License-Identifier: GPL-2.0

//! Groups of events: their names, and the lines that make and remove them.
//!
//! ```text
//! line   = [ make | remove ] { white } [ "#" any ]
//! make   = "g:" name { white } { option }
//! option = "events=" number | "bytes_per_second=" number
//! remove = "-:" name
//! ```
//!
//! White space may stand before and behind all of that, and separates the options.

use super::error::Error;
use super::text::{
    cut,
    is_white,
    number_from, //
};

/// Longest name of a group in bytes.
const MAX_GROUP_NAME: usize = 32;

/// How many events a group has at most, if its line does not say.
const DEFAULT_EVENTS: u32 = 1024;

/// The largest number of events that a line can ask for: the first group's, as long as it is not changed.
const MAX_EVENTS: u32 = 32768;

/// What a group's system has behind its name where it is the one of the formats. No name of a group ends like that, so
/// that no system is that of two groups.
const MULTI: &[u8] = b"multi";

/// A name that a group can have: 1 to 32 of `[A-Za-z0-9_]`, not `multi`, and without `_multi` at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupName<'a>(&'a [u8]);

impl<'a> GroupName<'a> {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`Error::GroupName`].
    pub fn new(name: &'a [u8]) -> Result<Self, Error> {
        let is_right = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let is_multi = match name.strip_suffix(MULTI) {
            Some(before) => before.is_empty() || before.ends_with(b"_"),
            None => false,
        };
        if name.is_empty() || name.len() > MAX_GROUP_NAME || is_multi || !name.iter().all(is_right)
        {
            return Err(Error::GroupName);
        }
        Ok(Self(name))
    }

    /// The name.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// What a group may have at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Events.
    pub events: u32,
    /// Bytes of payload that are recorded in a second, if that is limited.
    pub bytes_per_second: Option<u32>,
}

/// What a line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupLine<'a> {
    /// Nothing: it is empty, or a comment.
    Nothing,
    /// To make a group.
    Make(GroupName<'a>, GroupLimits),
    /// To remove a group.
    Remove(GroupName<'a>),
}

impl<'a> GroupLine<'a> {
    /// Parses a line, without the end of it.
    ///
    /// # Errors
    ///
    /// [`Error::GroupLine`], [`Error::GroupName`].
    pub fn parse(line: &'a [u8]) -> Result<Self, Error> {
        let line = cut(line, b'#').map_or(line, |(before, _)| before);
        let mut words = line
            .split(|byte| is_white(*byte))
            .filter(|word| !word.is_empty());
        let Some(first) = words.next() else {
            return Ok(GroupLine::Nothing);
        };
        if let Some(name) = first.strip_prefix(b"g:") {
            let limits = GroupLimits::parse(words)?;
            return Ok(GroupLine::Make(GroupName::new(name)?, limits));
        }
        let name = first.strip_prefix(b"-:").ok_or(Error::GroupLine)?;
        if words.next().is_some() {
            return Err(Error::GroupLine);
        }
        Ok(GroupLine::Remove(GroupName::new(name)?))
    }
}

impl GroupLimits {
    /// Parses options, each of which may stand there once.
    fn parse<'a>(options: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let (mut events, mut bytes_per_second) = (None, None);
        for option in options {
            let (key, value) = cut(option, b'=').ok_or(Error::GroupLine)?;
            let (place, max) = match key {
                b"events" => (&mut events, MAX_EVENTS),
                b"bytes_per_second" => (&mut bytes_per_second, u32::MAX),
                _ => return Err(Error::GroupLine),
            };
            if place.replace(number(value, max)?).is_some() {
                return Err(Error::GroupLine);
            }
        }
        Ok(Self {
            events: events.unwrap_or(DEFAULT_EVENTS),
            bytes_per_second,
        })
    }
}

/// A decimal number from 1 to `max`.
fn number(digits: &[u8], max: u32) -> Result<u32, Error> {
    let number = number_from(digits, 10).and_then(|number| u32::try_from(number).ok());
    match number {
        Some(number) if number > 0 && number <= max => Ok(number),
        _ => Err(Error::GroupLine),
    }
}
