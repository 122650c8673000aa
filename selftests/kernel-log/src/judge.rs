// SPDX-License-Identifier: GPL-2.0

//! Finds the lines of a log that report an error.

use crate::{
    check::Extent,
    lists::{
        self,
        EXPECTED,
        OF_FAULTS,
        REPORTS, //
    },
    module,
    race, //
};

/// Stands in a log for lines that were overwritten before they were read. Always an error.
pub const LOST: &str = "(lines lost)";

/// Errors that are allowed in addition.
#[derive(Clone, Copy, Default)]
pub struct Allowed {
    /// Allocations were made to fail, which the kernel may report.
    pub injected_faults: bool,
    /// The kernel has the C implementation, which logs every bit that it cannot write, and makes
    /// the trace core warn of a record that is too long for perf.
    pub c_implementation: bool,
}

/// The stack of the task at the limit of its memory cgroup follows. If the whole machine is out of
/// memory, there is another message.
const LIMIT: &str = " invoked oom-killer: ";

/// The stack of the task whose allocation has failed follows.
const REFUSED: [&str; 2] = [" page allocation failure: ", " vmalloc error: "];

/// The trace core warns once of a field that it cannot define because an allocation failed.
const UNDEFINED: &str = " event_define_fields+";

/// The trace core warns once of a record that is too long for perf, for which the C implementation
/// requests room.
const TOO_LONG: &str = " perf_trace_buf_alloc+";

/// Maximum distance of an allowed line and its stack. Between them are lines about the task and the
/// machine.
const BEFORE_STACK: usize = 8;

/// The same distance if registers are dumped.
const REGISTERS: usize = 40;

/// Precedes the name of the test that begins, in a line of the selftests'. Without a name, no test
/// runs.
pub const TEST: &str = "selftests: test: ";

/// Returns the positions of the lines that report an error; for a race, that of the report's title.
/// The lines have neither time nor task before them. `test` runs when they begin. An unfinished
/// report of a race is not judged at the end of a part of a log, and is an error at the end of a
/// whole log.
pub fn unexpected<L: AsRef<str>>(
    lines: &[L],
    allowed: Allowed,
    test: &str,
    extent: Extent,
) -> Vec<usize> {
    let mut judge = Judge {
        allowed,
        test,
        race: None,
        stack_explained: 0,
        found: Vec::new(),
    };
    for (at, line) in lines.iter().enumerate() {
        judge.add(at, line.as_ref());
    }
    judge.end_race(extent);
    judge.found.sort_unstable();
    judge.found
}

struct Judge<'a> {
    allowed: Allowed,
    /// The running test.
    test: &'a str,
    /// The unfinished report of a race, and the position of its title.
    race: Option<(usize, race::Report)>,
    /// Within this number of lines, a stack belongs to an allowed line.
    stack_explained: usize,
    found: Vec<usize>,
}

impl<'a> Judge<'a> {
    fn add(&mut self, at: usize, line: &'a str) {
        if let Some(name) = line.strip_prefix(TEST.trim_end()) {
            self.test = name.trim_start();
        }
        if line == LOST {
            self.found.push(at);
            return;
        }
        if self.is_of_race(at, line) {
            return;
        }
        let left = self.stack_explained.saturating_sub(1);
        let is_refused = REFUSED.iter().any(|text| line.contains(text));
        self.stack_explained = match self.explains_stack(line, is_refused) {
            Some(within) => within,
            None if left > 0 && line.starts_with("Call Trace:") => 0,
            None if is_refused || !self.is_expected(line) => {
                self.found.push(at);
                0
            }
            None => left,
        };
    }

    /// Returns whether the line is part of the report of a race, which is judged as a whole.
    fn is_of_race(&mut self, at: usize, line: &str) -> bool {
        if race::Report::is_end(line) {
            self.end_race(Extent::Part);
            return true;
        }
        if let Some(report) = race::Report::begin(line) {
            // The report before has not ended: it is cut short.
            self.end_race(Extent::FromStart);
            self.race = Some((at, report));
            return true;
        }
        let race = self.race.as_mut();
        race.is_some_and(|(_, report)| report.takes(line))
    }

    /// Ends the report of a race. With `Extent::FromStart`, it is unfinished, which is an error.
    fn end_race(&mut self, extent: Extent) {
        if let Some((at, report)) = self.race.take() {
            if extent == Extent::FromStart || report.is_relevant() {
                self.found.push(at);
            }
        }
    }

    /// Returns for an allowed line the number of lines within which its stack is allowed as well.
    fn explains_stack(&self, line: &str, is_refused: bool) -> Option<usize> {
        let is_allowed = line.contains(LIMIT) || (self.allowed.injected_faults && is_refused);
        let warning_is_allowed = (self.allowed.injected_faults && warns(line, UNDEFINED))
            || (self.allowed.c_implementation && warns(line, TOO_LONG));
        match (is_allowed, warning_is_allowed) {
            (_, true) => Some(REGISTERS),
            (true, _) => Some(BEFORE_STACK),
            _ => None,
        }
    }

    fn is_expected(&self, line: &str) -> bool {
        if EXPECTED.begin(line) || lists::is_of_test(line, self.test) {
            return true;
        }
        if let Some(message) = module::message(line) {
            return module::is_usual(message, self.allowed.c_implementation)
                || (self.allowed.injected_faults && module::is_of_faults(line));
        }
        let mut reports = REPORTS.entries().filter(|entry| line.contains(entry));
        let is_of_faults =
            |entry: &str| self.allowed.injected_faults && OF_FAULTS.entries().any(|of| of == entry);
        reports.all(is_of_faults) && !has_word(line, "BUG")
    }
}

/// Returns whether this is the first line of a warning of that place.
fn warns(line: &str, place: &str) -> bool {
    let warning = line.strip_prefix("WARNING: ");
    warning.is_some_and(|rest| rest.contains(place))
}

/// Returns whether the line contains the word, with no ASCII letter, digit or `_` beside it.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, from) = line.split_at(at);
        let after = from.strip_prefix(word).unwrap_or_default();
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests;
