// SPDX-License-Identifier: GPL-2.0

//! The text of `user_events_status`. These tests expect no events but their own.

use crate::harness::tests;
use crate::kit::abi::{Data, STATUS};
use crate::kit::event::{wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::tracefs::Tracer;
use std::fs::{self, File};
use std::io::Read;

tests!("status":
    of_no_events,
    of_an_idle_event,
    of_an_event_used_by_ftrace,
    of_an_event_used_by_perf,
    of_an_event_used_by_both,
    totals_of_many_events,
    can_be_read_in_small_pieces,
);

fn status() -> String {
    fs::read_to_string(STATUS).expect("read the status file")
}

fn of_no_events() {
    assert_eq!(status(), "\nActive: 0\nBusy: 0\n");
}

fn of_an_idle_event() {
    let event = Event::new("st_status_idle u32 a; char[8] b");
    assert_eq!(status(), "st_status_idle\n\nActive: 1\nBusy: 0\n");
    event.unregister().unwrap();
    assert_eq!(
        status(),
        "st_status_idle\n\nActive: 1\nBusy: 0\n",
        "the file holds it"
    );
    drop(event);
    wait_gone("st_status_idle");
    assert_eq!(status(), "\nActive: 0\nBusy: 0\n");
}

fn of_an_event_used_by_ftrace() {
    let event = Event::new("st_status_ftrace u32 a");
    for tracer in [Tracer::top(), Tracer::instance("st_status_ftrace")] {
        tracer.enable(&event.name);
        assert_eq!(
            status(),
            "st_status_ftrace # Used by ftrace\n\nActive: 1\nBusy: 1\n"
        );
        tracer.disable(&event.name);
        assert_eq!(status(), "st_status_ftrace\n\nActive: 1\nBusy: 0\n");
    }
}

fn of_an_event_used_by_perf() {
    let event = Event::new("st_status_perf u32 a");
    let perf = Perf::open(event.id(), SELF, ANY_CPU).unwrap();
    assert_eq!(
        status(),
        "st_status_perf # Used by perf\n\nActive: 1\nBusy: 1\n"
    );
    drop(perf);
    assert_eq!(status(), "st_status_perf\n\nActive: 1\nBusy: 0\n");
}

fn of_an_event_used_by_both() {
    let event = Event::new("st_status_both u32 a");
    let perf = Perf::open(event.id(), SELF, ANY_CPU).unwrap();
    let top = Tracer::top();
    top.enable(&event.name);
    assert_eq!(
        status(),
        "st_status_both # Used by ftrace perf\n\nActive: 1\nBusy: 1\n"
    );
    drop(perf);
    assert_eq!(
        status(),
        "st_status_both # Used by ftrace\n\nActive: 1\nBusy: 1\n"
    );
    top.disable(&event.name);
    assert_eq!(status(), "st_status_both\n\nActive: 1\nBusy: 0\n");
}

/// Makes so many events, named by `name`.
fn make(count: u64, name: impl Fn(u64) -> String) -> (Data, Mapping) {
    let data = Data::open();
    let page = Mapping::new(1);
    for i in 0..count {
        data.register_text(&format!("{} u32 a", name(i)), page.address() + 4 * i, 0)
            .unwrap();
    }
    (data, page)
}

fn totals_of_many_events() {
    let name = |i| format!("st_status_many{i}");
    let _made = make(30, name);
    let tracer = Tracer::instance("st_status_many");
    for i in [3, 4, 29] {
        tracer.enable(&name(i));
    }
    let text = status();
    let mut lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.split_off(30), ["", "Active: 30", "Busy: 3"]);
    let mut want: Vec<_> = (0..30)
        .map(|i| {
            name(i)
                + if [3, 4, 29].contains(&i) {
                    " # Used by ftrace"
                } else {
                    ""
                }
        })
        .collect();
    // The order is another row's affair.
    want.sort();
    lines.sort();
    assert_eq!(lines, want);
    for i in [3, 4, 29] {
        tracer.disable(&name(i));
    }
}

fn can_be_read_in_small_pieces() {
    // More than a page of text.
    let name = |i| format!("st_status_{i:0>60}");
    let _made = make(100, name);
    let whole = status();
    assert!(whole.len() > 6000);
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
    assert_eq!(String::from_utf8(text).unwrap(), whole);
}
