// SPDX-License-Identifier: GPL-2.0

//! The tracing tools of the distribution, with user events. Each test checks the output of a tool.

pub mod bpftrace;
mod bpftrace_next;
mod bpftrace_reads;
mod large_records;
mod names;
mod perf;
mod together;
mod trace_cmd;
mod types;

use crate::harness::Test;

/// Every test.
pub fn all() -> impl Iterator<Item = Test> {
    [
        trace_cmd::TESTS,
        perf::TESTS,
        names::TESTS,
        large_records::TESTS,
        bpftrace::TESTS,
        bpftrace_reads::TESTS,
        bpftrace_next::TESTS,
        types::TESTS,
        together::TESTS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
