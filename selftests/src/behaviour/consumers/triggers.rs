// SPDX-License-Identifier: GPL-2.0

//! Triggers on user events, with and without recording, and histograms.

use crate::harness::tests;
use crate::kit::event::Event;
use crate::kit::event::{values, write};
use crate::kit::payload::{
    payload,
    Value::{Data, Fixed, Rel},
};
use crate::kit::tracefs::{self, TraceInstance, SYNTHETIC};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

tests!("consumers::triggers":
    each_alone_sets_the_bit,
    a_snapshot_alone_sets_the_bit.needs_path(SNAPSHOT),
    traceoff_on_a_string,
    traceon_on_a_number,
    stacktrace_shows_the_way_in,
    enable_event_starts_another,
    disable_event_stops_another,
    a_trigger_with_its_event_recorded_and_filtered,
    sums_sorted_by_a_sum,
    keys_that_are_strings,
    onmatch_makes_a_synthetic_event,
    onmax_saves_other_fields,
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

/// The kernel's entry point of system calls: the last line of a stack trace.
const WAY_IN: &str = if cfg!(target_arch = "aarch64") {
    "=> el0t_64_sync\n"
} else {
    "=> entry_SYSCALL_64_after_hwframe\n"
};

fn stacktrace_shows_the_way_in() {
    let event = Event::new("st_tg_stack u32 a");
    let tracer = TraceInstance::instance("st_tg_stack");
    let _trigger = Trigger::set(&tracer, &event, "stacktrace if a == 2");
    tracer.enable(&event.name);
    write(&event, 1..=3);
    tracer.disable(&event.name);
    let text = tracer.text("trace");
    let mut rest = &text[..];
    for part in [
        "st_tg_stack: a=0x1 ",
        "st_tg_stack: a=0x2 ",
        "<stack trace>\n",
        "=> vfs_write\n",
        "=> ksys_write\n",
        WAY_IN,
        "st_tg_stack: a=0x3 ",
    ] {
        let (_, after) = rest
            .split_once(part)
            .unwrap_or_else(|| panic!("{part:?} in its place in {text}"));
        rest = after;
    }
    assert_eq!(text.matches("<stack trace>").count(), 1);
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

/// A synthetic event; removed when dropped.
struct Synthetic(&'static str);

impl Synthetic {
    fn new(name: &'static str, fields: &str) -> Synthetic {
        tracefs::append(SYNTHETIC, &format!("{name} {fields}")).expect("make a synthetic event");
        Synthetic(name)
    }
}

impl Drop for Synthetic {
    fn drop(&mut self) {
        let _ = tracefs::append(SYNTHETIC, &format!("!{}", self.0));
    }
}

fn onmatch_makes_a_synthetic_event() {
    let begin = Event::new("st_tg_begin u32 id; __rel_loc char[] path");
    let end = Event::new("st_tg_end u32 id; u16 status");
    let _synthetic = Synthetic::new("st_tg_request", "u32 id; u16 status; u64 ns; char path[]");
    let tracer = TraceInstance::instance("st_tg_onmatch");
    let first = "hist:keys=id:t0=common_timestamp,path=path";
    let first = Trigger::set(&tracer, &begin, first);
    let second = "hist:keys=id:ns=common_timestamp-$t0,path=$path:\
                  onmatch(user_events.st_tg_begin).st_tg_request(id,status,$ns,$path)";
    let second = Trigger::set(&tracer, &end, second);
    let enable = "events/synthetic/st_tg_request/enable";
    tracer.control(enable, "1");
    let started = |id: u32, path: &[u8]| {
        let payload = payload(&[Fixed(&id.to_ne_bytes()), Rel(path)]);
        assert_eq!(begin.write(&payload), Ok(4 + payload.len()));
    };
    let ended = |id: u32, status: u16| {
        let payload = payload(&[Fixed(&id.to_ne_bytes()), Fixed(&status.to_ne_bytes())]);
        assert_eq!(end.write(&payload), Ok(10));
    };
    started(7, b"/a\0");
    started(8, b"/b\0");
    // Between ticks the trace clock advances by one tick at most: it stands still if a busy host
    // delays the ticks.
    let ticks_pass = || sleep(Duration::from_millis(20));
    ticks_pass();
    ended(8, 404);
    ended(9, 500);
    ticks_pass();
    ended(7, 200);
    tracer.control(enable, "0");
    let lines = tracer.lines("st_tg_request");
    let times: Vec<u64> = lines
        .iter()
        .map(|line| line.split("ns=").nth(1).unwrap())
        .map(|rest| rest.split(' ').next().unwrap().parse().unwrap())
        .collect();
    let want: Vec<_> = [(8, 404, "/b"), (7, 200, "/a")]
        .iter()
        .zip(&times)
        .map(|((id, status, path), ns)| {
            format!("st_tg_request: id={id} status={status} ns={ns} path={path}")
        })
        .collect();
    assert_eq!(lines, want);
    assert!(times[0] > 0 && times[1] > times[0], "{times:?}");
    drop(second);
    drop(first);
    end.wait_clear();
    begin.wait_clear();
}

fn onmax_saves_other_fields() {
    let event = Event::new("st_tg_max u8 kind; u32 ns; __rel_loc char[] path");
    let tracer = TraceInstance::instance("st_tg_max");
    let text = "hist:keys=kind:ns=ns:onmax($ns).save(path,common_pid)";
    let _trigger = Trigger::set(&tracer, &event, text);
    for (ns, path) in [(5u32, "/a\0"), (9, "/slow\0"), (6, "/b\0")] {
        let payload = payload(&[Fixed(&[1]), Fixed(&ns.to_ne_bytes()), Rel(path.as_bytes())]);
        assert_eq!(event.write(&payload), Ok(4 + payload.len()));
    }
    let text = squeezed(&tracer.get(&event.name, "hist"));
    let pid = std::process::id();
    let want = format!("{{ kind: 1 }} hitcount: 3 max: 9 path: /slow common_pid: {pid}");
    assert!(text.contains(&want), "{want:?} in {text}");
}
