// SPDX-License-Identifier: GPL-2.0

//! What in the kernel's log is a report beside a test. `kernel-log` has the rules, by which the log of a whole run is judged,
//! too.

use crate::harness::options;
use crate::kit::{faults, machine, module};
use kernel_log::{Allowed, Extent};

/// What is allowed beside a test on the running kernel.
fn allowed() -> Allowed {
    Allowed {
        injected_faults: faults::are_known(),
        c_implementation: options().against_c || !module::is_given(),
    }
}

/// The first line that says that something is wrong, of those that the test of this name brought about. What is still to
/// come of a report of a race, the check of the whole log sees.
pub fn first<'a>(test: &str, lines: &'a [String]) -> Option<&'a String> {
    let found = kernel_log::unexpected(lines, allowed(), test, Extent::Part);
    found.first().and_then(|&at| lines.get(at))
}

/// Says in the log that the test of this name begins; without a name, that it is over.
pub fn mark(test: &str) {
    machine::say(&format!("{}{test}", kernel_log::TEST));
}
