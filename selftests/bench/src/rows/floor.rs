// SPDX-License-Identifier: GPL-2.0

//! Costs of the trace core for a record and for enabling an event, common to both implementations.
//! They are measured on events without user_events.

use super::tell;
use super::toggling::toggle_and;
use crate::attach::Perf;
use crate::events::{set, Switch, TRACING};
use crate::{count, sys};
use std::fs;

const TIMES: usize = 501;

/// An event of the kernel with five numbers, written by a system call that does nothing else.
const UNKNOWN: &str = "task/task_prctl_unknown";

const SYNTHETIC: &str = "synthetic/bench_core";

/// The median cost of the call; `after` runs after each, uncounted.
fn call_then(after: impl FnMut()) -> u64 {
    count::median_then(
        TIMES,
        || assert_eq!(sys::unknown_prctl(), -1, "an unknown prctl"),
        after,
    )
}

/// Measures records: the cost of the call with a record minus its cost without one.
pub fn records() {
    let nothing = call_then(|| ());
    let tell = |key: &str, count: u64| {
        let beyond = count.checked_sub(nothing).filter(|beyond| *beyond > 100);
        let beyond = beyond.unwrap_or_else(|| panic!("{key}: {count} after {nothing}: no record?"));
        tell(&format!("core.{key}"), beyond);
    };
    let ftrace = Switch::new(UNKNOWN);
    ftrace.turn(true);
    tell("ftrace", call_then(|| ()));
    set(UNKNOWN, "filter", "option == 77");
    tell("filter", call_then(|| ()));
    set(UNKNOWN, "filter", "0");
    let perf = Perf::sample(UNKNOWN);
    tell("both", call_then(|| perf.skip()));
    ftrace.turn(false);
    tell("perf", call_then(|| perf.skip()));
    perf.end();
    let program = Perf::with_program(UNKNOWN);
    tell("bpf", call_then(|| ()));
    drop(program);
    set(UNKNOWN, "trigger", "hist:keys=option");
    tell("hist", call_then(|| ()));
    set(UNKNOWN, "trigger", "!hist:keys=option");
}

/// Waits until no event of earlier rows is enabled: the first enabled event rewrites code of the
/// scheduler, which costs more.
fn wait_for_quiet() {
    let enabled =
        || fs::read_to_string(format!("{TRACING}/set_event")).expect("the enabled events");
    for _ in 0..1000 {
        if enabled().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("still enabled: {}", enabled());
}

/// Enabling and disabling an event that brings its own tracepoint, like those of user_events.
pub fn toggle() {
    wait_for_quiet();
    count::settle();
    let synthetic_events = format!("{TRACING}/synthetic_events");
    fs::write(&synthetic_events, "bench_core u32 a; u32 b; u32 c\n").expect("a synthetic event");
    tell("core.toggle", toggle_and(SYNTHETIC, |_| ()));
    // Truncation deletes the events.
    fs::write(&synthetic_events, "").expect("remove the synthetic event");
}
