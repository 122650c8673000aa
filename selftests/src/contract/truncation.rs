// SPDX-License-Identifier: GPL-2.0

//! Opening `dynamic_events` with O_TRUNC, beside events of other kinds. These checks require that
//! no other dynamic events exist.

use super::check::{expect, Check, Row};
use crate::kit::abi::{Data, MULTI_FORMAT};
use crate::kit::dynamic::{self, kinds_there, make_all_kinds, no_kind_is_left, OF_EACH_KIND};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::status::Status;
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;
use std::fs;

const TRUNCATION: Row = Row::new(
    "truncation",
    "dynamic_events: delete. An event in use → EBUSY, and none is deleted",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        TRUNCATION.scenarios(&[("deletes_idle_events_of_all_kinds", idle_kinds_go)]),
        TRUNCATION.all(
            busy_event,
            (),
            &[
                ("beside_a_busy_event_keeps_all_kinds", None),
                ("beside_one_that_is_not_persistent_keeps_all_kinds", Some(0)),
                ("beside_a_busy_format_keeps_all_kinds", Some(MULTI_FORMAT)),
            ],
        ),
        TRUNCATION.cases(
            busy_other,
            &[
                ("beside_a_busy_kprobe_keeps_ours", 0, [true, true, true]),
                // The synthetic event is found to be busy only in its turn, after the kprobe is
                // deleted.
                (
                    "beside_a_busy_synthetic_event_keeps_ours",
                    1,
                    [false, true, true],
                ),
            ],
        ),
    ]
}

/// Truncates the file once no event is in use.
#[track_caller]
fn truncate_when_idle() {
    wait::until("the file to be truncated", || dynamic::truncate().is_ok());
    no_kind_is_left();
}

fn idle_kinds_go() {
    for _ in 0..3 {
        make_all_kinds();
        expect(kinds_there(), [true; 3]);
        expect(dynamic::truncate(), Ok(()));
        no_kind_is_left();
    }
    // Opening without O_TRUNC deletes nothing.
    make_all_kinds();
    let lines = dynamic::lines();
    let mut options = fs::OpenOptions::new();
    options.append(true).open(dynamic::path()).unwrap();
    expect(dynamic::lines(), lines);
    expect(dynamic::truncate(), Ok(()));
    no_kind_is_left();
}

/// With an event in use: one of the three, or another one with these flags.
fn busy_event(flags: Option<u16>, (): ()) {
    make_all_kinds();
    let (data, page) = (Data::open(), Mapping::kept(1));
    let text = match flags {
        Some(_) => "st_trunc_other u32 a",
        None => "st_trunc_ours u32 a",
    };
    let got = data.register_flags(text, page.address(), 0, flags.unwrap_or(0));
    expect(got, Ok(0));
    let lines = dynamic::lines();
    expect(dynamic::truncate(), Err(Errno::EBUSY));
    expect(dynamic::lines(), lines);
    expect(kinds_there(), [true; 3]);
    expect(data.unregister_bit(page.address(), 0), Ok(()));
    drop(data);
    truncate_when_idle();
}

/// With an event of another kind in use; `want` are the kinds left.
fn busy_other(kind: usize, want: [bool; 3]) {
    make_all_kinds();
    let top = TraceInstance::top();
    top.enable(OF_EACH_KIND[kind]);
    let got = dynamic::truncate();
    let left = kinds_there();
    expect(got, Err(Errno::EBUSY));
    expect(left, want);
    expect(Status::now().names(), vec![OF_EACH_KIND[2]]);
    // The user event still works.
    Event::new("st_trunc_ours u32 a").end();
    top.disable(OF_EACH_KIND[kind]);
    truncate_when_idle();
}
