// SPDX-License-Identifier: GPL-2.0

//! Several who write at once, by the clock: what they get done in the same time.

use super::tell;
use crate::events::{described, Request, Switch, Words};
use crate::{count, events, sys};
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

/// The event they all write to, on a file of their own each.
const NAME: &str = "bench_writers";

/// In each of the machines that take turns.
const ROUNDS: usize = 3;
const TIME: Duration = Duration::from_secs(1);

/// Writes until the time is up. Returns how many records.
fn write_on(file: &File, record: &[u8]) -> u64 {
    let start = Instant::now();
    let mut written = 0;
    while start.elapsed() < TIME {
        for _ in 0..100 {
            assert_eq!(sys::write(file, record), record.len() as isize, "write");
        }
        written += 100;
    }
    written
}

/// What one writer does: says that it is ready, waits for the others, and says what it got done.
fn writer(mut start: &File, told: &File) {
    let words = Words::new(1);
    let file = events::data();
    let mut request = Request::new(&described(NAME), &words, 0);
    assert_eq!(request.register(&file), 0, "register");
    let payload = [1u32, 2, 3].map(u32::to_ne_bytes).concat();
    let record = [&request.index().to_ne_bytes()[..], &payload].concat();
    assert_eq!(sys::write(told, &0u64.to_ne_bytes()), 8, "say ready");
    start.read_exact(&mut [0]).expect("wait for the start");
    assert!(words.is_set(0), "no consumer is attached");
    let written = write_on(&file, &record);
    assert_eq!(sys::write(told, &written.to_ne_bytes()), 8, "say how many");
}

/// How many records so many processes write in a second, together.
fn together(writers: usize) -> u64 {
    let (start, say_start) = sys::pipe();
    let (mut told, say) = sys::pipe();
    let pids: Vec<i32> = (0..writers)
        .map(|_| {
            sys::fork(|| {
                let wrote = std::panic::catch_unwind(|| writer(&start, &say));
                sys::exit_now(i32::from(wrote.is_err()));
            })
        })
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
    for pid in pids {
        assert_eq!(sys::wait(pid).expect("wait"), 0, "a writer failed");
    }
    written
}

/// One writer, two on two processors, and more than there are processors.
pub fn at_once() {
    let words = Words::new(1);
    let file = events::data();
    let mut request = Request::new(&described(NAME), &words, 0);
    assert_eq!(request.register(&file), 0, "register");
    let ftrace = Switch::new(NAME);
    ftrace.turn(true);
    for writers in [1, 2, 4] {
        for _ in 0..ROUNDS {
            tell(&format!("writers.{writers}"), together(writers));
        }
    }
    ftrace.turn(false);
    count::settle();
}
