// SPDX-License-Identifier: GPL-2.0

//! Registering and unregistering, and how the cost grows with what is registered.

use super::{processes, tell};
use crate::events::{described, Request, Words};
use crate::{count, events, sys};
use std::fs::File;

const MANY: usize = 8000;

/// A file with many events and bits, and what each registration cost.
fn register_many(words: &Words) -> (File, Vec<Request>, Vec<u64>) {
    let file = events::data();
    let mut requests: Vec<Request> = (0..MANY)
        .map(|at| Request::new(&described(&format!("bench_{at}")), words, at))
        .collect();
    let counts = requests
        .iter_mut()
        .map(|request| {
            let (count, result) = count::of(|| request.register(&file));
            assert_eq!(result, 0, "register");
            count
        })
        .collect();
    (file, requests, counts)
}

/// Registering the first and the last of many, and what a process with so many registrations costs.
pub fn first_and_last() {
    let words = Words::new(MANY);
    let (file, mut requests, counts) = register_many(&words);
    for first in [100, 400, 1600] {
        tell(&format!("register.{first}"), count::mean(&counts[..first]));
    }
    tell("register.8000", count::mean(&counts[6000..]));

    tell("fork.8000", processes::fork_call());
    tell("life.8000", processes::life());

    // A few of them, spread over all, so that there are still about as many.
    let counts: Vec<u64> = requests
        .iter_mut()
        .skip(40)
        .step_by(80)
        .map(|request| {
            let (count, result) = count::of(|| request.unregister(&file));
            assert_eq!(result, 0, "unregister");
            count
        })
        .collect();
    tell("unregister.8000", count::mean(&counts));

    tell("close.8000", count::of(|| sys::close(file)).0);
}

/// Closing a file whose events go with it.
pub fn close_of_the_last_user() {
    let words = Words::new(MANY);
    let (file, mut requests, _) = register_many(&words);
    for request in &mut requests {
        assert_eq!(request.unregister(&file), 0, "unregister");
    }
    let busy = count::busy();
    tell("close.last", count::of(|| sys::close(file)).0);
    events::wait_until_none();
    tell("gone.last", count::busy() - busy);
}
