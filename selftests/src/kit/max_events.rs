// SPDX-License-Identifier: GPL-2.0

//! `kernel.user_events_max`, the limit on events of the first group, and the one of all other
//! groups together.

use crate::kit::errno::Result;
use crate::kit::setting::Setting;
use std::fs;

pub const PATH: &str = "/proc/sys/kernel/user_events_max";

pub const DEFAULT: u32 = 32768;

/// The limit of all other groups together, and its default.
pub const GROUPS_PATH: &str = "/proc/sys/kernel/user_events_groups_max";
pub const GROUPS_DEFAULT: u32 = 24576;

pub fn get() -> u32 {
    number_in(PATH)
}

fn number_in(path: &str) -> u32 {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("read {path}: {error}"));
    text.trim().parse().expect("a number")
}

pub fn set(value: &str) -> Result<()> {
    Ok(fs::write(PATH, value)?)
}

/// A limit that is in force until dropped.
pub struct Limit {
    path: &'static str,
    _default: Setting,
}

impl Limit {
    /// Limits the events of the first group.
    pub fn new(most: u32) -> Limit {
        Limit::of(PATH, DEFAULT, most)
    }

    /// Limits the events of all other groups together.
    pub fn of_groups(most: u32) -> Limit {
        Limit::of(GROUPS_PATH, GROUPS_DEFAULT, most)
    }

    fn of(path: &'static str, default: u32, most: u32) -> Limit {
        assert_eq!(number_in(path), default);
        let _default = Setting::new(path, &most.to_string());
        let limit = Limit { path, _default };
        limit.set(most);
        limit
    }

    pub fn set(&self, most: u32) {
        fs::write(self.path, format!("{most}\n")).expect(self.path);
        assert_eq!(number_in(self.path), most);
    }
}
