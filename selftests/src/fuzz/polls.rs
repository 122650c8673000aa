// SPDX-License-Identifier: GPL-2.0

//! Polls of open files: how a process does them, and the expected results.

use super::step::*;
use crate::kit::poll::{poll_for, select, Epoll, ALWAYS, CHANGED, EDGE};
use crate::kit::wait;
use std::fs::File;
use std::time::Duration;

/// The bit of a predicted result that may include a change.
const UNSURE: u32 = 1 << 16;

/// Polls a file; with a timeout after a change, since of very many bits the last are written, and
/// reported, in the background.
pub fn poll(file: &File, step: &Step) -> i64 {
    let limit = match step.has(flag::PATIENT) {
        true => wait::limit(),
        false => Duration::ZERO,
    };
    let has_changed = match step.value {
        way::POLL => poll_for(file, CHANGED, limit) == CHANGED,
        way::SELECT => select(file, [false, false, true], limit)[2],
        way::EPOLL => is_reported(file, CHANGED, limit),
        way::EPOLL_EDGE => is_reported(file, CHANGED | EDGE, limit),
        other => panic!("no way {other}"),
    };
    let always = poll_for(file, ALWAYS, Duration::ZERO);
    (always | if has_changed { CHANGED } else { 0 }).into()
}

fn is_reported(file: &File, events: u32, limit: Duration) -> bool {
    let set = Epoll::new();
    set.add(file, events);
    !set.wait(limit).is_empty()
}

/// The predicted result of a poll of a file of which an event has changed since the last poll, or
/// none. A bit that is written late is reported again, at any time and for any process; a file
/// without events reports nothing.
pub fn predicted(has_changed: bool, has_events: bool) -> i64 {
    let change = match (has_changed, has_events) {
        (true, _) => CHANGED,
        (false, true) => UNSURE,
        (false, false) => 0,
    };
    (ALWAYS | change).into()
}

/// Returns whether this result certainly includes a change.
pub fn tells_of_a_change(answer: i64) -> bool {
    answer == i64::from(ALWAYS | CHANGED)
}

/// Returns whether the result is as predicted.
pub fn is_predicted(got: i64, want: i64) -> bool {
    let unsure = i64::from(ALWAYS | UNSURE);
    got == want || want == unsure && (got == i64::from(ALWAYS) || tells_of_a_change(got))
}
