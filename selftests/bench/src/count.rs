// SPDX-License-Identifier: GPL-2.0

//! Counting instructions.
//!
//! The emulator runs one CPU whose time stamp counter advances by one for each instruction, and
//! skips idle time (`-icount shift=0,sleep=off`). So the difference of two readings is the number
//! of instructions between them, of the kernel and of all tasks, plus the time of sleeps. If a task
//! sleeps, or leaves work to others, an idler fills the gaps, and its time is subtracted.

use crate::sys;
use std::sync::OnceLock;
use std::time::Duration;

/// Instructions between two adjacent readings.
const EMPTY: u64 = 2;

/// Instructions while `work` runs. `work` must not sleep.
pub fn of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    sys::mark::<{ sys::BEGIN }>();
    let start = sys::time_stamp();
    let result = work();
    let end = sys::time_stamp();
    sys::mark::<{ sys::END }>();
    ((end - start).saturating_sub(EMPTY), result)
}

/// The median of `times` runs: the timer's interrupts hit few of them.
pub fn median(times: usize, work: impl FnMut()) -> u64 {
    median_then(times, work, || ())
}

/// Like [`median`]; `after` runs after each run, uncounted.
pub fn median_then(times: usize, mut work: impl FnMut(), mut after: impl FnMut()) -> u64 {
    let counts = (0..times).map(|_| {
        let (count, ()) = of(&mut work);
        after();
        count
    });
    median_of(counts.collect())
}

pub fn median_of(mut counts: Vec<u64>) -> u64 {
    counts.sort_unstable();
    counts[counts.len() / 2]
}

/// Instructions of all tasks but the idler, per run of `work`, including work queues and grace
/// periods. `work` may sleep.
pub fn all_tasks_each(times: u64, mut work: impl FnMut()) -> u64 {
    settle();
    sys::mark::<{ sys::BEGIN }>();
    let start = busy();
    for _ in 0..times {
        work();
    }
    settle();
    let end = busy();
    sys::mark::<{ sys::END }>();
    // The cost of settling alone, mostly the ticks of the timer.
    settle();
    let idle = busy() - end;
    (end - start).saturating_sub(idle) / times
}

/// Like [`all_tasks_each`], the median of `times` runs: some periodic work of the kernel, which
/// takes up to half a million instructions, hits few of them. `work` sleeps until its deferred work
/// is done.
pub fn all_tasks_median(times: usize, mut work: impl FnMut()) -> u64 {
    settle();
    sys::mark::<{ sys::BEGIN }>();
    let counts = (0..times).map(|_| {
        let start = busy();
        work();
        busy() - start
    });
    let median = median_of(counts.collect());
    sys::mark::<{ sys::END }>();
    median
}

/// Instructions of all tasks but the idler, of `work` and of its deferred work, until that ends.
/// `work` may sleep.
pub fn all_tasks_to_the_end(work: impl FnOnce()) -> u64 {
    settle();
    let start = busy();
    settle();
    let mut end = busy();
    let idle = end - start;
    work();
    let mut settled = 0;
    loop {
        settle();
        settled += 1;
        let now = busy();
        // `idle` was counted without any work.
        let is_quiet = now - end < 2 * idle;
        end = now;
        if is_quiet {
            break;
        }
    }
    (end - start).saturating_sub(idle * (1 + settled))
}

/// Lets deferred work run, and ends the scheduler's penalty for a process that rarely sleeps.
pub fn settle() {
    if let Some(shift) = SHIFT.get() {
        sys::spin(*shift);
    }
    std::thread::sleep(Duration::from_millis(50));
}

/// Rounds to spin before each measurement. They shift the timer's ticks, which shows the ticks'
/// part in a count.
static SHIFT: OnceLock<u64> = OnceLock::new();

/// Sets the rounds, for this process and its children.
pub fn shift_by(rounds: u64) {
    SHIFT.get_or_init(|| rounds);
}

/// The process that uses the idle time, so that all time is a task's.
static IDLER: OnceLock<i32> = OnceLock::new();

/// Starts the idler. Call once, before everything that counts.
pub fn start_idler() {
    IDLER.get_or_init(sys::fork_idler);
}

/// Instructions of all tasks but the idler.
pub fn busy() -> u64 {
    let idler = *IDLER.get().expect("the idler");
    sys::time_stamp() - sys::cpu_time_of(idler)
}

pub fn mean(counts: &[u64]) -> u64 {
    counts.iter().sum::<u64>() / counts.len() as u64
}

/// Returns the reason if the clocks do not count instructions.
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
