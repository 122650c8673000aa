// SPDX-License-Identifier: GPL-2.0

//! What people see of user events with the tools they trace with, as the distribution ships them.
//! Each test has the tool print, and looks at that.

mod trace_cmd;

use crate::harness::Test;

/// Every test.
pub fn all() -> impl Iterator<Item = Test> {
    [trace_cmd::TESTS].into_iter().flatten().copied()
}
