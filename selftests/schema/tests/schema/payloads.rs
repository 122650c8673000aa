// SPDX-License-Identifier: GPL-2.0

//! Which payloads are valid records.

use crate::event::{
    self,
    locations,
    Description, //
};
use crate::{
    claims,
    model, //
};
use user_events_schema::{
    check_payload,
    Ending,
    Errno,
    Error, //
};

/// The result of a check.
type Answer = Result<Ending, Error>;

const COMPLETE: Answer = Ok(Ending::Complete);
const NEEDS_NUL: Answer = Ok(Ending::NeedsNul);
const OUT_OF_BOUNDS: Answer = Err(Error::LocationOutOfBounds);
const MISSING_NUL: Answer = Err(Error::MissingNul);

/// The value of a location.
pub fn location(size: u32, offset: u32) -> u32 {
    size * 0x10000 + offset
}

/// Checks `payload` against the event `text`.
fn check(text: &str, payload: &[u8]) -> Answer {
    let description = Description::parse(text.as_bytes()).unwrap();
    event::check(&description, payload)
}

/// Checks a payload of one location and the bytes after it.
fn check_one(field: &str, size: u32, offset: u32, data: &[u8]) -> Answer {
    let payload = [&location(size, offset).to_ne_bytes(), data].concat();
    check(&format!("e {field}"), &payload)
}

/// "Writing": a payload shorter than the fixed part is EINVAL, before a location is checked; longer
/// ones are recorded.
#[test]
fn fixed_part() {
    for (text, fixed) in [
        ("e", 0),
        ("e u32 a;u64 b", 12),
        ("e char[100] a", 100),
        ("e struct t a 5000", 5000),
        ("e struct t a 100;__rel_loc char[] b", 104),
    ] {
        for len in 0..fixed {
            let got = check(text, &vec![0xff; len]);
            assert_eq!(got, Err(Error::PayloadShort), "{text} with {len}");
        }
        for len in fixed..fixed + 3 {
            let got = check(text, &vec![0; len]);
            assert!(got.is_ok(), "{text} with {len}: {got:?}");
        }
    }
    assert_eq!(Error::PayloadShort.errno(), Errno::Inval);
}

/// "Writing": the offset of `__rel_loc` counts from the end of the field itself; that of
/// `__data_loc` from the start of the record, so 8 is the first byte of the payload, here the
/// location itself, and 12 the first one behind it. Row 9 of the differences: it may not point into
/// the common header.
#[test]
fn offsets() {
    // kind, size, offset, bytes behind the field
    let table: &[(&str, u32, u32, &[u8], Answer)] = &[
        ("__rel_loc", 3, 0, b"ab\0", COMPLETE),
        ("__rel_loc", 2, 1, b"ab\0", COMPLETE),
        ("__rel_loc", 1, 2, b"ab\0", COMPLETE),
        ("__rel_loc", 2, 0, b"a\0b", COMPLETE),
        ("__rel_loc", 1, 0, b"\0", COMPLETE),
        ("__rel_loc", 2, 0, b"ab\0", MISSING_NUL),
        ("__rel_loc", 1, 1, b"ab\0", MISSING_NUL),
        ("__rel_loc", 1, 0, b"a", MISSING_NUL),
        ("__rel_loc", 4, 0, b"ab\0", OUT_OF_BOUNDS),
        ("__rel_loc", 3, 1, b"ab\0", OUT_OF_BOUNDS),
        ("__rel_loc", 1, 3, b"ab\0", OUT_OF_BOUNDS),
        ("__rel_loc", 1, 0, b"", OUT_OF_BOUNDS),
        ("__rel_loc", 1, 0xffff, b"ab\0", OUT_OF_BOUNDS),
        ("__rel_loc", 0xffff, 0, b"ab\0", OUT_OF_BOUNDS),
        ("__rel_loc", 0xffff, 0xffff, b"ab\0", OUT_OF_BOUNDS),
        ("__data_loc", 3, 12, b"ab\0", COMPLETE),
        ("__data_loc", 2, 13, b"ab\0", COMPLETE),
        ("__data_loc", 1, 14, b"ab\0", COMPLETE),
        ("__data_loc", 7, 8, b"ab\0", COMPLETE),
        ("__data_loc", 2, 12, b"ab\0", MISSING_NUL),
        ("__data_loc", 1, 13, b"ab\0", MISSING_NUL),
        ("__data_loc", 4, 12, b"ab\0", OUT_OF_BOUNDS),
        ("__data_loc", 8, 8, b"ab\0", OUT_OF_BOUNDS),
        ("__data_loc", 1, 15, b"ab\0", OUT_OF_BOUNDS),
        ("__data_loc", 1, 0xffff, b"ab\0", OUT_OF_BOUNDS),
        ("__data_loc", 0xffff, 0xffff, b"ab\0", OUT_OF_BOUNDS),
        // row 9
        ("__data_loc", 15, 0, b"ab\0", OUT_OF_BOUNDS),
        ("__data_loc", 8, 7, b"ab\0", OUT_OF_BOUNDS),
        ("__data_loc", 1, 7, b"ab\0", OUT_OF_BOUNDS),
        ("__data_loc", 1, 0, b"ab\0", OUT_OF_BOUNDS),
        ("__data_loc", 8, 0, b"ab\0", OUT_OF_BOUNDS),
    ];
    for (kind, size, offset, data, expected) in table {
        // Types other than characters need no NUL.
        let of_others = match *expected {
            MISSING_NUL => COMPLETE,
            other => other,
        };
        for (element, expected) in [
            ("char", *expected),
            ("unsigned char", *expected),
            ("u8", of_others),
            ("u64", of_others),
        ] {
            let field = format!("{kind} {element}[] a");
            let got = check_one(&field, *size, *offset, data);
            assert_eq!(got, expected, "{field}, {size} at {offset}");
        }
    }
}

/// Row 9 of the differences: zero length is an empty value, checked for bounds only. An empty
/// string needs a NUL that ends it, and gets one if the record has none.
#[test]
fn empty() {
    let table: &[(&str, u32, &[u8], Answer)] = &[
        ("__rel_loc char[] a", 0, b"x\0", COMPLETE),
        ("__rel_loc char[] a", 1, b"x\0", COMPLETE),
        ("__rel_loc char[] a", 2, b"x\0", NEEDS_NUL),
        ("__rel_loc char[] a", 3, b"x\0", OUT_OF_BOUNDS),
        ("__rel_loc char[] a", 0xffff, b"x\0", OUT_OF_BOUNDS),
        ("__rel_loc char[] a", 0, b"x", NEEDS_NUL),
        ("__rel_loc char[] a", 0, b"", NEEDS_NUL),
        ("__rel_loc char[] a", 1, b"", OUT_OF_BOUNDS),
        ("__rel_loc u8[] a", 0, b"x", COMPLETE),
        ("__rel_loc u8[] a", 1, b"x", COMPLETE),
        ("__rel_loc u8[] a", 2, b"x", OUT_OF_BOUNDS),
        ("__data_loc char[] a", 0, b"x\0", COMPLETE),
        ("__data_loc char[] a", 8, b"x\0", COMPLETE),
        ("__data_loc char[] a", 13, b"x\0", COMPLETE),
        ("__data_loc char[] a", 14, b"x\0", NEEDS_NUL),
        ("__data_loc char[] a", 15, b"x\0", OUT_OF_BOUNDS),
        ("__data_loc char[] a", 0, b"x", NEEDS_NUL),
        ("__data_loc u8[] a", 0, b"x", COMPLETE),
        ("__data_loc u8[] a", 13, b"x", COMPLETE),
        ("__data_loc u8[] a", 14, b"x", OUT_OF_BOUNDS),
    ];
    for (field, offset, data, expected) in table {
        let got = check_one(field, 0, *offset, data);
        assert_eq!(got, *expected, "{field} at {offset}");
    }
    // All zero: an empty string right behind the field, or at the very start.
    assert_eq!(check("e __rel_loc char[] a", &[0; 4]), NEEDS_NUL);
    assert_eq!(check("e __data_loc char[] a", &[0; 4]), COMPLETE);
}

/// Every location is checked, in any position; data may be in any order, overlap and leave gaps.
#[test]
fn several() {
    let text = "e u8 x;__rel_loc char[] a;__data_loc u16[] b;u8 y;__rel_loc char[] c";
    let payload = |a: u32, b: u32, c: u32, data: &[u8]| {
        let mut payload = vec![0xff];
        payload.extend(a.to_ne_bytes());
        payload.extend(b.to_ne_bytes());
        payload.push(0xff);
        payload.extend(c.to_ne_bytes());
        payload.extend(data);
        payload
    };
    // In the record: a at 9, b at 13, c at 18, data at 22.
    let a = location(2, 22 - 13);
    let b = location(4, 22);
    let c = location(3, 23 - 22);
    let good = payload(a, b, c, b"x\0y\0");
    assert_eq!(check(text, &good), COMPLETE);

    assert_eq!(check(text, &payload(a + 1, b, c, b"x\0y\0")), MISSING_NUL);
    assert_eq!(check(text, &payload(a, b + 1, c, b"x\0y\0")), OUT_OF_BOUNDS);
    assert_eq!(check(text, &payload(a, b, c + 1, b"x\0y\0")), OUT_OF_BOUNDS);
    assert_eq!(check(text, &payload(a, b, c, b"x\0yz")), MISSING_NUL);
    // An empty string at the end needs a NUL, whether its location is the first or the last.
    assert_eq!(check(text, &payload(13, b, c, b"x\0y\0")), NEEDS_NUL);
    assert_eq!(check(text, &payload(a, b, 4, b"x\0y\0")), NEEDS_NUL);
    // The first wrong location decides, also after an empty string that needs a NUL.
    assert_eq!(
        check(text, &payload(13, b, c + 1, b"x\0y\0")),
        OUT_OF_BOUNDS
    );
}

/// Locations reach data up to 64 KB away, and no further.
#[test]
fn far() {
    let text = "e __rel_loc char[] a;struct t b 65530;char[16] c";
    let mut payload = vec![1; 4 + 65530 + 16];
    let mut check_at = |size: u32, offset: u32, nul_at: usize| {
        payload[..4].copy_from_slice(&location(size, offset).to_ne_bytes());
        payload[nul_at] = 0;
        let got = check(text, &payload);
        payload[nul_at] = 1;
        got
    };
    assert_eq!(check_at(1, 0xffff, 4 + 0xffff), COMPLETE);
    assert_eq!(check_at(1, 0xffff, 4 + 0xfffe), MISSING_NUL);
    assert_eq!(check_at(11, 0xffff, 4 + 65545), COMPLETE);
    assert_eq!(check_at(12, 0xffff, 4 + 65545), OUT_OF_BOUNDS);
    assert_eq!(check_at(0xffff, 0, 4 + 0xfffe), COMPLETE);
    assert_eq!(check_at(0xffff, 0, 4 + 0xffff), MISSING_NUL);
    assert_eq!(check_at(0xffff, 11, 4 + 65545), COMPLETE);
    assert_eq!(check_at(0xffff, 12, 4 + 65545), OUT_OF_BOUNDS);
}

/// Locations of another event are refused if they are outside of the payload.
#[test]
fn foreign_locations() {
    let description = Description::parse(b"e char[100] a;__data_loc u8[] b").unwrap();
    let locations = locations(&description);
    for len in 0..104 {
        assert_eq!(check_payload(&vec![0; len], 0, &locations), OUT_OF_BOUNDS);
    }
    assert_eq!(check_payload(&[0; 104], 0, &locations), COMPLETE);
}

/// Every location in or near a small record gets the model's verdict, alone and beside another
/// field that may be a location as well.
#[test]
fn every_small_one() {
    let kinds = [
        "__rel_loc char[]",
        "__rel_loc u8[]",
        "__data_loc char[]",
        "__data_loc u8[]",
    ];
    let at = |size, offset| location(size, offset).to_ne_bytes();
    // The other field, its bytes, and whether it is the first one.
    let others: [(&str, &[u8], bool); 7] = [
        ("", b"", true),
        ("u8 x", b"x", true),
        ("u8 x", b"y", false),
        ("__rel_loc char[] x", &at(1, 4), true),
        ("__data_loc u8[] x", &at(2, 16), true),
        ("__rel_loc char[] x", &at(0, 0), false),
        ("__data_loc char[] x", &at(2, 16), false),
    ];
    for (kind, (other, bytes, is_first)) in
        (kinds.iter()).flat_map(|kind| others.map(|other| (kind, other)))
    {
        let (text, before, behind): (_, &[u8], &[u8]) = match is_first {
            true => (format!("e {other};{kind} a"), bytes, b""),
            false => (format!("e {kind} a;{other}"), b"", bytes),
        };
        let (_, fields) = model::parse(text.as_bytes()).unwrap();
        for data in ["", "a", "\0", "ab", "a\0", "\0b", "\0\0", "a\0c"] {
            for (size, offset) in (0..=12).flat_map(|size| (0..=21).map(move |at| (size, at))) {
                let payload = [before, &at(size, offset), behind, data.as_bytes()].concat();
                claims::payload(text.as_bytes(), &fields, &payload);
            }
        }
    }
}
