// SPDX-License-Identifier: GPL-2.0

//! The libraries' own tests, as built by cargo.

use crate::perf::Session;
use crate::Failure;
use crate::Ktap;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

/// The tests to run of a library that is mostly about other things.
const ONLY: [(&str, &[&str]); 1] = [(
    "one_collect.lib",
    &["user_events::", "tracefs::tests::tracefs_open_find"],
)];

/// The tests that write records without reading them, and the events that they write, with keyword
/// and level. The events are made before the tests start, so that perf can record them. All records
/// of a run are compared with a file of the tests' name.
const WRITING: [(&str, &[&str]); 2] = [
    (
        "eventheader.tests",
        &[
            "TraceLoggingDynamicTest_L5K1",
            "TraceLoggingDynamicTest_L3K11",
            "TraceLoggingDynamicTest_L4Kff",
        ],
    ),
    (
        "eventheader_dynamic.tests",
        &[
            "EventHeaderDynamicTest_L5K1",
            "EventHeaderDynamicTest_L3K11",
            "EventHeaderDynamicTest_L5K1Gtestgroup",
        ],
    ),
];

/// Most tries of each other test. The tests give a listener a second to attach, and the kernel a
/// second to delete an event, which is short where an emulated machine shares a busy host.
const TRIES: usize = 3;

/// The fields that all events of `eventheader` are registered with.
const EVENTHEADER_FIELDS: &str =
    "u8 eventheader_flags; u8 version; u16 id; u16 tag; u8 opcode; u8 level";

/// A program of tests.
pub struct Binary {
    name: String,
    path: PathBuf,
    tests: Vec<String>,
    writing: Option<&'static [&'static str]>,
}

/// Returns all programs in a directory that have tests.
pub fn find(directory: &Path) -> Result<Vec<Binary>, Failure> {
    let entries =
        fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut binaries = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path
            .file_name()
            .map_or(String::new(), |name| name.to_string_lossy().into_owned());
        // This program itself.
        if name == "clients.program" {
            continue;
        }
        let output = command(&path, &name)
            .arg("--list")
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "{name} does not list its tests: {}: {why}",
                output.status
            ));
        }
        let tests: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| line.strip_suffix(": test").map(str::to_string))
            .collect();
        let writing = WRITING
            .iter()
            .find(|(of, _)| *of == name)
            .map(|(_, events)| *events);
        if !tests.is_empty() {
            binaries.push(Binary {
                name,
                path,
                tests,
                writing,
            });
        }
    }
    binaries.sort_by(|one, other| one.name.cmp(&other.name));
    if binaries.is_empty() {
        return Err(format!("there are no tests in {}", directory.display()));
    }
    Ok(binaries)
}

/// Makes the command that runs or lists the tests of a program, including tests that are ignored
/// without user events.
fn command(path: &Path, name: &str) -> Command {
    let mut command = Command::new(path);
    // In the order of the list, so that the order of records is known.
    command.args(["--include-ignored", "--test-threads=1"]);
    if let Some((_, filters)) = ONLY.iter().find(|(of, _)| *of == name) {
        command.args(*filters);
    }
    command
}

impl Binary {
    /// Returns the number of results.
    pub fn results(&self) -> usize {
        self.tests.len() + usize::from(self.writing.is_some())
    }

    /// Runs the program, with a result for each of its tests, and one for its records.
    pub fn run(&self, expected: &Path, ktap: &mut Ktap) {
        let mut output = String::new();
        let mut run = || {
            let ran = command(&self.path, &self.name)
                .output()
                .map_err(|error| error.to_string())?;
            output = String::from_utf8_lossy(&ran.stdout).into_owned();
            output.push_str(&String::from_utf8_lossy(&ran.stderr));
            Ok::<(), Failure>(())
        };
        let records = match self.writing {
            Some(events) => Some(recorded(events, &mut run)),
            None => {
                if let Err(why) = run() {
                    output = why;
                }
                None
            }
        };
        let outcomes = outcomes(&output);
        let mut bad = false;
        for test in &self.tests {
            let mut outcome = outcomes
                .get(test.as_str())
                .copied()
                .unwrap_or("it came to no end")
                .to_string();
            let mut tries = 1;
            // More than one try would write more records than expected.
            while outcome != "ok" && self.writing.is_none() && tries < TRIES {
                tries += 1;
                outcome = self.again(test).unwrap_or_else(|why| why);
            }
            bad |= outcome != "ok";
            let result = match (outcome.as_str(), tries) {
                ("ok", 1) => Ok(String::new()),
                ("ok", _) => Ok(format!("try {tries} of {TRIES}")),
                _ => Err(outcome),
            };
            ktap.result(
                &format!("{}::{test}", self.name.trim_end_matches(".lib")),
                result,
            );
        }
        if bad {
            output.lines().for_each(|line| println!("# {line}"));
        }
        if let Some(records) = records {
            let result = records.and_then(|records| compare(&records, &expected.join(&self.name)));
            ktap.result(&format!("{}, what perf saw of them", self.name), result);
        }
    }

    /// Runs one of the tests alone, and returns its outcome.
    fn again(&self, test: &str) -> Result<String, Failure> {
        let mut command = Command::new(&self.path);
        command.args(["--include-ignored", "--test-threads=1", "--exact", test]);
        let ran = command.output().map_err(|error| error.to_string())?;
        let output = String::from_utf8_lossy(&ran.stdout).into_owned();
        let outcome = outcomes(&output)
            .get(test)
            .copied()
            .unwrap_or("it came to no end")
            .to_string();
        Ok(outcome)
    }
}

/// Returns the outcomes of a program's tests, by their names.
fn outcomes(output: &str) -> HashMap<&str, &str> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "))
        .map(|(name, outcome)| {
            (
                name.strip_suffix(" - should panic").unwrap_or(name),
                outcome,
            )
        })
        .collect()
}

/// Returns the records that are written during `run`.
fn recorded(
    events: &[&str],
    run: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<Vec<String>, Failure> {
    let dynamic_events = "/sys/kernel/tracing/dynamic_events";
    let tell = |line: String| {
        fs::OpenOptions::new()
            .append(true)
            .open(dynamic_events)
            .and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes()))
            .map_err(|error| format!("{line}: {error}"))
    };
    for event in events {
        tell(format!("u:{event} {EVENTHEADER_FIELDS}\n"))?;
    }
    let session = Session::begin(events)?;
    run()?;
    let records = session.end()?;
    for event in events {
        tell(format!("-:user_events/{event}\n"))?;
    }
    Ok(records.into_iter().map(|record| record.text).collect())
}

/// Compares the records with those in a file, one a line.
fn compare(records: &[String], file: &Path) -> Result<String, Failure> {
    let expected =
        fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut expected: Vec<&str> = expected
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let mut had: Vec<&str> = records.iter().map(String::as_str).collect();
    // Records of two CPUs in the same microsecond may be in any order.
    expected.sort_unstable();
    had.sort_unstable();
    if had == expected {
        return Ok(format!("{} records", had.len()));
    }
    // In the format of the file.
    records.iter().for_each(|record| println!("#  {record}"));
    let first = had.iter().zip(&expected).find(|(one, other)| one != other);
    Err(format!(
        "{} records instead of {}, the first that differs: {first:?}",
        had.len(),
        expected.len()
    ))
}
