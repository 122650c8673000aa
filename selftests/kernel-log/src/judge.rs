// SPDX-License-Identifier: GPL-2.0

//! Which lines of a log say that something is wrong.

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

/// Stands in a log for lines that were overwritten before they were read. It is a report wherever it stands.
pub const LOST: &str = "(lines lost)";

/// What is allowed besides.
#[derive(Clone, Copy, Default)]
pub struct Allowed {
    /// Allocations were made to fail, and the kernel may say so.
    pub injected_faults: bool,
    /// The kernel has the C implementation, which tells of every bit that it cannot write, and has the trace core warn
    /// of a record that is too long for perf.
    pub c_implementation: bool,
}

/// The kernel shows after this the stack of the task that met the limit of its memory cgroup. When it is the whole
/// machine that has no memory, it says so besides.
const LIMIT: &str = " invoked oom-killer: ";

/// The same, of the task whose allocation has failed.
const REFUSED: [&str; 2] = [" page allocation failure: ", " vmalloc error: "];

/// The trace core warns once of a field that it cannot define, as memory for it was refused.
const UNDEFINED: &str = " at event_define_fields+";

/// The trace core warns once of a record that is too long for perf: the C implementation asks for room for it.
const TOO_LONG: &str = " at perf_trace_buf_alloc+";

/// So many lines may be between one that is allowed and its stack: which task and machine it is.
const BEFORE_STACK: usize = 8;

/// The same where registers are shown.
const REGISTERS: usize = 40;

/// Before the name of the test that begins, in a line of the selftests'. Without a name, none runs.
pub const TEST: &str = "selftests: test: ";

/// The positions of the lines that say that something is wrong, of a report of a race that of its title. The lines have
/// neither time nor task before them. `test` runs when they begin. What is still to come of a report of a race when a
/// part of a log ends is not judged; in a whole log it is wrong.
pub fn unexpected<L: AsRef<str>>(
    lines: &[L],
    allowed: Allowed,
    test: &str,
    extent: Extent,
) -> Vec<usize> {
    let mut judge = Judge::new(allowed, test);
    for (at, line) in lines.iter().enumerate() {
        judge.add(at, line.as_ref());
    }
    judge.end(extent)
}

struct Judge<'a> {
    allowed: Allowed,
    /// The test that runs.
    test: &'a str,
    /// The report of a race that is being read, and where its title stands.
    race: Option<(usize, race::Report)>,
    /// A stack in the next so many lines belongs to a line that is allowed.
    stack_explained: usize,
    found: Vec<usize>,
}

impl<'a> Judge<'a> {
    fn new(allowed: Allowed, test: &'a str) -> Self {
        Judge {
            allowed,
            test,
            race: None,
            stack_explained: 0,
            found: Vec::new(),
        }
    }

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

    /// Is the line part of the report of a race, which is judged as a whole?
    fn is_of_race(&mut self, at: usize, line: &str) -> bool {
        if race::Report::is_end(line) {
            self.end_race(Extent::Part);
            return true;
        }
        if let Some(report) = race::Report::begin(line) {
            // One that has not ended is cut short.
            self.end_race(Extent::FromStart);
            self.race = Some((at, report));
            return true;
        }
        let race = self.race.as_mut();
        race.is_some_and(|(_, report)| report.takes(line))
    }

    /// Where a report must have ended it is wrong if it has not.
    fn end_race(&mut self, extent: Extent) {
        if let Some((at, report)) = self.race.take() {
            if extent == Extent::FromStart || report.is_relevant() {
                self.found.push(at);
            }
        }
    }

    /// Is this line allowed, and the stack after it as well? Within how many lines?
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
            return module::is_usual(message, self.allowed.c_implementation);
        }
        let mut reports = REPORTS.entries().filter(|entry| line.contains(entry));
        let is_of_faults =
            |entry: &str| self.allowed.injected_faults && OF_FAULTS.entries().any(|of| of == entry);
        reports.all(is_of_faults) && !has_word(line, "BUG")
    }

    fn end(mut self, extent: Extent) -> Vec<usize> {
        self.end_race(extent);
        self.found.sort_unstable();
        self.found
    }
}

/// Is this the first line of a warning of that place?
fn warns(line: &str, place: &str) -> bool {
    let warning = line.strip_prefix("WARNING: ");
    warning.is_some_and(|rest| rest.contains(place))
}

/// Is the word in the line, with no ASCII letter, digit or `_` beside it?
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
