// SPDX-License-Identifier: GPL-2.0

//! Claims about any bytes: the schema does not panic, returns the same as the model, and accepts
//! only consistent input.
//!
//! Each function asserts one claim. The tests call them with random bytes and with the corpus, the
//! fuzzer with its own inputs.

use crate::event::{
    check,
    fixed_size,
    listing,
    locations,
    print_fmt,
    Description, //
};
use crate::model::{self, ModelField, Seen, Type, Verdict};
use std::collections::BTreeSet;
use user_events_schema::{
    check_payload,
    Ending,
    Errno,
    Error,
    Kind,
    COMMON_SIZE,
    MAX_FIXED, //
};

/// Checks all claims about descriptions with `text`.
pub fn description(text: &[u8]) {
    let parsed = Description::parse(text);
    same(text, parsed.clone(), model::parse(text));
    if let Ok(description) = parsed {
        layout(&description);
        round_trip(&description);
        never_misread(&description);
        formats(&description);
    }
}

/// Checks all claims about lines of `dynamic_events` with a line that makes an event and, behind a
/// NUL, the fields in one that deletes it.
pub fn line(input: &[u8]) {
    let (making, deleting) = cut(input);
    line_that_makes(making);
    line_that_deletes(making, deleting);
}

/// Checks all claims about records with a description and, behind a NUL, a payload.
pub fn record(input: &[u8]) {
    let (text, payload) = cut(input);
    if let Ok((_, fields)) = model::parse(text) {
        self::payload(text, &fields, payload);
    }
}

/// The bytes before and behind the first NUL, which is part of no description and no line.
fn cut(input: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = input.splitn(2, |&byte| byte == 0);
    let first = parts.next().unwrap();
    (first, parts.next().unwrap_or_default())
}

/// Returns a byte of the schema for each `char` of the model.
fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).unwrap()).collect()
}

/// Returns a `char` of the model for each byte of the schema.
fn text_of(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// Returns the model's name of an errno.
fn errno(error: Error) -> &'static str {
    match error.errno() {
        Errno::Inval => model::INVALID,
        Errno::TooBig => model::TOO_BIG,
        Errno::Fault => "EFAULT",
    }
}

/// The fields of an accepted description lie one behind the other, have different names, and end
/// within the largest record.
fn layout(description: &Description<'_>) {
    let mut end = COMMON_SIZE;
    let mut names = BTreeSet::new();
    for field in description.fields() {
        assert_eq!(field.end() - field.size(), end);
        assert!(field.size() > 0);
        assert!(names.insert(field.name()));
        end += field.size();
    }
    assert_eq!(fixed_size(description), end - COMMON_SIZE);
    assert!(fixed_size(description) <= MAX_FIXED);
}

/// Like [`same`], for a line of `dynamic_events` that makes an event, and for the event's group.
pub fn line_that_makes(text: &[u8]) {
    let got = Description::parse_line(text);
    let line = text_of(text);
    let expected = model::parse_line(&line);
    if let (Ok((group, _)), Ok((expected, _))) = (&got, &expected) {
        let group = group.as_ref().map(|group| group.bytes());
        assert_eq!(group, expected.as_ref().map(|group| group.as_bytes()));
    }
    same(
        text,
        got.map(|(_, description)| description),
        expected.map(|(_, event)| event),
    );
}

/// The schema accepts the same descriptions as the model, with the same result, and refuses the
/// rest with an errno that fits.
fn same(
    text: &[u8],
    got: Result<Description<'_>, Error>,
    expected: Result<(String, Vec<ModelField>), BTreeSet<&'static str>>,
) {
    match (got, expected) {
        (Ok(description), Ok((name, fields))) => {
            assert_eq!(description.name(), bytes(&name));
            assert_eq!(description.fields().count(), fields.len());
            for (field, expected) in description.fields().zip(&fields) {
                assert_eq!(field.name(), bytes(&expected.name));
                assert_eq!(field.type_text(), bytes(&expected.type_text()));
                assert_eq!(i128::from(field.size()), expected.size());
                assert_eq!(field.is_signed(), !expected.type_text().starts_with('u'));
                let string = expected.is_string();
                let kind = match &expected.what {
                    Type::Integer(..) => Kind::Integer,
                    Type::Chars(_, len) => Kind::Chars { len: *len as u32 },
                    Type::Struct(..) => Kind::Struct,
                    Type::Location(true, _) => Kind::RelLoc { string },
                    Type::Location(false, _) => Kind::DataLoc { string },
                };
                assert_eq!(field.kind(), kind);
            }
            let listed = bytes(&model::description(&name, &fields));
            assert_eq!(listing(&description), listed);
            assert_eq!(print_fmt(&description), bytes(&model::print_fmt(&fields)));
        }
        (Err(error), Err(errors)) => {
            assert!(
                errors.contains(errno(error)),
                "{error:?}, but {errors:?}: {}",
                text.escape_ascii()
            );
        }
        (got, expected) => panic!("{}: {got:?}, but {expected:?}", text.escape_ascii()),
    }
}

/// A listing can be parsed: it has the same fields, and is listed the same.
fn round_trip(description: &Description<'_>) {
    let listed = listing(description);
    let again = Description::parse_listing(&listed).unwrap();
    assert_eq!(again.name(), description.name());
    assert_eq!(fixed_size(&again), fixed_size(description));
    assert!(again.fields().eq(description.fields()));
    assert_eq!(listing(&again), listed);
    assert_eq!(print_fmt(&again), print_fmt(description));
}

/// The rest of the kernel takes each field for its kind, and follows no unchecked location.
fn never_misread(description: &Description<'_>) {
    for field in description.fields() {
        let expected = match field.kind() {
            Kind::Integer | Kind::Struct => Seen::Value,
            Kind::Chars { .. } => Seen::Array,
            Kind::DataLoc { string: true } => Seen::String,
            Kind::DataLoc { string: false } => Seen::Bytes,
            Kind::RelLoc { string: true } => Seen::RelativeString,
            Kind::RelLoc { string: false } => Seen::RelativeBytes,
        };
        assert_eq!(model::seen_as(field.type_text(), field.size()), expected);
    }
}

/// A print format is a string in quotes, with one conversion for each argument behind it, and
/// neither it nor a listing is more than one line.
fn formats(description: &Description<'_>) {
    let format = text_of(&print_fmt(description));
    let [before, string, arguments] = format.split('"').collect::<Vec<_>>()[..] else {
        panic!("{format}");
    };
    let fields = description.fields().count();
    assert_eq!(before, "");
    assert_eq!(string.matches('%').count(), fields);
    assert_eq!(arguments.is_empty(), fields == 0);
    let control = |text: &str| text.contains(|c: char| c < ' ' || c == '\x7f');
    assert!(!control(&format));
    assert!(!control(&text_of(&listing(description))));
}

/// The fields in a line that deletes match the event of the line `making` if and only if they do in
/// the model.
pub fn line_that_deletes(making: &[u8], deleting: &[u8]) {
    // If `making` makes no event, one without fields is taken.
    let unknown = Description::parse(b"e").unwrap();
    let description = Description::parse_line(making).map_or(unknown, |(_, event)| event);
    let listed = text_of(&listing(&description));
    let fields = listed.split_once(' ').map_or("", |(_, fields)| fields);

    let given = text_of(deleting);
    let same = model::fields_are(&given, fields);
    let words =
        || (deleting.split(|byte| matches!(byte, b' ' | 9..=13))).filter(|word| !word.is_empty());
    assert_eq!(description.fields_are(words()), same, "{given}: {fields}");

    // The event's own listing always matches, and never with one more field.
    let own = bytes(fields);
    let own = || own.split(|&byte| byte == b' ');
    assert!(description.fields_are(own()));
    let more: [&[u8]; 3] = [b";", b"u8", b"\x01"];
    assert!(!description.fields_are(own().chain(more)));
}

/// The schema returns the model's verdict on a payload of the event `text`, whose fields in the
/// model are `fields`, and accepts no location of data outside of the record.
pub fn payload(text: &[u8], fields: &[ModelField], payload: &[u8]) {
    let description = Description::parse(text).unwrap();
    let got = check(&description, payload);

    let (expected, empty_strings) = model::check(fields, payload);
    let refused = |error: Error, by: Errno| {
        assert_eq!(got, Err(error));
        assert_eq!(error.errno(), by);
    };
    match expected {
        Verdict::Short => refused(Error::PayloadShort, Errno::Inval),
        Verdict::Outside => refused(Error::LocationOutOfBounds, Errno::Fault),
        Verdict::NoNul => refused(Error::MissingNul, Errno::Fault),
        Verdict::Valid => {
            // Reading an empty string up to its NUL ends in the record.
            let mut record = [&[0xaa; 8], payload].concat();
            if got == Ok(Ending::NeedsNul) {
                record.push(0);
            }
            for &start in &empty_strings {
                assert!(record[start as usize..].contains(&0));
            }
            // The record grows only if its own last byte does not end the string.
            let end = 8 + payload.len() as i128;
            let needs_nul = empty_strings
                .iter()
                .any(|&start| start == end || payload.last() != Some(&0));
            let ending = match needs_nul {
                true => Ending::NeedsNul,
                false => Ending::Complete,
            };
            assert_eq!(got, Ok(ending));
        }
    }

    // Locations of another event must not cause a panic.
    let _ = check_payload(payload, 0, &locations(&description));
}
