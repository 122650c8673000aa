// SPDX-License-Identifier: GPL-2.0

//! The measurements.

pub mod alternatives;
#[cfg(feature = "clock")]
mod clock;
pub mod exceeded;
mod floor;
mod groups;
mod memory;
pub mod processes;
pub mod registering;
pub mod row;
pub mod table;
pub mod toggling;
pub mod writers;
pub mod writing;

use crate::sys;

/// The groups of rows that count and need user_events. Each has machines of its own.
pub const GROUPS: &[(&str, fn())] = &[
    ("memory", registering::memory),
    ("nothing", writing::nothing),
    ("core", floor::records),
    ("numbers", writing::numbers),
    ("runs", writing::runs_of_programs),
    ("strings", || writing::strings_of(&[100])),
    ("long", || writing::strings_of(&[1000, 4000])),
    ("large", writing::large),
    ("instead", writing::instead),
    ("many", registering::first_and_last),
    ("last", registering::close_of_the_last_user),
    ("toggle", toggling::alone_and_beside_others),
    ("far", registering::the_last_of_very_many),
    ("threads", writing::threads),
];

/// Groups that C lacks, or that take C hours.
pub const WITHOUT_C: &[(&str, fn())] = &[
    ("groups", groups::in_one),
    ("others", groups::beside_others),
    ("others-toggle", groups::toggle_beside_others),
    ("thin", registering::exits_with_thin_leaves),
];

pub fn has_c(group: &str) -> bool {
    !WITHOUT_C.iter().any(|(name, _)| *name == group)
}

/// Rows that C refuses, measured with the plugin only.
#[cfg(feature = "preemption")]
pub const LONG_TO_PERF: (&str, fn()) = ("long-to-perf", writing::long_to_perf);

/// The timed group, on a machine of its own, which counts nothing.
pub const BY_THE_CLOCK: (&str, fn()) = ("writers", writers::at_once);

/// The group of other ways to record, on machines of its own, which have LTTng.
pub const ALTERNATIVES: (&str, fn()) = ("alternatives", alternatives::measure);

/// All timed groups. The second is of the host's clock.
pub const TIMED: &[(&str, fn())] = &[
    BY_THE_CLOCK,
    #[cfg(feature = "clock")]
    ("clock", clock::rows),
];

pub fn tell(key: &str, count: u64) {
    println!("bench {key} {count}");
    sys::mark::<{ sys::ROW }>();
}
