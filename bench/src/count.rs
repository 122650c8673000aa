// SPDX-License-Identifier: GPL-2.0

//! Counting instructions.
//!
//! The emulator runs one CPU whose time stamp counter advances by one for each instruction, and
//! skips over idle time (`-icount shift=0,sleep=off`). So a difference of two readings is the number
//! of instructions between them, of the kernel and of everybody, plus the time that was slept.
//! Where something sleeps, the CPU time of this process is taken instead.

use crate::sys;

/// What two readings count when nothing is between them.
const EMPTY: u64 = 2;

/// Instructions while `work` runs. `work` must not sleep.
pub fn of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let start = sys::time_stamp();
    let result = work();
    let end = sys::time_stamp();
    ((end - start).saturating_sub(EMPTY), result)
}

/// The median of `times` runs: the timer's interrupts hit few of them.
pub fn median(times: usize, mut work: impl FnMut()) -> u64 {
    let mut counts: Vec<u64> = (0..times).map(|_| of(&mut work).0).collect();
    counts.sort_unstable();
    counts[times / 2]
}

/// Instructions that this process runs, in user space and in the kernel, per run of `work`.
pub fn cpu_time_each(times: u64, mut work: impl FnMut()) -> u64 {
    let start = sys::cpu_time();
    (0..times).for_each(|_| work());
    (sys::cpu_time() - start) / times
}

/// Instructions that are not idle, of everybody, since the machine started: exact to a tick of
/// 10 ms, which is ten million.
pub fn busy() -> u64 {
    const TICK: u64 = 10_000_000;
    let text = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
    let first = text.lines().next().unwrap_or("");
    let ticks = first
        .split_whitespace()
        .skip(1)
        .map(|ticks| ticks.parse().unwrap_or(0));
    // user, nice, system; idle and waiting are left out; then interrupts.
    let busy = ticks.enumerate().filter(|(at, _)| ![3, 4].contains(at));
    busy.map(|(_, ticks): (_, u64)| ticks).sum::<u64>() * TICK
}

/// The mean.
pub fn mean(counts: &[u64]) -> u64 {
    counts.iter().sum::<u64>() / counts.len() as u64
}

/// Says what is wrong with the clocks, if they do not count instructions.
pub fn obstacle() -> Option<String> {
    // Two instructions a round.
    const ROUNDS: u64 = 1_000_000;
    let cpu = sys::cpu_time();
    let (stamps, ()) = of(|| sys::spin(ROUNDS));
    let cpu = sys::cpu_time() - cpu;
    // The timer's interrupts come on top.
    let right = 2 * ROUNDS..2 * ROUNDS + ROUNDS / 20;
    if !right.contains(&stamps) {
        return Some(format!(
            "the time stamp counter counted {stamps} for {} instructions: is this machine started \
             with -icount shift=0,sleep=off and one CPU?",
            2 * ROUNDS
        ));
    }
    if cpu.abs_diff(stamps) > stamps / 20 {
        return Some(format!(
            "the clock of CPU time counted {cpu} for {stamps} instructions"
        ));
    }
    None
}
