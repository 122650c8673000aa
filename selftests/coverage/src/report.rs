// SPDX-License-Identifier: GPL-2.0

//! What was reached, by file.

use crate::code::Code;
use crate::executed::Executed;
use crate::source::{Function, Line, Source};
use std::collections::{
    BTreeMap,
    BTreeSet, //
};
use std::fmt::Write;

/// Of branches, how many there are, and of how many both sides were entered, or one.
#[derive(Clone, Copy, Default)]
struct Branches {
    all: usize,
    both: usize,
    /// One side, and the other ends in a panic.
    but_panic: usize,
    one: usize,
}

impl Branches {
    fn add(&mut self, sides: [(u64, bool); 2], code: &Code) {
        self.all += 1;
        match sides {
            [(_, true), (_, true)] => self.both += 1,
            [(_, true), (other, false)] | [(other, false), (_, true)] => {
                match code.ends_in_panic(other) {
                    true => self.but_panic += 1,
                    false => self.one += 1,
                }
            }
            _ => {}
        }
    }

    fn none(&self) -> usize {
        self.all - self.both - self.but_panic - self.one
    }
}

/// How many there are, and how many were reached.
#[derive(Clone, Copy, Default)]
struct Share {
    all: usize,
    reached: usize,
}

impl Share {
    fn add(&mut self, reached: bool) {
        self.all += 1;
        self.reached += usize::from(reached);
    }

    fn shown(&self) -> String {
        format!("{:>4} of {:>5}", self.reached, self.all)
    }

    fn percent(&self) -> f64 {
        100.0 * self.reached as f64 / self.all.max(1) as f64
    }
}

#[derive(Clone, Default)]
struct Row {
    lines: Share,
    functions: Share,
    branches: Branches,
}

pub struct Report<'a> {
    source: &'a Source,
    lines: BTreeMap<Line, bool>,
    /// By the line that they belong to.
    branches: BTreeMap<Line, Branches>,
    /// Those of what was compiled in from elsewhere.
    others: Branches,
    /// For each function.
    entered: Vec<bool>,
    strange: usize,
}

impl<'a> Report<'a> {
    pub fn new(code: &Code, source: &'a Source, executed: &Executed) -> Report<'a> {
        let mut report = Report {
            source,
            lines: BTreeMap::new(),
            branches: BTreeMap::new(),
            others: Branches::default(),
            entered: vec![false; source.functions.len()],
            strange: executed.strange,
        };
        for (index, origin) in source.origins.iter().enumerate() {
            let reached = executed.instructions[index];
            for line in &origin.lines {
                *report.lines.entry(*line).or_default() |= reached;
            }
            for function in &origin.functions {
                report.entered[*function] |= reached;
            }
            if let Some(sides) = executed.sides(index) {
                match origin.lines.first() {
                    Some(line) => report.branches.entry(*line).or_default().add(sides, code),
                    None => report.others.add(sides, code),
                }
            }
        }
        report
    }

    /// Of each file that has code, by name.
    fn rows(&self) -> BTreeMap<&str, Row> {
        let mut rows = BTreeMap::new();
        for file in &self.source.files {
            rows.insert(file.as_str(), Row::default());
        }
        let files = &self.source.files;
        let mut row = |file: usize, change: &dyn Fn(&mut Row)| {
            rows.entry(files[file].as_str()).and_modify(change);
        };
        for ((file, _), reached) in &self.lines {
            row(*file, &|row| row.lines.add(*reached));
        }
        for (function, entered) in self.source.functions.iter().zip(&self.entered) {
            row(function.line.0, &|row| row.functions.add(*entered));
        }
        for ((file, _), found) in &self.branches {
            row(*file, &|row| sum(&mut row.branches, found));
        }
        rows
    }

    /// Those functions that were not entered, by file and line. A closure is named if what it is in was entered.
    fn missed(&self) -> Vec<String> {
        let functions = self.source.functions.iter().zip(&self.entered);
        let missed = functions.filter(|(_, entered)| !**entered);
        let missed = missed.map(|(Function { line, name }, _)| (line.0, line.1, name.as_str()));
        let missed: BTreeSet<(usize, u32, &str)> = missed.collect();
        let names: BTreeSet<(usize, &str)> = missed.iter().map(|it| (it.0, it.2)).collect();
        let is_within_missed = |file: usize, name: &str| {
            let outer = name.rsplit_once("::{closure");
            outer.is_some_and(|(outer, _)| names.contains(&(file, outer)))
        };
        let named = missed.iter().filter(|it| !is_within_missed(it.0, it.2));
        let mut named: Vec<(&str, u32, &str)> = named
            .map(|(file, line, name)| (self.source.files[*file].as_str(), *line, *name))
            .collect();
        named.sort_unstable();
        let named = named.iter();
        named
            .map(|(file, line, name)| format!("{file}:{line}: {name}\n"))
            .collect()
    }

    pub fn table(&self) -> String {
        let rows = self.rows();
        let width = rows
            .keys()
            .map(|file| file.len())
            .max()
            .unwrap_or(0)
            .max(16);
        let mut text = format!(
            "{:width$}  {:>12}  {:>12}  {:>27}\n{:width$}  {:>12}  {:>12}  {:>5} {:>5} {:>8} {:>6}\n",
            "", "lines", "functions", "branches, of which sides", "", "reached", "entered", "both", "one",
            "no panic", "none",
        );
        let mut all = Row::default();
        let mut line = |name: &str, row: &Row| {
            let Row {
                lines,
                functions,
                branches,
            } = row;
            let _ = writeln!(
                text,
                "{name:width$}  {}  {}  {:5} {:5} {:8} {:6}",
                lines.shown(),
                functions.shown(),
                branches.both,
                branches.one,
                branches.but_panic,
                branches.none(),
            );
        };
        for (file, row) in &rows {
            line(file, row);
            all.lines.all += row.lines.all;
            all.lines.reached += row.lines.reached;
            all.functions.all += row.functions.all;
            all.functions.reached += row.functions.reached;
            sum(&mut all.branches, &row.branches);
        }
        line("all", &all);
        let branches = all.branches;
        let possible = Share {
            all: branches.all - branches.but_panic,
            reached: branches.both,
        };
        let _ = writeln!(
            text,
            "\n{:.1} % of the lines, {:.1} % of the functions; both sides of {:.1} % of the branches, those \
             left out of\nwhich the other side panics. In what is compiled in from elsewhere, of {} branches both \
             sides of {}.",
            all.lines.percent(),
            all.functions.percent(),
            possible.percent(),
            self.others.all,
            self.others.both,
        );
        let missed = self.missed();
        match missed.is_empty() {
            true => text.push_str("\nEach function is entered.\n"),
            false => text.push_str("\nNot entered:\n"),
        }
        for function in missed {
            let _ = write!(text, "  {function}");
        }
        if self.strange > 0 {
            let _ = writeln!(
                text,
                "\n{} blocks of it were not where it was loaded.",
                self.strange
            );
        }
        text
    }

    /// Each line that was not reached, and each of which a branch's side was not, as compilers name lines.
    pub fn unreached(&self) -> String {
        let mut text = String::new();
        let mut said = BTreeMap::new();
        for (line, reached) in &self.lines {
            if !reached {
                said.insert(*line, "not reached".to_string());
            }
        }
        for (line, branches) in &self.branches {
            let missed = branches.one + branches.none();
            if missed > 0 && self.lines.get(line) == Some(&true) {
                let all = branches.all;
                said.insert(
                    *line,
                    format!("{missed} of {all} branches not to both sides"),
                );
            }
        }
        let mut said: Vec<(&str, u32, String)> = said
            .into_iter()
            .map(|((file, line), what)| (self.source.files[file].as_str(), line, what))
            .collect();
        said.sort_unstable();
        for (file, line, what) in said {
            let _ = writeln!(text, "{file}:{line}: {what}");
        }
        text
    }
}

fn sum(into: &mut Branches, from: &Branches) {
    into.all += from.all;
    into.both += from.both;
    into.but_panic += from.but_panic;
    into.one += from.one;
}
