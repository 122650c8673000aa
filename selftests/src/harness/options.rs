// SPDX-License-Identifier: GPL-2.0

//! The options of the command line.

use crate::harness::Test;
use crate::kit::{module, random};
use std::sync::OnceLock;

pub const USAGE: &str = "usage: selftests [--module FILE] [--failing-module FILE] [--against-c]
                 [--all] [--left-out FILE]... [--list]
                 [--lengthy] [--long] [--times N] [--seed N] [--first-failure]
                 [--skip NAME-SUBSTRING]...
                 [NAME-SUBSTRING...]

  --module FILE   the module to test, not loaded yet; without it the kernel's
                  own user_events are tested, and loading is not
  --failing-module FILE  the module built with USER_EVENTS_FAIL_LOAD=y, of which a
                  step of loading can be made to fail
  --against-c     the running kernel has the C implementation: run the checks
                  of the contract, expect exactly those marked as better than C
                  to fail, each in the way that is marked, and say what happened.
                  The module, if there is one, must refuse to be loaded there
  --all           a test that cannot be run on this machine is a failure
  --left-out FILE the same, but for those that FILE names, a line each: and one
                  of these that can be run is a failure, too. Several add up
  --skip PART     leave out the tests that have this in their name
  --list          only say which tests there are
  --lengthy       run the tests that take long, which are left out else unless one is
                  asked for by its whole name; and no others
  --long          test for longer where more can be seen by that
  --times N       so many rounds, or seconds, of what goes on and on
  --seed N        the seed of what is random in that (0)
  --first-failure end with the first test that fails

Runs the tests whose names contain one of the substrings, or all. Prints KTAP;
exit status 1 if any failed. Run it as root, in a virtual machine.";

/// The options of a run, for the harness, the kit and the tests alike.
#[derive(Default)]
pub struct Options {
    /// The file of the module under test.
    pub module: Option<String>,
    /// The file of the module in which a step of loading can be made to fail.
    pub failing_module: Option<String>,
    /// The running kernel has the C implementation.
    pub against_c: bool,
    /// There is time for longer runs than usual.
    pub long: bool,
    /// The rounds or seconds of tests without a natural end, if given.
    pub times: Option<usize>,
    /// The seed of random tests.
    pub seed: u64,
    /// The only tests that may be skipped, by name; all, if absent.
    pub left_out: Option<Vec<String>>,
    pub list: bool,
    pub first_failure: bool,
    lengthy: bool,
    wanted: Vec<String>,
    skipped: Vec<String>,
}

impl Options {
    /// Parses the command line.
    pub fn read(words: Vec<String>) -> Result<Options, String> {
        let mut options = Options::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = |what: &str| words.next().ok_or(format!("{word} takes {what}"));
            match word.as_str() {
                "--module" => options.module = Some(module::without_debug(value("a file")?)),
                "--failing-module" => {
                    options.failing_module = Some(module::without_debug(value("a file")?))
                }
                "--skip" => options.skipped.push(value("a part of a name")?),
                "--all" => _ = options.left_out.get_or_insert_default(),
                "--left-out" => {
                    let names = names_in(&value("a file")?)?;
                    options.left_out.get_or_insert_default().extend(names);
                }
                "--list" => options.list = true,
                "--against-c" => options.against_c = true,
                "--lengthy" => options.lengthy = true,
                "--long" => options.long = true,
                "--times" => options.times = Some(number(&word, value("a number")?)? as usize),
                "--seed" => options.seed = number(&word, value("a number")?)?,
                "--first-failure" => options.first_failure = true,
                "--help" | "-h" => return Err(String::new()),
                option if option.starts_with('-') => return Err(format!("no option {option}")),
                name => options.wanted.push(name.into()),
            }
        }
        Ok(options)
    }

    /// Makes these the options of this process and its children. Called once, before all tests.
    pub fn set(self) -> &'static Options {
        assert!(OPTIONS.set(self).is_ok(), "the options are set once");
        options()
    }

    /// Returns whether to run this test.
    pub fn wants_test(&self, test: &Test) -> bool {
        let is_named = || self.wanted.iter().any(|name| name == test.name);
        let is_chosen = self.lengthy == test.is_lengthy || self.long || is_named();
        is_chosen && self.wants(test.name)
    }

    /// Returns whether to run the check of this name. No check is lengthy.
    pub fn wants_check(&self, name: &str) -> bool {
        !self.lengthy && self.wants(name)
    }

    fn wants(&self, name: &str) -> bool {
        let has = |parts: &[String]| parts.iter().any(|part| name.contains(part));
        (self.wanted.is_empty() || has(&self.wanted)) && !has(&self.skipped)
    }

    /// Returns an error for a requested part of a name, or a test that may be skipped, that matches
    /// no test.
    pub fn unknown(&self, names: &[&str]) -> Option<String> {
        let parts = self.wanted.iter().chain(&self.skipped);
        let mut missing = parts.filter(|part| !names.iter().any(|name| name.contains(*part)));
        let left_out = self.left_out.iter().flatten();
        let mut no_test = left_out.filter(|name| !names.contains(&name.as_str()));
        match (missing.next(), no_test.next()) {
            (Some(part), _) => Some(format!("no test has {part} in its name: see --list")),
            (_, Some(name)) => Some(format!("no test to be left out is called {name}")),
            (None, None) => None,
        }
    }
}

static OPTIONS: OnceLock<Options> = OnceLock::new();

/// The options of this run.
pub fn options() -> &'static Options {
    OPTIONS.get_or_init(Options::default)
}

fn number(word: &str, value: String) -> Result<u64, String> {
    random::number(&value).ok_or(format!("{word} takes a number"))
}

/// The names in a file, one per line. Lines that begin with `#` are comments.
fn names_in(file: &str) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let lines = text.lines().map(str::trim);
    let names = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(names.map(String::from).collect())
}
