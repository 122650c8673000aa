// SPDX-License-Identifier: GPL-2.0

//! Opening `dynamic_events` with O_TRUNC, which deletes the dynamic events of all kinds, or none.

use crate::contract::delete_unused;
use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT};
use crate::kit::child;
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{stays, wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::rows::Rows;
use crate::kit::status::Status;
use crate::kit::tracefs::{self, Tracer};
use crate::kit::wait;
use std::fs;

tests!("truncate":
    idle_events_of_all_kinds_go,
    row_a_busy_event_keeps_all_kinds,
    an_event_that_is_referred_to_keeps_the_older_ones,
    row_a_busy_event_of_another_kind_keeps_ours,
    persistent_ones_need_the_capability,
    one_that_is_about_to_go_is_not_in_the_way,
    lines_of_each_kind_delete_that_kind_only,
);

const OURS: &str = "st_trunc_ours";
/// A kprobe event that is not attached anywhere, and a synthetic event.
const KPROBE: &str = "p:st_kinds/st_trunc_probe vfs_fsync";
const SYNTHETIC: &str = "s:st_trunc_synthetic u64 delay; pid_t pid";

/// Makes one event of each kind. Panics if the kernel lacks a kind.
fn make_all_kinds() {
    assert_eq!(dynamic::lines(), [""; 0], "events of another test");
    for line in [KPROBE, SYNTHETIC, "u:st_trunc_ours u32 a"] {
        dynamic::run(line).unwrap_or_else(|errno| panic!("{line}: {errno:?}"));
    }
    assert_eq!(dynamic::lines().len(), 3);
}

/// What the trace core shows of them: the events' directories.
fn kinds_there() -> [bool; 3] {
    [
        tracefs::event_exists("st_kinds/st_trunc_probe"),
        tracefs::event_exists("synthetic/st_trunc_synthetic"),
        tracefs::event_exists(OURS),
    ]
}

#[track_caller]
fn nothing_is_left() {
    assert_eq!(kinds_there(), [false; 3]);
    assert_eq!(dynamic::lines(), [""; 0]);
    assert_eq!(Status::now().active, 0);
}

fn idle_events_of_all_kinds_go() {
    for _ in 0..3 {
        make_all_kinds();
        assert_eq!(kinds_there(), [true; 3]);
        dynamic::truncate().unwrap();
        nothing_is_left();
    }
    // Opening it without O_TRUNC, for reading or writing, deletes nothing.
    make_all_kinds();
    let lines = dynamic::lines();
    let path = format!("{}/dynamic_events", tracefs::ROOT);
    fs::OpenOptions::new().append(true).open(path).unwrap();
    assert_eq!(dynamic::lines(), lines);
    dynamic::truncate().unwrap();
    nothing_is_left();
}

fn row_a_busy_event_keeps_all_kinds() {
    make_all_kinds();
    let lines = dynamic::lines();
    let mut rows = Rows::new();
    let mut busy = |by: &str| {
        let row = "truncation with a busy event → EBUSY, none is deleted";
        rows.fails(row, by, dynamic::truncate(), Errno::EBUSY);
        rows.gives(row, by, dynamic::lines(), lines.clone());
        rows.gives(row, by, kinds_there(), [true; 3]);
    };
    let event = Event::new("st_trunc_ours u32 a");
    busy("registered");
    event.unregister().unwrap();
    busy("a file");
    let Event { data, page, .. } = event;
    data.register_text("st_trunc_ours u32 a", page.address(), 0)
        .unwrap();
    drop(data);
    busy("a registration");
    Data::open().unregister_bit(page.address(), 0).unwrap();
    for tracer in [Tracer::top(), Tracer::instance(OURS)] {
        tracer.enable(OURS);
        busy("ftrace");
        tracer.disable(OURS);
    }
    let perf = Perf::open(tracefs::event_id(OURS), SELF, ANY_CPU).unwrap();
    busy("perf");
    drop(perf);
    rows.finish();
    dynamic::truncate().unwrap();
    nothing_is_left();

    // Nor is one spared that is not persistent, or one of several formats.
    for flags in [0, MULTI_FORMAT] {
        make_all_kinds();
        let data = Data::open();
        let page = Mapping::kept(1);
        data.register_flags("st_trunc_other u32 a", page.address(), 0, flags)
            .unwrap();
        assert_eq!(dynamic::truncate(), Err(Errno::EBUSY));
        assert_eq!(dynamic::lines().len(), 4);
        data.unregister_bit(page.address(), 0).unwrap();
        drop(data);
        // It may take a moment to be unused.
        wait::until("the file to be truncated", || dynamic::truncate().is_ok());
        nothing_is_left();
    }
}

fn an_event_that_is_referred_to_keeps_the_older_ones() {
    make_all_kinds();
    let probed = "st_trunc_probed";
    dynamic::run(&format!("u:{probed} u32 a")).unwrap();
    // Not attached to the event, as it is not enabled, but the event cannot go before it.
    let probe = format!("e:st_kinds/st_trunc_eprobe user_events/{probed} a=$a:u32");
    dynamic::run(&probe).unwrap();
    let lines = dynamic::lines();
    assert_eq!(lines.len(), 5);
    assert_eq!(dynamic::truncate(), Err(Errno::EBUSY));
    assert_eq!(dynamic::lines(), lines);
    assert_eq!(kinds_there(), [true; 3]);
    dynamic::run("-:st_kinds/st_trunc_eprobe").unwrap();
    dynamic::truncate().unwrap();
    nothing_is_left();
}

fn row_a_busy_event_of_another_kind_keeps_ours() {
    // The synthetic event is found to be busy only when it is its turn, after the probe's.
    for (other, left) in [
        ("st_kinds/st_trunc_probe", [true, true, true]),
        ("synthetic/st_trunc_synthetic", [false, true, true]),
    ] {
        make_all_kinds();
        let top = Tracer::top();
        top.enable(other);
        assert_eq!(dynamic::truncate(), Err(Errno::EBUSY), "{other}");
        assert_eq!(kinds_there(), left, "{other}");
        assert_eq!(Status::now().names(), [OURS]);
        // Ours is as good as before.
        let event = Event::new("st_trunc_ours u32 a");
        event.unregister().unwrap();
        drop(event);
        top.disable(other);
        delete_unused(dynamic::truncate).unwrap();
        nothing_is_left();
    }
}

fn persistent_ones_need_the_capability() {
    dynamic::run("u:st_trunc_ours u32 a").unwrap();
    let child = child::fork(|_| {
        os::keep_capabilities(0);
        assert_eq!(dynamic::truncate(), Err(Errno::EPERM));
        assert!(tracefs::event_exists(OURS));
    });
    child.join();
    stays(OURS);
    dynamic::truncate().unwrap();
    nothing_is_left();
}

fn one_that_is_about_to_go_is_not_in_the_way() {
    for _ in 0..30 {
        let event = Event::new("st_trunc_ours u32 a");
        event.unregister().unwrap();
        drop(event);
        dynamic::truncate().unwrap();
        nothing_is_left();
    }
    // Nor is the end of a process, once it has been noticed.
    let child = child::fork(|_| drop(Event::new("st_trunc_ours u32 a")));
    child.join();
    wait::until("the file to be truncated", || dynamic::truncate().is_ok());
    wait_gone(OURS);
}

fn lines_of_each_kind_delete_that_kind_only() {
    make_all_kinds();
    dynamic::run("-:st_kinds/st_trunc_probe").unwrap();
    assert_eq!(kinds_there(), [false, true, true]);
    dynamic::run("-:synthetic/st_trunc_synthetic").unwrap();
    assert_eq!(kinds_there(), [false, false, true]);
    // Events of one name and of different kinds are told apart by their groups.
    dynamic::run("p:st_kinds/st_trunc_ours vfs_fsync").unwrap();
    dynamic::run("-:user_events/st_trunc_ours").unwrap();
    assert!(!tracefs::event_exists(OURS));
    assert!(tracefs::event_exists("st_kinds/st_trunc_ours"));
    // And without a group they are not.
    dynamic::run("u:st_trunc_ours u32 a").unwrap();
    dynamic::run("-:st_trunc_ours").unwrap();
    assert!(!tracefs::event_exists("st_kinds/st_trunc_ours"));
    nothing_is_left();
}
