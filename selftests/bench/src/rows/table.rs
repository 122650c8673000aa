// SPDX-License-Identifier: GPL-2.0

//! The rows of the table.

use super::row::Judged::{self, Call, Equals, Not, Within};
use super::row::Limit::{OfC, OfOurs};
use super::row::{row, Row};

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

/// The table.
pub const ROWS: &[Row] = &[
    row(
        "nothing",
        THE_KERNELS,
        "call",
        "a system call that does nothing",
    ),
    row(
        "nothing",
        THE_KERNELS,
        "null.write",
        "write of 16 bytes to /dev/null",
    ),
    row(
        "nothing",
        THE_KERNELS,
        "null.writev",
        "writev of 16 bytes to /dev/null",
    ),
    row(
        "core",
        THE_KERNELS,
        "core.ftrace",
        "a record of an event of the kernel's, ftrace",
    ),
    row(
        "core",
        THE_KERNELS,
        "core.filter",
        "... ftrace, a filter drops it",
    ),
    row("core", THE_KERNELS, "core.hist", "... a hist trigger"),
    row("core", THE_KERNELS, "core.perf", "... perf"),
    row("core", THE_KERNELS, "core.both", "... ftrace and perf"),
    row("core", THE_KERNELS, "core.bpf", "... an eBPF program"),
    row(
        "toggle",
        THE_KERNELS,
        "core.toggle",
        "enable and disable a synthetic event",
    ),
    row(
        "numbers",
        Call,
        "disabled.write",
        "write to a disabled event",
    )
    .above(&["null.write"])
    .at_most(&[OfC(0.85)])
    .quoted(),
    row(
        "numbers",
        Call,
        "disabled.writev",
        "writev to a disabled event",
    )
    .above(&["null.writev"])
    .at_most(&[OfC(0.95)]),
    row(
        "numbers",
        Call,
        "ftrace.write",
        "write of 12 bytes, ftrace attached",
    )
    .above(&["null.write", "core.ftrace"])
    .at_most(&[OfC(0.86), OfOurs("uprobe", 0.49)])
    .quoted(),
    row(
        "numbers",
        Call,
        "ftrace.writev",
        "writev of 12 bytes, ftrace",
    )
    .above(&["null.writev", "core.ftrace"])
    .at_most(&[OfC(0.90)])
    .quoted(),
    row(
        "threads",
        Call,
        "threads.2",
        "write of 12 bytes, ftrace, one file, two threads",
    )
    .above(&["null.write", "core.ftrace"])
    .at_most(&[OfC(0.86), OfOurs("ftrace.write", TWO_THREADS)]),
    row("threads", Call, "threads.4", "... four threads")
        .above(&["null.write", "core.ftrace"])
        .at_most(&[OfC(0.86), OfOurs("ftrace.write", TWO_THREADS)]),
    row(
        "strings",
        Call,
        "ftrace.100",
        "write of a 100-byte string, ftrace",
    )
    .above(&["null.write", "core.ftrace"])
    .at_most(&[OfC(0.88)])
    .quoted(),
    row(
        "strings",
        Call,
        "ftrace.parts7",
        "writev of that in 7 parts",
    )
    .above(&["null.writev", "core.ftrace"]),
    row(
        "strings",
        Call,
        "ftrace.parts30",
        "writev of that in 30 parts",
    )
    .above(&["null.writev", "core.ftrace"]),
    row(
        "long",
        Call,
        "ftrace.1000",
        "write of a 1000-byte string, ftrace",
    )
    .above(&["null.write", "core.ftrace"])
    .at_most(&[OfC(0.81)])
    .copy(),
    row(
        "long",
        Call,
        "ftrace.4000",
        "write of a 4000-byte string, ftrace",
    )
    .above(&["null.write", "core.ftrace"])
    .at_most(&[OfC(0.70)])
    .copy(),
    row("large", Call, "large.one", "write of 500,004 bytes, ftrace")
        .above(&["null.write", "core.ftrace"])
        .at_most(&[OfC(0.4)])
        .copy(),
    row("large", Call, "large.two", "... and a further instance")
        .above(&["null.write", "core.ftrace", "core.ftrace"])
        .at_most(&[OfC(0.8)])
        .copy(),
    row(
        "numbers",
        Call,
        "filter.write",
        "write of 12 bytes, ftrace, a filter drops it",
    )
    .above(&["null.write", "core.filter"]),
    row(
        "numbers",
        Call,
        "hist.write",
        "write of 12 bytes, a hist trigger",
    )
    .above(&["null.write", "core.hist"]),
    row("numbers", Call, "perf.write", "write of 12 bytes, perf")
        .above(&["null.write", "core.perf"])
        .at_most(&[OfC(0.90)])
        .quoted(),
    row("numbers", Call, "perf.writev", "writev of 12 bytes, perf")
        .above(&["null.writev", "core.perf"])
        .at_most(&[OfC(0.90)]),
    row(
        "strings",
        Call,
        "perf.100",
        "write of a 100-byte string, perf",
    )
    .above(&["null.write", "core.perf"])
    .at_most(&[OfC(0.88)]),
    row(
        "long",
        Call,
        "perf.1000",
        "write of a 1000-byte string, perf",
    )
    .above(&["null.write", "core.perf"])
    .at_most(&[OfC(0.84)])
    .copy(),
    row(
        "long",
        Call,
        "perf.4000",
        "write of a 4000-byte string, perf",
    )
    .above(&["null.write", "core.perf"])
    .at_most(&[OfC(0.83)])
    .copy(),
    row(
        "numbers",
        Call,
        "both.writev",
        "writev of 12 bytes, ftrace and perf",
    )
    // With perf as well, user_events do less than a kernel event does for ftrace and perf together.
    .above(&["null.writev", "core.perf"])
    .at_most(&[OfC(0.88)])
    .quoted(),
    row(
        "numbers",
        Call,
        "bpf.write",
        "write of 12 bytes, an eBPF program",
    )
    .above(&["null.write", "core.bpf"])
    .unlike("C never runs the program"),
    row(
        "runs",
        Equals(100),
        "bpf.runs",
        "... how often that runs for 100 records",
    )
    .unlike("no cost"),
    row(
        "instead",
        THE_KERNELS,
        "trace_marker",
        "instead: trace_marker, 16 bytes",
    ),
    row(
        "instead",
        THE_KERNELS,
        "trace_marker_raw",
        "instead: trace_marker_raw, 16 bytes",
    ),
    row(
        "instead",
        THE_KERNELS,
        "uprobe",
        "instead: a uprobe with one argument, ftrace",
    ),
    row(
        "many",
        REGISTERING,
        "register.100",
        "register an event and a bit, mean of the first 100",
    )
    .above(&["call"])
    .quoted(),
    row("many", REGISTERING, "register.400", "... of the first 400").above(&["call"]),
    row(
        "many",
        REGISTERING,
        "register.1600",
        "... of the first 1600",
    )
    .above(&["call"]),
    row(
        "many",
        REGISTERING,
        "register.8000",
        "... of number 6001 to 8000",
    )
    .above(&["call"])
    .at_most(&[OfC(0.16), OfOurs("register.100", 1.2)]),
    row(
        "far",
        REGISTERING,
        "register.30000",
        "... of number 29001 to 30000",
    )
    .above(&["call"])
    .quoted(),
    row(
        "far",
        WORK,
        "again.30000",
        "register one of these with a bit in another process",
    )
    .above(&["call"]),
    row(
        "many",
        WORK,
        "unregister.8000",
        "unregister, 8000 registered",
    )
    .above(&["call"])
    .at_most(&[OfC(0.04)])
    .quoted(),
    row(
        "many",
        WORK,
        "close.8000",
        "close a file of 8000 events, all with bits",
    )
    .above(&["call"])
    .at_most(&[OfC(0.5)]),
    row(
        "last",
        WORK,
        "close.last",
        "close a file of 8000 events without another user",
    )
    .above(&["call"]),
    row(
        "last",
        WORK,
        "gone.last",
        "... until all of them are gone, by any task",
    )
    .above(&["call"])
    .at_most(&[OfC(0.1)]),
    row(
        "toggle",
        WORK,
        "toggle.alone",
        "enable and disable an event of one process",
    )
    .at_most(&[OfC(1.01)])
    .quoted(),
    row(
        "toggle",
        WORK,
        "toggle.beside",
        "... beside 200 processes x 500 registrations",
    )
    .at_most(&[OfOurs("toggle.alone", 1.1)])
    .quoted(),
    row(
        "toggle",
        WORK,
        "toggle.shared",
        "... the event shared by these 200",
    )
    .at_most(&[OfC(0.5)]),
    row(
        "toggle",
        WORK,
        "toggle.page",
        "... an event with 1000 bits in one page",
    )
    .at_most(&[OfC(0.2)]),
    row(
        "toggle",
        A_TIME,
        "enable.alone",
        "the time of enabling an event of one process",
    ),
    row(
        "toggle",
        A_TIME,
        "enable.beside",
        "... while others toggle the one of these 200",
    )
    .at_most(&[OfOurs("enable.alone", 2.0)]),
    row(
        "many",
        WORK,
        "fork.none",
        "the fork call, nothing registered",
    ),
    row("many", WORK, "fork.1", "the fork call, 1 registration")
        .above(&["fork.none"])
        .at_most(&[OfC(1.0)]),
    row("many", WORK, "fork.100", "the fork call, 100 registrations").above(&["fork.none"]),
    row(
        "many",
        WORK,
        "fork.8000",
        "the fork call, 8000 registrations",
    )
    .above(&["fork.none"])
    .at_most(&[OfOurs("fork.1", 1.5)]),
    row(
        "many",
        WORK,
        "life.none",
        "fork, exit, all work, nothing registered",
    ),
    row("many", WORK, "life.1", "... 1 registration")
        .above(&["life.none"])
        .at_most(&[OfC(1.01)])
        .quoted(),
    row("many", WORK, "life.100", "... 100 registrations").above(&["life.none"]),
    row("many", WORK, "life.8000", "... 8000 registrations")
        .above(&["life.none"])
        .quoted(),
    row(
        "many",
        WORK,
        "exec.none",
        "fork, exec, exit, all work, nothing registered",
    ),
    row("many", WORK, "exec.1", "... 1 registration")
        .above(&["exec.none"])
        .at_most(&[OfC(1.0)]),
    row("many", WORK, "exec.100", "... 100 registrations").above(&["exec.none"]),
    row("many", WORK, "exec.8000", "... 8000 registrations")
        .above(&["exec.none"])
        .quoted(),
    row(
        "many",
        A_TIME,
        "time.none",
        "fork to the end of wait in ns, nothing registered",
    ),
    row("many", A_TIME, "time.1", "... 1 registration"),
    row("many", A_TIME, "time.8000", "... 8000 registrations"),
    row(
        "memory",
        WORK,
        "memory.event",
        "bytes of memory for an event of the first 4000, with all",
    )
    .quoted(),
    row(
        "memory",
        WORK,
        "memory.own",
        "... without what an instance takes for it",
    )
    .at_most(&[OfC(0.8)]),
    row(
        "memory",
        WORK,
        "memory.more.event",
        "bytes of memory for an event of 4000 more, with all",
    )
    .quoted(),
    row(
        "memory",
        WORK,
        "memory.more.own",
        "... without what an instance takes for it",
    )
    .at_most(&[OfC(1.05)]),
    row(
        "memory",
        WORK,
        "memory.registration",
        "bytes of memory for a registration",
    )
    .at_most(&[OfC(0.8)])
    .quoted(),
    row(
        "groups",
        Call,
        "group.disabled.write",
        "write to a disabled event",
    )
    .beside("disabled.write")
    .above(&["null.write"])
    .at_most(&[OfOurs("disabled.write", IN_A_GROUP)]),
    row(
        "groups",
        Call,
        "group.ftrace.write",
        "write of 12 bytes, ftrace attached",
    )
    .beside("ftrace.write")
    .above(&["null.write", "core.ftrace"])
    .at_most(&[OfOurs("ftrace.write", IN_A_GROUP)]),
    row(
        "groups",
        Call,
        "group.perf.write",
        "write of 12 bytes, perf",
    )
    .beside("perf.write")
    .above(&["null.write", "core.perf"])
    .at_most(&[OfOurs("perf.write", IN_A_GROUP)]),
    row(
        "groups",
        REGISTERING,
        "first.register",
        "register an event and a bit, median of 500",
    )
    .above(&["call"]),
    row(
        "groups",
        REGISTERING,
        "group.register",
        "register an event and a bit, median of 500",
    )
    .beside("first.register")
    .above(&["call"])
    .at_most(&[OfOurs("first.register", IN_A_GROUP)]),
    row(
        "groups",
        WORK,
        "first.unregister",
        "unregister it, median of 500",
    )
    .above(&["call"]),
    row(
        "groups",
        WORK,
        "group.unregister",
        "unregister it, median of 500",
    )
    .beside("first.unregister")
    .above(&["call"])
    .at_most(&[OfOurs("first.unregister", IN_A_GROUP)]),
    row(
        "others",
        Call,
        "others.disabled.write",
        "write to a disabled event, beside 1000 other groups",
    )
    .beside("disabled.write")
    .above(&["null.write"])
    .at_most(&[OfOurs("disabled.write", IN_A_GROUP)]),
    row(
        "others",
        Call,
        "others.ftrace.write",
        "write of 12 bytes, ftrace, beside 1000 other groups",
    )
    .beside("ftrace.write")
    .above(&["null.write", "core.ftrace"])
    .at_most(&[OfOurs("ftrace.write", IN_A_GROUP)]),
    row(
        "others",
        REGISTERING,
        "others.register",
        "register an event and a bit, beside 1000 others",
    )
    .beside("first.register")
    .above(&["call"]),
    row(
        "others-toggle",
        WORK,
        "others.toggle",
        "enable and disable an event, beside 1000 others",
    )
    .beside("toggle.alone")
    .at_most(&[OfOurs("toggle.alone", IN_A_GROUP)]),
    row(
        "groups",
        Call,
        "limit.write",
        "write of 12 bytes, ftrace, with bytes_per_second",
    )
    .beside("ftrace.write")
    .above(&["null.write", "core.ftrace"]),
    row("groups", Call, "limit.refused", "... refused for that")
        .beside("ftrace.write")
        .above(&["null.write"]),
    row(
        "thin",
        WORK,
        "thin.10000",
        "exit with 10,000 leaves of a bit each",
    ),
    row(
        "thin",
        WORK,
        "thin.20000",
        "exit with 20,000 leaves, beside 10,000",
    )
    .beside("thin.10000")
    .at_most(&[OfOurs("thin.10000", 2.2)]),
    row(
        "thin",
        WORK,
        "thin.100000",
        "exit with 100,000 leaves, beside 10,000",
    )
    .beside("thin.10000")
    .at_most(&[OfOurs("thin.10000", 13.7)]),
];

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
