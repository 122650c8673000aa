// SPDX-License-Identifier: GPL-2.0

//! "Event descriptions": fields as `format` shows them.

use super::check::{expect, Check, Row, NAME};
use super::corpus::are_taken_or_refused;
use crate::kit::event::Event;
use crate::kit::tracefs;

const SHOWN: Row = Row::new(
    "types",
    "type, size, print; signed is 1 for every type not starting with u. Fields lie one after the \
     other with no padding, the first at offset 8, after the common fields",
);
// C prints uninitialized memory, which is no text if it was 0.
const LENGTH: Row = Row::better_than_c(
    8,
    "types",
    "format prints the array's length: char b[8]",
    "got \"*char a[*]\"",
);

/// Fields of each type, alone and one behind the other.
const FIELDS: &[&str] = &[
    "",
    "s8 a; u8 b; s16 c; u16 d; s32 e; u32 f; s64 g; u64 h",
    "char a; unsigned char b; short c; unsigned short d; int e; unsigned int f",
    "char[1] a; char[8] b; char[0x10] c; char[0XfF] d; char[010] e; char[000010] f; u8 z",
    "char[1024] a; u8 z",
    "unsigned char[3] a; unsigned char[1024] b; u8 z",
    "struct p a 1; struct q b 16; struct r c 3000; u8 z",
    "__data_loc char[] a; __data_loc unsigned char[] b; __data_loc u8[] c; u8 z",
    "__data_loc u32[] a; __data_loc unsigned int[] b; __rel_loc s64[] c; u8 z",
    "__rel_loc char[] a; __rel_loc unsigned char[] b; __rel_loc u8[] c; u8 z",
    "__rel_loc unsigned short[] a; u8 z",
    "u8 a; u64 b; u16 c; u32 d",
    "char[3] a; u32 b",
    "struct p a 5; struct q b 7; u8 c",
    "u8 a; __rel_loc char[] b; __data_loc u8[] c; u64 d",
    "u8 a;; ;u8 b",
];

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        SHOWN.scenarios(&[("fields_are_shown", || {
            let texts = FIELDS.iter().map(|fields| format!("{NAME} {fields}"));
            expect(are_taken_or_refused(texts), (FIELDS.len(), 0));
        })]),
        LENGTH.cases(
            declared,
            &[
                ("length_8_is_shown", "char[8] a", "char a[8]"),
                (
                    "hexadecimal_length_is_shown",
                    "unsigned char[0x10] a",
                    "unsigned char a[16]",
                ),
            ],
        ),
    ]
}

/// The field is the first one behind an empty line.
fn declared(field: &str, want: &str) {
    let _event = Event::new(&format!("{NAME} {field}"));
    let format = tracefs::event_format(NAME);
    let own = format.split("\n\n\tfield:").nth(1).unwrap_or_default();
    expect(own.split(';').next().unwrap_or_default(), want);
}
