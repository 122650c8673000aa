// SPDX-License-Identifier: GPL-2.0

//! `kernel.user_events_max`: how many events there may be.

use crate::kit::errno::Result;
use std::fs;

pub const PATH: &str = "/proc/sys/kernel/user_events_max";

/// What it is at first.
pub const DEFAULT: u32 = 32768;

/// Reads it.
pub fn get() -> u32 {
    let text = fs::read_to_string(PATH).expect("read user_events_max");
    text.trim().parse().expect("a number")
}

/// Writes it.
pub fn set(value: &str) -> Result<()> {
    Ok(fs::write(PATH, value)?)
}

/// A limit that is gone when this is dropped.
pub struct Limit;

impl Limit {
    pub fn new(most: u32) -> Limit {
        let limit = Limit;
        limit.set(most);
        limit
    }

    pub fn set(&self, most: u32) {
        set(&format!("{most}\n")).unwrap();
        assert_eq!(get(), most);
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = set(&DEFAULT.to_string());
    }
}
