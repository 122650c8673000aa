// SPDX-License-Identifier: GPL-2.0

//! Groups of events: their names, and the lines that make, change and remove them.
//!
//! ```text
//! line   = [ set | remove ] { white } [ "#" any ]
//! set    = "g:" name { white } { option }
//! option = "events=" number | "bytes_per_second=" number | "names=plain" | "names=any"
//! remove = "-:" name [ "when=unused" ]
//! ```
//!
//! White space may stand before and behind a line, and separates the options.

use super::error::Error;
use super::text::{
    cut,
    is_plain,
    is_white,
    number_from, //
};
use core::ops::RangeInclusive;

/// Longest name of a group in bytes.
const MAX_GROUP_NAME: usize = 32;

/// The most events of a group, if its line has no such option.
const DEFAULT_EVENTS: u32 = 1024;

/// The largest number of events in a line: the default of the first group.
const MAX_EVENTS: u32 = 32768;

/// The last word of the system of a group's formats, behind a `_`. No group's name ends with that
/// word, so that no two groups have the same system.
const MULTI: &[u8] = b"multi";

/// A name that a group can have: 1 to 32 of `[A-Za-z0-9_]`, not `multi`, and without `_multi` at
/// the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupName<'a>(&'a [u8]);

impl<'a> GroupName<'a> {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`Error::GroupName`].
    pub fn new(name: &'a [u8]) -> Result<Self, Error> {
        let is_multi = match name.strip_suffix(MULTI) {
            Some(before) => before.is_empty() || before.ends_with(b"_"),
            None => false,
        };
        if name.is_empty() || name.len() > MAX_GROUP_NAME || is_multi || !is_plain(name) {
            return Err(Error::GroupName);
        }
        Ok(Self(name))
    }

    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// The limits of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// The most events.
    pub events: u32,
    /// The most bytes that are recorded in a second; 0 is no limit.
    pub bytes_per_second: u32,
    /// Whether events may have names that are not plain, see
    /// [`Description::has_plain_name`](super::Description::has_plain_name).
    pub any_names: bool,
}

impl GroupLimits {
    /// The limits of a group whose line has no options.
    pub const DEFAULT: Self = Self {
        events: DEFAULT_EVENTS,
        bytes_per_second: 0,
        any_names: false,
    };
}

/// The options of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupOptions {
    /// As [`GroupLimits::events`].
    pub events: Option<u32>,
    /// As [`GroupLimits::bytes_per_second`].
    pub bytes_per_second: Option<u32>,
    /// As [`GroupLimits::any_names`].
    pub any_names: Option<bool>,
}

/// A line about groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupLine<'a> {
    /// An empty line, or a comment.
    Nothing,
    /// Make a group, or change the limits of an existing one.
    Set(GroupName<'a>, GroupOptions),
    /// Remove a group: now, or with its last use.
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
    /// Parses a line, without its newline.
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
    /// Parses options, each of which may be given once.
    fn parse<'a>(options: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let mut all = Self::default();
        for option in options {
            let (key, value) = cut(option, b'=').ok_or(Error::GroupLine)?;
            let is_repeated = match (key, value) {
                (b"events", _) => all.events.replace(limit(value, 1..=MAX_EVENTS)?).is_some(),
                (b"bytes_per_second", _) => {
                    let bytes = limit(value, 0..=u32::MAX)?;
                    all.bytes_per_second.replace(bytes).is_some()
                }
                (b"names", b"plain" | b"any") => all.any_names.replace(value == b"any").is_some(),
                _ => return Err(Error::GroupLine),
            };
            if is_repeated {
                return Err(Error::GroupLine);
            }
        }
        Ok(all)
    }

    /// Whether the line sets nothing.
    pub fn are_none(self) -> bool {
        self == Self::default()
    }

    /// Limits, with those that the line sets.
    pub fn over(self, limits: GroupLimits) -> GroupLimits {
        GroupLimits {
            events: self.events.unwrap_or(limits.events),
            bytes_per_second: self.bytes_per_second.unwrap_or(limits.bytes_per_second),
            any_names: self.any_names.unwrap_or(limits.any_names),
        }
    }
}

/// The value of an option, a decimal number in `range`.
fn limit(value: &[u8], range: RangeInclusive<u32>) -> Result<u32, Error> {
    let number = number_from(value, 10).and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| !value.is_empty() && range.contains(number));
    number.ok_or(Error::GroupLine)
}
