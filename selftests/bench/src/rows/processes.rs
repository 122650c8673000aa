// SPDX-License-Identifier: GPL-2.0

//! Processes that begin and end.

use super::tell;
use crate::{count, sys};

const TIMES: usize = 21;

/// Processes of a row of all tasks' work, divided among its turns: enough to make the timer's ticks
/// small for each. The least turn counts: C frees the enablers of a process in a work item after a
/// grace period, beside later processes. Its cost for 8000 of them differs by a fifth between
/// builds of this program, the module's by less than half a per cent.
const MANY_TIMES: u64 = 200;

fn end(pid: i32) {
    sys::wait(pid).expect("wait");
}

/// The median cost of a fork, in the parent alone.
fn fork_call() -> u64 {
    let counts = (0..TIMES).map(|_| {
        let (count, pid) = count::of(sys::fork_idle);
        end(pid);
        count
    });
    count::median_of(counts.collect())
}

/// The least mean of several turns, for all tasks.
fn least(turns: u64, mut work: impl FnMut()) -> u64 {
    let counts = (0..turns).map(|_| count::all_tasks_each(MANY_TIMES / turns, &mut work));
    counts.min().unwrap_or(0)
}

/// The cost of a process from fork to end, of all tasks.
fn life(turns: u64) -> u64 {
    least(turns, || end(sys::fork_idle()))
}

fn life_with_exec(turns: u64) -> u64 {
    least(turns, || {
        let pid = sys::fork_exec(c"/init", c"end");
        assert_eq!(sys::wait(pid).expect("wait"), 0, "exec");
    })
}

/// Measures children of this process; `registered` names its registrations.
pub fn with(registered: &str) {
    in_turns(registered, 4);
}

fn in_turns(registered: &str, turns: u64) {
    tell(&format!("fork.{registered}"), fork_call());
    tell(&format!("life.{registered}"), life(turns));
    for _ in 0..TIMES {
        // In nanoseconds of the emulated machine.
        let (time, ()) = count::of(|| end(sys::fork_idle()));
        tell(&format!("time.{registered}"), time);
    }
    tell(&format!("exec.{registered}"), life_with_exec(turns));
}

/// Runs the first processes of a machine. They get fresh memory and cost less, so they are in no
/// row.
pub fn warm_up() {
    in_turns("first", 1);
}

pub fn without_user_events() {
    in_turns("unloaded", 1);
}

pub fn beside_user_events() {
    in_turns("unused", 1);
}
