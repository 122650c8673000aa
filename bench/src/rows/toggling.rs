// SPDX-License-Identifier: GPL-2.0

//! Enabling and disabling an event, alone and in a crowd.

use super::tell;
use crate::events::{described, Request, Switch, Words};
use crate::{count, events, sys};
use std::fs::File;
use std::io::Read;

const PROCESSES: usize = 200;
const REGISTRATIONS: usize = 500;
/// What the clock's ticks add beside it is little for each of so many.
const TIMES: u64 = 100;

fn toggle(name: &str, words: &Words, at: usize) -> u64 {
    let switch = Switch::new(name);
    let round = || {
        switch.turn(true);
        assert!(words.is_set(at), "the bit of an enabled event");
        switch.turn(false);
        assert!(!words.is_set(at), "the bit of a disabled event");
    };
    round();
    count::everybodys_each(TIMES, round)
}

/// One of the crowd registers, and keeps what it needs for that.
fn join_the_crowd() -> (Words, File) {
    let words = Words::new(REGISTRATIONS + 1);
    let file = events::data();
    for at in 0..=REGISTRATIONS {
        let name = match at {
            REGISTRATIONS => "bench_shared".to_string(),
            at => format!("bench_crowd_{at}"),
        };
        let mut request = Request::new(&described(&name), &words, at);
        assert_eq!(request.register(&file), 0, "register in the crowd");
    }
    (words, file)
}

/// The three costs of the same switch.
pub fn alone_and_in_a_crowd() {
    let words = Words::new(2);
    let file = events::data();
    let mut own = Request::new(&described("bench_own"), &words, 0);
    assert_eq!(own.register(&file), 0, "register");
    tell("toggle.alone", toggle("bench_own", &words, 0));
    // The crowd is not to inherit it.
    assert_eq!(own.unregister(&file), 0, "unregister");

    let (mut ready, say_ready) = sys::pipe();
    let pids: Vec<i32> = (0..PROCESSES)
        .map(|_| {
            let pid = sys::fork(|| {
                let joined = std::panic::catch_unwind(join_the_crowd);
                sys::write(&say_ready, &[u8::from(joined.is_ok())]);
                sys::pause();
            });
            let mut is_ready = [0];
            ready
                .read_exact(&mut is_ready)
                .expect("read from the crowd");
            assert_eq!(is_ready, [1], "one of the crowd failed");
            pid
        })
        .collect();
    assert_eq!(own.register(&file), 0, "register");
    tell("toggle.beside", toggle("bench_own", &words, 0));

    let mut shared = Request::new(&described("bench_shared"), &words, 1);
    assert_eq!(shared.register(&file), 0, "register");
    tell("toggle.shared", toggle("bench_shared", &words, 1));

    for pid in pids {
        sys::kill(pid);
        sys::wait(pid).expect("wait");
    }
}
