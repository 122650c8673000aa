// SPDX-License-Identifier: GPL-2.0

//! A strict parser of `user_events_status`.

use crate::kit::abi::STATUS;
use std::fs;
use std::path::Path;

#[derive(Debug, PartialEq, Eq)]
pub struct Status {
    /// The names of the events, each with its consumers.
    pub events: Vec<(String, Vec<String>)>,
    pub active: usize,
    pub busy: usize,
}

impl Status {
    /// Reads the first group's file.
    #[track_caller]
    pub fn now() -> Status {
        Status::of(Path::new(STATUS))
    }

    #[track_caller]
    pub fn of(path: &Path) -> Status {
        Status::parse(&fs::read_to_string(path).expect("read the status file"))
    }

    /// Parses a listing; panics if it is malformed, or its totals are wrong.
    #[track_caller]
    pub fn parse(text: &str) -> Status {
        let (events, totals) = match text.strip_prefix('\n') {
            Some(totals) => ("", totals),
            None => text
                .split_once("\n\n")
                .unwrap_or_else(|| panic!("no totals: {text:?}")),
        };
        let status = Status {
            events: events.lines().map(event).collect(),
            active: total(totals, 0, "Active: "),
            busy: total(totals, 1, "Busy: "),
        };
        assert!(totals.ends_with('\n') && totals.lines().count() == 2);
        assert_eq!(status.active, status.events.len(), "total of events");
        let busy = status.events.iter().filter(|(_, used)| !used.is_empty());
        assert_eq!(status.busy, busy.count(), "total of busy events");
        status
    }

    pub fn names(&self) -> Vec<&str> {
        self.events.iter().map(|(name, _)| name.as_str()).collect()
    }
}

#[track_caller]
fn event(line: &str) -> (String, Vec<String>) {
    let (name, used) = match line.split_once(" # Used by ") {
        Some((name, used)) => (name, used.split(' ').map(String::from).collect()),
        None => (line, Vec::new()),
    };
    let known = ["ftrace", "perf", "other"];
    let is_name = !name.is_empty() && !name.contains(' ');
    let are_known = used.iter().all(|by: &String| known.contains(&by.as_str()));
    assert!(is_name && are_known, "a bad line: {line:?}");
    (name.into(), used)
}

#[track_caller]
fn total(totals: &str, line: usize, start: &str) -> usize {
    let line = totals.lines().nth(line);
    let number = line.and_then(|line| line.strip_prefix(start)?.parse().ok());
    number.unwrap_or_else(|| panic!("no {start:?} in {totals:?}"))
}
