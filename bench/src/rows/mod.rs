// SPDX-License-Identifier: GPL-2.0

//! What is measured.

mod memory;
pub mod processes;
pub mod registering;
pub mod toggling;
pub mod writers;
pub mod writing;

/// All groups that need user_events. Each runs in a process of its own.
pub const GROUPS: &[(&str, fn())] = &[
    ("memory", registering::memory),
    ("nothing", writing::nothing),
    ("numbers", writing::numbers),
    ("strings", writing::strings),
    ("instead", writing::instead),
    ("many", registering::first_and_last),
    ("last", registering::close_of_the_last_user),
    ("toggle", toggling::alone_and_in_a_crowd),
    ("far", registering::the_last_of_very_many),
];

/// The group that goes by the clock, on a machine of its own, which counts nothing.
pub const BY_THE_CLOCK: (&str, fn()) = ("writers", writers::at_once);

/// What our figure of a row is to keep to.
#[derive(Clone, Copy)]
pub enum Limit {
    /// So many times C's figure.
    OfC(f64),
    /// So many times our own figure of another row.
    OfOurs(&'static str, f64),
}

/// One row of the table.
pub struct Row {
    pub key: &'static str,
    pub text: &'static str,
    pub limits: &'static [Limit],
}

const fn row(key: &'static str, text: &'static str, limits: &'static [Limit]) -> Row {
    Row { key, text, limits }
}

/// Tells what was counted for a row.
pub fn tell(key: &str, count: u64) {
    println!("bench {key} {count}");
    sys::mark_row();
}

use crate::sys;
use Limit::{OfC, OfOurs};

/// The table.
pub const ROWS: &[Row] = &[
    row("call", "a system call that does nothing", &[]),
    row("null.write", "write of 16 bytes to /dev/null", &[]),
    row("null.writev", "writev of 16 bytes to /dev/null", &[]),
    row("disabled.write", "write to a disabled event", &[OfC(0.85)]),
    row(
        "disabled.writev",
        "writev to a disabled event",
        &[OfC(0.85)],
    ),
    row(
        "ftrace.write",
        "write of 12 bytes, ftrace attached",
        &[OfC(0.73), OfOurs("uprobe", 0.42)],
    ),
    row("ftrace.writev", "writev of 12 bytes, ftrace", &[OfC(0.80)]),
    row(
        "ftrace.100",
        "write of a 100-byte string, ftrace",
        &[OfC(0.78)],
    ),
    row("ftrace.1000", "write of a 1000-byte string, ftrace", &[]),
    row("ftrace.4000", "write of a 4000-byte string, ftrace", &[]),
    row(
        "filter.write",
        "write of 12 bytes, ftrace, a filter drops it",
        &[],
    ),
    row("hist.write", "write of 12 bytes, a hist trigger", &[]),
    row("perf.write", "write of 12 bytes, perf", &[]),
    row("perf.writev", "writev of 12 bytes, perf", &[OfC(0.80)]),
    row("perf.100", "write of a 100-byte string, perf", &[]),
    row("perf.1000", "write of a 1000-byte string, perf", &[]),
    row("perf.4000", "write of a 4000-byte string, perf", &[]),
    row(
        "both.writev",
        "writev of 12 bytes, ftrace and perf",
        &[OfC(0.75)],
    ),
    row(
        "bpf.write",
        "write of 12 bytes, an eBPF program (C never runs it)",
        &[],
    ),
    row("trace_marker", "instead: trace_marker, 16 bytes", &[]),
    row(
        "trace_marker_raw",
        "instead: trace_marker_raw, 16 bytes",
        &[],
    ),
    row("uprobe", "instead: a uprobe with one argument, ftrace", &[]),
    row(
        "register.100",
        "register an event and a bit, mean of the first 100",
        &[],
    ),
    row("register.400", "... of the first 400", &[]),
    row("register.1600", "... of the first 1600", &[]),
    row(
        "register.8000",
        "... of number 6001 to 8000",
        &[OfC(0.16), OfOurs("register.100", 1.2)],
    ),
    row("register.30000", "... of number 29001 to 30000", &[]),
    row(
        "again.30000",
        "register one of these with a bit in another process",
        &[],
    ),
    row(
        "unregister.8000",
        "unregister, 8000 registered",
        &[OfC(0.04)],
    ),
    row(
        "close.8000",
        "close a file of 8000 events, all with bits",
        &[OfC(0.5)],
    ),
    row(
        "close.last",
        "close a file of 8000 events that nobody else uses",
        &[],
    ),
    row(
        "gone.last",
        "... until all of them are gone, whoever does it",
        &[],
    ),
    row(
        "toggle.alone",
        "enable and disable an event of one process",
        &[OfC(1.0)],
    ),
    row(
        "toggle.beside",
        "... beside 200 processes x 500 registrations",
        &[OfOurs("toggle.alone", 1.1)],
    ),
    row(
        "toggle.shared",
        "... the event shared by these 200",
        &[OfC(0.5)],
    ),
    row(
        "toggle.page",
        "... an event with 1000 bits in one page",
        &[OfC(0.2)],
    ),
    row("enable.alone", "enable an event of one process", &[]),
    row(
        "enable.beside",
        "... while others toggle the one of these 200",
        &[OfOurs("enable.alone", 2.0)],
    ),
    row("fork.none", "the fork call, nothing registered", &[]),
    row("fork.1", "the fork call, 1 registration", &[OfC(1.0)]),
    row("fork.100", "the fork call, 100 registrations", &[]),
    row(
        "fork.8000",
        "the fork call, 8000 registrations",
        &[OfOurs("fork.1", 1.5)],
    ),
    row("life.none", "fork, exit, all work, nothing registered", &[]),
    row("life.1", "... 1 registration", &[OfC(1.0)]),
    row("life.100", "... 100 registrations", &[]),
    row("life.8000", "... 8000 registrations", &[]),
    row(
        "exec.none",
        "fork, exec, exit, all work, nothing registered",
        &[],
    ),
    row("exec.1", "... 1 registration", &[OfC(1.0)]),
    row("exec.100", "... 100 registrations", &[]),
    row("exec.8000", "... 8000 registrations", &[]),
    row(
        "time.none",
        "fork to the end of wait in ns, nothing registered",
        &[],
    ),
    row("time.1", "... 1 registration", &[]),
    row("time.8000", "... 8000 registrations", &[]),
    row(
        "memory.event",
        "bytes of memory for an event of the first 4000, with all",
        &[],
    ),
    row(
        "memory.own",
        "... without what an instance takes for it",
        &[OfC(0.8)],
    ),
    row(
        "memory.more.event",
        "bytes of memory for an event of 4000 more, with all",
        &[],
    ),
    row(
        "memory.more.own",
        "... without what an instance takes for it",
        &[OfC(0.8)],
    ),
    row(
        "memory.registration",
        "bytes of memory for a registration",
        &[OfC(0.8)],
    ),
];

/// Rows that are shown and not judged: how long a process takes depends on which grace periods and which
/// work of the kernel happen to fall into it, with C as with the module.
pub const NOT_JUDGED: &[&str] = &["time.none", "time.1", "time.8000"];

/// What is drawn by the number of registrations that there are when it is done.
pub const GROWTH: &[(&str, &[(u32, &str)])] = &[
    (
        "to register one more, in one process",
        &[
            (50, "register.100"),
            (200, "register.400"),
            (800, "register.1600"),
            (7000, "register.8000"),
            (29_500, "register.30000"),
        ],
    ),
    (
        "to fork, of the process's own",
        &[(1, "fork.1"), (100, "fork.100"), (8000, "fork.8000")],
    ),
    (
        "to enable and disable one, of other processes",
        &[(1, "toggle.alone"), (100_000, "toggle.beside")],
    ),
];

/// Rows of ours alone: what the module costs those who do not use it.
pub const UNUSED: &[(&str, &str, &str)] = &[
    ("fork.unloaded", "fork.unused", "the fork call"),
    ("life.unloaded", "life.unused", "fork, exit, all work"),
    ("exec.unloaded", "exec.unused", "fork, exec, exit, all work"),
];

/// How many times the cost without the module that may be.
pub const UNUSED_LIMIT: f64 = 1.005;

/// Rows of what is done in a second.
pub const EACH_SECOND: &[(&str, &str)] = &[
    ("writers.1", "one writer"),
    ("writers.2", "two"),
    ("writers.4", "four"),
];

/// Rows of ours that there is nothing to compare with.
pub const ALONE: &[(&str, &str)] = &[
    ("load", "loading the module, all work"),
    ("unload", "unloading it"),
    ("size", "bytes of memory for its code and data"),
];
