// SPDX-License-Identifier: GPL-2.0

//! Polls of open files: what a process does, and what must come of it.

use super::step::*;
use crate::kit::poll::{poll_for, select, Epoll, ALWAYS, CHANGED, EDGE};
use crate::kit::wait;
use std::fs::File;
use std::time::Duration;

/// The bits of an answer that is not known: there may be a change.
const UNSURE: u32 = 1 << 16;

/// How a file is asked for changes.
pub mod way {
    pub const POLL: u8 = 0;
    pub const SELECT: u8 = 1;
    pub const EPOLL: u8 = 2;
    pub const EPOLL_EDGE: u8 = 3;
    /// All are smaller.
    pub const END: u8 = 4;
}

/// Polls a file; patiently if there has been a change, since of very many bits the last are written in the background, and
/// that is told when they are.
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

/// What an open file has to report.
#[derive(Clone, Copy, Default)]
pub struct Polls {
    /// The state of an event has changed since it was polled.
    has_changed: bool,
}

impl Polls {
    /// The state of one of its events changes.
    pub fn change(&mut self) {
        self.has_changed = true;
    }

    /// The answer to a poll. A bit that is written late is told of once more, whenever that is, and whichever process it is
    /// of; but a file without events is told nothing.
    pub fn take(&mut self, has_events: bool) -> i64 {
        let change = match (self.has_changed, has_events) {
            (true, _) => CHANGED,
            (false, true) => UNSURE,
            (false, false) => 0,
        };
        self.has_changed = false;
        (ALWAYS | change).into()
    }
}

/// Is it for sure that this answer tells of a change?
pub fn tells_of_a_change(answer: i64) -> bool {
    answer == i64::from(ALWAYS | CHANGED)
}

/// Is the answer as predicted, one way or the other?
pub fn is_predicted(got: i64, want: i64) -> bool {
    let unsure = i64::from(ALWAYS | UNSURE);
    got == want || want == unsure && (got == i64::from(ALWAYS) || tells_of_a_change(got))
}
