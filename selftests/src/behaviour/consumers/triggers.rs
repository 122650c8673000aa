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
    traceon_and_traceoff_follow_their_conditions,
    enable_event_and_disable_event_switch_another,
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

/// One event can have only one trigger of these two.
fn traceon_and_traceoff_follow_their_conditions() {
    let start = Event::new("st_tg_on u32 a");
    let stop = Event::new("st_tg_off u32 a; __rel_loc char[] path");
    let tracer = TraceInstance::instance("st_tg_on");
    tracer.control("tracing_on", "0");
    let _on = Trigger::set(&tracer, &start, "traceon if a == 3");
    let _off = Trigger::set(&tracer, &stop, "traceoff if path == \"/stop\"");
    [&start, &stop].map(|event| tracer.enable(&event.name));
    let is_on = || tracer.text("tracing_on").trim() == "1";
    for a in 1..=5 {
        write(&start, [a]);
        assert_eq!(is_on(), a >= 3, "after {a}");
    }
    for (a, path) in (1u32..).zip(["/a\0", "/stopped\0", "/stop\0", "/b\0"]) {
        let payload = payload(&[Fixed(&a.to_ne_bytes()), Rel(path.as_bytes())]);
        assert_eq!(stop.write(&payload), Ok(4 + payload.len()));
        assert_eq!(is_on(), a < 3, "after {path}");
    }
    for (event, want) in [(&start, [4, 5]), (&stop, [1, 2])] {
        tracer.disable(&event.name);
        let mut seen = values(&tracer, event);
        // The record that switches tracing may or may not be in the trace.
        seen.retain(|value| *value != 3);
        assert_eq!(seen, want, "{}", event.name);
    }
}

fn enable_event_and_disable_event_switch_another() {
    let start = Event::new("st_tg_start u32 a");
    let event = Event::new("st_tg_started u32 a");
    let tracer = TraceInstance::instance("st_tg_start");
    // The trigger attaches the other event unrecorded, so its bit is set before the trigger fires.
    for (verb, before, after, recorded) in [
        ("enable", "0*", "1*", &[3][..]),
        ("disable", "1*", "0*", &[1, 2]),
    ] {
        if verb == "disable" {
            tracer.enable(&event.name);
        }
        let text = format!("{verb}_event:user_events:st_tg_started:1 if a == 2");
        let trigger = Trigger::set(&tracer, &start, &text);
        event.wait_set();
        assert_eq!(tracer.get(&event.name, "enable").trim(), before, "{text}");
        write(&event, [1]);
        write(&start, [1]);
        write(&event, [2]);
        write(&start, [2]);
        write(&event, [3]);
        assert_eq!(tracer.get(&event.name, "enable").trim(), after, "{text}");
        assert!(event.bit(), "it might be switched again: {text}");
        assert_eq!(values(&tracer, &event), recorded, "{text}");
        assert_eq!(values(&tracer, &start), [], "that one is not recorded");
        drop(trigger);
        start.wait_clear();
        tracer.disable(&event.name);
        event.wait_clear();
        tracer.control("trace", "");
    }
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
