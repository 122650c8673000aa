// SPDX-License-Identifier: GPL-2.0

//! Processes that begin and end.

use super::tell;
use crate::events::{described, Request, Words};
use crate::{count, events, sys};

const TIMES: usize = 101;

/// The median cost of a fork, in the parent alone.
pub fn fork_call() -> u64 {
    let mut counts: Vec<u64> = (0..TIMES)
        .map(|_| {
            let (count, pid) = count::of(sys::fork_idle);
            sys::wait(pid).expect("wait");
            count
        })
        .collect();
    counts.sort_unstable();
    counts[TIMES / 2]
}

/// The median cost of a process that is made and ends, of everybody.
pub fn life() -> u64 {
    count::median(TIMES, || {
        let pid = sys::fork_idle();
        sys::wait(pid).expect("wait");
    })
}

fn life_with_exec() -> u64 {
    count::median(TIMES, || {
        let pid = sys::fork_exec(c"/init", c"end");
        assert_eq!(sys::wait(pid).expect("wait"), 0, "exec");
    })
}

fn unregistered(suffix: &str) {
    tell(&format!("fork.{suffix}"), fork_call());
    tell(&format!("life.{suffix}"), life());
    tell(&format!("exec.{suffix}"), life_with_exec());
}

/// Where there are no user_events.
pub fn without_user_events() {
    unregistered("unloaded");
}

/// Where there are, and nobody uses them.
pub fn beside_user_events() {
    unregistered("none");
}

/// Of a process with one registration.
pub fn with_one_registration() {
    let words = Words::new(1);
    let file = events::data();
    let mut request = Request::new(&described("bench_one"), &words, 0);
    assert_eq!(request.register(&file), 0, "register");
    tell("fork.1", fork_call());
    tell("life.1", life());
}
