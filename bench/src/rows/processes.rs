// SPDX-License-Identifier: GPL-2.0

//! Processes that begin and end.

use super::tell;
use crate::{count, sys};

const TIMES: usize = 21;

/// Where everybody's work counts: what the clock's ticks add beside it is little for each of so many.
const MANY_TIMES: u64 = 200;

/// The median cost of a fork, in the parent alone.
fn fork_call() -> u64 {
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

/// The cost of a process that is made and ends, of everybody.
fn life() -> u64 {
    count::everybodys_each(MANY_TIMES, || {
        let pid = sys::fork_idle();
        sys::wait(pid).expect("wait");
    })
}

/// How long that takes, in nanoseconds of the emulated machine.
fn life_time() -> u64 {
    count::median(5, || {
        let pid = sys::fork_idle();
        sys::wait(pid).expect("wait");
    })
}

fn life_with_exec() -> u64 {
    count::everybodys_each(MANY_TIMES, || {
        let pid = sys::fork_exec(c"/init", c"end");
        assert_eq!(sys::wait(pid).expect("wait"), 0, "exec");
    })
}

/// Children of this process, when `registered` is registered.
pub fn with(registered: &str) {
    tell(&format!("fork.{registered}"), fork_call());
    tell(&format!("life.{registered}"), life());
    tell(&format!("time.{registered}"), life_time());
    tell(&format!("exec.{registered}"), life_with_exec());
}

/// The first processes of a machine find memory that nothing has used: they cost less than those after them. No
/// row tells of these.
pub fn warm_up() {
    with("first");
}

/// Where there are no user_events.
pub fn without_user_events() {
    with("unloaded");
}

/// Where there are, and nobody uses them.
pub fn beside_user_events() {
    with("unused");
}
