// SPDX-License-Identifier: GPL-2.0

//! Records too large for an instance, or for a perf sample: their lengths, the content of samples,
//! and the expected outcome.

use super::step::*;
use crate::kit::perf::*;
use crate::kit::random::Random;

/// The longest payload that an instance takes with certainty, also behind a filter, and the
/// shortest that it refuses with certainty: the exact limit is not tested here.
const FTRACE_TAKES: usize = 4000;
const FTRACE_REFUSES: usize = 4200;

/// The longest payload that fits regardless of the other content of a sample: with the common
/// fields it fills the trace core's buffer.
const ANY_SAMPLE_TAKES: usize = 8184;

/// The content of samples, with different maximum lengths.
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

/// Chooses the content of a perf event's samples.
pub fn sample(random: &mut Random) -> Sample {
    SAMPLES[random.below(SAMPLES.len())]
}

/// The length of the payload of a [`write::LARGE`]. Many are near the size of the trace core's
/// buffer or the limit of one of the samples.
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

/// The outcome of a record at the consumers of its event.
pub struct Outcome {
    /// Instances receive it.
    pub ftrace: bool,
    /// The task's perf events receive it.
    pub perf: bool,
    /// A consumer is attached that can receive it or excludes it.
    pub can: bool,
}

/// The outcome of a payload of `length` bytes, with the event attached to an instance (`ftrace`) or
/// to perf (`perf`). `limits` are the longest payloads of the task's perf events.
pub fn outcome(
    length: usize,
    ftrace: bool,
    perf: bool,
    limits: impl Iterator<Item = usize>,
) -> Outcome {
    let is_clear = length <= FTRACE_TAKES || length >= FTRACE_REFUSES;
    assert!(is_clear || !ftrace, "does an instance take {length} bytes?");
    let ftrace_takes = length <= FTRACE_TAKES;
    // A perf event that cannot take it keeps it from the others.
    let least = limits.min().unwrap_or(MAX_PAYLOAD);
    let perf_takes = length <= ANY_SAMPLE_TAKES.max(least);
    Outcome {
        ftrace: ftrace_takes,
        perf: perf_takes,
        can: ftrace && ftrace_takes || perf && perf_takes,
    }
}
