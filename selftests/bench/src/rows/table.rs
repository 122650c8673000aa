// SPDX-License-Identifier: GPL-2.0

//! The rows of the table.

use super::row::Judged::{self, Call, Equals, Not, Within};
use super::row::Limit::{OfC, OfOurs};
use super::row::Row;

/// Work of all tasks, or memory.
const WORK: Judged = Within(0.01);

/// Rows of all work that allocate all the time. They differ by 1.3 % between a run of all groups
/// and one of some, depending on the earlier use of slabs.
const REGISTERING: Judged = Within(0.02);

/// Limit of a group's row, as a multiple of the first group's.
const IN_A_GROUP: f64 = 1.01;

/// Limit of several threads with one open file, as a multiple of one thread's instructions: two
/// threads on two CPUs that never wait then write 2 / 1.11 = 1.8 times as much as one.
const TWO_THREADS: f64 = 1.11;

/// Rows without work of either implementation.
pub const THE_KERNELS: Judged = Not("the kernel's own, the same for both");
const A_TIME: Judged =
    Not("a time, made of the grace periods and the kernel's work that happen to fall into it");

/// The common work of a record for each kernel: the call, and the trace core.
const FTRACE: &[&str] = &["null.write", "core.ftrace"];
const FTRACE_V: &[&str] = &["null.writev", "core.ftrace"];
const PERF: &[&str] = &["null.write", "core.perf"];
const PERF_V: &[&str] = &["null.writev", "core.perf"];

/// Makes rows: group, key, how it is judged, text, and other fields.
macro_rules! rows {
    ($(
        $group:literal, $key:literal, $judged:expr, $text:literal
        $(, $field:ident: $value:expr)*;
    )*) => {
        &[$(Row {
            $($field: $value,)*
            ..Row {
                group: $group,
                key: $key,
                judged: $judged,
                text: $text,
                floor: &[],
                limits: &[],
                beside: None,
                is_copy: false,
                unlike: None,
                is_quoted: false,
            }
        }),*]
    };
}

pub const ROWS: &[Row] = rows! {
    "nothing", "call", THE_KERNELS, "a system call that does nothing";
    "nothing", "null.write", THE_KERNELS, "write of 16 bytes to /dev/null";
    "nothing", "null.writev", THE_KERNELS, "writev of 16 bytes to /dev/null";
    "core", "core.ftrace", THE_KERNELS, "a record of an event of the kernel's, ftrace";
    "core", "core.filter", THE_KERNELS, "... ftrace, a filter drops it";
    "core", "core.hist", THE_KERNELS, "... a hist trigger";
    "core", "core.perf", THE_KERNELS, "... perf";
    "core", "core.both", THE_KERNELS, "... ftrace and perf";
    "core", "core.bpf", THE_KERNELS, "... an eBPF program";
    "toggle", "core.toggle", THE_KERNELS, "enable and disable a synthetic event";
    "numbers", "disabled.write", Call, "write to a disabled event",
        floor: &["null.write"], limits: &[OfC(0.85)], is_quoted: true;
    "numbers", "disabled.writev", Call, "writev to a disabled event",
        floor: &["null.writev"], limits: &[OfC(0.95)];
    "numbers", "ftrace.write", Call, "write of 12 bytes, ftrace attached",
        floor: FTRACE, limits: &[OfC(0.86), OfOurs("uprobe", 0.49)], is_quoted: true;
    "numbers", "ftrace.writev", Call, "writev of 12 bytes, ftrace",
        floor: FTRACE_V, limits: &[OfC(0.90)], is_quoted: true;
    "threads", "threads.2", Call, "write of 12 bytes, ftrace, one file, two threads",
        floor: FTRACE, limits: &[OfC(0.86), OfOurs("ftrace.write", TWO_THREADS)];
    "threads", "threads.4", Call, "... four threads",
        floor: FTRACE, limits: &[OfC(0.86), OfOurs("ftrace.write", TWO_THREADS)];
    "strings", "ftrace.100", Call, "write of a 100-byte string, ftrace",
        floor: FTRACE, limits: &[OfC(0.88)], is_quoted: true;
    "strings", "ftrace.parts7", Call, "writev of that in 7 parts", floor: FTRACE_V;
    "strings", "ftrace.parts30", Call, "writev of that in 30 parts", floor: FTRACE_V;
    "long", "ftrace.1000", Call, "write of a 1000-byte string, ftrace",
        floor: FTRACE, limits: &[OfC(0.81)], is_copy: true;
    "long", "ftrace.4000", Call, "write of a 4000-byte string, ftrace",
        floor: FTRACE, limits: &[OfC(0.70)], is_copy: true;
    "large", "large.one", Call, "write of 500,004 bytes, ftrace",
        floor: FTRACE, limits: &[OfC(0.4)], is_copy: true;
    "large", "large.two", Call, "... and a further instance",
        floor: &["null.write", "core.ftrace", "core.ftrace"], limits: &[OfC(0.8)], is_copy: true;
    "numbers", "filter.write", Call, "write of 12 bytes, ftrace, a filter drops it",
        floor: &["null.write", "core.filter"];
    "numbers", "hist.write", Call, "write of 12 bytes, a hist trigger",
        floor: &["null.write", "core.hist"];
    "numbers", "perf.write", Call, "write of 12 bytes, perf",
        floor: PERF, limits: &[OfC(0.90)], is_quoted: true;
    "numbers", "perf.writev", Call, "writev of 12 bytes, perf", floor: PERF_V, limits: &[OfC(0.90)];
    "strings", "perf.100", Call, "write of a 100-byte string, perf",
        floor: PERF, limits: &[OfC(0.88)];
    "long", "perf.1000", Call, "write of a 1000-byte string, perf",
        floor: PERF, limits: &[OfC(0.84)], is_copy: true;
    "long", "perf.4000", Call, "write of a 4000-byte string, perf",
        floor: PERF, limits: &[OfC(0.83)], is_copy: true;
    // With perf as well, user_events do less than a kernel event does for ftrace and perf together.
    "numbers", "both.writev", Call, "writev of 12 bytes, ftrace and perf",
        floor: PERF_V, limits: &[OfC(0.88)], is_quoted: true;
    "numbers", "bpf.write", Call, "write of 12 bytes, an eBPF program",
        floor: &["null.write", "core.bpf"], unlike: Some("C never runs the program");
    "runs", "bpf.runs", Equals(100), "... how often that runs for 100 records",
        unlike: Some("no cost");
    "instead", "trace_marker", THE_KERNELS, "instead: trace_marker, 16 bytes";
    "instead", "trace_marker_raw", THE_KERNELS, "instead: trace_marker_raw, 16 bytes";
    "instead", "uprobe", THE_KERNELS, "instead: a uprobe with one argument, ftrace";
    "many", "register.100", REGISTERING, "register an event and a bit, mean of the first 100",
        floor: &["call"], is_quoted: true;
    "many", "register.400", REGISTERING, "... of the first 400", floor: &["call"];
    "many", "register.1600", REGISTERING, "... of the first 1600", floor: &["call"];
    "many", "register.8000", REGISTERING, "... of number 6001 to 8000",
        floor: &["call"], limits: &[OfC(0.16), OfOurs("register.100", 1.2)];
    "far", "register.30000", REGISTERING, "... of number 29001 to 30000",
        floor: &["call"], is_quoted: true;
    "far", "again.30000", WORK, "register one of these with a bit in another process",
        floor: &["call"];
    "many", "unregister.8000", WORK, "unregister, 8000 registered",
        floor: &["call"], limits: &[OfC(0.04)], is_quoted: true;
    "many", "close.8000", WORK, "close a file of 8000 events, all with bits",
        floor: &["call"], limits: &[OfC(0.5)];
    "last", "close.last", WORK, "close a file of 8000 events without another user",
        floor: &["call"];
    "last", "gone.last", WORK, "... until all of them are gone, by any task",
        floor: &["call"], limits: &[OfC(0.1)];
    "toggle", "toggle.alone", WORK, "enable and disable an event of one process",
        limits: &[OfC(1.01)], is_quoted: true;
    "toggle", "toggle.beside", WORK, "... beside 200 processes x 500 registrations",
        limits: &[OfOurs("toggle.alone", 1.1)], is_quoted: true;
    "toggle", "toggle.shared", WORK, "... the event shared by these 200", limits: &[OfC(0.5)];
    "toggle", "toggle.page", WORK, "... an event with 1000 bits in one page", limits: &[OfC(0.2)];
    "toggle", "enable.alone", A_TIME, "the time of enabling an event of one process";
    "toggle", "enable.beside", A_TIME, "... while others toggle the one of these 200",
        limits: &[OfOurs("enable.alone", 2.0)];
    "many", "fork.none", WORK, "the fork call, nothing registered";
    "many", "fork.1", WORK, "the fork call, 1 registration",
        floor: &["fork.none"], limits: &[OfC(1.0)];
    "many", "fork.100", WORK, "the fork call, 100 registrations", floor: &["fork.none"];
    "many", "fork.8000", WORK, "the fork call, 8000 registrations",
        floor: &["fork.none"], limits: &[OfOurs("fork.1", 1.5)];
    "many", "life.none", WORK, "fork, exit, all work, nothing registered";
    "many", "life.1", WORK, "... 1 registration",
        floor: &["life.none"], limits: &[OfC(1.01)], is_quoted: true;
    "many", "life.100", WORK, "... 100 registrations", floor: &["life.none"];
    "many", "life.8000", WORK, "... 8000 registrations", floor: &["life.none"], is_quoted: true;
    "many", "exec.none", WORK, "fork, exec, exit, all work, nothing registered";
    "many", "exec.1", WORK, "... 1 registration", floor: &["exec.none"], limits: &[OfC(1.0)];
    "many", "exec.100", WORK, "... 100 registrations", floor: &["exec.none"];
    "many", "exec.8000", WORK, "... 8000 registrations", floor: &["exec.none"], is_quoted: true;
    "many", "time.none", A_TIME, "fork to the end of wait in ns, nothing registered";
    "many", "time.1", A_TIME, "... 1 registration";
    "many", "time.8000", A_TIME, "... 8000 registrations";
    "memory", "memory.event", WORK, "bytes of memory for an event of the first 4000, with all",
        is_quoted: true;
    "memory", "memory.own", WORK, "... without what an instance takes for it", limits: &[OfC(0.8)];
    "memory", "memory.more.event", WORK, "bytes of memory for an event of 4000 more, with all",
        is_quoted: true;
    "memory", "memory.more.own", WORK, "... without what an instance takes for it",
        limits: &[OfC(1.05)];
    "memory", "memory.registration", WORK, "bytes of memory for a registration",
        limits: &[OfC(0.8)], is_quoted: true;
    "groups", "group.disabled.write", Call, "write to a disabled event",
        beside: Some("disabled.write"), floor: &["null.write"],
        limits: &[OfOurs("disabled.write", IN_A_GROUP)];
    "groups", "group.ftrace.write", Call, "write of 12 bytes, ftrace attached",
        beside: Some("ftrace.write"), floor: FTRACE, limits: &[OfOurs("ftrace.write", IN_A_GROUP)];
    "groups", "group.perf.write", Call, "write of 12 bytes, perf",
        beside: Some("perf.write"), floor: PERF, limits: &[OfOurs("perf.write", IN_A_GROUP)];
    "groups", "first.register", REGISTERING, "register an event and a bit, median of 500",
        floor: &["call"];
    "groups", "group.register", REGISTERING, "register an event and a bit, median of 500",
        beside: Some("first.register"), floor: &["call"],
        limits: &[OfOurs("first.register", IN_A_GROUP)];
    "groups", "first.unregister", WORK, "unregister it, median of 500", floor: &["call"];
    "groups", "group.unregister", WORK, "unregister it, median of 500",
        beside: Some("first.unregister"), floor: &["call"],
        limits: &[OfOurs("first.unregister", IN_A_GROUP)];
    "others", "others.disabled.write", Call, "write to a disabled event, beside 1000 other groups",
        beside: Some("disabled.write"), floor: &["null.write"],
        limits: &[OfOurs("disabled.write", IN_A_GROUP)];
    "others", "others.ftrace.write", Call, "write of 12 bytes, ftrace, beside 1000 other groups",
        beside: Some("ftrace.write"), floor: FTRACE, limits: &[OfOurs("ftrace.write", IN_A_GROUP)];
    "others", "others.register", REGISTERING, "register an event and a bit, beside 1000 others",
        beside: Some("first.register"), floor: &["call"];
    "others-toggle", "others.toggle", WORK, "enable and disable an event, beside 1000 others",
        beside: Some("toggle.alone"), limits: &[OfOurs("toggle.alone", IN_A_GROUP)];
    "groups", "limit.write", Call, "write of 12 bytes, ftrace, with bytes_per_second",
        beside: Some("ftrace.write"), floor: FTRACE;
    "groups", "limit.refused", Call, "... refused for that",
        beside: Some("ftrace.write"), floor: &["null.write"];
    "thin", "thin.10000", WORK, "exit with 10,000 leaves of a bit each";
    "thin", "thin.20000", WORK, "exit with 20,000 leaves, beside 10,000",
        beside: Some("thin.10000"), limits: &[OfOurs("thin.10000", 2.2)];
    "thin", "thin.100000", WORK, "exit with 100,000 leaves, beside 10,000",
        beside: Some("thin.10000"), limits: &[OfOurs("thin.10000", 13.7)];
};

/// All rows with their texts in full: "... so" continues the last text without dots.
pub fn in_full() -> Vec<(&'static Row, String)> {
    let mut first = "";
    let texts = ROWS.iter().map(|row| {
        let text = match row.text.strip_prefix("... ") {
            Some(rest) => format!("{first}, {rest}"),
            None => {
                first = row
                    .text
                    .rsplit_once(',')
                    .map_or(row.text, |(first, _)| first);
                row.text.to_string()
            }
        };
        (row, text)
    });
    texts.collect()
}

/// Charts by the number of existing registrations.
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
        "to fork and exit, of the process's own",
        &[(1, "life.1"), (100, "life.100"), (8000, "life.8000")],
    ),
    (
        "to enable and disable one, of other processes",
        &[(1, "toggle.alone"), (100_000, "toggle.beside")],
    ),
];

/// The group whose rows are the module's alone.
pub const MODULE: &str = "module";

/// Costs of the module for programs that do not use it: keys without it, with it.
pub const UNUSED: &[(&str, &str, &str)] = &[
    ("fork.unloaded", "fork.unused", "the fork call"),
    ("life.unloaded", "life.unused", "fork, exit, all work"),
    ("exec.unloaded", "exec.unused", "fork, exec, exit, all work"),
];

/// The limit of these rows, as a multiple of the cost without the module.
pub const UNUSED_LIMIT: f64 = 1.005;

/// How the rows of `UNUSED` and `ALONE` are compared with stored figures.
pub const ALONE_JUDGED: Judged = Within(0.03);

/// Rows of the module without a counterpart.
pub const ALONE: &[(&str, &str)] = &[
    ("load", "loading the module, all work"),
    ("unload", "unloading it"),
    ("size", "bytes of memory for its code and data"),
];

/// Records in a second: not compared with figures of another day, and not judged.
pub const EACH_SECOND: &[(&str, &str)] = &[
    ("writers.1", "one writer"),
    ("writers.2", "two writers"),
    ("writers.4", "four writers"),
    ("shared.1", "one thread"),
    ("shared.2", "two threads, one open file"),
    ("shared.2.percent", "two threads, in percent of one [3]"),
    ("shared.4", "four threads, one open file"),
    ("shared.4.percent", "four threads, in percent of one [3]"),
    ("long.4000", "one writer, 4000 bytes [2]"),
    ("long.500000", "one writer, 500,000 bytes [2]"),
];
