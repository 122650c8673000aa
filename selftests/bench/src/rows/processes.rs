// SPDX-License-Identifier: GPL-2.0

//! Processes that begin and end.

use super::tell;
use crate::{count, sys};

const TIMES: usize = 21;

/// Where the work of all tasks counts: what the clock's ticks add beside it is little for each of so many. They come in
/// turns, of which the least counts: C frees the enablers of a process in a work after a grace period, beside
/// processes that come later, and what 8000 of them cost was seen to differ by a fifth from one build of this program
/// to the next. The module's cost differs by less than half a per cent.
const MANY_TIMES: u64 = 200;

fn end(pid: i32) {
    sys::wait(pid).expect("wait");
}

/// The median cost of a fork, in the parent alone.
fn fork_call() -> u64 {
    let mut counts: Vec<u64> = (0..TIMES)
        .map(|_| {
            let (count, pid) = count::of(sys::fork_idle);
            end(pid);
            count
        })
        .collect();
    counts.sort_unstable();
    counts[TIMES / 2]
}

/// The least of some turns, for all tasks.
fn least(turns: u64, mut work: impl FnMut()) -> u64 {
    let counts = (0..turns).map(|_| count::all_tasks_each(MANY_TIMES / turns, &mut work));
    counts.min().unwrap_or(0)
}

/// The cost of a process that is made and ends, of all tasks.
fn life(turns: u64) -> u64 {
    least(turns, || end(sys::fork_idle()))
}

fn life_with_exec(turns: u64) -> u64 {
    least(turns, || {
        let pid = sys::fork_exec(c"/init", c"end");
        assert_eq!(sys::wait(pid).expect("wait"), 0, "exec");
    })
}

/// Children of this process, when `registered` is registered.
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

/// The first processes of a machine find memory that nothing has used: they cost less than those after them. No
/// row tells of these.
pub fn warm_up() {
    in_turns("first", 1);
}

/// Where there are no user_events.
pub fn without_user_events() {
    in_turns("unloaded", 1);
}

/// Where there are, and no process uses them.
pub fn beside_user_events() {
    in_turns("unused", 1);
}
