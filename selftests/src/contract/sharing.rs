// SPDX-License-Identifier: GPL-2.0

//! "Register": bits in use, and shared events.

use super::check::{expect, Check, Row, NAME, TEXT};
use crate::kit::abi::{Data, Register};
use crate::kit::child::{self, Word};
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
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
        IN_USE.cases(
            again,
            &[
                (
                    "same_bit_and_event_is_eaddrinuse",
                    (TEXT, 4, 0, 0),
                    Err(Errno::EADDRINUSE),
                ),
                (
                    "same_bit_for_another_event_is_eaddrinuse",
                    ("st_other", 4, 0, 0),
                    Err(Errno::EADDRINUSE),
                ),
                (
                    "same_bit_of_8_bytes_is_eaddrinuse",
                    (TEXT, 8, 0, 0),
                    Err(Errno::EADDRINUSE),
                ),
                (
                    "same_bit_for_a_bad_event_is_eaddrinuse",
                    ("st_other nonsense a", 4, 0, 0),
                    Err(Errno::EADDRINUSE),
                ),
                ("another_bit_is_taken", (TEXT, 4, 0, 1), Ok(0)),
                ("another_word_is_taken", (TEXT, 4, 4, 0), Ok(0)),
                (
                    "another_bit_for_another_event_is_taken",
                    ("st_other", 4, 0, 1),
                    Ok(1),
                ),
            ],
        ),
        IN_USE.scenarios(&[
            (
                "same_bit_through_another_file_is_eaddrinuse",
                through_another_file,
            ),
            (
                "same_bit_from_another_thread_is_eaddrinuse",
                from_another_thread,
            ),
            ("same_bit_once_unregistered_is_taken", once_unregistered),
            ("same_bit_in_another_process_is_taken", in_another_process),
            ("an_inherited_bit_is_eaddrinuse", inherited),
            (
                "32_bits_of_a_word_are_taken_for_32_events",
                each_bit_an_event,
            ),
        ]),
        FIELDS.all(
            second,
            Err(Errno::EADDRINUSE),
            &[
                ("no_fields_for_some_is_eaddrinuse", ("u32 a; char[8] b", "")),
                ("some_fields_for_none_is_eaddrinuse", ("", "u32 a")),
                ("fewer_fields_is_eaddrinuse", ("u32 a; char[8] b", "u32 a")),
                (
                    "more_fields_is_eaddrinuse",
                    ("u32 a; char[8] b", "u32 a; char[8] b; u8 c"),
                ),
                ("another_type_is_eaddrinuse", ("u32 a", "s32 a")),
                (
                    "another_spelling_of_a_type_is_eaddrinuse",
                    ("u32 a", "unsigned int a"),
                ),
                ("another_name_is_eaddrinuse", ("u32 a", "u32 x")),
                ("another_length_is_eaddrinuse", ("char[8] b", "char[9] b")),
                (
                    "another_spelling_of_a_length_is_eaddrinuse",
                    ("char[8] b", "char[0x8] b"),
                ),
                (
                    "another_order_is_eaddrinuse",
                    ("u32 a; char[8] b", "char[8] b; u32 a"),
                ),
                (
                    "another_kind_of_location_is_eaddrinuse",
                    ("__data_loc char[] b", "__rel_loc char[] b"),
                ),
                (
                    "a_location_for_an_array_is_eaddrinuse",
                    ("u32 a; char[8] b", "u32 a; __rel_loc char[] b"),
                ),
                (
                    "another_struct_size_is_eaddrinuse",
                    ("struct p p 16", "struct p p 17"),
                ),
            ],
        ),
        FIELDS.all(
            second,
            Ok(0),
            &[
                (
                    "the_same_fields_are_shared",
                    ("u32 a; u64 b", "u32 a; u64 b"),
                ),
                ("no_fields_are_shared", ("", "")),
                ("no_fields_behind_a_space_are_shared", ("", " ")),
                (
                    "no_space_after_the_semicolon_is_shared",
                    ("u32 a; u64 b", "u32 a;u64 b"),
                ),
                (
                    "two_spaces_after_the_semicolon_are_shared",
                    ("u32 a; u64 b", "u32 a;  u64 b"),
                ),
                (
                    "many_spaces_after_the_semicolon_are_shared",
                    ("u32 a;u64 b; u8 c", "u32 a;  u64 b;    u8 c"),
                ),
                (
                    "a_space_after_the_semicolon_is_shared",
                    ("u32 a;u64 b", "u32 a; u64 b"),
                ),
                (
                    "a_semicolon_at_the_end_is_shared",
                    ("u32 a; u64 b", "u32 a; u64 b;"),
                ),
                ("spaces_before_the_fields_are_shared", ("u32 a", "   u32 a")),
                (
                    "a_struct_is_shared",
                    ("struct p p 16; u8 b", "struct p p 16;u8 b"),
                ),
                (
                    "locations_are_shared",
                    ("__rel_loc char[] b", "__rel_loc char[] b"),
                ),
            ],
        ),
        FIELDS.scenarios(&[(
            "the_same_fields_are_shared_by_processes",
            shared_by_processes,
        )]),
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

fn through_another_file() {
    let event = Event::new(TEXT);
    let got = Data::open().register_text(TEXT, event.page.address(), 0);
    expect(got, Err(Errno::EADDRINUSE));
}

fn from_another_thread() {
    let event = Event::new(TEXT);
    let address = event.page.address();
    let other = thread::spawn(move || Data::open().register_text("st_other", address, 0));
    expect(other.join().unwrap(), Err(Errno::EADDRINUSE));
}

fn once_unregistered() {
    let event = Event::new(TEXT);
    expect(event.unregister(), Ok(()));
    let got = event.data.register_text(TEXT, event.page.address(), 0);
    expect(got, Ok(event.index));
}

fn in_another_process() {
    // Mapped before the registration, so that the child inherits no registration.
    let page = Mapping::new(1);
    let address = page.address();
    let mut child = child::fork(|line| {
        line.hear(Word::Registered);
        let data = Data::open();
        expect(data.register_text(TEXT, address, 0), Ok(0));
    });
    let data = Data::open();
    expect(data.register_text(TEXT, address, 0), Ok(0));
    child.line.say(Word::Registered);
    child.join();
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

fn each_bit_an_event() {
    let (data, page) = (Data::open(), Mapping::kept(1));
    for bit in 0..32 {
        let got = data.register_text(&format!("st_word{bit} u32 a"), page.address(), bit);
        expect(got, Ok(bit.into()));
    }
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

fn shared_by_processes() {
    let event = Event::new(TEXT);
    let id = event.id();
    child::fork(|_| {
        let event = Event::new(TEXT);
        expect((event.index, event.id()), (0, id));
        expect(count_of_events(), 1);
    })
    .join();
}
