// SPDX-License-Identifier: GPL-2.0

//! `kernel.user_events_max`: how many events there may be, and the same of all groups with names together.

use crate::kit::errno::Result;
use std::fs;

pub const PATH: &str = "/proc/sys/kernel/user_events_max";

/// What it is at first.
pub const DEFAULT: u32 = 32768;

/// Of all groups with names, and what that is at first.
pub const GROUPS_PATH: &str = "/proc/sys/kernel/user_events_groups_max";
pub const GROUPS_DEFAULT: u32 = 24576;

/// Reads it.
pub fn get() -> u32 {
    number_in(PATH)
}

fn number_in(path: &str) -> u32 {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("read {path}: {error}"));
    text.trim().parse().expect("a number")
}

/// Writes it.
pub fn set(value: &str) -> Result<()> {
    Ok(fs::write(PATH, value)?)
}

/// A limit that is gone when this is dropped.
pub struct Limit {
    path: &'static str,
    default: u32,
}

impl Limit {
    /// Of events in the first group.
    pub fn new(most: u32) -> Limit {
        Limit::of(PATH, DEFAULT, most)
    }

    /// Of events in all others together.
    pub fn of_groups(most: u32) -> Limit {
        Limit::of(GROUPS_PATH, GROUPS_DEFAULT, most)
    }

    fn of(path: &'static str, default: u32, most: u32) -> Limit {
        assert_eq!(number_in(path), default);
        let limit = Limit { path, default };
        limit.set(most);
        limit
    }

    pub fn set(&self, most: u32) {
        fs::write(self.path, format!("{most}\n")).expect(self.path);
        assert_eq!(number_in(self.path), most);
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = fs::write(self.path, self.default.to_string());
    }
}
