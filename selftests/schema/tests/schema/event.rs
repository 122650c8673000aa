// SPDX-License-Identifier: GPL-2.0

//! The texts, the size and the locations of an event, made from its description by the same calls
//! as in the module.

use user_events_schema::{
    check_payload,
    fields_match,
    write_listing,
    write_print_fmt,
    Ending,
    Error,
    Field,
    GroupName,
    Location,
    Sink,
    COMMON_SIZE, //
};

/// A description with its fields, as the module keeps them.
#[derive(Clone, Debug)]
pub struct Description<'a> {
    description: user_events_schema::Description<'a>,
    fields: Vec<Field<'a>>,
}

impl<'a> Description<'a> {
    fn new(description: user_events_schema::Description<'a>) -> Result<Self, Error> {
        let fields = description.fields().collect::<Result<_, _>>()?;
        Ok(Self {
            description,
            fields,
        })
    }

    pub fn parse(text: &'a [u8]) -> Result<Self, Error> {
        Self::new(user_events_schema::Description::parse(text)?)
    }

    pub fn parse_line(text: &'a [u8]) -> Result<(Option<GroupName<'a>>, Self), Error> {
        let (group, description) = user_events_schema::Description::parse_line(text)?;
        Ok((group, Self::new(description)?))
    }

    /// Parses a line that names no group.
    pub fn parse_listing(text: &'a [u8]) -> Result<Self, Error> {
        Self::parse_line(text).map(|(_, description)| description)
    }

    pub fn name(&self) -> &'a [u8] {
        self.description.name()
    }

    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + '_ {
        self.fields.iter().copied()
    }

    pub fn fields_are<'w>(&self, words: impl Iterator<Item = &'w [u8]>) -> bool {
        fields_match(&listing(self), words)
    }
}

/// A sink that takes `room` bytes and no more.
struct Text {
    bytes: Vec<u8>,
    room: usize,
}

/// The error of a full sink.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Sink for Text {
    type Error = Full;

    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if bytes.len() > self.room {
            return Err(Full);
        }
        self.room -= bytes.len();
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// Returns what `write` writes, if it fits into `room` bytes.
fn within(room: usize, write: impl FnOnce(&mut Text) -> Result<(), Full>) -> Result<Vec<u8>, Full> {
    let bytes = Vec::new();
    let mut text = Text { bytes, room };
    write(&mut text)?;
    Ok(text.bytes)
}

/// Returns the listing, if it fits into `room` bytes.
pub fn listing_within(description: &Description<'_>, room: usize) -> Result<Vec<u8>, Full> {
    within(room, |text| {
        write_listing(description.name(), &description.fields, text)
    })
}

/// Returns the print format, if it fits into `room` bytes.
pub fn print_fmt_within(description: &Description<'_>, room: usize) -> Result<Vec<u8>, Full> {
    within(room, |text| write_print_fmt(&description.fields, text))
}

/// Returns the whole listing.
pub fn listing(description: &Description<'_>) -> Vec<u8> {
    listing_within(description, usize::MAX).unwrap()
}

/// Returns the whole print format.
pub fn print_fmt(description: &Description<'_>) -> Vec<u8> {
    print_fmt_within(description, usize::MAX).unwrap()
}

/// Returns the size of all fields together. Data of locations follows them.
pub fn fixed_size(description: &Description<'_>) -> u32 {
    let end = description.fields().map(|field| field.end()).max();
    end.unwrap_or(COMMON_SIZE) - COMMON_SIZE
}

/// Returns the locations among the fields.
pub fn locations(description: &Description<'_>) -> Vec<Location> {
    (description.fields.iter())
        .filter_map(Field::location)
        .collect()
}

/// Checks a payload of the event.
pub fn check(description: &Description<'_>, payload: &[u8]) -> Result<Ending, Error> {
    check_payload(payload, fixed_size(description), &locations(description))
}
