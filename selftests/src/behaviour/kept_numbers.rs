// SPDX-License-Identifier: GPL-2.0

//! The number of an event keeps its meaning: records are shown in full when their event is gone,
//! and no other event gets its number while there may be such records.

use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT};
use crate::kit::child;
use crate::kit::dynamic::{self, Probe};
use crate::kit::event::{wait_gone, Event};
use crate::kit::group::Group;
use crate::kit::memory::Mapping;
use crate::kit::tracefs::{self, TraceInstance, PERSISTENT};
use crate::kit::wait;

tests!("kept_numbers":
    records_of_a_program_that_has_ended_are_shown,
    a_deleted_event_is_shown,
    a_copy_of_the_buffers_is_shown.needs_path("/sys/kernel/tracing/snapshot"),
    persistent_buffers_are_as_others.needs_path(PERSISTENT),
    an_event_that_is_gone_is_in_no_listing,
    no_other_event_gets_the_number,
    the_same_event_gets_its_number_again,
    the_same_format_gets_its_number_again,
    the_same_event_of_another_group_gets_another_number,
    a_number_without_records_is_given_back,
    the_removal_of_another_event_empties_no_buffers,
    older_ones_go_with_a_reset.limit(600),
);

/// Registers an event in a process of its own, writes a record while the tracer listens, and ends.
/// Returns the event's number.
#[track_caller]
fn record_by(tracer: &TraceInstance, payload: &[u8], register: impl FnOnce() -> Event) -> u64 {
    let mut user = child::fork(|line| {
        let event = register();
        tracer.enable(&event.name);
        event.wait_set();
        assert_eq!(event.write(payload), Ok(4 + payload.len()));
        tracer.disable(&event.name);
        line.send(event.id());
    });
    let id = user.line.receive();
    user.join();
    id
}

/// The same for a description, whose event then goes.
#[track_caller]
fn record_in_child(tracer: &TraceInstance, text: &str, payload: &[u8]) -> u64 {
    let id = record_by(tracer, payload, || Event::new(text));
    wait_gone(text.split(' ').next().unwrap());
    id
}

fn records_of_a_program_that_has_ended_are_shown() {
    let tracer = TraceInstance::instance("st_kn_ended");
    let text = "st_kn_ended u32 a; __rel_loc char[] b; u8 c";
    let payload = [&7u32.to_ne_bytes()[..], &[1, 0, 4, 0], &[9], b"abc\0"].concat();
    record_in_child(&tracer, text, &payload);
    let lines = tracer.lines("st_kn_ended");
    assert_eq!(lines.len(), 1, "{}", tracer.text("trace"));
    let shown = lines[0].replace('\0', "");
    assert_eq!(shown, "st_kn_ended: a=0x7 (7) b=abc c=(9)");
    assert!(!tracer.text("trace").contains("Unknown"));
}

fn a_deleted_event_is_shown() {
    let tracer = TraceInstance::instance("st_kn_deleted");
    dynamic::run("u:st_kn_deleted u32 a").unwrap();
    record_by(&tracer, &[1; 4], || Event::new("st_kn_deleted u32 a"));
    wait::until("the event to be deleted", || {
        dynamic::run("-:st_kn_deleted").is_ok()
    });
    assert!(!tracefs::event_exists("st_kn_deleted"));
    assert_eq!(tracer.lines("st_kn_deleted").len(), 1);
}

fn a_copy_of_the_buffers_is_shown() {
    let tracer = TraceInstance::instance("st_kn_copy");
    let user = child::fork(|_| {
        let event = Event::new("st_kn_copy u32 a");
        tracer.enable(&event.name);
        event.write(&[1; 4]).unwrap();
        tracer.control("snapshot", "1");
        tracer.disable(&event.name);
    });
    user.join();
    wait_gone("st_kn_copy");
    let copy = tracer.text("snapshot");
    assert!(copy.contains("st_kn_copy: a="), "{copy}");
}

/// Buffers in memory that is reserved at boot, so that records survive a reboot.
fn persistent_buffers_are_as_others() {
    let persistent = TraceInstance::persistent();
    persistent.control("trace", "");
    let text = "st_kn_persistent u32 a; __rel_loc char[] b";
    let payload = [&7u32.to_ne_bytes()[..], &[0, 0, 4, 0], b"abc\0"].concat();
    let id = record_in_child(&persistent, text, &payload);
    let shown = ["st_kn_persistent: a=0x7 (7) b=abc"];
    let lines = || -> Vec<String> {
        let lines = persistent.lines("st_kn_persistent").into_iter();
        lines.map(|line| line.replace('\0', "")).collect()
    };
    assert_eq!(lines(), shown, "{}", persistent.text("trace"));
    // Another event gets another number, and its record is not shown as one of the first event.
    assert_ne!(record_in_child(&persistent, "st_kn_behind u8 a", &[1]), id);
    assert_eq!(lines(), shown, "{}", persistent.text("trace"));
    assert_eq!(record_in_child(&persistent, text, &payload), id);
    assert_eq!(lines(), [shown[0], shown[0]]);
    let all = persistent.text("trace");
    assert!(!all.contains("Unknown"), "{all}");
    // The raw records are as written.
    let taken = persistent.take_records(id).into_iter();
    let payloads: Vec<_> = taken.map(|record| record.payload(payload.len())).collect();
    assert_eq!(payloads, [&payload[..], &payload]);
}

fn an_event_that_is_gone_is_in_no_listing() {
    let tracer = TraceInstance::instance("st_kn_listed");
    record_in_child(&tracer, "st_kn_listed u32 a", &[1; 4]);
    let files = [
        "available_events",
        "dynamic_events",
        "user_events_status",
        "user_events_profile",
        "user_events_registrations",
    ];
    for file in files {
        let text = TraceInstance::top().text(file);
        assert!(!text.contains("st_kn_listed"), "{file}:\n{text}");
    }
    assert!(!tracer.path("events/user_events/st_kn_listed").exists());
    assert!(!tracefs::group_dir("user_events.gone").exists());
}

fn no_other_event_gets_the_number() {
    let tracer = TraceInstance::instance("st_kn_probe");
    let id = record_in_child(&tracer, "st_kn_probe u64 a; u32 b", &[0xff; 12]);
    let text = tracer.text("trace");
    let probe = Probe::new('p', "st_kn/st_kn_kprobe", "ksys_sync s=+0(%si):string");
    let event = Event::new("st_kn_other u32 a");
    assert_ne!(tracefs::event_id("st_kn/st_kn_kprobe"), id);
    assert_ne!(event.id(), id);
    assert_eq!(tracer.text("trace"), text);
    drop(probe);
    assert_eq!(tracer.text("trace"), text);
}

fn the_same_event_gets_its_number_again() {
    let tracer = TraceInstance::instance("st_kn_again");
    let id = record_in_child(&tracer, "st_kn_again u32 a", &[1; 4]);
    let other = record_in_child(&tracer, "st_kn_again u8 b", &[2]);
    assert_ne!(other, id);
    assert_eq!(record_in_child(&tracer, "st_kn_again u32 a", &[3; 4]), id);
    // A persistent event gets the same number, too.
    dynamic::run("u:st_kn_again u8 b").unwrap();
    assert_eq!(tracefs::event_id("st_kn_again"), other);
    dynamic::run("-:st_kn_again").unwrap();
    let lines = tracer.lines("st_kn_again");
    let fields: Vec<_> = lines
        .iter()
        .map(|line| line.split('=').next().unwrap())
        .collect();
    assert_eq!(
        fields,
        ["st_kn_again: a", "st_kn_again: b", "st_kn_again: a"]
    );
}

fn the_same_format_gets_its_number_again() {
    let tracer = TraceInstance::instance("st_kn_format");
    // An event of a single format is no format of its name.
    let alone = record_in_child(&tracer, "st_kn_format u32 a", &[1; 4]);
    let record = |text: &str| {
        let id = record_by(&tracer, &[1; 4], || {
            let (data, page) = (Data::open(), Mapping::kept(1));
            let index = data.register_flags(text, page.address(), 0, MULTI_FORMAT);
            Event {
                name: tracefs::formats_of("st_kn_format").remove(0),
                text: text.into(),
                data,
                page,
                index: index.unwrap(),
            }
        });
        wait::until("the format to go", || {
            tracefs::formats_of("st_kn_format").is_empty()
        });
        id
    };
    let first = record("st_kn_format u32 a");
    assert_ne!(first, alone);
    let second = record("st_kn_format u16 a; u16 b");
    assert_ne!(first, second);
    assert_eq!(record("st_kn_format u32 a"), first);
    assert_eq!(record("st_kn_format u16 a; u16 b"), second);
}

fn the_same_event_of_another_group_gets_another_number() {
    let tracer = TraceInstance::instance("st_kn_group");
    let record = |tenant: u32| {
        let group = Group::new("st_kn_group");
        let register = || Event::new_in(&group, "st_kn_tenant u32 a");
        let id = record_by(&tracer, &tenant.to_ne_bytes(), register);
        group.remove_when_idle();
        id
    };
    assert_ne!(record(1), record(2));
    let lines = tracer.lines("st_kn_tenant");
    assert_eq!(lines.len(), 2, "{}", tracer.text("trace"));
}

fn a_number_without_records_is_given_back() {
    let id = |name: &str| {
        let event = Event::new(&format!("{name} u32 a"));
        let id = event.id();
        event.end();
        wait_gone(name);
        id
    };
    assert_eq!(id("st_kn_never"), id("st_kn_never_either"));
}

fn the_removal_of_another_event_empties_no_buffers() {
    let tracer = TraceInstance::instance("st_kn_kept");
    record_in_child(&tracer, "st_kn_kept u32 a", &[1; 4]);
    // The probe was never enabled here. At its removal the trace core resets only marked instances.
    drop(Probe::new('p', "st_kn/st_kn_removed", "ksys_sync"));
    dynamic::run("u:st_kn_unused u32 a").unwrap();
    dynamic::run("-:st_kn_unused").unwrap();
    assert_eq!(tracer.lines("st_kn_kept").len(), 1);
}

/// The most events that are kept.
const MAX_KEPT: usize = 4096;

/// Records events in the instance, each once, until its buffers are reset. Calls `between` before
/// each batch of them.
#[track_caller]
fn record_until_reset(tracer: &TraceInstance, round: usize, mut between: impl FnMut()) {
    const BATCH: usize = 300;
    record_in_child(tracer, "st_kn_oldest u32 a", &[1; 4]);
    for first in (0..=MAX_KEPT).step_by(BATCH) {
        between();
        assert_eq!(tracer.lines("st_kn_oldest").len(), 1, "after {first}");
        let user = child::fork(|_| {
            let (data, page) = (Data::open(), Mapping::kept(1));
            for number in 0..BATCH {
                let text = format!("st_kn_many_{round}_{} u32 a", first + number);
                let address = page.address() + 4 * number as u64;
                data.register_text(&text, address, 0).unwrap();
            }
            tracer.control("events/user_events/enable", "1");
            tracer.control("events/user_events/enable", "0");
        });
        user.join();
        let group = tracefs::group_dir(tracefs::GROUP);
        wait::until("the events to go", || {
            tracefs::names_starting_with("st_kn_many", &group).is_empty()
        });
        if tracer.lines("st_kn_oldest").is_empty() {
            let left = tracer.text("trace");
            assert!(!left.contains("Unknown"), "{left}");
            return;
        }
    }
    panic!("more than {MAX_KEPT} events are kept");
}

fn older_ones_go_with_a_reset() {
    let tracer = TraceInstance::instance("st_kn_many");
    // Events kept by other tests are dropped first; their instances are gone.
    for round in 0..2 {
        record_until_reset(&tracer, round, || ());
    }
    // Newer events stay, and so do the buffers with their records; and those of a group with few.
    let group = Group::new("st_kn_few");
    let of_group = TraceInstance::instance("st_kn_few");
    let user = child::fork(|_| {
        let event = Event::new_in(&group, "st_kn_tenant u32 a");
        of_group.enable(&event.name);
        event.write(&[1; 4]).unwrap();
        of_group.disable(&event.name);
    });
    user.join();
    let beside = TraceInstance::instance("st_kn_beside");
    let mut records = 0;
    record_until_reset(&tracer, 2, || {
        record_in_child(&beside, "st_kn_newest u32 a", &[1; 4]);
        records += 1;
    });
    assert_eq!(beside.lines("st_kn_newest").len(), records);
    assert_eq!(of_group.lines("st_kn_tenant").len(), 1);
    group.remove_when_idle();
}
