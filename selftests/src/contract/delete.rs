// SPDX-License-Identifier: GPL-2.0

//! "Delete and lifetime": what goes by `DIAG_IOCSDEL`, and what stays until it does.

use super::check::{
    delete_when_idle, expect, in_child_then_delete, Check, DeletedAtEnd, Row, ValidRequest, NAME,
    TEXT,
};
use super::lifetime::an_event_comes_and_goes;
use super::listing;
use super::register::{Place, KERNEL, NON_CANONICAL};
use super::sharing::register_format;
use crate::kit::abi::{Data, Register, DIAG_IOCSDEL, STATUS};
use crate::kit::child;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::tracefs::count_of_events;
use crate::kit::wait;
use std::fs;

const PERSISTS: Row = Row::new("lifetime", "With PERSIST it stays until deleted");
const UNKNOWN: Row = Row::new(
    "delete",
    "DIAG_IOCSDEL: unknown → ENOENT; bad pointer → EFAULT",
);
const READ_ONLY: Row = Row::new("delete", "DIAG_IOCSDEL deletes what is not in use");
const MAY: Row = Row::new("delete", "persistent without the capability → EPERM");
const FORMATS: Row = Row::new("delete", "All formats of a multi-format name go");

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        PERSISTS.cases(
            persists,
            &[
                ("a_plain_event_goes", 0, false),
                ("a_persistent_event_stays", 1, true),
                ("a_plain_format_goes", 2, false),
                ("a_persistent_format_stays", 3, true),
            ],
        ),
        PERSISTS.scenarios(&[
            (
                "a_persistent_event_may_be_registered_again",
                persistent_again,
            ),
            (
                "a_persistent_event_stays_when_shared_without_the_flag",
                shared_plainly,
            ),
            (
                "a_plain_event_shared_with_the_flag_goes",
                shared_persistently,
            ),
        ]),
        UNKNOWN.all(
            delete_beside,
            Err(Errno::ENOENT),
            &[
                ("an_unknown_name_is_enoent", "st_unknown"),
                ("half_a_name_is_enoent", "st_conf"),
                ("more_than_the_name_is_enoent", "st_conform2"),
                ("no_name_is_enoent", ""),
                ("a_description_is_enoent", TEXT),
                ("a_name_with_its_group_is_enoent", "user_events/st_conform"),
                ("a_name_with_a_prefix_is_enoent", "u:st_conform"),
            ],
        ),
        UNKNOWN.cases(
            delete_long,
            &[
                ("a_name_of_511_bytes_is_enoent", 511, Err(Errno::ENOENT)),
                ("a_name_of_512_bytes_is_einval", 512, Err(Errno::EINVAL)),
                ("a_name_of_5000_bytes_is_einval", 5000, Err(Errno::EINVAL)),
            ],
        ),
        UNKNOWN.all(
            delete_at,
            Err(Errno::EFAULT),
            &[
                ("name_null_is_efault", Place::Null),
                ("name_unmapped_is_efault", Place::Unmapped),
                ("name_in_the_kernel_is_efault", Place::At(KERNEL)),
                ("name_non_canonical_is_efault", Place::At(NON_CANONICAL)),
                (
                    "name_that_runs_off_its_page_is_efault",
                    Place::OverTheEdge(16),
                ),
            ],
        ),
        READ_ONLY.scenarios(&[("works_through_a_read_only_file", delete_read_only)]),
        MAY.scenarios(&[
            (
                "persistent_without_the_capability_is_eperm",
                delete_unprivileged_persistent,
            ),
            (
                "dynamic_without_the_capability_is_eperm",
                delete_unprivileged_dynamic,
            ),
            (
                "in_use_without_the_capability_is_ebusy",
                delete_unprivileged_busy,
            ),
        ]),
        FORMATS.scenarios(&[
            ("all_formats_go", all_formats_go),
            ("a_format_by_its_own_name_is_enoent", format_by_its_name),
            ("formats_in_use_are_ebusy", formats_in_use),
        ]),
    ]
}

/// Registers with these flags in a process that ends.
fn persists(flags: u16, want: bool) {
    in_child_then_delete(NAME, || {
        child::fork(|_| {
            let good = ValidRequest::new(TEXT);
            let request = Register {
                flags,
                ..good.request()
            };
            expect(good.data.register(&request), Ok(0));
        })
        .join();
        if want {
            an_event_comes_and_goes();
            expect(count_of_events(), 1);
            expect(delete_when_idle(&Data::open(), NAME), Ok(()));
        } else {
            wait::until("the event to go", || count_of_events() == 0);
        }
        expect(count_of_events(), 0);
    });
}

/// Registers persistently, in a process that ends.
fn make_persistent() {
    child::fork(|_| {
        let good = ValidRequest::new(TEXT);
        let request = Register {
            flags: 1,
            ..good.request()
        };
        expect(good.data.register(&request), Ok(0));
    })
    .join();
}

fn persistent_again() {
    in_child_then_delete(NAME, || {
        make_persistent();
        make_persistent();
        an_event_comes_and_goes();
        expect(count_of_events(), 1);
    });
}

fn shared_plainly() {
    in_child_then_delete(NAME, || {
        make_persistent();
        child::fork(|_| drop(Event::new(TEXT))).join();
        an_event_comes_and_goes();
        expect(count_of_events(), 1);
    });
}

fn shared_persistently() {
    in_child_then_delete(NAME, || {
        child::fork(|_| {
            let _event = Event::new(TEXT);
            make_persistent();
        })
        .join();
        wait::until("the event to go", || count_of_events() == 0);
    });
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
    expect(listing::command("u:st_conform"), Ok(()));
    expect(Data::open_read_only().delete(NAME), Ok(()));
    expect(count_of_events(), 0);
}

/// Deletes in a process without capabilities, which may have to wait until the event is idle.
fn delete_unprivileged(delete: fn(&Data) -> Result<()>, want: Result<()>) {
    child::fork(|_| {
        let data = Data::open();
        os::become_unprivileged();
        expect(delete(&data), want);
    })
    .join();
}

fn when_idle(data: &Data) -> Result<()> {
    delete_when_idle(data, NAME)
}

fn at_once(data: &Data) -> Result<()> {
    data.delete(NAME)
}

fn delete_unprivileged_persistent() {
    in_child_then_delete(NAME, || {
        make_persistent();
        delete_unprivileged(when_idle, Err(Errno::EPERM));
        expect(count_of_events(), 1);
    });
}

fn delete_unprivileged_dynamic() {
    let _deleted = DeletedAtEnd(NAME);
    expect(listing::command("u:st_conform"), Ok(()));
    delete_unprivileged(at_once, Err(Errno::EPERM));
    expect(count_of_events(), 1);
}

fn delete_unprivileged_busy() {
    in_child_then_delete(NAME, || {
        make_persistent();
        let _event = Event::new(TEXT);
        delete_unprivileged(at_once, Err(Errno::EBUSY));
    });
}

/// Makes three persistent formats, in a process that ends.
fn make_formats() {
    child::fork(|_| {
        for fields in ["", " u32 a", " u64 a"] {
            let good = ValidRequest::new(&format!("{NAME}{fields}"));
            let request = Register {
                flags: 3,
                ..good.request()
            };
            expect(good.data.register(&request), Ok(0));
        }
    })
    .join();
    an_event_comes_and_goes();
    expect(count_of_events(), 3);
}

fn all_formats_go() {
    in_child_then_delete(NAME, || {
        make_formats();
        expect(delete_when_idle(&Data::open(), NAME), Ok(()));
        expect(count_of_events(), 0);
    });
}

fn format_by_its_name() {
    in_child_then_delete(NAME, || {
        make_formats();
        let status = fs::read_to_string(STATUS).unwrap();
        let name = status.lines().next().unwrap();
        assert!(name.starts_with("st_conform."), "{status}");
        expect(Data::open().delete(name), Err(Errno::ENOENT));
        expect(count_of_events(), 3);
    });
}

fn formats_in_use() {
    let (data, page) = (Data::open(), Mapping::kept(1));
    register_format(&data, &page, 0, "u32 a");
    register_format(&data, &page, 1, "u64 a");
    expect(data.delete(NAME), Err(Errno::EBUSY));
    expect(count_of_events(), 2);
}
