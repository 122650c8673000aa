// SPDX-License-Identifier: GPL-2.0

//! Registering and unregistering, and how the cost grows with the number of registrations.

use super::{memory, processes, tell};
use crate::events::{described, numbered, Request, Words, TRACING};
use crate::{count, events, sys};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

const MANY: usize = 8000;

const VERY_MANY: usize = 30_000;

/// The requests of these events, with a bit in each word.
pub fn requests_for(words: &Words, events: Range<usize>) -> Vec<Request> {
    let request = |(at, event)| Request::new(&numbered(event), words, at);
    events.enumerate().map(request).collect()
}

/// The cost of each registration.
pub fn register_all(file: &File, requests: &mut [Request]) -> Vec<u64> {
    let registered = requests.iter_mut().map(|request| {
        let (count, result) = count::of(|| request.register(file));
        assert_eq!(result, 0, "register");
        count
    });
    registered.collect()
}

pub fn unregister_all<'a>(
    file: &File,
    requests: impl Iterator<Item = &'a mut Request>,
) -> Vec<u64> {
    let unregistered = requests.map(|request| {
        let (count, result) = count::of(|| request.unregister(file));
        assert_eq!(result, 0, "unregister");
        count
    });
    unregistered.collect()
}

/// Registering the first and the last of many, and the cost of a process with so many
/// registrations.
pub fn first_and_last() {
    let words = Words::new(MANY);
    let (file, mut requests) = (events::data(), requests_for(&words, 0..MANY));

    // All rows of one process, whose memory stays the same.
    processes::with("none");
    let (first, others) = requests.split_at_mut(1);
    let mut counts = register_all(&file, first);
    processes::with("1");
    let (some, others) = others.split_at_mut(99);
    counts.extend(register_all(&file, some));
    processes::with("100");
    counts.extend(register_all(&file, others));
    for first in [100, 400, 1600] {
        tell(&format!("register.{first}"), count::mean(&counts[..first]));
    }
    tell("register.8000", count::mean(&counts[6000..]));
    processes::with("8000");

    // A few, spread over all, so that the number of registrations hardly changes.
    let some: Vec<&mut Request> = requests.iter_mut().skip(40).step_by(80).collect();
    let counts = unregister_all(&file, some.into_iter());
    // The median, as a tick of the timer would be a fiftieth of the mean.
    tell("unregister.8000", count::median_of(counts));
    for request in requests.iter_mut().skip(40).step_by(80) {
        assert_eq!(request.register(&file), 0, "register again");
    }
    count::settle();
    tell("close.8000", count::of(|| drop(file)).0);
}

/// The memory of a trace instance for all events, which is the trace core's minimum for each.
fn memory_of_an_instance() -> u64 {
    let path = format!("{TRACING}/instances/bench");
    let before = memory::settled();
    fs::create_dir(&path).expect("an instance");
    let taken = memory::settled() - before;
    fs::remove_dir(&path).expect("remove an instance");
    taken
}

pub fn memory() {
    // The first registrations fill free parts of allocated pages, and are not counted.
    const FIRST: usize = 1000;
    const REGISTRATIONS: usize = FIRST + 4 * MANY;
    const EVENTS: usize = MANY / 2;
    let mut core = memory_of_an_instance();
    let words = Words::new(REGISTRATIONS + 2 * EVENTS);
    let file = events::data();
    let mut requests: Vec<Request> = (0..REGISTRATIONS + 2 * EVENTS)
        .map(|at| {
            let event = (at + 1).saturating_sub(REGISTRATIONS);
            Request::new(&numbered(event), &words, at)
        })
        .collect();
    let taken_by = |requests: &mut [Request]| {
        let before = memory::settled();
        register_all(&file, requests);
        (memory::settled() - before) / requests.len() as u64
    };

    // Registrations of one event, then of an event each.
    let (of_one, of_many) = requests.split_at_mut(REGISTRATIONS);
    let (first, others) = of_one.split_at_mut(FIRST);
    register_all(&file, first);
    let registration = taken_by(others);
    tell("memory.registration", registration);
    for (requests, row) in of_many.chunks_mut(EVENTS).zip(["memory", "memory.more"]) {
        let event = taken_by(requests).saturating_sub(registration);
        let core_before = core;
        core = memory_of_an_instance();
        let core_each = core.saturating_sub(core_before) / EVENTS as u64;
        tell(&format!("{row}.event"), event);
        tell(&format!("{row}.own"), event.saturating_sub(core_each));
    }
}

pub fn close_of_the_last_user() {
    let words = Words::new(MANY);
    let (file, mut requests) = (events::data(), requests_for(&words, 0..MANY));
    register_all(&file, &mut requests);
    unregister_all(&file, requests.iter_mut());
    // Polling is rare, since it costs instructions.
    const INTERVAL: Duration = Duration::from_millis(100);
    count::settle();
    let start = count::busy();
    let close = count::of(|| drop(file)).0;
    let looked = events::wait_until_none_by(INTERVAL);
    let end = count::busy();
    // The cost of as many polls alone, with the timer's ticks meanwhile.
    for _ in 1..looked {
        sleep(INTERVAL);
        events::wait_until_none();
    }
    let idle = count::busy() - end;
    tell("close.last", close);
    tell("gone.last", (end - start).saturating_sub(idle));
}

/// Number of bits of one event, registered one after the other, that fill a leaf.
const A_LEAF: usize = 63;

/// Registers bits of an event in this number of leaves, and leaves one bit in each.
fn register_thinly(file: &File, leaves: usize) -> Words {
    const BITS: usize = 32;
    let words = Words::new((leaves + 1) * A_LEAF / BITS + 1);
    let mut request = Request::new(&described("bench_thin"), &words, 0);
    for leaf in 0..=leaves {
        let first = leaf * A_LEAF;
        for at in first..first + A_LEAF {
            request.set_bit(&words, at / BITS, (at % BITS) as u8);
            assert_eq!(request.register(file), 0, "register");
        }
        // Thins the previous leaf, which later registrations no longer fill.
        for at in first.saturating_sub(A_LEAF) + 1..first {
            request.set_bit(&words, at / BITS, (at % BITS) as u8);
            assert_eq!(request.unregister(file), 0, "unregister");
        }
    }
    words
}

/// Measures the exit of a process with very many leaves, with all deferred work. The event stays.
pub fn exits_with_thin_leaves() {
    let words = Words::new(1);
    let file = events::data();
    Request::registered(&file, &described("bench_thin"), &words, 0);
    for leaves in [10_000, 20_000, 100_000] {
        let pid = sys::fork_with(|| register_thinly(&events::data(), leaves));
        let count = count::all_tasks_to_the_end(|| sys::end(pid));
        tell(&format!("thin.{leaves}"), count);
    }
}

/// Measures registering beside so many events that the type numbers of the trace core get scarce.
pub fn the_last_of_very_many() {
    const LAST: usize = 1000;
    // Forked first, so that the child inherits no registrations.
    let (start, mut say_start) = sys::pipe();
    let pid = sys::fork(|| register_again(&start, VERY_MANY - LAST..VERY_MANY));
    let words = Words::new(VERY_MANY);
    let (file, mut requests) = (events::data(), requests_for(&words, 0..VERY_MANY));
    let mut last = 0;
    for some in requests.chunks_mut(LAST) {
        last = count::mean(&register_all(&file, some));
        // Lets the tasks run that free C's outgrown tables.
        count::settle();
    }
    tell("register.30000", last);
    say_start.write_all(&[1]).expect("start the other process");
    sys::wait_for_success(pid);
}

/// Waits for the start, then registers these existing events, with a bit each.
fn register_again(mut start: &File, events: Range<usize>) {
    start.read_exact(&mut [0]).expect("wait for the start");
    sys::run_first();
    let words = Words::new(events.len());
    let (file, mut requests) = (events::data(), requests_for(&words, events));
    let counts = register_all(&file, &mut requests);
    tell("again.30000", count::mean(&counts));
}
