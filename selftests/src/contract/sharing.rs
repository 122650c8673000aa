// SPDX-License-Identifier: GPL-2.0

//! "Register": bits in use, and shared events.

use super::check::{expect, Check, Row, NAME, TEXT};
use crate::kit::abi::{Data, Register};
use crate::kit::child;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::tracefs::count_of_events;
use std::ffi::CString;
use std::thread;

const IN_USE: Row = Row::new(
    "register",
    "same address and bit already registered in this address space → EADDRINUSE",
);
const FIELDS: Row = Row::new(
    "register",
    "an event of that name with other fields → EADDRINUSE; with the same fields → it is shared. \
     White space after ; does not matter",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        IN_USE.table(
            "the_same_bit_again_is_eaddrinuse",
            again,
            &[
                ((TEXT, 4, 0, 0), Err(Errno::EADDRINUSE)),
                (("st_other", 4, 0, 0), Err(Errno::EADDRINUSE)),
                ((TEXT, 8, 0, 0), Err(Errno::EADDRINUSE)),
                (("st_other nonsense a", 4, 0, 0), Err(Errno::EADDRINUSE)),
                ((TEXT, 4, 0, 1), Ok(0)),
                ((TEXT, 4, 4, 0), Ok(0)),
                (("st_other", 4, 0, 1), Ok(1)),
            ],
        ),
        IN_USE.scenarios(&[
            (
                "same_bit_from_another_thread_is_eaddrinuse",
                from_another_thread,
            ),
            ("an_inherited_bit_is_eaddrinuse", inherited),
        ]),
        FIELDS.each(
            "other_fields_are_eaddrinuse",
            second,
            Err(Errno::EADDRINUSE),
            &[
                ("u32 a; char[8] b", ""),
                ("", "u32 a"),
                ("u32 a; char[8] b", "u32 a"),
                ("u32 a; char[8] b", "u32 a; char[8] b; u8 c"),
                ("u32 a", "s32 a"),
                ("u32 a", "u32 x"),
                ("char[8] b", "char[9] b"),
                ("char[8] b", "char[0x8] b"),
                ("__data_loc char[] b", "__rel_loc char[] b"),
                ("u32 a; char[8] b", "char[8] b; u32 a"),
                ("struct p p 16", "struct p p 17"),
            ],
        ),
        FIELDS.each(
            "the_same_fields_are_shared",
            second,
            Ok(0),
            &[
                ("u32 a; u64 b", "u32 a; u64 b"),
                ("", ""),
                ("", " "),
                ("u32 a; u64 b", "u32 a;u64 b"),
                ("u32 a; u64 b", "u32 a;  u64 b"),
                ("u32 a; u64 b", "u32 a; u64 b;"),
                ("u32 a", "   u32 a"),
                ("struct p p 16; u8 b", "struct p p 16;u8 b"),
                ("__rel_loc char[] b", "__rel_loc char[] b"),
            ],
        ),
    ]
}

/// Registers again in this process: the event, and the size, offset and bit of its word.
fn again((text, enable_size, offset, enable_bit): (&str, u8, u64, u8), want: Result<u32>) {
    let first = Event::new(TEXT);
    let text = CString::new(text).unwrap();
    let address = first.page.address() + offset;
    let request = Register {
        enable_size,
        enable_bit,
        ..Register::new(address, text.as_ptr() as u64)
    };
    expect(first.data.register(&request), want);
}

fn from_another_thread() {
    let event = Event::new(TEXT);
    let address = event.page.address();
    let other = thread::spawn(move || Data::open().register_text("st_other", address, 0));
    expect(other.join().unwrap(), Err(Errno::EADDRINUSE));
}

fn inherited() {
    let event = Event::new(TEXT);
    let address = event.page.address();
    child::fork(|_| {
        let got = Data::open().register_text(TEXT, address, 0);
        expect(got, Err(Errno::EADDRINUSE));
    })
    .join();
}

/// Registers the name with the first fields, then through the same and another file with the second
/// ones.
fn second((first, second): (&str, &str), want: Result<u32>) {
    // Without fields there is no space either, but additional spaces are in the fields.
    let text = |fields: &str| match fields {
        "" => NAME.to_string(),
        fields => format!("{NAME} {fields}"),
    };
    let event = Event::new(&text(first));
    let other = Data::open();
    for (bit, data) in [(1, &event.data), (2, &other)] {
        let got = data.register_text(&text(second), event.page.address(), bit);
        expect(got, want);
        expect(count_of_events(), 1);
    }
}
