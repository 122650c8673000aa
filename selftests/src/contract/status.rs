// SPDX-License-Identifier: GPL-2.0

//! "The status file". These checks expect no events but their own.

use super::check::{expect, Check, Row, NAME, TEXT};
use super::sharing::register_format;
use crate::kit::abi::{Data, STATUS};
use crate::kit::event::{wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::tracefs::Tracer;
use std::fs::{self, File};
use std::io::Read;

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
        TEXT_OF_IT.cases(
            used_by,
            &[
                ("of_an_idle_event", &[], ""),
                (
                    "of_an_event_used_by_ftrace",
                    &[User::Top],
                    " # Used by ftrace",
                ),
                (
                    "of_an_event_used_by_an_instance",
                    &[User::Instance],
                    " # Used by ftrace",
                ),
                (
                    "of_an_event_used_by_ftrace_twice",
                    &[User::Top, User::Instance],
                    " # Used by ftrace",
                ),
                ("of_an_event_used_by_perf", &[User::Perf], " # Used by perf"),
                (
                    "of_an_event_used_by_ftrace_and_perf",
                    &[User::Top, User::Perf],
                    " # Used by ftrace perf",
                ),
                (
                    "of_an_event_used_by_perf_and_ftrace",
                    &[User::Perf, User::Instance],
                    " # Used by ftrace perf",
                ),
                (
                    "of_an_event_used_by_a_trigger",
                    &[User::Trigger],
                    " # Used by ftrace",
                ),
            ],
        ),
        TEXT_OF_IT.scenarios(&[
            ("of_no_events", of_no_events),
            ("of_an_event_that_only_a_file_holds", of_a_file),
            ("of_an_event_that_is_used_no_more", of_used_no_more),
            ("of_formats", of_formats),
            ("totals_of_many_events", totals),
            ("read_in_small_pieces", in_small_pieces),
            ("larger_than_a_page", larger_than_a_page),
            ("read_again_it_tells_the_news", read_again),
        ]),
        ORDER.scenarios(&[("events_come_oldest_first", oldest_first)]),
    ]
}

fn status() -> String {
    fs::read_to_string(STATUS).expect("read the status file")
}

/// Who listens.
#[derive(Clone, Copy)]
enum User {
    Top,
    Instance,
    Perf,
    Trigger,
}

fn used_by(users: &[User], want: &str) {
    let event = Event::new(TEXT);
    let tracer = Tracer::instance(NAME);
    let mut perfs = Vec::new();
    for user in users {
        match user {
            User::Top => Tracer::top().enable(NAME),
            User::Instance => tracer.enable(NAME),
            User::Perf => perfs.push(Perf::open(event.id(), SELF, ANY_CPU).unwrap()),
            User::Trigger => tracer.set(NAME, "trigger", "traceoff if a == 1").unwrap(),
        }
    }
    let text = status();
    Tracer::top().disable(NAME);
    let busy = usize::from(!users.is_empty());
    expect(text, format!("{NAME}{want}\n\nActive: 1\nBusy: {busy}\n"));
}

fn of_no_events() {
    expect(status(), "\nActive: 0\nBusy: 0\n".into());
}

fn of_a_file() {
    let event = Event::new(TEXT);
    expect(event.unregister(), Ok(()));
    expect(status(), format!("{NAME}\n\nActive: 1\nBusy: 0\n"));
    drop(event);
    wait_gone(NAME);
    expect(status(), "\nActive: 0\nBusy: 0\n".into());
}

fn of_used_no_more() {
    let event = Event::new(TEXT);
    let top = Tracer::top();
    top.enable(NAME);
    top.disable(NAME);
    expect(status(), format!("{NAME}\n\nActive: 1\nBusy: 0\n"));
    drop(Perf::open(event.id(), SELF, ANY_CPU).unwrap());
    expect(status(), format!("{NAME}\n\nActive: 1\nBusy: 0\n"));
}

fn of_formats() {
    let (data, page) = (Data::open(), Mapping::kept(1));
    register_format(&data, &page, 0, "u32 a");
    register_format(&data, &page, 1, "u64 a");
    let mut lines: Vec<_> = status().lines().map(String::from).collect();
    expect(
        &lines.split_off(2)[..],
        &["", "Active: 2", "Busy: 0"].map(String::from)[..],
    );
    let mut ids: Vec<_> = lines
        .iter()
        .filter_map(|line| {
            u64::from_str_radix(line.strip_prefix(NAME)?.strip_prefix('.')?, 16).ok()
        })
        .collect();
    ids.sort();
    assert!(ids.len() == 2 && ids[1] == ids[0] + 1, "{lines:?}");
}

/// Makes so many events, named by `name`.
fn make(count: u64, name: impl Fn(u64) -> String) -> (Data, Mapping) {
    let data = Data::open();
    let page = Mapping::kept(1);
    for i in 0..count {
        data.register_text(&format!("{} u32 a", name(i)), page.address() + 4 * i, 0)
            .unwrap();
    }
    (data, page)
}

fn totals() {
    let name = |i| format!("st_status_many{i}");
    let _made = make(12, name);
    let tracer = Tracer::instance("st_status_many");
    for i in [3, 4, 11] {
        tracer.enable(&name(i));
    }
    let text = status();
    let mut lines: Vec<_> = text.lines().collect();
    expect(lines.split_off(12), vec!["", "Active: 12", "Busy: 3"]);
    let user = |i| {
        if [3, 4, 11].contains(&i) {
            " # Used by ftrace"
        } else {
            ""
        }
    };
    let mut want: Vec<_> = (0..12).map(|i| name(i) + user(i)).collect();
    // The order is another row's affair.
    want.sort();
    lines.sort();
    expect(lines.into_iter().map(String::from).collect(), want);
}

fn in_small_pieces() {
    let _made = make(5, |i| format!("st_status_{i:0>60}"));
    let whole = status();
    let mut file = File::open(STATUS).unwrap();
    let mut text = Vec::new();
    let mut piece = [0; 7];
    loop {
        let length = file.read(&mut piece).unwrap();
        if length == 0 {
            break;
        }
        text.extend(&piece[..length]);
    }
    expect(String::from_utf8(text).unwrap(), whole);
}

fn larger_than_a_page() {
    let _made = make(40, |i| format!("st_status_{i:0>200}"));
    let text = status();
    assert!(text.len() > 8000);
    expect(
        text.lines()
            .filter(|line| line.starts_with("st_status_0"))
            .count(),
        40,
    );
    assert!(text.ends_with("\n\nActive: 40\nBusy: 0\n"));
}

fn read_again() {
    use std::io::{Seek, SeekFrom};
    let mut file = File::open(STATUS).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    let _event = Event::new(TEXT);
    file.seek(SeekFrom::Start(0)).unwrap();
    text.clear();
    file.read_to_string(&mut text).unwrap();
    expect(text, format!("{NAME}\n\nActive: 1\nBusy: 0\n"));
}

fn oldest_first() {
    // Neither the order of the alphabet nor its reverse.
    let name = |i| format!("st_status_{}", (i * 7) % 20);
    let _made = make(20, name);
    let text = status();
    let lines: Vec<_> = text.lines().take(20).map(String::from).collect();
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let want: Vec<_> = (0..20).map(name).collect();
    // All of them are there in any case.
    expect(sorted(lines.clone()), sorted(want.clone()));
    expect(lines, want);
}
