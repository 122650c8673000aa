// SPDX-License-Identifier: GPL-2.0

//! What tracefs makes of user events: buffers, filters, triggers, probes, and what switches them.

mod buffers;
mod control;
mod filters;
mod probes;
mod triggers;

use crate::harness::Test;

/// Every test.
pub fn all() -> impl Iterator<Item = Test> {
    [
        control::TESTS,
        filters::TESTS,
        triggers::TESTS,
        buffers::TESTS,
        probes::TESTS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
