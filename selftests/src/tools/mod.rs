// SPDX-License-Identifier: GPL-2.0

//! What people see of user events with the tools they trace with, as the distribution ships them.
//! Each test has the tool print, and looks at that.

mod bpftrace;
mod perf;
mod perf_report;
mod perf_stat;
mod together;
mod trace_cmd;
mod types;

use crate::harness::Test;
use crate::kit::event::Event;
use crate::kit::tracefs::Tracer;

/// Every test.
pub fn all() -> impl Iterator<Item = Test> {
    [
        trace_cmd::TESTS,
        perf::TESTS,
        perf_report::TESTS,
        perf_stat::TESTS,
        bpftrace::TESTS,
        types::TESTS,
        together::TESTS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Writes a record for each value of an event's only field, four bytes.
pub fn write(event: &Event, values: impl IntoIterator<Item = u32>) {
    for value in values {
        assert_eq!(event.write(&value.to_ne_bytes()), Ok(8));
    }
}

/// The event's values of `a`, its only field, in the trace.
pub fn values(tracer: &Tracer, event: &Event) -> Vec<u32> {
    let lines = tracer.lines(&event.name).into_iter();
    lines
        .map(|line| line.split(['(', ')']).nth(1).unwrap().parse().unwrap())
        .collect()
}
