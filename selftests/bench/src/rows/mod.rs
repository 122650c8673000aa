// SPDX-License-Identifier: GPL-2.0

//! What is measured.

pub mod exceeded;
mod floor;
mod memory;
pub mod processes;
pub mod registering;
pub mod row;
pub mod table;
pub mod toggling;
pub mod writers;
pub mod writing;

use crate::sys;

/// All groups that count and need user_events. Each runs in a process of its own.
pub const GROUPS: &[(&str, fn())] = &[
    ("memory", registering::memory),
    ("nothing", writing::nothing),
    ("core", floor::records),
    ("numbers", writing::numbers),
    ("runs", writing::runs_of_programs),
    ("strings", writing::strings),
    ("large", writing::large),
    ("instead", writing::instead),
    ("many", registering::first_and_last),
    ("last", registering::close_of_the_last_user),
    ("toggle", toggling::alone_and_beside_others),
    ("far", registering::the_last_of_very_many),
];

/// The group that goes by the clock, on a machine of its own, which counts nothing.
pub const BY_THE_CLOCK: (&str, fn()) = ("writers", writers::at_once);

/// Tells what was counted for a row.
pub fn tell(key: &str, count: u64) {
    println!("bench {key} {count}");
    sys::mark_row();
}
