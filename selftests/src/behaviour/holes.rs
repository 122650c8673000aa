// SPDX-License-Identifier: GPL-2.0

//! Bits in pages of a file in memory, into which holes are punched: a fault there waits until a hole is whole, also where it
//! is asked not to. What waits is not what others need.

use crate::harness::tests;
use crate::kit::child::{self, Child};
use crate::kit::event::{repair_pending, wait_gone, Event};
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
use crate::kit::tracefs::TraceInstance;
use crate::kit::{machine, os};
use std::fs::File;
use std::time::{Duration, Instant};

tests!("holes":
    other_events_go_meanwhile.limit(400),
);

const EVENT: &str = "st_holes";

/// How large the file is, and the holes.
const PAGES: usize = 16 << 10;

/// As many as fill a queue of the kernel's.
const PROCESSES: usize = 400;

/// Punches holes of the whole file until it is killed. Before each all pages are made.
fn puncher(file: &File) -> Child {
    let mut child = child::fork(|line| {
        let length = (PAGES * PAGE) as i64;
        for times in 0.. {
            os::allocate(file, 0, length).expect("allocate");
            os::punch_hole(file, 0, length).expect("punch a hole");
            if times == 1 {
                line.say("punching");
            }
        }
    });
    child.line.hear("punching");
    child
}

/// How long it takes another event to go, on average.
fn removal() -> Duration {
    const TIMES: u32 = 20;
    let times = (0..TIMES).map(|_| {
        let other = Event::new("st_holes_other u32 a");
        let start = Instant::now();
        other.end();
        wait_gone("st_holes_other");
        start.elapsed()
    });
    times.sum::<Duration>() / TIMES
}

fn other_events_go_meanwhile() {
    let file = os::memory_file((PAGES * PAGE) as u64);
    let mut event = Event::new(&format!("{EVENT} u32 a"));
    let page = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_SHARED).expect("mmap");
    let own = std::mem::replace(&mut event.page, page);
    let text = format!("{EVENT} u32 a");
    let registered = event.data.register_text(&text, event.page.address(), 0);
    assert_eq!(registered, Ok(event.index));
    // The page is not in the tables of those.
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let mut child = child::fork(|line| {
                line.say("runs");
                line.hear("never said");
            });
            child.line.hear("runs");
            child
        })
        .collect();
    let before = removal();
    let puncher = puncher(&file);
    let with_puncher = removal();
    // The event is switched all the time, so that pages are to be faulted in all the time.
    let top = TraceInstance::top();
    let switcher = child::fork(|_| loop {
        top.enable(EVENT);
        top.disable(EVENT);
    });
    let during = removal();
    println!("  # another event goes in {before:?}; in {with_puncher:?} beside holes; in {during:?} beside faults there");
    switcher.kill();
    puncher.kill();
    top.enable(EVENT);
    event.wait_set();
    top.disable(EVENT);
    event.wait_clear();
    assert!(!repair_pending(std::process::id() as i32));
    drop((children, own));
    let most = 3 * with_puncher + Duration::from_millis(100) * machine::slowness();
    assert!(during <= most, "{during:?}, and was to take {most:?}");
}
