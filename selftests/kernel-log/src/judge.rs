// SPDX-License-Identifier: GPL-2.0

//! Which lines of a log say that something is wrong.

use crate::{
    lists::{
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

/// The positions of the lines that say that something is wrong, of a report of a race that of its title. The lines have
/// neither time nor task before them. What is still to come of a report of a race when they end is not judged.
pub fn unexpected<L: AsRef<str>>(lines: &[L], allowed: Allowed) -> Vec<usize> {
    let mut judge = Judge::new(allowed);
    for (at, line) in lines.iter().enumerate() {
        judge.add(at, line.as_ref());
    }
    judge.end()
}

struct Judge {
    allowed: Allowed,
    /// The report of a race that is being read, and where its title stands.
    race: Option<(usize, race::Report)>,
    /// The next stack that the kernel shows belongs to a line that is allowed.
    is_stack_explained: bool,
    found: Vec<usize>,
}

impl Judge {
    fn new(allowed: Allowed) -> Judge {
        Judge {
            allowed,
            race: None,
            is_stack_explained: false,
            found: Vec::new(),
        }
    }

    fn add(&mut self, at: usize, line: &str) {
        if line == LOST {
            self.found.push(at);
            return;
        }
        if self.is_of_race(at, line) {
            return;
        }
        let is_refused = REFUSED.iter().any(|text| line.contains(text));
        if self.explains_stack(line, is_refused) {
            self.is_stack_explained = true;
        } else if self.is_stack_explained && line.contains("Call Trace:") {
            self.is_stack_explained = false;
        } else if is_refused || !is_expected(line, self.allowed) {
            self.found.push(at);
        }
    }

    /// Is the line part of the report of a race, which is judged as a whole?
    fn is_of_race(&mut self, at: usize, line: &str) -> bool {
        if race::Report::is_end(line) {
            self.end_race();
        } else if let Some((_, report)) = &mut self.race {
            report.add(line);
        } else {
            self.race = race::Report::begin(line).map(|report| (at, report));
        }
        self.race.is_some()
    }

    fn end_race(&mut self) {
        if let Some((at, report)) = self.race.take() {
            if report.is_relevant() {
                self.found.push(at);
            }
        }
    }

    /// Is this line allowed, and the stack after it as well?
    fn explains_stack(&self, line: &str, is_refused: bool) -> bool {
        line.contains(LIMIT)
            || (self.allowed.injected_faults && (is_refused || warns(line, UNDEFINED)))
            || (self.allowed.c_implementation && warns(line, TOO_LONG))
    }

    fn end(mut self) -> Vec<usize> {
        self.end_race();
        self.found.sort_unstable();
        self.found
    }
}

/// Is this the first line of a warning of that place?
fn warns(line: &str, place: &str) -> bool {
    let warning = line.split_once("WARNING:");
    warning.is_some_and(|(_, rest)| rest.contains(place))
}

fn is_expected(line: &str, allowed: Allowed) -> bool {
    if EXPECTED.matches(line) {
        return true;
    }
    if let Some(message) = module::message(line) {
        return module::is_usual(message, allowed.c_implementation);
    }
    let is_report = REPORTS.matches(line) || has_word(line, "BUG");
    !is_report || (allowed.injected_faults && OF_FAULTS.matches(line))
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
