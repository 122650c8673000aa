// SPDX-License-Identifier: GPL-2.0

//! `dynamic_events`: making, listing and deleting events.

use super::check::{delete_when_idle, described, expect, Check, DeletedAtEnd, Row, NAME};
use super::formats::Formats;
use super::lifetime::an_event_comes_and_goes;
use crate::kit::abi::Data;
use crate::kit::dynamic;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::{wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::{self, count_of_events, TraceInstance};

const CREATE: Row = Row::new("dynamic_events", "u: prefix: create");
const NAMELESS: Row = Row::better_than_c(
    3,
    "dynamic_events",
    "names: 1 to 255 bytes, else EINVAL",
    "got Ok(())",
);
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
        CREATE.table(
            "creates_an_event",
            created,
            &[
                ("u:st_conform", ""),
                ("u:st_conform u32 a", " u32 a"),
                ("u:st_conform u32 a; char[8] b", " u32 a; char[8] b"),
                ("u:st_conform u32 a;u8 b;", " u32 a; u8 b"),
                ("u:st_conform u32 a/b", " u32 a/b"),
                ("u:st_conform  u32 a;  u32 b", " u32 a; u32 b"),
                ("# a comment\nu:st_conform u32 a", " u32 a"),
                ("u:st_conform u32 a# a comment", " u32 a"),
                ("\nu:st_conform u32 a\n\n", " u32 a"),
                ("u: \t  st_conform u32 a", " u32 a"),
            ],
        ),
        CREATE.each(
            "a_bad_line_is_einval",
            refused,
            Err(Errno::EINVAL),
            &[
                "u:st_conform long a",
                "u",
                "u st_conform u32 a",
                "v:st_conform u32 a",
                "uu:st_conform u32 a",
                "U:st_conform u32 a",
                "u:st_conform:flag u32 a",
            ],
        ),
        CREATE.scenarios(&[("creates_up_to_a_bad_line", up_to_a_bad_line)]),
        NAMELESS.all(
            refused,
            Err(Errno::EINVAL),
            &[
                ("no_name_is_einval", "u:"),
                ("a_space_for_a_name_is_einval", "u: "),
            ],
        ),
        GROUP.on_c("got [\"u:user_events/st_conform*\"]").cases(
            created,
            &[
                (
                    "the_group_may_be_named",
                    "u:user_events/st_conform u32 a",
                    " u32 a",
                ),
                (
                    "the_group_may_be_named_after_a_space",
                    "u: user_events/st_conform",
                    "",
                ),
            ],
        ),
        GROUP.all(
            refused,
            Err(Errno::EINVAL),
            &[
                ("another_group_is_einval", "u:sched/st_conform u32 a"),
                ("the_formats_are_einval", "u:user_events_multi/st_conform"),
            ],
        ),
        LIST.scenarios(&[("lists_formats_under_the_registered_name", formats_listed)]),
        ORDER.scenarios(&[("lists_the_oldest_first", oldest_first)]),
        RESTORE.table(
            "lists_fields_and_restores_what_it_lists",
            restored,
            &[
                ("", ""),
                ("u32 a", " u32 a"),
                ("unsigned int a;u64 b", " unsigned int a; u64 b"),
                ("char[0x10] a; u8 b", " char[0x10] a; u8 b"),
                ("struct p p 16; u8 b", " struct p p 16; u8 b"),
                ("struct tag a 0100", " struct tag a 100"),
                ("__data_loc char[] a", " __data_loc char[] a"),
                (
                    "__rel_loc unsigned char[] b; __rel_loc u8[] c",
                    " __rel_loc unsigned char[] b; __rel_loc u8[] c",
                ),
                (";;u32 a;;  u8 b;", " u32 a; u8 b"),
                ("   u32 a;   u8 b", " u32 a; u8 b"),
                (
                    "u32 a-b.c(d); u8 äöü; u8 {}<>",
                    " u32 a-b.c(d); u8 äöü; u8 {}<>",
                ),
            ],
        ),
        RESTORE.scenarios(&[(
            "restores_a_line_longer_than_a_description",
            long_line_restored,
        )]),
        DELETE.each(
            "deletes_the_event_that_a_line_describes",
            deleted,
            Ok(()),
            &[
                ("", "-:st_conform"),
                ("", "-:user_events/st_conform"),
                ("u32 a; u8 b", "-:st_conform u32 a; u8 b"),
                ("u32 a; u8 b", "!:st_conform u32 a; u8 b"),
                ("u32 a; u8 b", "!u:st_conform u32 a; u8 b"),
                ("u32 a; u8 b", "-:user_events/st_conform u32 a; u8 b"),
                ("u32 a; u8 b", "!u:user_events/st_conform u32 a; u8 b"),
                ("u32 a; char[4] b", "-:st_conform   u32   a;   char[4] b"),
                ("struct p p 16", "-:st_conform struct p p 16"),
            ],
        ),
        DELETE.each(
            "a_line_that_describes_another_event_is_enoent",
            deleted,
            Err(Errno::ENOENT),
            &[
                ("", "-:sched/st_conform"),
                ("", "-:user_event/st_conform"),
                ("", "-:user_events/other/st_conform"),
                ("", "-:st_conform2"),
                ("", "-:st_conf"),
                ("", "-:st_conform u32 a"),
                ("u32 a", "-:st_conform u64 a"),
                ("u32 a", "-:st_conform u32 a; u8 b"),
                ("u32 a; u8 b", "-:st_conform u32 a"),
                ("u32 a; u8 b", "-:st_conform u32 a; u8 c"),
                ("u32 a; u8 b", "-:st_conform u8 b; u32 a"),
            ],
        ),
        DELETE.each(
            "a_bad_line_that_deletes_is_einval",
            deleted,
            Err(Errno::EINVAL),
            &[
                ("u32 a", "-st_conform"),
                ("u32 a", "!st_conform"),
                ("", "-"),
                ("", "!"),
                ("", "-:"),
            ],
        ),
        NAME_IS_ENOUGH.all(
            deleted,
            Ok(()),
            &[
                ("the_name_is_enough", ("u32 a; u8 b", "-:st_conform")),
                (
                    "the_name_and_group_are_enough",
                    ("struct tag b 20", "!u:user_events/st_conform"),
                ),
            ],
        ),
        STAYS.scenarios(&[
            ("made_again_is_the_same", made_again),
            ("registering_shares_it_and_leaves_it", registered),
        ]),
        STAYS.each(
            "made_again_otherwise_is_eaddrinuse",
            created_otherwise,
            Err(Errno::EADDRINUSE),
            &["u:st_conform u64 a", "u:st_conform"],
        ),
    ]
}

fn created(line: &str, fields: &str) {
    let _deleted = [NAME, "user_events/st_conform"].map(DeletedAtEnd);
    expect(dynamic::run(line), Ok(()));
    expect(dynamic::user_lines(), vec![format!("u:{NAME}{fields}")]);
    assert!(tracefs::event_exists(NAME));
    // A registration with this description uses the same event.
    let event = Event::new(&format!("{NAME}{fields}"));
    expect(count_of_events(), 1);
    event.end();
}

fn up_to_a_bad_line() {
    let _deleted = ["st_one", "st_two"].map(DeletedAtEnd);
    let got = dynamic::run("u:st_one\nu:st_two u32 a\nu:st_three long a\nu:st_four");
    expect(got, Err(Errno::EINVAL));
    expect(
        dynamic::user_lines(),
        ["u:st_one", "u:st_two u32 a"].map(String::from).to_vec(),
    );
    expect(dynamic::run("-:st_one\n-:st_two u32 a"), Ok(()));
    expect(count_of_events(), 0);
}

fn refused(line: &str, want: Result<()>) {
    let name = line.trim_start_matches("u:").trim_start();
    let _deleted = DeletedAtEnd(name.split(' ').next().unwrap_or_default());
    expect(dynamic::run(line), want);
    expect(count_of_events(), 0);
}

fn formats_listed() {
    const FIELDS: [&str; 3] = ["u32 a", "struct tag a 7; u8 b", ""];
    let formats = Formats::new();
    for (word, fields) in FIELDS.into_iter().enumerate() {
        expect(formats.register(word, fields), Ok(word as u32));
    }
    expect(formats.register_flags(3, "u32 a", 0), Ok(3));
    let mut want = FIELDS
        .map(|fields| format!("u:{}", described(fields)))
        .to_vec();
    want.push("u:st_conform u32 a".into());
    expect(dynamic::user_lines(), want);
}

fn oldest_first() {
    let (data, page) = (Data::open(), Mapping::kept(1));
    // Neither the alphabetic order nor its reverse, and made in both ways.
    let name = |i: u8| format!("st_list_{}", (i * 7) % 20);
    for i in 0..20 {
        match i % 3 {
            0 => expect(dynamic::run(&format!("u:{}", name(i))), Ok(())),
            _ => drop(data.register_text(&name(i), page.address(), i).unwrap()),
        }
    }
    let mut want: Vec<_> = (0..20).map(|i| format!("u:{}", name(i))).collect();
    expect(dynamic::user_lines(), want.clone());
    // An event that is deleted and made again is the youngest.
    for at in [9, 0] {
        let line = want.remove(at);
        expect(dynamic::run(&line.replace("u:", "-:")), Ok(()));
        expect(dynamic::run(&line), Ok(()));
        want.push(line);
    }
    expect(dynamic::user_lines(), want);
    for i in (0..20).step_by(3) {
        expect(dynamic::run(&format!("-:{}", name(i))), Ok(()));
    }
}

/// `want` is what follows the name in the listing.
fn restored(fields: &str, want: &str) {
    // The listing, and `format` without its second line, the id. The text in brackets is checked by
    // another row.
    let seen = || {
        let format = tracefs::event_format(NAME);
        let lines = format.lines().map(|line| match line.split_once('[') {
            Some((before, behind)) => [before, behind.split_once(']').unwrap().1].concat(),
            None => line.to_string(),
        });
        let format: Vec<_> = lines.collect();
        (dynamic::user_lines(), [&format[..1], &format[2..]].concat())
    };
    let event = Event::new(&described(fields));
    let first = seen();
    expect(&first.0[..], &[format!("u:{NAME}{want}")]);
    event.end();
    wait_gone(NAME);
    let _deleted = DeletedAtEnd(NAME);
    expect(dynamic::run(&first.0[0]), Ok(()));
    expect(seen(), first);
}

fn long_line_restored() {
    // A listing has a space behind each semicolon, unlike this description.
    let fields: Vec<_> = (0..40).map(|i| format!("u8 f{i:03}")).collect();
    let fields = format!("{:x<500}", fields.join(";"));
    expect(described(&fields).len(), 511);
    restored(&fields, &format!(" {}", fields.replace(';', "; ")));
}

fn deleted((fields, line): (&str, &str), want: Result<()>) {
    let _deleted = DeletedAtEnd(NAME);
    expect(dynamic::run(&format!("u:{}", described(fields))), Ok(()));
    expect(dynamic::run(line), want);
    expect(count_of_events(), usize::from(want.is_err()));
}

fn made_again() {
    let _deleted = DeletedAtEnd(NAME);
    let make = || {
        expect(dynamic::run("u:st_conform u32 a"), Ok(()));
        an_event_comes_and_goes();
        expect(count_of_events(), 1);
        tracefs::event_id(NAME)
    };
    expect(make(), make());
}

fn created_otherwise(line: &str, want: Result<()>) {
    let _deleted = DeletedAtEnd(NAME);
    expect(dynamic::run("u:st_conform u32 a"), Ok(()));
    expect(dynamic::run(line), want);
    expect(
        dynamic::user_lines(),
        vec!["u:st_conform u32 a".to_string()],
    );
}

fn registered() {
    let _deleted = DeletedAtEnd(NAME);
    expect(dynamic::run("u:st_conform u32 a"), Ok(()));
    let tracer = TraceInstance::instance(NAME);
    tracer.enable(NAME);
    let event = Event::new("st_conform u32 a");
    expect((count_of_events(), event.bit()), (1, true));
    expect(event.write(&[7; 4]), Ok(8));
    expect(tracer.take_payloads(NAME, 4), vec![vec![7; 4]]);
    tracer.disable(NAME);
    let got = event
        .data
        .register_text("st_conform u64 a", event.page.address(), 1);
    expect(got, Err(Errno::EADDRINUSE));
    event.end();
    an_event_comes_and_goes();
    // A program can delete the event as well.
    expect(delete_when_idle(&Data::open(), NAME), Ok(()));
    expect(count_of_events(), 0);
}
