// SPDX-License-Identifier: GPL-2.0

//! Consumers of user events in tracefs: buffers, filters, triggers, probes, and how to switch them.

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
