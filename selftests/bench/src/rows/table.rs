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

pub const ROWS: &[Row] = &[
    row("nothing", "call", THE_KERNELS).text("a system call that does nothing"),
    row("nothing", "null.write", THE_KERNELS).text("write of 16 bytes to /dev/null"),
    row("nothing", "null.writev", THE_KERNELS).text("writev of 16 bytes to /dev/null"),
    row("core", "core.ftrace", THE_KERNELS).text("a record of an event of the kernel's, ftrace"),
    row("core", "core.filter", THE_KERNELS).text("... ftrace, a filter drops it"),
    row("core", "core.hist", THE_KERNELS).text("... a hist trigger"),
    row("core", "core.perf", THE_KERNELS).text("... perf"),
    row("core", "core.both", THE_KERNELS).text("... ftrace and perf"),
    row("core", "core.bpf", THE_KERNELS).text("... an eBPF program"),
    row("toggle", "core.toggle", THE_KERNELS).text("enable and disable a synthetic event"),
    row("numbers", "disabled.write", Call)
        .text("write to a disabled event")
        .above(&["null.write"])
        .at_most(&[OfC(0.85)])
        .quoted(),
    row("numbers", "disabled.writev", Call)
        .text("writev to a disabled event")
        .above(&["null.writev"])
        .at_most(&[OfC(0.95)]),
    row("numbers", "ftrace.write", Call)
        .text("write of 12 bytes, ftrace attached")
        .above(&["null.write", "core.ftrace"])
        .at_most(&[OfC(0.86), OfOurs("uprobe", 0.49)])
        .quoted(),
    row("numbers", "ftrace.writev", Call)
        .text("writev of 12 bytes, ftrace")
        .above(&["null.writev", "core.ftrace"])
        .at_most(&[OfC(0.90)])
        .quoted(),
    row("threads", "threads.2", Call)
        .text("write of 12 bytes, ftrace, one file, two threads")
        .above(&["null.write", "core.ftrace"])
        .at_most(&[OfC(0.86), OfOurs("ftrace.write", TWO_THREADS)]),
    row("threads", "threads.4", Call)
        .text("... four threads")
        .above(&["null.write", "core.ftrace"])
        .at_most(&[OfC(0.86), OfOurs("ftrace.write", TWO_THREADS)]),
    row("strings", "ftrace.100", Call)
        .text("write of a 100-byte string, ftrace")
        .above(&["null.write", "core.ftrace"])
        .at_most(&[OfC(0.88)])
        .quoted(),
    row("strings", "ftrace.parts7", Call)
        .text("writev of that in 7 parts")
        .above(&["null.writev", "core.ftrace"]),
    row("strings", "ftrace.parts30", Call)
        .text("writev of that in 30 parts")
        .above(&["null.writev", "core.ftrace"]),
    row("long", "ftrace.1000", Call)
        .text("write of a 1000-byte string, ftrace")
        .above(&["null.write", "core.ftrace"])
        .at_most(&[OfC(0.81)])
        .copy(),
    row("long", "ftrace.4000", Call)
        .text("write of a 4000-byte string, ftrace")
        .above(&["null.write", "core.ftrace"])
        .at_most(&[OfC(0.70)])
        .copy(),
    row("large", "large.one", Call)
        .text("write of 500,004 bytes, ftrace")
        .above(&["null.write", "core.ftrace"])
        .at_most(&[OfC(0.4)])
        .copy(),
    row("large", "large.two", Call)
        .text("... and a further instance")
        .above(&["null.write", "core.ftrace", "core.ftrace"])
        .at_most(&[OfC(0.8)])
        .copy(),
    row("numbers", "filter.write", Call)
        .text("write of 12 bytes, ftrace, a filter drops it")
        .above(&["null.write", "core.filter"]),
    row("numbers", "hist.write", Call)
        .text("write of 12 bytes, a hist trigger")
        .above(&["null.write", "core.hist"]),
    row("numbers", "perf.write", Call)
        .text("write of 12 bytes, perf")
        .above(&["null.write", "core.perf"])
        .at_most(&[OfC(0.90)])
        .quoted(),
    row("numbers", "perf.writev", Call)
        .text("writev of 12 bytes, perf")
        .above(&["null.writev", "core.perf"])
        .at_most(&[OfC(0.90)]),
    row("strings", "perf.100", Call)
        .text("write of a 100-byte string, perf")
        .above(&["null.write", "core.perf"])
        .at_most(&[OfC(0.88)]),
    row("long", "perf.1000", Call)
        .text("write of a 1000-byte string, perf")
        .above(&["null.write", "core.perf"])
        .at_most(&[OfC(0.84)])
        .copy(),
    row("long", "perf.4000", Call)
        .text("write of a 4000-byte string, perf")
        .above(&["null.write", "core.perf"])
        .at_most(&[OfC(0.83)])
        .copy(),
    row("numbers", "both.writev", Call)
        .text("writev of 12 bytes, ftrace and perf")
        // With perf as well, user_events do less than a kernel event does for ftrace and perf
        // together.
        .above(&["null.writev", "core.perf"])
        .at_most(&[OfC(0.88)])
        .quoted(),
    row("numbers", "bpf.write", Call)
        .text("write of 12 bytes, an eBPF program")
        .above(&["null.write", "core.bpf"])
        .unlike("C never runs the program"),
    row("runs", "bpf.runs", Equals(100))
        .text("... how often that runs for 100 records")
        .unlike("no cost"),
    row("instead", "trace_marker", THE_KERNELS).text("instead: trace_marker, 16 bytes"),
    row("instead", "trace_marker_raw", THE_KERNELS).text("instead: trace_marker_raw, 16 bytes"),
    row("instead", "uprobe", THE_KERNELS).text("instead: a uprobe with one argument, ftrace"),
    row("many", "register.100", REGISTERING)
        .text("register an event and a bit, mean of the first 100")
        .above(&["call"])
        .quoted(),
    row("many", "register.400", REGISTERING)
        .text("... of the first 400")
        .above(&["call"]),
    row("many", "register.1600", REGISTERING)
        .text("... of the first 1600")
        .above(&["call"]),
    row("many", "register.8000", REGISTERING)
        .text("... of number 6001 to 8000")
        .above(&["call"])
        .at_most(&[OfC(0.16), OfOurs("register.100", 1.2)]),
    row("far", "register.30000", REGISTERING)
        .text("... of number 29001 to 30000")
        .above(&["call"])
        .quoted(),
    row("far", "again.30000", WORK)
        .text("register one of these with a bit in another process")
        .above(&["call"]),
    row("many", "unregister.8000", WORK)
        .text("unregister, 8000 registered")
        .above(&["call"])
        .at_most(&[OfC(0.04)])
        .quoted(),
    row("many", "close.8000", WORK)
        .text("close a file of 8000 events, all with bits")
        .above(&["call"])
        .at_most(&[OfC(0.5)]),
    row("last", "close.last", WORK)
        .text("close a file of 8000 events without another user")
        .above(&["call"]),
    row("last", "gone.last", WORK)
        .text("... until all of them are gone, by any task")
        .above(&["call"])
        .at_most(&[OfC(0.1)]),
    row("toggle", "toggle.alone", WORK)
        .text("enable and disable an event of one process")
        .at_most(&[OfC(1.01)])
        .quoted(),
    row("toggle", "toggle.beside", WORK)
        .text("... beside 200 processes x 500 registrations")
        .at_most(&[OfOurs("toggle.alone", 1.1)])
        .quoted(),
    row("toggle", "toggle.shared", WORK)
        .text("... the event shared by these 200")
        .at_most(&[OfC(0.5)]),
    row("toggle", "toggle.page", WORK)
        .text("... an event with 1000 bits in one page")
        .at_most(&[OfC(0.2)]),
    row("toggle", "enable.alone", A_TIME).text("the time of enabling an event of one process"),
    row("toggle", "enable.beside", A_TIME)
        .text("... while others toggle the one of these 200")
        .at_most(&[OfOurs("enable.alone", 2.0)]),
    row("many", "fork.none", WORK).text("the fork call, nothing registered"),
    row("many", "fork.1", WORK)
        .text("the fork call, 1 registration")
        .above(&["fork.none"])
        .at_most(&[OfC(1.0)]),
    row("many", "fork.100", WORK)
        .text("the fork call, 100 registrations")
        .above(&["fork.none"]),
    row("many", "fork.8000", WORK)
        .text("the fork call, 8000 registrations")
        .above(&["fork.none"])
        .at_most(&[OfOurs("fork.1", 1.5)]),
    row("many", "life.none", WORK).text("fork, exit, all work, nothing registered"),
    row("many", "life.1", WORK)
        .text("... 1 registration")
        .above(&["life.none"])
        .at_most(&[OfC(1.01)])
        .quoted(),
    row("many", "life.100", WORK)
        .text("... 100 registrations")
        .above(&["life.none"]),
    row("many", "life.8000", WORK)
        .text("... 8000 registrations")
        .above(&["life.none"])
        .quoted(),
    row("many", "exec.none", WORK).text("fork, exec, exit, all work, nothing registered"),
    row("many", "exec.1", WORK)
        .text("... 1 registration")
        .above(&["exec.none"])
        .at_most(&[OfC(1.0)]),
    row("many", "exec.100", WORK)
        .text("... 100 registrations")
        .above(&["exec.none"]),
    row("many", "exec.8000", WORK)
        .text("... 8000 registrations")
        .above(&["exec.none"])
        .quoted(),
    row("many", "time.none", A_TIME).text("fork to the end of wait in ns, nothing registered"),
    row("many", "time.1", A_TIME).text("... 1 registration"),
    row("many", "time.8000", A_TIME).text("... 8000 registrations"),
    row("memory", "memory.event", WORK)
        .text("bytes of memory for an event of the first 4000, with all")
        .quoted(),
    row("memory", "memory.own", WORK)
        .text("... without what an instance takes for it")
        .at_most(&[OfC(0.8)]),
    row("memory", "memory.more.event", WORK)
        .text("bytes of memory for an event of 4000 more, with all")
        .quoted(),
    row("memory", "memory.more.own", WORK)
        .text("... without what an instance takes for it")
        .at_most(&[OfC(1.05)]),
    row("memory", "memory.registration", WORK)
        .text("bytes of memory for a registration")
        .at_most(&[OfC(0.8)])
        .quoted(),
    row("groups", "group.disabled.write", Call)
        .text("write to a disabled event")
        .beside("disabled.write")
        .above(&["null.write"])
        .at_most(&[OfOurs("disabled.write", IN_A_GROUP)]),
    row("groups", "group.ftrace.write", Call)
        .text("write of 12 bytes, ftrace attached")
        .beside("ftrace.write")
        .above(&["null.write", "core.ftrace"])
        .at_most(&[OfOurs("ftrace.write", IN_A_GROUP)]),
    row("groups", "group.perf.write", Call)
        .text("write of 12 bytes, perf")
        .beside("perf.write")
        .above(&["null.write", "core.perf"])
        .at_most(&[OfOurs("perf.write", IN_A_GROUP)]),
    row("groups", "first.register", REGISTERING)
        .text("register an event and a bit, median of 500")
        .above(&["call"]),
    row("groups", "group.register", REGISTERING)
        .text("register an event and a bit, median of 500")
        .beside("first.register")
        .above(&["call"])
        .at_most(&[OfOurs("first.register", IN_A_GROUP)]),
    row("groups", "first.unregister", WORK)
        .text("unregister it, median of 500")
        .above(&["call"]),
    row("groups", "group.unregister", WORK)
        .text("unregister it, median of 500")
        .beside("first.unregister")
        .above(&["call"])
        .at_most(&[OfOurs("first.unregister", IN_A_GROUP)]),
    row("others", "others.disabled.write", Call)
        .text("write to a disabled event, beside 1000 other groups")
        .beside("disabled.write")
        .above(&["null.write"])
        .at_most(&[OfOurs("disabled.write", IN_A_GROUP)]),
    row("others", "others.ftrace.write", Call)
        .text("write of 12 bytes, ftrace, beside 1000 other groups")
        .beside("ftrace.write")
        .above(&["null.write", "core.ftrace"])
        .at_most(&[OfOurs("ftrace.write", IN_A_GROUP)]),
    row("others", "others.register", REGISTERING)
        .text("register an event and a bit, beside 1000 others")
        .beside("first.register")
        .above(&["call"]),
    row("others-toggle", "others.toggle", WORK)
        .text("enable and disable an event, beside 1000 others")
        .beside("toggle.alone")
        .at_most(&[OfOurs("toggle.alone", IN_A_GROUP)]),
    row("groups", "limit.write", Call)
        .text("write of 12 bytes, ftrace, with bytes_per_second")
        .beside("ftrace.write")
        .above(&["null.write", "core.ftrace"]),
    row("groups", "limit.refused", Call)
        .text("... refused for that")
        .beside("ftrace.write")
        .above(&["null.write"]),
    row("thin", "thin.10000", WORK).text("exit with 10,000 leaves of a bit each"),
    row("thin", "thin.20000", WORK)
        .text("exit with 20,000 leaves, beside 10,000")
        .beside("thin.10000")
        .at_most(&[OfOurs("thin.10000", 2.2)]),
    row("thin", "thin.100000", WORK)
        .text("exit with 100,000 leaves, beside 10,000")
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
