// SPDX-License-Identifier: GPL-2.0

//! `user_events_profile`: what consumers have missed, and what was refused.

use crate::kit::abi::PROFILE;
use std::fs;
use std::path::Path;

/// What ftrace and perf missed of the event that has this name in the first group's listing.
#[track_caller]
pub fn missed(name: &str) -> (u64, u64) {
    missed_in(Path::new(PROFILE), name)
}

/// The same of the listing that this file has.
#[track_caller]
pub fn missed_in(path: &Path, name: &str) -> (u64, u64) {
    let [ftrace, perf, _] = numbers(path, name);
    (ftrace, perf)
}

/// The writes of the event that failed though there was a consumer.
#[track_caller]
pub fn refused(name: &str) -> u64 {
    let [_, _, refused] = numbers(Path::new(PROFILE), name);
    refused
}

#[track_caller]
fn numbers(path: &Path, name: &str) -> [u64; 3] {
    let profile = fs::read_to_string(path).expect("read the profile");
    let mut lines = profile.lines().map(|line| line.split_whitespace());
    let mut words = lines
        .find_map(|mut words| (words.next() == Some(name)).then_some(words))
        .unwrap_or_else(|| panic!("{name} in the profile: {profile}"));
    let numbers = [(); 3].map(|()| words.next().unwrap().parse().unwrap());
    assert_eq!(words.next(), None, "the profile: {profile}");
    numbers
}
