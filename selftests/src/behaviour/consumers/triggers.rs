// SPDX-License-Identifier: GPL-2.0

//! Triggers on user events, with and without recording, and histograms.

use crate::harness::tests;
use crate::kit::event::{values, write, Event};
use crate::kit::payload::{
    payload,
    Value::{Data, Fixed, Rel},
};
use crate::kit::tracefs::TraceInstance;
use std::fs;

tests!("consumers::triggers":
    each_alone_sets_the_bit,
    a_snapshot_alone_sets_the_bit.needs_path(SNAPSHOT),
    traceoff_on_a_string,
    traceon_on_a_number,
    enable_event_starts_another,
    disable_event_stops_another,
    a_trigger_with_its_event_recorded_and_filtered,
    sums_sorted_by_a_sum,
    keys_that_are_strings,
);

/// A trigger of an event in an instance; removed when dropped.
struct Trigger<'a> {
    tracer: &'a TraceInstance,
    event: &'a Event,
    text: String,
}

impl<'a> Trigger<'a> {
    #[track_caller]
    fn set(tracer: &'a TraceInstance, event: &'a Event, text: &str) -> Trigger<'a> {
        if let Err(errno) = tracer.set(&event.name, "trigger", text) {
            let log = fs::read_to_string(tracer.path("error_log")).unwrap_or_default();
            panic!("{text:?}: {errno:?} {}", log.replace('\n', " | "));
        }
        event.wait_set();
        Trigger {
            tracer,
            event,
            text: text.into(),
        }
    }

    /// The lines of the histogram that are entries or sums, their white space squeezed.
    fn hist(&self) -> Vec<String> {
        let text = self.tracer.get(&self.event.name, "hist");
        let lines = text.lines().filter(|line| line.starts_with('{'));
        lines.map(squeezed).collect()
    }
}

impl Drop for Trigger<'_> {
    fn drop(&mut self) {
        let text = format!("!{}", self.text);
        let _ = self.tracer.set(&self.event.name, "trigger", &text);
    }
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

const SNAPSHOT: &str = "/sys/kernel/tracing/snapshot";

fn a_snapshot_alone_sets_the_bit() {
    alone_set_the_bit(&["snapshot"]);
}

fn each_alone_sets_the_bit() {
    let _other = Event::new("st_tg_other u32 a");
    alone_set_the_bit(&[
        "traceon",
        "traceoff",
        "traceoff:5 if a > 3",
        "stacktrace",
        "enable_event:user_events:st_tg_other",
        "disable_event:user_events:st_tg_other",
        "hist:keys=a",
        "hist:keys=a:vals=a if a > 3",
    ]);
}

fn alone_set_the_bit(triggers: &[&str]) {
    let event = Event::new("st_tg_alone u32 a");
    let tracer = TraceInstance::instance("st_tg_alone");
    for text in triggers {
        let trigger = Trigger::set(&tracer, &event, text);
        let text = tracer.get(&event.name, "enable");
        assert_eq!(text.trim(), "0*", "attached, and nothing recorded");
        write(&event, [1]);
        assert_eq!(values(&tracer, &event), []);
        drop(trigger);
        event.wait_clear();
    }
    assert_eq!(tracer.get(&event.name, "enable").trim(), "0");
}

fn traceoff_on_a_string() {
    let event = Event::new("st_tg_off u32 a; __rel_loc char[] path");
    let tracer = TraceInstance::instance("st_tg_off");
    let _trigger = Trigger::set(&tracer, &event, "traceoff if path == \"/stop\"");
    tracer.enable(&event.name);
    for (a, path) in [
        (1u32, "/a\0"),
        (2, "/stopped\0"),
        (3, "/stop\0"),
        (4, "/b\0"),
    ] {
        let payload = payload(&[Fixed(&a.to_ne_bytes()), Rel(path.as_bytes())]);
        assert_eq!(event.write(&payload), Ok(4 + payload.len()));
    }
    tracer.disable(&event.name);
    assert_eq!(tracer.text("tracing_on").trim(), "0");
    let lines = tracer.lines(&event.name);
    let want = [
        "st_tg_off: a=0x1 (1) path=/a",
        "st_tg_off: a=0x2 (2) path=/stopped",
        "st_tg_off: a=0x3 (3) path=/stop",
    ];
    // The record that switches tracing off may or may not be in the trace.
    assert!(lines == want || lines == want[..2], "{lines:?}");
}

fn traceon_on_a_number() {
    let event = Event::new("st_tg_on u32 a");
    let tracer = TraceInstance::instance("st_tg_on");
    tracer.control("tracing_on", "0");
    let _trigger = Trigger::set(&tracer, &event, "traceon if a == 3");
    tracer.enable(&event.name);
    write(&event, 1..=5);
    tracer.disable(&event.name);
    assert_eq!(tracer.text("tracing_on").trim(), "1");
    let values = values(&tracer, &event);
    assert!(values == [3, 4, 5] || values == [4, 5], "{values:?}");
}

fn enable_event_starts_another() {
    let start = Event::new("st_tg_start u32 a");
    let event = Event::new("st_tg_started u32 a");
    let tracer = TraceInstance::instance("st_tg_start");
    let text = "enable_event:user_events:st_tg_started:1 if a == 2";
    let trigger = Trigger::set(&tracer, &start, text);
    // The trigger attaches the event unrecorded, so the bit is set before the trigger fires.
    event.wait_set();
    assert_eq!(tracer.get(&event.name, "enable").trim(), "0*");
    write(&event, [1]);
    write(&start, [1]);
    write(&event, [2]);
    write(&start, [2]);
    write(&event, [3]);
    assert_eq!(tracer.get(&event.name, "enable").trim(), "1*");
    assert_eq!(values(&tracer, &event), [3]);
    assert_eq!(values(&tracer, &start), [], "that one is not recorded");
    drop(trigger);
    start.wait_clear();
    tracer.disable(&event.name);
    event.wait_clear();
}

fn disable_event_stops_another() {
    let stop = Event::new("st_tg_stop u32 a");
    let event = Event::new("st_tg_stopped u32 a");
    let tracer = TraceInstance::instance("st_tg_stop");
    tracer.enable(&event.name);
    let text = "disable_event:user_events:st_tg_stopped";
    let trigger = Trigger::set(&tracer, &stop, text);
    write(&event, [1]);
    write(&stop, [1]);
    assert_eq!(tracer.get(&event.name, "enable").trim(), "0*");
    assert!(event.bit(), "it might be switched on again");
    write(&event, [2]);
    assert_eq!(values(&tracer, &event), [1]);
    drop(trigger);
    stop.wait_clear();
    event.wait_clear();
}

fn a_trigger_with_its_event_recorded_and_filtered() {
    let event = Event::new("st_tg_both u32 a");
    let tracer = TraceInstance::instance("st_tg_both");
    let trigger = Trigger::set(&tracer, &event, "hist:keys=a:sort=a if a < 3");
    tracer.set(&event.name, "filter", "a > 1").unwrap();
    tracer.enable(&event.name);
    assert_eq!(tracer.get(&event.name, "enable").trim(), "1*");
    write(&event, 1..=4);
    assert_eq!(values(&tracer, &event), [2, 3, 4]);
    let want = ["{ a: 1 } hitcount: 1", "{ a: 2 } hitcount: 1"];
    assert_eq!(trigger.hist(), want);
    tracer.disable(&event.name);
    assert!(event.bit(), "the trigger is still there");
    write(&event, [1]);
    assert!(trigger.hist().contains(&"{ a: 1 } hitcount: 2".into()));
    drop(trigger);
    event.wait_clear();
}

fn sums_sorted_by_a_sum() {
    let event = Event::new("st_tg_sums u16 status; u64 ns; s32 delta");
    let tracer = TraceInstance::instance("st_tg_sums");
    let text = "hist:keys=status:vals=hitcount,ns,delta:sort=ns.descending";
    let trigger = Trigger::set(&tracer, &event, text);
    for (status, ns, delta) in [
        (200u16, 10u64, 5i32),
        (404, 7, 1),
        (200, 5, 6),
        (500, 1 << 40, 2),
    ] {
        let payload = payload(&[
            Fixed(&status.to_ne_bytes()),
            Fixed(&ns.to_ne_bytes()),
            Fixed(&delta.to_ne_bytes()),
        ]);
        assert_eq!(event.write(&payload), Ok(18));
    }
    let want = [
        "{ status: 500 } hitcount: 1 ns: 1099511627776 delta: 2",
        "{ status: 200 } hitcount: 2 ns: 15 delta: 11",
        "{ status: 404 } hitcount: 1 ns: 7 delta: 1",
    ];
    assert_eq!(trigger.hist(), want);
    let totals = tracer.get(&event.name, "hist");
    for want in ["Hits: 4", "Entries: 3", "Dropped: 0"] {
        assert!(totals.contains(want), "{want} in {totals}");
    }
}

fn keys_that_are_strings() {
    let event = Event::new("st_tg_strings char[8] a; __data_loc char[] b; __rel_loc char[] c");
    let tracer = TraceInstance::instance("st_tg_strings");
    for key in ["a", "b", "c"] {
        let trigger = Trigger::set(&tracer, &event, &format!("hist:keys={key}"));
        for text in [&b"GET\0"[..], b"POST\0", b"GET\0"] {
            let mut field = text.to_vec();
            field.resize(8, 0);
            let payload = payload(&[Fixed(&field), Data(text), Rel(text)]);
            assert_eq!(event.write(&payload), Ok(4 + payload.len()));
        }
        let want = [
            format!("{{ {key}: POST }} hitcount: 1"),
            format!("{{ {key}: GET }} hitcount: 2"),
        ];
        assert_eq!(trigger.hist(), want);
    }
}
