// SPDX-License-Identifier: GPL-2.0

//! Groups of events: their names, and the lines that make, change and remove them.
//!
//! ```text
//! line   = [ set | remove ] { white } [ "#" any ]
//! set    = "g:" name { white } { option }
//! option = "events=" number | "bytes_per_second=" number
//! remove = "-:" name [ "when=unused" ]
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
    /// Bytes that are recorded in a second; 0 is no limit.
    pub bytes_per_second: u32,
}

impl GroupLimits {
    /// Those of a group whose line has no options.
    pub const DEFAULT: Self = Self {
        events: DEFAULT_EVENTS,
        bytes_per_second: 0,
    };
}

/// The limits that a line has options for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupOptions {
    /// As [`GroupLimits::events`].
    pub events: Option<u32>,
    /// As [`GroupLimits::bytes_per_second`].
    pub bytes_per_second: Option<u32>,
}

/// What a line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupLine<'a> {
    /// Nothing: it is empty, or a comment.
    Nothing,
    /// To make a group, or to change the limits of one that there is.
    Set(GroupName<'a>, GroupOptions),
    /// To remove a group: now, or when nothing uses it any more.
    Remove(GroupName<'a>, When),
}

/// When a group is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Now, if it is not used.
    Now,
    /// With its last use.
    Unused,
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
            let options = GroupOptions::parse(words)?;
            return Ok(GroupLine::Set(GroupName::new(name)?, options));
        }
        let name = first.strip_prefix(b"-:").ok_or(Error::GroupLine)?;
        let when = match (words.next(), words.next()) {
            (None, _) => When::Now,
            (Some(b"when=unused"), None) => When::Unused,
            _ => return Err(Error::GroupLine),
        };
        Ok(GroupLine::Remove(GroupName::new(name)?, when))
    }
}

impl GroupOptions {
    /// Parses options, each of which may stand there once.
    fn parse<'a>(options: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let (mut events, mut bytes_per_second) = (None, None);
        for option in options {
            let (key, value) = cut(option, b'=').ok_or(Error::GroupLine)?;
            let (place, range) = match key {
                b"events" => (&mut events, 1..=MAX_EVENTS),
                b"bytes_per_second" => (&mut bytes_per_second, 0..=u32::MAX),
                _ => return Err(Error::GroupLine),
            };
            let number = number_from(value, 10).and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| !value.is_empty() && range.contains(number));
            if place.replace(number.ok_or(Error::GroupLine)?).is_some() {
                return Err(Error::GroupLine);
            }
        }
        Ok(Self {
            events,
            bytes_per_second,
        })
    }

    /// Does the line set nothing?
    pub fn are_none(self) -> bool {
        self == Self::default()
    }

    /// Limits, but for those that the line sets.
    pub fn over(self, limits: GroupLimits) -> GroupLimits {
        GroupLimits {
            events: self.events.unwrap_or(limits.events),
            bytes_per_second: self.bytes_per_second.unwrap_or(limits.bytes_per_second),
        }
    }
}
