// SPDX-License-Identifier: GPL-2.0

//! Tests of loading and unloading, under load, and of long duration.

mod concurrency;
mod groups;
mod load;
mod soak;
mod storm;
mod stress_users;
mod threads;
mod unloading;

use crate::harness::Test;

pub use load::REFUSAL;

pub fn all() -> impl Iterator<Item = Test> {
    [
        load::TESTS,
        unloading::TESTS,
        storm::TESTS,
        threads::TESTS,
        soak::TESTS,
        concurrency::TESTS,
        groups::TESTS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
