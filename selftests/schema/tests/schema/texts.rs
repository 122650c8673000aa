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

/// "Event descriptions": what `dynamic_events` lists.
#[test]
fn listings() {
    let table = [
        ("e", "e"),
        ("e ", "e"),
        ("e ;;", "e"),
        ("e u32 a", "e u32 a"),
        ("e u32 a;", "e u32 a"),
        ("e u32 a;u64 b", "e u32 a; u64 b"),
        ("e   u32 a;  ;\tu64 b; ", "e u32 a; u64 b"),
        ("e struct my a 020;u8 b", "e struct my a 20; u8 b"),
        ("e u8 b;struct my a +7", "e u8 b; struct my a 7"),
        ("e struct my a 524256", "e struct my a 524256"),
        (
            "e unsigned char[0x10] c;__data_loc unsigned char[] d",
            "e unsigned char[0x10] c; __data_loc unsigned char[] d",
        ),
        (
            "requests u32 status; u64 ns; __rel_loc char[] path",
            "requests u32 status; u64 ns; __rel_loc char[] path",
        ),
    ];
    for (text, expected) in table {
        let got = listing(&parse(text));
        assert_eq!(got.escape_ascii().to_string(), expected, "{text}");
    }
}

/// "Event descriptions": `print fmt`, and the conversions in the table of types.
#[test]
fn print_formats() {
    let table = [
        ("e", r#""""#),
        ("e u32 a", r#""a=%u", REC->a"#),
        (
            "e u32 a;__rel_loc char[] b",
            r#""a=%u b=%s", REC->a, __get_rel_str(b)"#,
        ),
        ("e __data_loc char[] b", r#""b=%s", __get_str(b)"#),
        ("e __data_loc unsigned char[] b", r#""b=%s", __get_str(b)"#),
        (
            "e __rel_loc unsigned char[] b",
            r#""b=%s", __get_rel_str(b)"#,
        ),
        ("e __rel_loc char_t[] b", r#""b=%s", __get_rel_str(b)"#),
        ("e __data_loc u8[] b", r#""b=%llu", REC->b"#),
        ("e __rel_loc unsigned int[] b", r#""b=%llu", REC->b"#),
        ("e struct x b 20", r#""b=%llu", REC->b"#),
        ("e struct char b 20", r#""b=%llu", REC->b"#),
        ("e char[20] b", r#""b=%s", REC->b"#),
        ("e unsigned char[20] b", r#""b=%s", REC->b"#),
        (
            "e s8 a;u8 b;s16 c;u16 d;s32 e;u32 f;s64 g;u64 h",
            r#""a=%d b=%u c=%d d=%u e=%d f=%u g=%lld h=%llu", REC->a, REC->b, REC->c, REC->d, REC->e, REC->f, REC->g, REC->h"#,
        ),
        (
            "e char a;unsigned char b;short c;unsigned short d;int e;unsigned int f",
            r#""a=%d b=%u c=%d d=%u e=%d f=%u", REC->a, REC->b, REC->c, REC->d, REC->e, REC->f"#,
        ),
    ];
    for (text, expected) in table {
        let got = print_fmt(&parse(text));
        assert_eq!(
            got.escape_ascii().to_string().replace("\\\"", "\""),
            expected,
            "{text}"
        );
    }
}

/// Bytes that are not ASCII are not changed.
#[test]
fn raw_bytes() {
    let text = b"\x80\xff u32 \xe9;struct \xfe b 4";
    let description = Description::parse(text).unwrap();
    assert_eq!(listing(&description), b"\x80\xff u32 \xe9; struct \xfe b 4");
    assert_eq!(
        print_fmt(&description),
        b"\"\xe9=%u b=%llu\", REC->\xe9, REC->b"
    );
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
