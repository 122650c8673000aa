// SPDX-License-Identifier: GPL-2.0

//! `dynamic_events`: making, listing and deleting events there.

use super::check::{expect, in_child_then_delete, Check, DeletedAtEnd, Row, NAME};
use super::lifetime::an_event_comes_and_goes;
use super::sharing::register_format;
use crate::kit::abi::Data;
use crate::kit::child;
use crate::kit::dynamic;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::{wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::count_of_events;
use crate::kit::tracefs::{self, Tracer};
use std::fs::{self, OpenOptions};
use std::io::Write;

const FILE: &str = "/sys/kernel/tracing/dynamic_events";

const CREATE: Row = Row::new("dynamic_events", "u: prefix: create");
const LIST: Row = Row::new(
    "dynamic_events",
    "lists \"u:NAME TYPE NAME; TYPE NAME\" (struct fields with their size)",
);
const RESTORE: Row = Row::new(
    "dynamic_events",
    "what it lists can be written back to restore it",
);
const DELETE: Row = Row::new("dynamic_events", "u: prefix: delete");
const STAYS: Row = Row::new(
    "dynamic_events",
    "an event made through dynamic_events stays until deleted",
);
const GROUP: Row = Row::better_than_c(
    4,
    "dynamic_events",
    "the group may be named: u:user_events/x is event x; any other group → EINVAL",
    "got Ok(())",
);
const NAME_IS_ENOUGH: Row = Row::better_than_c(
    5,
    "dynamic_events",
    "-:NAME: the name is enough; fields, if given, must match",
    "got Err(ENOENT)",
);
const ORDER: Row = Row::new("dynamic_events", "stable order: oldest first");

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        CREATE.cases(
            created,
            &[
                ("creates_without_fields", "u:st_conform", "u:st_conform"),
                (
                    "creates_with_a_field",
                    "u:st_conform u32 a",
                    "u:st_conform u32 a",
                ),
                (
                    "creates_with_fields",
                    "u:st_conform u32 a; char[8] b",
                    "u:st_conform u32 a; char[8] b",
                ),
                (
                    "creates_with_unspaced_fields",
                    "u:st_conform u32 a;u8 b",
                    "u:st_conform u32 a; u8 b",
                ),
                (
                    "creates_after_a_space",
                    "u: st_conform u32 a",
                    "u:st_conform u32 a",
                ),
            ],
        ),
        CREATE.all(
            refused,
            Err(Errno::EINVAL),
            &[
                ("an_unknown_type_is_einval", "u:st_conform long a"),
                ("a_field_without_a_name_is_einval", "u:st_conform u32"),
                ("flags_are_einval", "u:st_conform:flag u32 a"),
                (
                    "a_struct_without_a_size_is_einval",
                    "u:st_conform struct p p",
                ),
            ],
        ),
        GROUP.on_c("got [\"u:user_events/st_conform*\"]").cases(
            created,
            &[
                (
                    "the_group_may_be_named",
                    "u:user_events/st_conform u32 a",
                    "u:st_conform u32 a",
                ),
                (
                    "the_group_may_be_named_without_fields",
                    "u:user_events/st_conform",
                    "u:st_conform",
                ),
            ],
        ),
        GROUP.all(
            refused,
            Err(Errno::EINVAL),
            &[
                ("another_group_is_einval", "u:sched/st_conform u32 a"),
                (
                    "the_group_of_formats_is_einval",
                    "u:user_events_multi/st_conform u32 a",
                ),
                ("an_empty_group_is_einval", "u:/st_conform u32 a"),
            ],
        ),
        LIST.cases(
            listed,
            &[
                ("lists_no_fields", "", ""),
                ("lists_one_field", "u32 a", " u32 a"),
                ("lists_two_fields", "u32 a;u64 b", " u32 a; u64 b"),
                (
                    "lists_types_of_two_words",
                    "unsigned int a; unsigned char b",
                    " unsigned int a; unsigned char b",
                ),
                (
                    "lists_arrays_as_written",
                    "char[0x10] a; unsigned char[3] b",
                    " char[0x10] a; unsigned char[3] b",
                ),
                (
                    "lists_a_struct_with_its_size",
                    "struct p p 16; u8 b",
                    " struct p p 16; u8 b",
                ),
                (
                    "lists_locations",
                    "__data_loc char[] a; __rel_loc u8[] b",
                    " __data_loc char[] a; __rel_loc u8[] b",
                ),
                ("lists_no_empty_fields", ";;u32 a;;u8 b;", " u32 a; u8 b"),
                (
                    "lists_no_more_spaces_than_needed",
                    "   u32 a;   u8 b",
                    " u32 a; u8 b",
                ),
            ],
        ),
        LIST.scenarios(&[("lists_formats_under_the_registered_name", formats_listed)]),
        ORDER.scenarios(&[("lists_the_oldest_first", oldest_first)]),
        RESTORE.all(
            restored,
            (),
            &[
                ("restores_no_fields", ""),
                ("restores_fields", "u32 a; s64 b; char[8] c"),
                ("restores_unspaced_fields", "u32 a;s64 b;char[8] c"),
                ("restores_structs", "struct p p 16; u8 b"),
                (
                    "restores_locations",
                    "__data_loc char[] a; __rel_loc unsigned char[] b; __rel_loc u8[] c",
                ),
            ],
        ),
        DELETE.cases(
            deleted,
            &[
                ("deletes_without_fields", ("", "-:st_conform"), Ok(())),
                (
                    "deletes_in_its_group",
                    ("", "-:user_events/st_conform"),
                    Ok(()),
                ),
                (
                    "deletes_in_the_spelling_of_the_listing",
                    ("", "!u:st_conform"),
                    Ok(()),
                ),
                (
                    "deletes_with_a_field_spelled_out",
                    ("u32 a", "-:st_conform u32 a"),
                    Ok(()),
                ),
                (
                    "deletes_with_fields_spelled_out",
                    ("u32 a; u8 b", "-:st_conform u32 a; u8 b"),
                    Ok(()),
                ),
                (
                    "deletes_the_line_of_the_listing",
                    ("u32 a; u8 b", "!u:st_conform u32 a; u8 b"),
                    Ok(()),
                ),
                (
                    "deletes_a_struct_spelled_out",
                    ("struct p p 16", "-:st_conform struct p p 16"),
                    Ok(()),
                ),
                (
                    "of_another_group_is_enoent",
                    ("", "-:sched/st_conform"),
                    Err(Errno::ENOENT),
                ),
                (
                    "of_another_name_is_enoent",
                    ("", "-:st_unknown"),
                    Err(Errno::ENOENT),
                ),
                (
                    "by_half_a_name_is_enoent",
                    ("", "-:st_conf"),
                    Err(Errno::ENOENT),
                ),
                (
                    "with_other_fields_is_enoent",
                    ("u32 a", "-:st_conform u64 a"),
                    Err(Errno::ENOENT),
                ),
                (
                    "with_fewer_fields_is_enoent",
                    ("u32 a; u8 b", "-:st_conform u32 a"),
                    Err(Errno::ENOENT),
                ),
                (
                    "with_more_fields_is_enoent",
                    ("u32 a", "-:st_conform u32 a; u8 b"),
                    Err(Errno::ENOENT),
                ),
                (
                    "with_fields_of_none_is_enoent",
                    ("", "-:st_conform u32 a"),
                    Err(Errno::ENOENT),
                ),
            ],
        ),
        NAME_IS_ENOUGH.cases(
            deleted,
            &[
                (
                    "the_name_is_enough",
                    ("u32 a; u8 b", "-:st_conform"),
                    Ok(()),
                ),
                (
                    "the_name_and_group_are_enough",
                    ("u32 a", "-:user_events/st_conform"),
                    Ok(()),
                ),
                (
                    "the_name_is_enough_in_the_spelling_of_the_listing",
                    ("u32 a", "!u:st_conform"),
                    Ok(()),
                ),
            ],
        ),
        DELETE.scenarios(&[
            ("deleting_what_is_registered_is_ebusy", registered_is_busy),
            ("deleting_what_is_traced_is_ebusy", traced_is_busy),
            ("truncation_deletes_all", truncated),
            (
                "truncation_with_a_busy_event_is_ebusy_and_deletes_none",
                truncated_while_busy,
            ),
        ]),
        STAYS.scenarios(&[
            ("stays_when_its_last_use_ends", stays),
            ("made_again_is_the_same", made_again),
            ("made_again_with_other_fields_is_eaddrinuse", made_otherwise),
            ("registering_shares_it", registered),
        ]),
    ]
}

/// Writes a line, with a new one behind it.
pub fn command(line: &str) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(FILE).expect(FILE);
    Ok(file.write_all(format!("{line}\n").as_bytes())?)
}

fn created(line: &str, want: &str) {
    let _deleted = DeletedAtEnd(NAME);
    let _deleted_with_its_group = DeletedAtEnd("user_events/st_conform");
    expect(command(line), Ok(()));
    expect(dynamic::user_lines(), vec![want.to_string()]);
    assert!(tracefs::event_exists(NAME));
}

fn refused(line: &str, want: Result<()>) {
    let name = line.trim_start_matches("u:").split(' ').next().unwrap();
    let _deleted = DeletedAtEnd(name);
    expect(command(line), want);
    expect(count_of_events(), 0);
}

/// The description of [`NAME`] with these fields.
fn described(fields: &str) -> String {
    format!("{NAME} {fields}").trim_end().to_string()
}

fn listed(fields: &str, want: &str) {
    let _event = Event::new(&described(fields));
    expect(dynamic::user_lines(), vec![format!("u:{NAME}{want}")]);
}

fn formats_listed() {
    let (data, page) = (Data::open(), Mapping::kept(1));
    register_format(&data, &page, 0, "u32 a");
    register_format(&data, &page, 1, "u64 b");
    expect(
        dynamic::user_lines(),
        vec![format!("u:{NAME} u32 a"), format!("u:{NAME} u64 b")],
    );
}

fn oldest_first() {
    let (data, page) = (Data::open(), Mapping::kept(1));
    // Neither the order of the alphabet nor its reverse.
    let name = |i: u8| format!("st_list_{}", (i * 7) % 20);
    for i in 0..20 {
        data.register_text(&name(i), page.address(), i).unwrap();
    }
    expect(
        dynamic::user_lines(),
        (0..20).map(|i| format!("u:{}", name(i))).collect(),
    );
}

fn restored(fields: &str, (): ()) {
    let text = described(fields);
    // What is listed, and `format` without its second line, the id. What it shows in brackets is
    // another row's affair.
    let seen = || {
        let format = tracefs::event_format(NAME);
        let lines = format.lines().map(|line| match line.split_once('[') {
            Some((before, behind)) => [before, behind.split_once(']').unwrap().1].concat(),
            None => line.to_string(),
        });
        let format: Vec<_> = lines.collect();
        (dynamic::user_lines(), [&format[..1], &format[2..]].concat())
    };
    let mut child = child::fork(|line| {
        let _event = Event::new(&text);
        line.say("registered");
        line.hear("end");
    });
    child.line.hear("registered");
    let first = seen();
    child.line.say("end");
    child.join();
    wait_gone(NAME);
    let _deleted = DeletedAtEnd(NAME);
    expect(command(&first.0[0]), Ok(()));
    expect(seen(), first);
}

fn deleted((fields, line): (&str, &str), want: Result<()>) {
    let _deleted = DeletedAtEnd(NAME);
    expect(command(&format!("u:{}", described(fields))), Ok(()));
    expect(command(line), want);
    expect(count_of_events(), usize::from(want.is_err()));
}

fn registered_is_busy() {
    let _event = Event::new(NAME);
    expect(command("-:st_conform"), Err(Errno::EBUSY));
    expect(count_of_events(), 1);
}

fn traced_is_busy() {
    let _deleted = DeletedAtEnd(NAME);
    expect(command("u:st_conform"), Ok(()));
    let top = Tracer::top();
    top.enable(NAME);
    let got = command("-:st_conform");
    top.disable(NAME);
    expect(got, Err(Errno::EBUSY));
    expect(command("-:st_conform"), Ok(()));
}

fn truncate() -> Result<()> {
    Ok(fs::write(FILE, "")?)
}

fn truncated() {
    for name in ["st_one", "st_two", "st_three"] {
        expect(command(&format!("u:{name} u32 a")), Ok(()));
    }
    expect(truncate(), Ok(()));
    expect(count_of_events(), 0);
}

fn truncated_while_busy() {
    let _deleted = DeletedAtEnd("st_one");
    expect(command("u:st_one u32 a"), Ok(()));
    let _event = Event::new(NAME);
    expect(truncate(), Err(Errno::EBUSY));
    expect(count_of_events(), 2);
}

fn stays() {
    expect(command("u:st_conform u32 a"), Ok(()));
    in_child_then_delete(NAME, || {
        child::fork(|_| drop(Event::new("st_conform u32 a"))).join();
        an_event_comes_and_goes();
        expect(count_of_events(), 1);
    });
    expect(count_of_events(), 0);
}

fn made_again() {
    let _deleted = DeletedAtEnd(NAME);
    expect(command("u:st_conform u32 a"), Ok(()));
    expect(command("u:st_conform u32 a"), Ok(()));
    expect(count_of_events(), 1);
}

fn made_otherwise() {
    let _deleted = DeletedAtEnd(NAME);
    expect(command("u:st_conform u32 a"), Ok(()));
    expect(command("u:st_conform u64 a"), Err(Errno::EADDRINUSE));
}

fn registered() {
    expect(command("u:st_conform u32 a"), Ok(()));
    in_child_then_delete(NAME, || {
        let _event = Event::new("st_conform u32 a");
        expect(count_of_events(), 1);
    });
}
