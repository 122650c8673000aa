// SPDX-License-Identifier: GPL-2.0

//! Groups of events beside the first: each has a table of events, data, status and profile files,
//! and limits of its own.

mod apart;
mod busy;
mod control;
mod files;
mod limits;
mod lines;
mod names;
mod rate;
mod tasks;

use crate::harness::Test;

/// Every test.
pub fn all() -> impl Iterator<Item = Test> {
    [
        control::TESTS,
        busy::TESTS,
        apart::TESTS,
        limits::TESTS,
        rate::TESTS,
        lines::TESTS,
        names::TESTS,
        files::TESTS,
        tasks::TESTS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
