// SPDX-License-Identifier: GPL-2.0

//! The limits that are exceeded.

use super::row::Limit::{self, OfC, OfOurs};

/// A limit that is exceeded, and may be for now.
pub struct Exceeded {
    pub row: &'static str,
    pub limit: Limit,
    /// How many times what the limit is of.
    pub measured: f64,
    pub since: &'static str,
    pub why: &'static str,
}

const fn exceeded(
    row: &'static str,
    limit: Limit,
    measured: f64,
    since: &'static str,
    why: &'static str,
) -> Exceeded {
    Exceeded {
        row,
        limit,
        measured,
        since,
        why,
    }
}

const FLOOR: &str = "what is the same for both leaves less than an implementation needs";
const BPF: &str = "the same, and asking for eBPF programs, which C never runs";

/// The limits that are exceeded. One that no longer is fails, too, so that this says what holds.
pub const EXCEEDED: &[Exceeded] = &[
    exceeded("disabled.writev", OfC(0.85), 0.945, "2026-11-24", FLOOR),
    exceeded("ftrace.write", OfC(0.73), 0.881, "2026-11-24", FLOOR),
    exceeded(
        "ftrace.write",
        OfOurs("uprobe", 0.42),
        0.505,
        "2026-11-24",
        FLOOR,
    ),
    exceeded("ftrace.writev", OfC(0.80), 0.929, "2026-11-24", FLOOR),
    exceeded("ftrace.100", OfC(0.78), 0.929, "2026-11-24", FLOOR),
    exceeded("perf.writev", OfC(0.80), 0.975, "2026-11-24", BPF),
    exceeded("both.writev", OfC(0.75), 0.928, "2026-11-24", BPF),
    exceeded(
        "toggle.alone",
        OfC(1.0),
        1.007,
        "2026-11-25",
        "nearly all of it is the trace core's; what is not, takes some 700 instructions more than C's",
    ),
    exceeded(
        "life.1",
        OfC(1.0),
        1.005,
        "2026-11-25",
        "nearly all of it is the kernel's: from 1.000 to 1.005 in four runs, and without a registration as much",
    ),
    exceeded(
        "memory.more.own",
        OfC(0.8),
        1.035,
        "2026-11-24",
        "what the trace core defines and slab's sizes leave 94 bytes for all that is kept of an event",
    ),
];
