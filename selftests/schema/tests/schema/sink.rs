// SPDX-License-Identifier: GPL-2.0

//! Where the tests let the schema write to.

use user_events_schema::{write_listing, write_print_fmt, Description, Sink};

/// A sink that takes so many bytes and no more.
struct Text {
    bytes: Vec<u8>,
    room: usize,
}

/// What a full sink answers.
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

/// The listing, if it fits into `room` bytes.
pub fn listing_within(description: &Description<'_>, room: usize) -> Result<Vec<u8>, Full> {
    let bytes = Vec::new();
    let mut text = Text { bytes, room };
    let fields: Vec<_> = description.fields().collect();
    write_listing(description.name(), &fields, &mut text)?;
    Ok(text.bytes)
}

/// The print format, if it fits into `room` bytes.
pub fn print_fmt_within(description: &Description<'_>, room: usize) -> Result<Vec<u8>, Full> {
    let bytes = Vec::new();
    let mut text = Text { bytes, room };
    let fields: Vec<_> = description.fields().collect();
    write_print_fmt(&fields, &mut text)?;
    Ok(text.bytes)
}

/// The whole listing.
pub fn listing(description: &Description<'_>) -> Vec<u8> {
    listing_within(description, usize::MAX).unwrap()
}

/// The whole print format.
pub fn print_fmt(description: &Description<'_>) -> Vec<u8> {
    print_fmt_within(description, usize::MAX).unwrap()
}
