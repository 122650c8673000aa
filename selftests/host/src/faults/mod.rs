// SPDX-License-Identifier: GPL-2.0

//! `make mutants`: the module with one fault at a time. The script `selftests/machine/mutants`
//! builds the modules and starts the machines; this program makes all decisions. State that
//! outlasts a command is in [`DIR`].

mod guest;
mod plan;
mod queue;
mod report;
mod rules;
mod text;

use crate::{
    outcome,
    read,
    Outcome, //
};
use plan::Wanted;
use rules::Fault;
use std::{
    collections::BTreeSet,
    fs,
    path::Path, //
};

/// The files of a run:
///   plan             the chosen faults, see `plan::Entry`
///   faulty/FAULT     the source file with the fault
///   modules/FAULT.ko the module with the fault
///   results/KEY      the result of a fault, see `Verdict`
///   queue, told      the faults to test, and those whose verdict this run has printed
///   unsound          the reason why the run has no valid result
///   machine-N/       of a machine: todo, done/FAULT, at, alive
///   output/FAULT     the tests' output
const DIR: &str = "/build/mutants";

/// No fault: the unchanged module, which is tested first in each machine.
const UNCHANGED: &str = "unchanged";

const USAGE: &str = "usage: host-tools faults check
       host-tools faults plan KERNEL KEY [--again] [--sample N OF] [PART...]
       host-tools faults take MACHINE MACHINES
       host-tools faults guest MACHINE
       host-tools faults report";

/// The result of a fault, and its evidence.
#[derive(Clone, Debug, PartialEq)]
struct Verdict {
    word: Word,
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    Killed,
    Survived,
    /// A test or the machine took too long, which counts only if repeated.
    TimedOut,
    /// The module does not compile.
    Broken,
}

impl Word {
    const ALL: [(Word, &str); 4] = [
        (Word::Killed, "killed"),
        (Word::Survived, "survived"),
        (Word::TimedOut, "timed-out"),
        (Word::Broken, "broken"),
    ];

    fn text(self) -> &'static str {
        let mut all = Word::ALL.iter();
        all.find(|(word, _)| *word == self)
            .map_or("", |(_, text)| text)
    }
}

impl Verdict {
    fn new(word: Word, why: &str) -> Verdict {
        let why: String = why
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let why = why.chars().take(240).collect();
        Verdict { word, why }
    }

    fn read(file: &str) -> Option<Verdict> {
        let text = read(file).ok()?;
        let (word, why) = text.trim_end().split_once('\t')?;
        let mut all = Word::ALL.iter();
        let (word, _) = all.find(|(_, text)| *text == word)?;
        Some(Verdict::new(*word, why))
    }

    /// Replaces the file atomically.
    fn write(&self, file: &str) -> Result<(), String> {
        let new = format!("{file}.new");
        write(&new, &format!("{}\t{}\n", self.word.text(), self.why))?;
        fs::rename(&new, file).map_err(|error| format!("{file}: {error}"))
    }
}

fn write(file: &str, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{file}: {error}"))
}

fn write_lines(file: &str, lines: &[impl AsRef<str>]) -> Result<(), String> {
    let lines = lines.iter().flat_map(|line| [line.as_ref(), "\n"]);
    write(file, &lines.collect::<String>())
}

fn make_dir(dir: &str) -> Result<(), String> {
    fs::create_dir_all(dir).map_err(|error| format!("{dir}: {error}"))
}

pub fn command(words: &[&str]) -> Outcome {
    let number = |word: &str| {
        word.parse::<usize>()
            .map_err(|_| format!("{word} is no number"))
    };
    match words {
        ["check"] => check(),
        ["plan", kernel, key, rest @ ..] => {
            let mut wanted = Wanted::default();
            let mut rest = rest.iter();
            while let Some(word) = rest.next() {
                match *word {
                    "--again" => wanted.again = true,
                    "--sample" => {
                        let (size, of) = (rest.next().ok_or(USAGE)?, rest.next().ok_or(USAGE)?);
                        wanted.sample = Some((number(size)?, of.to_string()));
                    }
                    part => wanted.parts.push(part.into()),
                }
            }
            plan::make(kernel, key, &wanted)
        }
        ["take", machine, machines] => queue::take(number(machine)?, number(machines)?),
        ["guest", machine] => guest::run(machine),
        ["report"] => report::show(),
        _ => Err(USAGE.into()),
    }
}

/// Prints each fault that does not apply, and each source without one.
fn check() -> Outcome {
    let faults = rules::read()?;
    let tests = plan::TestNames::read()?;
    let mut wrong = faults.wrong;
    let mut names = BTreeSet::new();
    for fault in &faults.all {
        for what in wrong_with(fault, &tests) {
            wrong.push(format!("{}: {}: {what}", fault.at, fault.name));
        }
        if !names.insert(&fault.name) {
            wrong.push(format!("{}: the name {} is taken", fault.at, fault.name));
        }
    }
    let mut sources = Vec::new();
    plan::walk(Path::new("src"), &mut sources)?;
    for file in sources {
        let has_code = text::has_code(&read(&file)?, file.ends_with(".rs"));
        if has_code && !faults.all.iter().any(|fault| fault.file == file) {
            let what = "no fault is in this file: add one to selftests/mutants";
            wrong.push(format!("{file}:1: {what}"));
        }
    }
    wrong.iter().for_each(|line| println!("{line}"));
    outcome(wrong.is_empty())
}

fn wrong_with(fault: &Fault, tests: &plan::TestNames) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut unless = |is_right: bool, what: &str| {
        if !is_right {
            wrong.push(what.to_string());
        }
    };
    unless(!fault.old.is_empty(), "there is no text to be replaced");
    unless(!fault.new.is_empty(), "there is no text to replace it");
    unless(!fault.tests.is_empty(), "no tests are named");
    unless(fault.old != fault.new, "nothing is changed");
    let is_debians = fault.kernel.starts_with(|c: char| c.is_ascii_digit());
    let is_kernel = is_debians
        || ["stock", "custom", "debug", "kcsan", "debug-6.12"].contains(&fault.kernel.as_str());
    unless(is_kernel, "there is no such kernel");
    // Tests of arm64 alone are not listed, as its selftests do not run here.
    let mut parts = fault.tests.iter();
    if let Some(part) = parts.find(|part| !fault.kernel.ends_with("-arm64") && !tests.has(part)) {
        wrong.push(format!("{part} is in no test's name"));
    }
    let applied = read(&fault.file).and_then(|text| text::with_fault(fault, &text));
    wrong.extend(applied.err());
    wrong
}
