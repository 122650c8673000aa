// SPDX-License-Identifier: GPL-2.0

//! Tests of user_events on a running kernel, as root.
//!
//! With `--module` they first test loading and unloading, then load the module for all others and
//! unload it at the end. Without, they test what the running kernel has.

mod behaviour;
mod contract;
mod fuzz;
mod harness;
mod kit;
mod stress;
mod tools;

use harness::{trouble, Needs, Test};
use kit::machine::Log;
use kit::{abi, implementation, module, os, random, setuid_victim, tracefs, wait, writer};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str =
    "usage: selftests [--module FILE] [--against-c] [--all | --left-out FILE] [--list]
                 [--long] [--times N] [--seed N] [--first-failure] [--wait SECONDS]
                 [--skip NAME-SUBSTRING]...
                 [NAME-SUBSTRING...]

  --module FILE   the module to test, not loaded yet; without it the kernel's
                  own user_events are tested, and loading is not
  --against-c     the running kernel has the C implementation: run the checks
                  of the contract, expect exactly those marked as better than C
                  to fail, each in the way that is marked, and say what happened.
                  The module, if there is one, must refuse to be loaded there
  --all           a test that cannot be run on this machine is a failure
  --left-out FILE the same, but for those that FILE names, a line each: and one
                  of these that can be run is a failure, too
  --skip PART     leave out the tests that have this in their name
  --list          only say which tests there are
  --long          test for longer where more can be seen by that
  --times N       so many rounds, or seconds, of what goes on and on
  --seed N        the seed of what is random in that (0)
  --first-failure end with the first test that fails
  --wait SECONDS  how long anything is waited for (40), and a test at most eight
                  times as long

Runs the tests whose names contain one of the substrings, or all. One line a
test; exit status 1 if any failed. Run it as root, in a virtual machine.";

struct Options {
    left_out: Option<LeftOut>,
    list: bool,
    against_c: bool,
    first_failure: bool,
    wanted: Vec<String>,
    skipped: Vec<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        left_out: None,
        list: false,
        against_c: false,
        first_failure: false,
        wanted: Vec::new(),
        skipped: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--module" => module::set_path(arguments.next().ok_or("--module takes a file")?),
            "--skip" => {
                let part = arguments.next().ok_or("--skip takes a part of a name")?;
                options.skipped.push(part);
            }
            "--all" => options.left_out = Some(LeftOut::default()),
            "--left-out" => {
                let file = arguments.next().ok_or("--left-out takes a file")?;
                options.left_out = Some(LeftOut::read(&file)?);
            }
            "--list" => options.list = true,
            "--against-c" => {
                options.against_c = true;
                implementation::set_c();
            }
            "--long" => harness::be_long(),
            "--times" => {
                let times = arguments.next().and_then(|times| times.parse().ok());
                harness::set_times(times.ok_or("--times takes a number")?);
            }
            "--seed" => {
                let seed = arguments.next().and_then(|seed| random::number(&seed));
                harness::set_seed(seed.ok_or("--seed takes a number")?);
            }
            "--first-failure" => {
                options.first_failure = true;
                harness::end_with_first_failure();
            }
            "--wait" => {
                let seconds = arguments.next().and_then(|seconds| seconds.parse().ok());
                wait::set_limit(seconds.ok_or("--wait takes a number of seconds")?);
            }
            "--help" | "-h" => return Err(String::new()),
            option if option.starts_with('-') => return Err(format!("no option {option}")),
            name => options.wanted.push(name.to_string()),
        }
    }
    Ok(options)
}

/// Says what the machine lacks to run the tests.
fn obstacle(against_c: bool) -> Option<String> {
    if !Path::new(tracefs::ROOT).join("trace").exists() {
        return Some(format!(
            "mount tracefs first: mount -t tracefs nodev {}",
            tracefs::ROOT
        ));
    }
    if against_c && module::is_loaded() {
        return Some("--against-c is for a kernel with the C implementation, and no module".into());
    }
    if module::is_given() && module::is_loaded() {
        return Some("unload the module first: rmmod user_events".into());
    }
    if (against_c || !module::is_given()) && !Path::new(abi::DATA).exists() {
        return Some("this kernel has no user_events: give a module with --module".into());
    }
    None
}

/// The names of the tests that cannot be run on this machine.
#[derive(Default)]
struct LeftOut(Vec<String>);

impl LeftOut {
    /// Those that a file names, a line each. Lines that begin with `#` are comments.
    fn read(file: &str) -> Result<LeftOut, String> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let lines = text.lines().map(str::trim);
        let names = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Ok(LeftOut(names.map(String::from).collect()))
    }
}

/// Counts, and says one line for each.
#[derive(Default)]
struct Score {
    passed: usize,
    failed: usize,
    /// Only these may be left out, or any.
    left_out: Option<LeftOut>,
}

impl Score {
    /// Runs a test, unless that makes no sense here: then it neither passes nor fails, if it may be left out.
    fn run(&mut self, test: &Test, log: &mut Log) {
        let listed = self.left_out.as_ref();
        let listed = listed.map(|list| list.0.iter().any(|name| name == test.name));
        match test.obstacle() {
            None if listed == Some(true) => {
                let why = "it can be run, and is listed as one that cannot";
                self.add(test.name, Err(why.into()));
            }
            None => {
                let start = Instant::now();
                let result = harness::run(test, log);
                // Where a run's time goes; most tests take no time worth a word.
                let seconds = start.elapsed().as_secs();
                let told = result.map(|()| match seconds {
                    0 => String::new(),
                    _ => format!("{seconds} s"),
                });
                self.add_told(test.name, told);
            }
            Some(obstacle) if listed == Some(false) => self.add(test.name, Err(obstacle)),
            Some(obstacle) => println!("left out {}: {obstacle}", test.name),
        }
    }

    fn add(&mut self, name: &str, result: Result<(), String>) {
        self.add_told(name, result.map(|()| String::new()));
    }

    /// The same, with something to say of what passed, too.
    fn add_told(&mut self, name: &str, result: Result<String, String>) {
        match result {
            Ok(told) if told.is_empty() => {
                self.passed += 1;
                println!("ok {name}");
            }
            Ok(told) => {
                self.passed += 1;
                println!("ok {name} ({told})");
            }
            Err(why) => {
                self.failed += 1;
                println!("not ok {name}: {why}");
            }
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == writer::OPTION) {
        return writer::main(&words[1..]);
    }
    match words.split_first() {
        Some((first, rest)) if first == fuzz::OPTION => return fuzz::main(rest),
        Some((first, rest)) if first == fuzz::CHILD_OPTION => fuzz::child_main(rest),
        Some((first, rest)) if first == setuid_victim::OPTION => return setuid_victim::main(rest),
        Some((first, rest)) if first == trouble::OPTION => return trouble::main(rest),
        _ => {}
    }
    let options = match options() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{}", format!("{why}\n{USAGE}").trim_start());
            return ExitCode::from(2);
        }
    };

    let wanted = |name: &str| {
        let has = |parts: &[String]| parts.iter().any(|part| name.contains(part));
        (options.wanted.is_empty() || has(&options.wanted)) && !has(&options.skipped)
    };
    let (of_loading, of_events): (Vec<Test>, Vec<Test>) = behaviour::all()
        .chain(tools::all())
        .chain(stress::all())
        .chain(fuzz::TESTS.iter().copied())
        .filter(|test| !options.against_c && wanted(test.name))
        .partition(|test| test.needs == Needs::UnloadedModule);
    let mut of_contract = contract::all();
    of_contract.retain(|check| wanted(&check.name));
    if options.list {
        for test in of_loading.iter().chain(&of_events) {
            println!("{}", test.name);
        }
        for check in &of_contract {
            println!("{}", check.name);
        }
        return ExitCode::SUCCESS;
    }
    if let Some(obstacle) = obstacle(options.against_c) {
        eprintln!("selftests: {obstacle}");
        return ExitCode::from(2);
    }

    os::adopt_orphans();
    let mut log = Log::from_now();
    let mut score = Score {
        left_out: options.left_out,
        ..Score::default()
    };
    let loads = module::is_given() && !options.against_c;
    let is_over = |score: &Score| options.first_failure && score.failed > 0;
    if loads {
        for test in &of_loading {
            if is_over(&score) {
                break;
            }
            score.run(test, &mut log);
        }
    }
    if options.against_c && module::is_given() {
        score.run(&stress::REFUSAL, &mut log);
    }
    if (!of_events.is_empty() || !of_contract.is_empty()) && !is_over(&score) {
        if let Err(errno) = if loads { module::load_with("") } else { Ok(()) } {
            score.add("load::before_the_other_tests", Err(format!("{errno:?}")));
        } else {
            for test in &of_events {
                if is_over(&score) {
                    break;
                }
                score.run(test, &mut log);
            }
            for check in &of_contract {
                if is_over(&score) {
                    break;
                }
                let result = harness::run_check(check, &mut log);
                if options.against_c {
                    score.add_told(&check.name, contract::against_c(check, result));
                } else {
                    let result = result.map_err(|why| format!("\"{}\": {why}", check.row.text));
                    score.add(&check.name, result);
                }
            }
            if loads {
                let result = std::panic::catch_unwind(module::unload_when_idle);
                let result = result.map_err(|_| "it does not unload".to_string());
                score.add("load::unloads_after_all_other_tests", result);
            }
        }
    }

    println!("{} passed, {} failed", score.passed, score.failed);
    if score.failed == 0 && score.passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
