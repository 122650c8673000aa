// SPDX-License-Identifier: GPL-2.0

//! `user_events_profile`: the records missed by consumers, and the refused writes.

use crate::kit::abi::PROFILE;
use std::fs;
use std::path::Path;

/// The records missed by ftrace and perf, of an event by its name in the first group's profile.
#[track_caller]
pub fn missed(name: &str) -> (u64, u64) {
    missed_in(Path::new(PROFILE), name)
}

/// The same by the profile of any group.
#[track_caller]
pub fn missed_in(path: &Path, name: &str) -> (u64, u64) {
    let [ftrace, perf, _] = numbers(path, name);
    (ftrace, perf)
}

/// The event's writes that failed although a consumer was attached.
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
