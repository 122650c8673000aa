// SPDX-License-Identifier: GPL-2.0

//! What in the kernel's log is trouble, by the lists in `machine/log`. `machine/check-log` judges the log of a whole run by
//! the same rules; `machine/check-log-test` puts the same logs to both.

use crate::kit::implementation;
use crate::kit::{faults, module};
use std::fs;

/// The option of the command line that only judges a log: see [`main`].
pub const OPTION: &str = "--judge-log";

/// The lists that `machine/check-log` reads, too: what each is for, it says itself.
const TROUBLE: &str = include_str!("../../../machine/log/trouble");
const OF_FAULTS: &str = include_str!("../../../machine/log/of-faults");
const WELCOME: &str = include_str!("../../../machine/log/welcome");
const KNOWN_RACES: &str = include_str!("../../../machine/log/known-races");
const BOUNDARIES: &str = include_str!("../../../machine/log/boundaries");

/// The log has been overwritten before it was read: see [`Log`](crate::kit::machine::Log).
pub const LOST: &str = "(lines lost)";

/// What the module says, after its name.
const OURS: &[&str] = &[
    "loaded",
    "unloaded",
    "unloading waits for event probes and triggers that refer to its events",
    "loading out-of-tree module taints kernel.",
];

/// The same, with something of its own at the end.
const OURS_BEGIN: &[&str] = &[
    "cannot load: ",
    "module verification failed: ",
    "this kernel has another layout of struct ",
];

/// What it says of a symbol, up to its name. No kernel has one that ends in `#`, which a test asks for.
const NO_SYMBOL: &str = "the kernel has no symbol '";

/// What the C implementation says, after the same name, of every bit that it cannot write.
const OF_C: &str = "Fault for mm: ";

/// After these the kernel shows who asked for memory: a process of a memory cgroup at its limit. When it is the whole
/// machine that has no memory, it says so besides.
const LIMIT: &str = " invoked oom-killer: ";

/// The same of allocations that were made to fail.
const REFUSED: &[&str] = &[" page allocation failure: ", " vmalloc error: "];

/// The trace core warns once of a record that is too long for perf: the C implementation asks for room for it.
const TOO_LONG: &str = " at perf_trace_buf_alloc+";

/// The trace core warns once of a field that it cannot define, as memory for it was refused.
const UNDEFINED: &str = " at event_define_fields+";

/// The entries of a list.
fn entries(list: &'static str) -> impl Iterator<Item = &'static str> {
    let lines = list.lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Does the line have an entry of the list?
fn has(line: &str, list: &'static str) -> bool {
    entries(list).any(|text| line.contains(text))
}

/// What is allowed in a log besides.
#[derive(Clone, Copy, Default)]
pub struct Allowed {
    /// Allocations were made to fail.
    pub faults: bool,
    /// The kernel has the C implementation.
    pub of_c: bool,
}

impl Allowed {
    /// What is allowed beside a test on the running kernel.
    pub fn here() -> Allowed {
        Allowed {
            faults: faults::are_known(),
            of_c: implementation::is_c() || !module::is_given(),
        }
    }
}

/// The numbers of the lines that say that something is wrong. The lines have no time before them.
pub fn unwelcome(lines: &[String], allowed: Allowed) -> Vec<usize> {
    let mut found = Vec::new();
    let mut trace_is_explained = false;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        if line.contains("BUG: KCSAN:") {
            let length = report_length(&lines[at..]);
            let report = &lines[at..at + length];
            if !is_of_the_kernel(report) {
                found.push(at);
            }
            at += length;
            continue;
        }
        let refused = REFUSED.iter().any(|text| line.contains(text));
        let warns = |of: &str| line.contains("WARNING:") && line.contains(of);
        let is_of_a_fault = allowed.faults && (refused || warns(UNDEFINED));
        if line.contains(LIMIT) || is_of_a_fault || (allowed.of_c && warns(TOO_LONG)) {
            trace_is_explained = true;
        } else if line.contains("Call Trace:") && trace_is_explained {
            trace_is_explained = false;
        } else if refused || !is_welcome(line, allowed) {
            found.push(at);
        }
        at += 1;
    }
    found
}

/// The first line that says that something is wrong, of those that a test brought about.
pub fn first(lines: &[String]) -> Option<&String> {
    let found = unwelcome(lines, Allowed::here());
    found.first().and_then(|&at| lines.get(at))
}

fn is_welcome(line: &str, allowed: Allowed) -> bool {
    if has(line, WELCOME) {
        return true;
    }
    if let Some(said) = line.strip_prefix(module::NAME) {
        if let Some(said) = said.strip_prefix(": ") {
            return OURS.contains(&said)
                || OURS_BEGIN.iter().any(|start| said.starts_with(start))
                || (said.starts_with(NO_SYMBOL) && said.ends_with("#'"))
                || (allowed.of_c && said.starts_with(OF_C));
        }
    }
    let is_trouble = line == LOST || has(line, TROUBLE) || has_word(line, "BUG");
    !is_trouble || (allowed.faults && has(line, OF_FAULTS))
}

/// Is `word` in the line, with no letter, digit or `_` beside it?
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |beside: Option<char>| beside.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !is_part(before) && !is_part(after)
    })
}

/// How many lines the report of a race has that begins with the first of these.
fn report_length(lines: &[String]) -> usize {
    let end = lines.iter().position(|line| line.contains("=========="));
    end.unwrap_or(lines.len())
}

/// Is this report of a race of the kernel's own? It is the module's if the module is on one of the two stacks, above
/// the first boundary, and the race is not known. What is still to come of a report, the check of the whole log sees.
fn is_of_the_kernel(report: &[String]) -> bool {
    let title = &report[0];
    let begins = |line: &String| line.contains(" by task ") || line.contains(" by interrupt ");
    let ours = format!("[{}]", module::NAME);
    let is_ours = |stack: &[String]| {
        let mut racing = stack.iter().take_while(|line| !has(line, BOUNDARIES));
        racing.any(|line| line.contains(&ours))
    };
    entries(KNOWN_RACES).any(|race| is_titled(title, race)) || !report.split(begins).any(is_ours)
}

/// Does the report have this title? One that ends with `+` has an offset after it, any other nothing.
fn is_titled(title: &str, race: &str) -> bool {
    match title.split_once(race) {
        Some((_, rest)) if race.ends_with('+') => !rest.contains(" / "),
        Some((_, rest)) => rest.is_empty(),
        None => false,
    }
}

const USAGE: &str = "usage: selftests --judge-log [--with-faults] [--of-c] [--part] FILE

Is this log of a kernel, from its first line on, free of trouble, and of messages
of ours besides loading and unloading? Shows each line that is not welcome.

  --with-faults  allocations were made to fail, and the kernel may say so
  --of-c         the kernel has the C implementation, which tells of every bit
                 that it cannot write
  --part         of a log: it need not begin where the kernel did";

/// Judges a log. The exit status is 0 if it is clean.
pub fn main(words: &[String]) -> std::process::ExitCode {
    let mut allowed = Allowed::default();
    let mut file = None;
    let mut is_part = false;
    for word in words {
        match word.as_str() {
            "--with-faults" => allowed.faults = true,
            "--of-c" => allowed.of_c = true,
            "--part" => is_part = true,
            name if file.is_none() && !name.starts_with('-') => file = Some(name),
            _ => {
                eprintln!("{USAGE}");
                return std::process::ExitCode::from(2);
            }
        }
    }
    let Some(file) = file else {
        eprintln!("{USAGE}");
        return std::process::ExitCode::from(2);
    };
    let bytes = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<String> = text.lines().map(without_time).collect();
    if lines.is_empty() {
        println!("  there is no kernel log: {file}");
        return std::process::ExitCode::from(1);
    }
    let mut shown: Vec<String> = unwelcome(&lines, allowed)
        .into_iter()
        .map(|at| format!("{}:{}", at + 1, lines[at]))
        .collect();
    let begins = lines
        .iter()
        .take(5)
        .any(|line| line.starts_with("Linux version "));
    if !begins && !is_part {
        shown.insert(
            0,
            "1:the log does not begin where the kernel did: lines are lost".into(),
        );
    }
    if shown.is_empty() {
        return std::process::ExitCode::SUCCESS;
    }
    println!("  unwelcome in the kernel's log ({file}):");
    for line in shown {
        println!("    | {line}");
    }
    std::process::ExitCode::from(1)
}

/// The line without the time, and the task or CPU, before it.
fn without_time(line: &str) -> String {
    let mut line = line.trim_end();
    while let Some((bracket, rest)) = line
        .strip_prefix('[')
        .and_then(|line| line.split_once("] "))
    {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let bracket = bracket.trim().trim_start_matches(['T', 'C']);
        if !bracket.chars().all(is_number) {
            break;
        }
        line = rest;
    }
    line.to_string()
}
