// SPDX-License-Identifier: GPL-2.0

//! What people see of user events with the tools they trace with, as the distribution ships them.
//! Each test has the tool print, and looks at that.

mod bpftrace;
mod buffers;
mod control;
mod filters;
mod perf;
mod probes;
mod together;
mod trace_cmd;
mod triggers;
mod types;

use crate::harness::Test;

/// Every test.
pub fn all() -> impl Iterator<Item = Test> {
    [
        control::TESTS,
        filters::TESTS,
        triggers::TESTS,
        buffers::TESTS,
        probes::TESTS,
        trace_cmd::TESTS,
        perf::TESTS,
        bpftrace::TESTS,
        types::TESTS,
        together::TESTS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
