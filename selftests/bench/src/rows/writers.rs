// SPDX-License-Identifier: GPL-2.0

//! Records per second of concurrent writers, processes or threads, and of long payloads.

use super::tell;
use super::writing::set_sub_buffers;
use crate::events::{described, Request, Switch, Words, TRACING};
use crate::{count, events, sys};
use std::fs::File;
use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

/// The event of all writers, each with a file of its own.
const NAME: &str = "bench_writers";

/// Rounds on each of the machines.
const ROUNDS: usize = 3;
const TIME: Duration = Duration::from_secs(1);

/// Payloads that are mostly a copy, in bytes, and the size of sub-buffers for one, in kilobytes.
/// Counts mean little here, as the emulator counts some copies byte by byte.
const LONG: &[(usize, &str)] = &[(4000, "4"), (500_000, "512")];

/// Writes until the time is up. Returns the number of records.
fn write_on(file: &File, record: &[u8]) -> u64 {
    let start = Instant::now();
    let mut written = 0;
    // Several writes for each reading of the clock, but not for long.
    let some = if record.len() < 100_000 { 100 } else { 4 };
    while start.elapsed() < TIME {
        for _ in 0..some {
            assert_eq!(sys::write(file, record), record.len() as isize, "write");
        }
        written += some;
    }
    written
}

/// Returns the records per second of this number of threads together, on one open file.
fn threads(count: usize, file: &File, record: &[u8]) -> u64 {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|_| scope.spawn(|| write_on(file, record)))
            .collect();
        let written = threads.into_iter().map(|thread| thread.join());
        written.map(|count| count.expect("a thread")).sum()
    })
}

/// One writer: reports that it is ready, waits for the start, and reports its records.
fn writer(payload: &[u8], mut start: &File, told: &File) {
    let words = Words::new(1);
    let file = events::data();
    let request = Request::registered(&file, &described(NAME), &words, 0);
    let record = [&request.index().to_ne_bytes()[..], payload].concat();
    assert_eq!(sys::write(told, &0u64.to_ne_bytes()), 8, "say ready");
    start.read_exact(&mut [0]).expect("wait for the start");
    assert!(words.is_set(0), "no consumer is attached");
    let written = write_on(&file, &record);
    assert_eq!(sys::write(told, &written.to_ne_bytes()), 8, "say how many");
}

/// Returns the records of this payload per second, of this number of processes together.
fn together(writers: usize, payload: &[u8]) -> u64 {
    let (start, say_start) = sys::pipe();
    let (mut told, say) = sys::pipe();
    let pids: Vec<i32> = (0..writers)
        .map(|_| sys::fork(|| writer(payload, &start, &say)))
        .collect();
    drop(say);
    let mut next = || {
        let mut number = [0; 8];
        told.read_exact(&mut number).expect("a writer failed");
        u64::from_ne_bytes(number)
    };
    (0..writers).for_each(|_| assert_eq!(next(), 0, "ready"));
    sys::write(&say_start, &vec![1; writers]);
    let written = (0..writers).map(|_| next()).sum();
    pids.into_iter().for_each(sys::wait_for_success);
    written
}

/// Measures one writer, two on two processors, and more writers than processors; the same with
/// threads and one open file; and one writer of long payloads.
pub fn at_once() {
    let words = Words::new(1);
    let file = events::data();
    let request = Request::registered(&file, &described(NAME), &words, 0);
    let ftrace = Switch::new(NAME);
    ftrace.turn(true);
    let short = [1u32, 2, 3].map(u32::to_ne_bytes).concat();
    for writers in [1, 2, 4] {
        for _ in 0..ROUNDS {
            tell(&format!("writers.{writers}"), together(writers, &short));
        }
    }
    let record = [&request.index().to_ne_bytes()[..], &short].concat();
    for _ in 0..ROUNDS {
        // The load of the host changes every second, so a ratio is of adjacent runs.
        for count in [2, 4] {
            let one = threads(1, &file, &record);
            let all = threads(count, &file, &record);
            tell("shared.1", one);
            tell(&format!("shared.{count}"), all);
            tell(&format!("shared.{count}.percent"), 100 * all / one);
        }
    }
    for &(length, kilobytes) in LONG {
        set_sub_buffers(TRACING, kilobytes);
        for _ in 0..ROUNDS {
            tell(&format!("long.{length}"), together(1, &vec![b'x'; length]));
        }
    }
    ftrace.turn(false);
    set_sub_buffers(TRACING, "4");
    count::settle();
}
