// SPDX-License-Identifier: GPL-2.0

//! Switching ftrace for events: names and patterns, groups, instances, and lists of processes.

use crate::harness::tests;
use crate::kit::abi;
use crate::kit::child;
use crate::kit::event::{values, write, Event};
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;
use std::fs;

tests!("consumers::control":
    set_event_takes_names_patterns_and_groups,
    an_instance_that_goes_lets_go,
    lists_of_processes_select_writers,
);

/// Appends to a tracer's `set_event`, as `>>` does. Returns whether the write succeeded.
fn set_event(tracer: &TraceInstance, text: &str) -> bool {
    use std::io::Write;
    let file = fs::OpenOptions::new()
        .append(true)
        .open(tracer.path("set_event"));
    file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()))
        .is_ok()
}

/// Waits until exactly the wanted bits are set.
#[track_caller]
fn wait_bits(events: &[Event], what: &str, want: &[bool]) {
    let bits = || events.iter().map(Event::bit).collect::<Vec<_>>();
    let came = wait::eventually(|| bits() == want);
    assert!(came, "{what:?}: bits {:?} instead of {want:?}", bits());
}

fn set_event_takes_names_patterns_and_groups() {
    let texts = ["st_cp_one u32 a", "st_cp_one2 u32 a", "st_cp_three u32 a"];
    let events = texts.map(Event::new);
    let tracer = TraceInstance::instance("st_co_pattern");
    for (text, want) in [
        ("st_cp_one", [true, false, false]),
        ("!st_cp_one", [false, false, false]),
        ("user_events:st_cp_one", [true, false, false]),
        ("!user_events:st_cp_one", [false, false, false]),
        ("*:st_cp_one2", [false, true, false]),
        ("user_events:*", [true, true, true]),
        ("!*:st_cp_three", [true, true, false]),
        ("!user_events:*", [false, false, false]),
        ("user_events:", [true, true, true]),
        ("!user_events", [false, false, false]),
        ("user_events:* !user_events:st_cp_one2", [true, false, true]),
        ("!st_cp_one\n!st_cp_three\nst_cp_one2", [false, true, false]),
        ("user_events:*\n!st_cp_one2", [true, false, true]),
    ] {
        assert!(set_event(&tracer, text), "{text:?}");
        wait_bits(&events, text, &want);
    }
    let text = tracer.text("set_event");
    let mut listed: Vec<_> = text.lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, ["user_events:st_cp_one", "user_events:st_cp_three"]);
    // The kernel matches a whole name or `*` here, no other pattern.
    assert!(!set_event(&tracer, "user_events:st_cp_*"));
    assert!(!set_event(&tracer, "user_events:st_cp_none"));
    // A pattern applies only to events that exist when it is written.
    let late = Event::new("st_cp_late u32 a");
    assert!(!late.bit());
    assert!(set_event(&tracer, "!user_events:*"));
    wait_bits(&events, "nothing", &[false; 3]);
}

fn an_instance_that_goes_lets_go() {
    let event = Event::new("st_co_goes u32 a");
    let tracer = TraceInstance::instance("st_co_goes");
    let trigger = "hist:keys=a";
    tracer.set(&event.name, "trigger", trigger).unwrap();
    event.wait_set();
    tracer.enable(&event.name);
    write(&event, [1]);
    fs::remove_dir(tracer.path("")).expect("remove an instance that is not in use");
    event.wait_clear();
    let status = fs::read_to_string(abi::STATUS).unwrap();
    assert!(status.contains("st_co_goes\n"), "{status}");
}

/// Writes until the trace has the record or, if not `wanted`, lacks it: the kernel applies the
/// lists of processes when it switches tasks.
#[track_caller]
fn wait_recorded(tracer: &TraceInstance, event: &Event, value: u32, wanted: bool) {
    wait::until("the list of processes to be looked at", || {
        std::thread::sleep(std::time::Duration::from_millis(1));
        tracer.control("trace", "");
        write(event, [value]);
        (values(tracer, event) == [value]) == wanted
    });
}

fn lists_of_processes_select_writers() {
    let event = Event::new("st_co_pids u32 a");
    let tracer = TraceInstance::instance("st_co_pids");
    tracer.enable(&event.name);
    let me = std::process::id().to_string();
    let of_a_child = |value| {
        tracer.control("trace", "");
        child::fork(|_| write(&event, [value])).join();
        values(&tracer, &event)
    };
    tracer.control("set_event_notrace_pid", &me);
    assert_eq!(tracer.text("set_event_notrace_pid").trim(), me);
    wait_recorded(&tracer, &event, 1, false);
    assert!(event.bit(), "it is still listened to");
    assert_eq!(of_a_child(2), [2]);
    tracer.control("set_event_notrace_pid", "");
    tracer.control("set_event_pid", &me);
    wait_recorded(&tracer, &event, 3, true);
    assert_eq!(of_a_child(4), []);
    tracer.control("options/event-fork", "1");
    assert_eq!(of_a_child(5), [5]);
    // A child leaves the list when its task is freed, some time after its exit.
    wait::until("the child to leave the list", || {
        tracer.text("set_event_pid").trim() == me
    });
    tracer.control("options/event-fork", "0");
    tracer.disable(&event.name);
}
