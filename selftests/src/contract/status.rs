// SPDX-License-Identifier: GPL-2.0

//! "The status file". These checks require that no other events exist.

use super::bit::Consumer::{self, Instance, Perf, Top, Trigger};
use super::check::{expect, Check, DeletedAtEnd, Row, NAME, TEXT};
use super::formats::{id_of, Formats};
use crate::kit::abi::{Data, STATUS};
use crate::kit::dynamic;
use crate::kit::event::{wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::perf::{self, ANY_CPU, SELF};
use crate::kit::status::Status;
use crate::kit::tracefs::{formats_of, TraceInstance};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};

const TEXT_OF_IT: Row = Row::new(
    "status",
    "One line per event: NAME, followed by \" # Used by\" and \" ftrace\", \" perf\", \" other\" where \
     attached; a blank line; Active: N; Busy: N (events in use by a tracer)",
);
const ORDER: Row = Row::better_than_c(
    14,
    "status",
    "stable order: oldest first",
    "want [\"st_status_0\", \"st_status_7\", *], got [*]",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        TEXT_OF_IT.table(
            "of_one_event",
            used_by,
            &[
                (&[], &[""]),
                (&[Top], &[" # Used by ftrace", ""]),
                (&[Instance], &[" # Used by ftrace", ""]),
                (
                    &[Top, Instance],
                    &[" # Used by ftrace", " # Used by ftrace", ""],
                ),
                (&[Perf], &[" # Used by perf", ""]),
                (
                    &[Top, Perf],
                    &[" # Used by ftrace perf", " # Used by perf", ""],
                ),
                (
                    &[Perf, Instance],
                    &[" # Used by ftrace perf", " # Used by ftrace", ""],
                ),
                (&[Trigger], &[" # Used by ftrace", ""]),
            ],
        ),
        TEXT_OF_IT.scenarios(&[
            ("of_an_event_that_only_a_file_holds", of_a_file),
            ("of_formats", of_formats),
            ("totals_of_many_events", totals),
            ("read_again_it_tells_the_news", read_again),
        ]),
        ORDER.scenarios(&[("events_come_oldest_first", oldest_first)]),
    ]
}

fn status() -> String {
    fs::read_to_string(STATUS).expect("read the status file")
}

/// Attaches consumers, then detaches them in the same order; `lines` are what follows the name when
/// all are attached, and after each.
fn used_by(consumers: &[Consumer], lines: &[&str]) {
    let event = Event::new(TEXT);
    let id = event.id();
    let attached: Vec<_> = consumers.iter().map(|one| one.attach(id)).collect();
    let mut lines = lines.iter();
    let mut follows = || {
        let line = lines.next().expect("a line");
        let busy = usize::from(!line.is_empty());
        expect(
            status(),
            format!("{NAME}{line}\n\nActive: 1\nBusy: {busy}\n"),
        );
    };
    follows();
    for detach in attached {
        detach();
        follows();
    }
}

fn of_a_file() {
    let event = Event::new(TEXT);
    expect(event.unregister(), Ok(()));
    expect(status(), format!("{NAME}\n\nActive: 1\nBusy: 0\n"));
    drop(event);
    wait_gone(NAME);
    expect(status(), "\nActive: 0\nBusy: 0\n".into());
}

fn of_formats() {
    let formats = Formats::new();
    expect(formats.register(0, "u32 a"), Ok(0));
    expect(formats.register(1, "u64 a"), Ok(1));
    expect(formats.register_flags(2, "u32 a", 0), Ok(2));
    let events = formats_of(NAME);
    expect(id_of(&events[1]), id_of(&events[0]) + 1);
    let top = TraceInstance::top();
    top.enable(&events[1]);
    let got = Status::now().events;
    top.disable(&events[1]);
    let name = |event: &String| event.split_once('/').unwrap().1.to_string();
    let want = [
        (name(&events[0]), vec![]),
        (name(&events[1]), vec!["ftrace".into()]),
        (NAME.into(), vec![]),
    ];
    expect(sorted(got), sorted(want.into()));
}

/// The order of events is checked by another row.
fn sorted<T: Ord>(mut events: Vec<T>) -> Vec<T> {
    events.sort();
    events
}

/// Makes `count` events of one file, named by `name`.
pub fn make(count: u64, name: impl Fn(u64) -> String) -> (Data, Mapping) {
    let (data, page) = (Data::open(), Mapping::kept(1));
    for i in 0..count {
        let got = data.register_text(&format!("{} u32 a", name(i)), page.address() + 4 * i, 0);
        expect(got, Ok(i as u32));
    }
    (data, page)
}

/// The listing is larger than a page.
fn totals() {
    let name = |i| format!("st_status_many{i:0>200}");
    let _made = make(30, name);
    let tracer = TraceInstance::instance("st_status_many");
    for i in [3, 4, 29] {
        tracer.enable(&name(i));
    }
    let users = |i| match [3, 4, 29].contains(&i) {
        true => vec!["ftrace".to_string()],
        false => vec![],
    };
    let want = (0..30).map(|i| (name(i), users(i))).collect();
    expect(sorted(Status::now().events), sorted(want));
}

fn read_again() {
    let mut file = File::open(STATUS).unwrap();
    let mut text_now = || {
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    };
    // Opened before the event was made, and read afterwards.
    let event = Event::new(TEXT);
    expect(text_now(), format!("{NAME}\n\nActive: 1\nBusy: 0\n"));
    let _perf = perf::Perf::open(event.id(), SELF, ANY_CPU).unwrap();
    let want = format!("{NAME} # Used by perf\n\nActive: 1\nBusy: 1\n");
    expect(text_now(), want);
}

fn oldest_first() {
    // Neither the alphabetic order nor its reverse.
    let name = |i| format!("st_status_{}", (i * 7) % 20);
    let _made = make(20, name);
    let names = || -> Vec<String> {
        let events = Status::now().events.into_iter();
        events.map(|(name, _)| name).collect()
    };
    let mut want: Vec<_> = (0..20).map(name).collect();
    // Regardless of the order, all must be listed.
    expect(sorted(names()), sorted(want.clone()));
    expect(names(), want.clone());
    // An event that is deleted and made again is the youngest.
    let _deleted = ["st_one", "st_two"].map(DeletedAtEnd);
    for line in ["u:st_one", "u:st_two", "-:st_one", "u:st_one"] {
        expect(dynamic::run(line), Ok(()));
    }
    want.extend(["st_two", "st_one"].map(String::from));
    expect(names(), want);
}
