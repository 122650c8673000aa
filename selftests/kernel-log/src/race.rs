// SPDX-License-Identifier: GPL-2.0

//! KCSAN's reports of races, of which only the module's count: the kernel has many of its own.

use crate::{
    lists::{
        BOUNDARIES,
        KNOWN_RACES, //
    },
    module, //
};

/// A report, of which the lines are given one by one: the title, then two stacks, each below a line that says which
/// task or interrupt it is of.
pub(crate) struct Report {
    is_known: bool,
    /// The current stack has a boundary above this line.
    is_below_boundary: bool,
    has_module: bool,
}

impl Report {
    /// Begins a report, if this line is the title of one.
    pub(crate) fn begin(line: &str) -> Option<Report> {
        line.contains("BUG: KCSAN:").then(|| {
            let mut report = Report {
                is_known: is_known(line),
                is_below_boundary: false,
                has_module: false,
            };
            report.add(line);
            report
        })
    }

    /// Does this line end the report? The end of the log does, too.
    pub(crate) fn is_end(line: &str) -> bool {
        line.contains("==========")
    }

    /// Takes the next line of it.
    pub(crate) fn add(&mut self, line: &str) {
        if line.contains(" by task ") || line.contains(" by interrupt ") {
            self.is_below_boundary = false;
        }
        if BOUNDARIES.matches(line) {
            self.is_below_boundary = true;
        }
        self.has_module |= !self.is_below_boundary && line.contains(module::IN_STACK);
    }

    /// Is it of the module, now that it is over? So it is if the module is on one of the two stacks, with no interrupt
    /// and no page fault in between, and the title is not known.
    pub(crate) fn is_relevant(&self) -> bool {
        self.has_module && !self.is_known
    }
}

/// Does the report have a known title?
fn is_known(title: &str) -> bool {
    KNOWN_RACES
        .entries()
        .any(|race| match title.split_once(race) {
            // An offset follows, and no second function.
            Some((_, rest)) if race.ends_with('+') => !rest.contains(" / "),
            Some((_, rest)) => rest.is_empty(),
            None => false,
        })
}
