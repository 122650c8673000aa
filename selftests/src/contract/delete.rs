// SPDX-License-Identifier: GPL-2.0

//! "Delete and lifetime": deletion by `DIAG_IOCSDEL`, and events that stay until then.

use super::check::{
    delete_when_idle, described, expect, register_and_exit, when_idle, Check, DeletedAtEnd, Row,
    NAME, TEXT,
};
use super::lifetime::an_event_comes_and_goes;
use super::register::Place;
use crate::kit::abi::{Data, DIAG_IOCSDEL, MULTI_FORMAT, PERSIST};
use crate::kit::dynamic;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::{wait_gone, Event};
use crate::kit::os;
use crate::kit::tracefs::{count_of_events, event_exists, formats_of};
use crate::kit::wait;

const PERSISTS: Row = Row::new("lifetime", "With PERSIST it stays until deleted");
const UNKNOWN: Row = Row::new(
    "delete",
    "DIAG_IOCSDEL: unknown → ENOENT; bad pointer → EFAULT",
);
const READ_ONLY: Row = Row::new("delete", "DIAG_IOCSDEL deletes what is not in use");
const NAME_IS_ENOUGH: Row = Row::better_than_c(
    5,
    "delete",
    "-:NAME: the name is enough; all formats of a multi-format name go",
    "got Err(ENOENT)",
);
const FORMATS: Row = Row::new("delete", "All formats of a multi-format name go");

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        PERSISTS.table(
            "an_event_stays_if_it_is_persistent",
            persists,
            &[(0, false), (1, true), (2, false), (3, true)],
        ),
        PERSISTS.scenarios(&[(
            "a_plain_event_shared_with_the_flag_goes",
            shared_persistently,
        )]),
        UNKNOWN.each(
            "any_other_text_is_enoent",
            delete_beside,
            Err(Errno::ENOENT),
            &[
                "st_unknown",
                "st_conf",
                "st_conform2",
                "",
                TEXT,
                "user_events/st_conform",
                "u:st_conform",
            ],
        ),
        UNKNOWN.table(
            "a_name_of_more_than_511_bytes_is_einval",
            delete_long,
            &[
                (511, Err(Errno::ENOENT)),
                (512, Err(Errno::EINVAL)),
                (5000, Err(Errno::EINVAL)),
            ],
        ),
        UNKNOWN.each(
            "a_name_that_cannot_be_read_is_efault",
            delete_at,
            Err(Errno::EFAULT),
            &[&Place::BAD[..], &[Place::OverTheEdge(16)]].concat(),
        ),
        READ_ONLY.scenarios(&[
            ("works_through_a_read_only_file", delete_read_only),
            (
                "an_unused_event_goes_and_can_be_made_anew_with_any_fields",
                unused,
            ),
        ]),
        FORMATS.scenarios(&[("all_formats_go_and_no_other_name", all_formats_go)]),
        FORMATS.cases(
            formats_by_line,
            &[
                (
                    "a_line_with_fields_deletes_that_format",
                    "-:st_conform u64 a",
                    2,
                ),
                (
                    "a_line_with_group_and_fields_deletes_that_format",
                    "-:user_events_multi/st_conform u8 a; u8 b",
                    2,
                ),
            ],
        ),
        NAME_IS_ENOUGH.cases(
            formats_by_line,
            &[
                ("a_line_deletes_all_formats", "-:st_conform", 0),
                (
                    "a_listed_line_with_group_deletes_all_formats",
                    "!u:user_events_multi/st_conform",
                    0,
                ),
            ],
        ),
    ]
}

/// Registers with these flags in a process that ends.
fn persists(flags: u16, want: bool) {
    let _deleted = DeletedAtEnd(NAME);
    register_and_exit(&[TEXT], flags);
    if want {
        an_event_comes_and_goes();
        expect(count_of_events(), 1);
        expect(delete_when_idle(&Data::open(), NAME), Ok(()));
    } else {
        wait::until("the event to go", || count_of_events() == 0);
    }
    expect(count_of_events(), 0);
}

fn shared_persistently() {
    let _deleted = DeletedAtEnd(NAME);
    let event = Event::new(TEXT);
    register_and_exit(&[TEXT], PERSIST);
    event.end();
    wait::until("the event to go", || count_of_events() == 0);
}

fn delete_beside(name: &str, want: Result<()>) {
    let _event = Event::new(TEXT);
    expect(Data::open().delete(name), want);
    expect(count_of_events(), 1);
}

fn delete_long(length: usize, want: Result<()>) {
    expect(Data::open().delete(&"x".repeat(length)), want);
}

fn delete_at(place: Place, want: Result<()>) {
    let data = Data::open();
    let got = os::ioctl(&data.file, DIAG_IOCSDEL, place.address(&[b'x'; 16]));
    expect(got.map(drop), want);
}

fn delete_read_only() {
    let _deleted = DeletedAtEnd(NAME);
    expect(dynamic::run("u:st_conform"), Ok(()));
    expect(Data::open_read_only().delete(NAME), Ok(()));
    expect(count_of_events(), 0);
}

fn unused() {
    for fields in ["u32 a", "u64 a", "", "char[4] b; u8 c", "u32 a"] {
        Event::new(&described(fields)).end();
        // The event goes by itself, before or after the deletion.
        let data = Data::open();
        let got = delete_when_idle(&data, NAME);
        assert!(matches!(got, Ok(()) | Err(Errno::ENOENT)), "{got:?}");
        wait_gone(NAME);
        expect(data.delete(NAME), Err(Errno::ENOENT));
    }
}

const THREE: [&str; 3] = [
    "st_conform u32 a",
    "st_conform u64 a",
    "st_conform u8 a; u8 b",
];

fn all_formats_go() {
    const ALIKE: [&str; 2] = ["st_confor", "st_conform2"];
    let _deleted = [ALIKE[0], ALIKE[1], NAME].map(DeletedAtEnd);
    // Also an event without the flag, which is deleted too, and similar names, which are not.
    register_and_exit(&ALIKE, PERSIST | MULTI_FORMAT);
    register_and_exit(&THREE, PERSIST | MULTI_FORMAT);
    register_and_exit(&THREE[..1], PERSIST);
    an_event_comes_and_goes();
    expect(count_of_events(), 6);
    // A single format cannot be deleted by its own name.
    let data = Data::open();
    let format = formats_of(NAME).swap_remove(0);
    let (_, name) = format.split_once('/').unwrap();
    expect(data.delete(name), Err(Errno::ENOENT));
    expect(count_of_events(), 6);
    expect(delete_when_idle(&data, NAME), Ok(()));
    expect((formats_of(NAME).len(), event_exists(NAME)), (0, false));
    expect(data.delete(NAME), Err(Errno::ENOENT));
    for name in ALIKE {
        expect(formats_of(name).len(), 1);
        expect(delete_when_idle(&data, name), Ok(()));
    }
}

/// Deletes formats by a line of `dynamic_events`; `want` of three are left.
fn formats_by_line(line: &str, want: usize) {
    let _deleted = DeletedAtEnd(NAME);
    register_and_exit(&THREE, PERSIST | MULTI_FORMAT);
    expect(when_idle(|| dynamic::run(line)), Ok(()));
    expect(formats_of(NAME).len(), want);
}
