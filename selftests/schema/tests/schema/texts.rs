// SPDX-License-Identifier: GPL-2.0

//! The texts in the tracing files.

use crate::event::{
    listing,
    listing_within,
    print_fmt,
    print_fmt_within,
    Description,
    Full, //
};

fn parse(text: &str) -> Description<'_> {
    Description::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

/// "Event descriptions": `print fmt` of several fields; `fields` has that of each type.
#[test]
fn print_formats() {
    for (text, expected) in [
        ("e", r#""""#),
        (
            "e u32 a;__rel_loc char[] b;__data_loc char[] c;struct char d 4",
            r#""a=%u b=%s c=%s d=%llu", REC->a, __get_rel_str(b), __get_str(c), REC->d"#,
        ),
    ] {
        assert_eq!(print_fmt(&parse(text)), expected.as_bytes(), "{text}");
    }
}

/// A full sink ends the writing at any place.
#[test]
fn full_sinks() {
    let description = parse("e u32 a;struct t b 100;__rel_loc char[] c");
    for room in 0..listing(&description).len() {
        assert_eq!(listing_within(&description, room), Err(Full));
    }
    for room in 0..print_fmt(&description).len() {
        assert_eq!(print_fmt_within(&description, room), Err(Full));
    }
}
