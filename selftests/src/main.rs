// SPDX-License-Identifier: GPL-2.0

//! Tests of user_events on a running kernel, as root.
//!
//! With `--module`, tests of loading and unloading run first; then the module is loaded for all
//! others, and unloaded at the end. Without it, the tests use the user_events of the running
//! kernel.

mod behaviour;
mod contract;
mod dotnet;
mod fuzz;
mod harness;
mod kit;
mod stress;
mod tools;

use contract::Check;
use harness::{options, Ktap, Options, Test, USAGE};
use kit::machine::Log;
use kit::{abi, module, os, setuid_victim, tracefs, writer};
use std::path::Path;
use std::process::ExitCode;

/// Returns why the tests cannot be run on this machine.
fn obstacle() -> Option<String> {
    let is_c = options().against_c;
    if !Path::new(tracefs::ROOT).join("trace").exists() {
        return Some(format!(
            "mount tracefs first: mount -t tracefs nodev {}",
            tracefs::ROOT
        ));
    }
    if is_c && module::is_loaded() {
        return Some("--against-c is for a kernel with the C and no module".into());
    }
    if module::is_given() && module::is_loaded() {
        return Some("unload the module first: rmmod user_events".into());
    }
    if (is_c || !module::is_given()) && !Path::new(abi::DATA).exists() {
        return Some("this kernel has no user_events: give a module with --module".into());
    }
    None
}

/// All tests except the checks of the contract.
fn all_tests() -> impl Iterator<Item = Test> {
    behaviour::all()
        .chain(tools::all())
        .chain(stress::all())
        .chain(dotnet::TESTS.iter().copied())
        .chain(fuzz::TESTS.iter().copied())
}

struct Run {
    options: &'static Options,
    log: Log,
    ktap: Ktap,
}

impl Run {
    fn is_over(&self) -> bool {
        self.options.first_failure && self.ktap.has_failed()
    }

    fn tests(&mut self, tests: &[Test]) {
        for test in tests {
            if self.is_over() {
                return;
            }
            self.test(test);
        }
    }

    /// Runs a test, or skips it if it has an obstacle. With a list of tests that may be skipped, an
    /// obstacle of any other test is a failure, and so is a listed test that can be run.
    fn test(&mut self, test: &Test) {
        let listed = self.options.left_out.as_ref();
        let listed = listed.map(|list| list.iter().any(|name| name == test.name));
        match (test.obstacle(), listed) {
            (None, Some(true)) => {
                let why = "it can be run, and is listed as one that cannot";
                self.ktap.result(test.name, Err(why.into()));
            }
            (None, _) => {
                let result = harness::run(test, &mut self.log);
                self.ktap.result(test.name, result);
            }
            (Some(obstacle), Some(false)) => self.ktap.result(test.name, Err(obstacle)),
            (Some(obstacle), _) => self.ktap.skip(test.name, &obstacle),
        }
    }

    fn checks(&mut self, checks: &[Check]) {
        for check in checks {
            if self.is_over() {
                return;
            }
            let result = harness::run_check(check, &mut self.log);
            let result = match self.options.against_c {
                true => contract::against_c(check, result.map(drop)),
                false => result.map_err(|why| format!("\"{}\": {why}", check.row.text)),
            };
            self.ktap.result(&check.name, result);
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((first, rest)) if first == writer::OPTION => return writer::main(rest),
        Some((first, rest)) if first == fuzz::OPTION => return fuzz::main(rest),
        Some((first, rest)) if first == fuzz::CHILD_OPTION => fuzz::child_main(rest),
        Some((first, rest)) if first == setuid_victim::OPTION => return setuid_victim::main(rest),
        _ => {}
    }
    let options = match Options::read(words) {
        Ok(options) => options.set(),
        Err(why) => {
            eprintln!("{}", format!("{why}\n{USAGE}").trim_start());
            return ExitCode::from(2);
        }
    };

    let is_c = options.against_c;
    let tests: Vec<Test> = all_tests().collect();
    let checks = contract::all();
    let names = tests.iter().map(|test| test.name);
    let names = names.chain(checks.iter().map(|check| check.name.as_str()));
    if let Some(unknown) = options.unknown(&names.collect::<Vec<_>>()) {
        eprintln!("selftests: {unknown}");
        return ExitCode::from(2);
    }
    let mut names = tests.iter().map(|test| test.name);
    if let Some(name) = contract::first_without_a_row(&mut names, &checks) {
        eprintln!("selftests: {name} claims a row of which the contract has no case");
        return ExitCode::from(2);
    }
    let (of_loading, of_events): (Vec<Test>, Vec<Test>) = tests
        .into_iter()
        .filter(|test| !is_c && options.wants_test(test))
        .partition(|test| test.is_of_loading);
    let mut checks = checks;
    checks.retain(|check| options.wants_check(&check.name));
    if options.list {
        let tests = of_loading.iter().chain(&of_events).map(|test| test.name);
        for name in tests.chain(checks.iter().map(|check| check.name.as_str())) {
            println!("{name}");
        }
        return ExitCode::SUCCESS;
    }
    if let Some(obstacle) = obstacle() {
        eprintln!("selftests: {obstacle}");
        return ExitCode::from(2);
    }

    os::adopt_orphans();
    let of_loading = match (module::is_given(), is_c) {
        (true, true) => vec![stress::REFUSAL],
        (true, false) => of_loading,
        (false, _) => Vec::new(),
    };
    let needs_events = !of_events.is_empty() || !checks.is_empty();
    // In that case the loading before these tests and the unloading after them are two results of
    // their own.
    let loads = needs_events && module::is_given() && !is_c;
    let planned = of_loading.len() + of_events.len() + checks.len() + if loads { 2 } else { 0 };
    let mut run = Run {
        options,
        log: Log::from_now(),
        ktap: Ktap::begin(planned),
    };
    run.tests(&of_loading);
    if run.is_over() || !needs_events {
        return run.ktap.end();
    }
    if loads {
        let result = module::load_with("").map_err(|errno| format!("{errno:?}"));
        let is_loaded = result.is_ok();
        let result = result.map(|()| String::new());
        run.ktap.result("load::before_the_other_tests", result);
        if !is_loaded {
            return run.ktap.end();
        }
    }
    run.tests(&of_events);
    run.checks(&checks);
    if loads {
        let result = std::panic::catch_unwind(module::unload_when_idle);
        let result = result.map(|()| String::new());
        let result = result.map_err(|_| "it does not unload".into());
        run.ktap
            .result("load::unloads_after_all_other_tests", result);
    }
    run.ktap.end()
}
