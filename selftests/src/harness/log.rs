// SPDX-License-Identifier: GPL-2.0

//! Reports in the kernel log during a test, by the rules of `kernel-log`, which also apply to the
//! log of a whole run.

use crate::harness::options;
use crate::kit::{faults, module};
use kernel_log::{Allowed, Extent};
use std::fs;

/// The reports that are allowed on the running kernel.
fn allowed() -> Allowed {
    Allowed {
        injected_faults: faults::are_known(),
        c_implementation: options().against_c || !module::is_given(),
    }
}

/// The first report during the test of this name. The rest of a race report may be missing, which
/// is left to the check of the whole log.
pub fn first<'a>(test: &str, lines: &'a [String]) -> Option<&'a String> {
    let found = kernel_log::unexpected(lines, allowed(), test, Extent::Part);
    found.first().and_then(|&at| lines.get(at))
}

/// Marks the start of a test in the log, or its end if there is no name.
pub fn mark(test: &str) {
    let line = format!("{}{test}", kernel_log::TEST);
    fs::write("/dev/kmsg", line).expect("write to /dev/kmsg");
}
