// SPDX-License-Identifier: GPL-2.0

//! Enabling and disabling an event, alone and beside others.

use super::registering::{register_all, unregister_all};
use super::{floor, tell};
use crate::events::{described, Request, Switch, Words};
use crate::{count, events, sys};
use std::fs::File;
use std::thread::sleep;
use std::time::Duration;

const PROCESSES: usize = 200;
const REGISTRATIONS: usize = 500;
const ROUNDS: usize = 51;
/// A pause after a change, longer than a grace period and the deferred work.
const PAUSE: Duration = Duration::from_millis(10);

/// Switches an event on and off. During the pause after each change its deferred work is done, and
/// its grace periods end.
///
/// `check` is called after each change.
pub fn toggle_and(name: &str, check: impl Fn(bool)) -> u64 {
    let switch = Switch::new(name);
    let change = |on| {
        switch.turn(on);
        sleep(PAUSE);
        check(on);
    };
    let round = || {
        change(true);
        change(false);
    };
    round();
    count::all_tasks_median(ROUNDS, round)
}

/// Like [`toggle_and`], for an event whose bit must follow each change.
pub fn toggle(name: &str, words: &Words, at: usize) -> u64 {
    toggle_and(name, |on| {
        assert_eq!(words.is_set(at), on, "the bit of an event that is {on}");
    })
}

fn in_one_page() {
    const BITS: usize = 1000;
    let words = Words::new(2 * 1024);
    let first = words.first_of_page();
    let file = events::data();
    let mut requests: Vec<_> = (0..BITS)
        .map(|bit| Request::new(&described("bench_page"), &words, first + bit))
        .collect();
    register_all(&file, &mut requests);
    tell(
        "toggle.page",
        toggle("bench_page", &words, first + BITS - 1),
    );
    unregister_all(&file, requests.iter_mut());
}

/// Measures enabling an event, alone and while another process toggles an event of all processes.
fn beside_a_toggle() {
    const TIMES: usize = 60;
    let switch = Switch::new("bench_own");
    let enable = || {
        let (count, ()) = count::of(|| switch.turn(true));
        switch.turn(false);
        count
    };
    enable();
    let alone: Vec<u64> = (0..TIMES).map(|_| enable()).collect();
    tell("enable.alone", count::mean(&alone));

    let toggler = sys::fork(|| {
        let shared = Switch::new("bench_shared");
        loop {
            shared.turn(true);
            shared.turn(false);
        }
    });
    let beside: Vec<u64> = (0..TIMES)
        .map(|round| {
            // Varying pauses, to hit all moments of a change.
            sleep(Duration::from_micros(1000 + 137 * round as u64));
            enable()
        })
        .collect();
    sys::end(toggler);
    Switch::new("bench_shared").turn(false);
    tell("enable.beside", count::mean(&beside));
}

/// Registers the events of one of the other processes. Returns the words and the file.
fn join_the_others() -> (Words, File) {
    let words = Words::new(REGISTRATIONS + 1);
    let file = events::data();
    for at in 0..=REGISTRATIONS {
        let name = match at {
            REGISTRATIONS => "bench_shared".to_string(),
            at => format!("bench_crowd_{at}"),
        };
        Request::registered(&file, &described(&name), &words, at);
    }
    (words, file)
}

/// Measures toggling an event alone, beside other processes, and shared with them.
pub fn alone_and_beside_others() {
    floor::toggle();
    let words = Words::new(2);
    let file = events::data();
    let mut own = Request::registered(&file, &described("bench_own"), &words, 0);
    tell("toggle.alone", toggle("bench_own", &words, 0));
    // The others must not inherit the event.
    assert_eq!(own.unregister(&file), 0, "unregister");
    in_one_page();

    let pids: Vec<i32> = (0..PROCESSES)
        .map(|_| sys::fork_with(join_the_others))
        .collect();
    assert_eq!(own.register(&file), 0, "register");
    tell("toggle.beside", toggle("bench_own", &words, 0));

    Request::registered(&file, &described("bench_shared"), &words, 1);
    tell("toggle.shared", toggle("bench_shared", &words, 1));
    beside_a_toggle();

    pids.into_iter().for_each(sys::end);
}
