// SPDX-License-Identifier: GPL-2.0

//! Records that an instance does not take, and perf as far as its samples have room: how long they are, what samples hold,
//! and what must come of them.

use super::step::*;
use crate::kit::perf::*;
use crate::kit::random::Random;

/// The longest payload that an instance takes with certainty, also behind a filter, and the shortest that it does not:
/// where it ends exactly is not for this to tell.
const FTRACE_TAKES: usize = 4000;
const FTRACE_REFUSES: usize = 4200;

/// The longest payload for which what else is in a sample does not count: with the common fields it fills the trace core's
/// own buffer.
const ANY_SAMPLE_TAKES: usize = 8184;

/// What samples may hold. That leaves room for different lengths.
const SAMPLES: [Sample; 7] = [
    Sample::PLAIN,
    Sample {
        kind: SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU | SAMPLE_PERIOD,
        ..Sample::PLAIN
    },
    Sample {
        kind: SAMPLE_IDENTIFIER | SAMPLE_CALLCHAIN,
        ..Sample::PLAIN
    },
    Sample {
        kind: SAMPLE_CALLCHAIN,
        max_stack: 40,
        ..Sample::PLAIN
    },
    Sample {
        kind: SAMPLE_READ,
        reads_group: true,
        ..Sample::PLAIN
    },
    Sample {
        kind: SAMPLE_REGS_USER | SAMPLE_STACK_USER,
        regs_user: 0xfff,
        stack_user: 1024,
        ..Sample::PLAIN
    },
    Sample {
        kind: SAMPLE_REGS_USER | SAMPLE_STACK_USER | SAMPLE_REGS_INTR,
        regs_user: 0xff,
        regs_intr: 0xfff,
        stack_user: 512,
        ..Sample::PLAIN
    },
];

/// What the samples of a perf event are to hold.
pub fn sample(random: &mut Random) -> Sample {
    SAMPLES[random.below(SAMPLES.len())]
}

/// The length of the payload of a [`write::LARGE`]. Many are about as long as the trace core's buffer or as one of the
/// samples has room for.
pub fn length(step: &Step) -> usize {
    let at = (step.serial as usize).wrapping_mul(31) + usize::from(step.bit);
    let nearby = at / 16 % 25;
    match at % 16 {
        0 => FTRACE_REFUSES + at / 16 % 3900,
        1..4 => ANY_SAMPLE_TAKES - 12 + nearby,
        4 => 9000 + at / 16 % 50_000,
        5 => MAX_PAYLOAD + 1 + at / 16 % 1000,
        kind => SAMPLES[kind % SAMPLES.len()].max_payload() - 12 + nearby,
    }
}

/// What must come of a record at the consumers of its event.
pub struct Outcome {
    /// Each instance that has the event on gets it.
    pub ftrace: bool,
    /// Each perf event of the task gets it.
    pub perf: bool,
    /// One of the consumers that are attached can take it, or did not ask for it.
    pub can: bool,
}

/// The same, for a payload of so many bytes: is the event on in an instance, and is there a perf event for it? `limits` are
/// the longest payloads of all of them, if one listens to the task.
pub fn outcome(
    length: usize,
    ftrace: bool,
    perf: bool,
    limits: impl Iterator<Item = usize>,
) -> Outcome {
    let is_clear = length <= FTRACE_TAKES || length >= FTRACE_REFUSES;
    assert!(is_clear || !ftrace, "does an instance take {length} bytes?");
    let ftrace_takes = length <= FTRACE_TAKES;
    // One that cannot take it keeps it from the others.
    let least = limits.min().unwrap_or(MAX_PAYLOAD);
    let perf_takes = length <= ANY_SAMPLE_TAKES.max(least);
    Outcome {
        ftrace: ftrace_takes,
        perf: perf_takes,
        can: ftrace && ftrace_takes || perf && perf_takes,
    }
}
