// SPDX-License-Identifier: GPL-2.0

//! The description as a whole, and the names of events.

use crate::event::{
    fixed_size,
    listing,
    Description, //
};
use user_events_schema::{
    check_name,
    Errno,
    Error,
    MAX_DESCRIPTION, //
};

fn error_of(text: &[u8]) -> Option<Error> {
    Description::parse(text).err()
}

/// Row 3 of the differences; it forbids no other names.
#[test]
fn good_names() {
    let longest = [b'n'; 255];
    let names: &[&[u8]] = &[
        b"a",
        b"requests",
        b"with.dot",
        b"...",
        b"enable2",
        b"Enable",
        b"filters",
        b"a-b",
        b"$",
        b"\"%\\",
        b"\x80\xff",
        "grün".as_bytes(),
        &longest,
    ];
    for name in names {
        assert_eq!(check_name(name), Ok(()), "{}", name.escape_ascii());
        let description = Description::parse(name).unwrap();
        assert_eq!(description.name(), *name);
        assert_eq!(description.fields().count(), 0);
        assert_eq!(fixed_size(&description), 0);
    }
}

/// Row 3 of the differences; flags: "Event descriptions".
#[test]
fn bad_names() {
    let too_long = [b'n'; 256];
    let table: &[(&[u8], Error)] = &[
        (b"", Error::NameEmpty),
        (b" ", Error::NameEmpty),
        (b" u32 a", Error::NameEmpty),
        (&too_long, Error::NameTooLong),
        (b"a/b", Error::NameByte),
        (b"user_events/a", Error::NameByte),
        (b".", Error::NameReserved),
        (b"..", Error::NameReserved),
        (b"enable", Error::NameReserved),
        (b"filter", Error::NameReserved),
        (b"filter u32 a", Error::NameReserved),
        (b"a:b", Error::Flags),
        (b"a:", Error::Flags),
        (b":", Error::Flags),
        (b"a:b u32 c", Error::Flags),
    ];
    for (text, error) in table {
        assert_eq!(error_of(text), Some(*error), "{}", text.escape_ascii());
        assert_eq!(error.errno(), Errno::Inval);
        if !text.contains(&b' ') {
            assert_eq!(check_name(text), Err(*error), "{}", text.escape_ascii());
        }
    }
}

/// Forbidden bytes are refused at any place of a name, and all others are accepted.
#[test]
fn every_byte_of_a_name() {
    for byte in 0..=255u8 {
        let expected = match byte {
            b':' => Err(Error::Flags),
            ..=b' ' | 0x7f | b'/' | b'#' => Err(Error::NameByte),
            _ => Ok(()),
        };
        for name in [[byte, b'x', b'x'], [b'x', byte, b'x'], [b'x', b'x', byte]] {
            assert_eq!(check_name(&name), expected, "byte {byte:#x}");
        }
    }
}

/// "Register": at most 511 bytes before the NUL.
#[test]
fn length_of_a_description() {
    let mut text = b"e u32 ".to_vec();
    text.resize(MAX_DESCRIPTION, b'f');
    assert_eq!(text.len(), 511);
    let description = Description::parse(&text).unwrap();
    assert_eq!(description.fields().next().unwrap().name().len(), 505);

    text.push(b'f');
    assert_eq!(error_of(&text), Some(Error::TooLong));
    assert_eq!(Error::TooLong.errno(), Errno::Inval);

    // Bytes outside of fields count, too.
    let mut text = b"e u32 a;".to_vec();
    text.resize(MAX_DESCRIPTION, b' ');
    assert_eq!(error_of(&text), None);
    text.push(b' ');
    assert_eq!(error_of(&text), Some(Error::TooLong));
}

/// "Event descriptions": the name ends at the first space; empty fields and leading spaces are
/// skipped.
#[test]
fn empty_fields() {
    let table: &[(&[u8], usize)] = &[
        (b"e ", 0),
        (b"e  ", 0),
        (b"e ;", 0),
        (b"e ;;; ; ", 0),
        (b"e u32 a;", 1),
        (b"e u32 a; ", 1),
        (b"e  u32 a", 1),
        (b"e ;u32 a", 1),
        (b"e u32 a;;u32 b", 2),
        (b"e u32 a;u32 b;", 2),
        (b"e u32 a;    u32 b", 2),
        (b"e \t\n\x0b\x0c\r u32 a;\tu32 b;\n", 2),
    ];
    for (text, fields) in table {
        let description = Description::parse(text).unwrap();
        assert_eq!(description.name(), b"e");
        assert_eq!(
            description.fields().count(),
            *fields,
            "{}",
            text.escape_ascii()
        );
    }

    // A space in some 8-bit character sets, but part of a letter in UTF-8.
    assert_eq!(error_of(b"e \xa0u32 a"), Some(Error::UnknownType));
    assert_eq!(error_of(b"e u32 \xa0a"), None);
}

/// "Event descriptions": a line of `dynamic_events` can be written back, even if the spaces of the
/// listing make it longer than a description may be.
#[test]
fn length_of_a_listing() {
    let mut text = b"e".to_vec();
    for field in 0..60 {
        let before = if field == 0 { ' ' } else { ';' };
        text.extend(format!("{before}u8 f{field:03}").bytes());
    }
    text.extend(b";u8 ");
    text.resize(MAX_DESCRIPTION, b'x');
    assert!(Description::parse(&text).is_ok());

    let listed = String::from_utf8(text.clone()).unwrap().replace(';', "; ");
    assert_eq!(listed.len(), MAX_DESCRIPTION + 60);
    assert_eq!(error_of(listed.as_bytes()), Some(Error::TooLong));
    let again = Description::parse_listing(listed.as_bytes()).unwrap();
    assert_eq!(listing(&again), listed.as_bytes());

    for more in ["y", ";u8 y", "; u8 y"] {
        let listed = format!("{listed}{more}");
        let got = Description::parse_listing(listed.as_bytes());
        assert_eq!(got.err(), Some(Error::TooLong));
    }
    // Empty fields at the end are not counted.
    let listed = format!("{listed}; ; ");
    assert!(Description::parse_listing(listed.as_bytes()).is_ok());

    // All other rules are the same.
    let got = Description::parse_listing(b"e u32  a");
    assert_eq!(got.err(), Some(Error::FieldSyntax));
}
