// SPDX-License-Identifier: GPL-2.0

//! Tests the published client libraries, unmodified, with the module: runs their own tests, and
//! writes known records, which perf records and the libraries' own decoder reads. Needs root, a
//! mounted tracefs and the loaded module. Prints KTAP.
//!
//! `clients check TESTS EXPECTED`: `TESTS` has the libraries' own tests, `LIBRARY.TARGET`, and
//! `EXPECTED` the records of the tests that write some (see `own_tests`).
//!
//! `clients show FILE`: prints the records in perf's file `FILE`, a line each, as in `EXPECTED`.

mod known;
mod own_tests;
mod perf;
mod pipelines;
mod sizes;
mod writers;

use std::env;
use std::path::Path;
use std::process::ExitCode;

/// The reason why a test failed.
type Failure = String;

/// Results in KTAP.
struct Ktap {
    told: usize,
    failed: usize,
}

impl Ktap {
    fn begin(planned: usize) -> Ktap {
        println!("KTAP version 1\n1..{planned}");
        Ktap { told: 0, failed: 0 }
    }

    fn result(&mut self, name: &str, result: Result<String, Failure>) {
        self.told += 1;
        let (word, text) = match result {
            Ok(text) => ("ok", text),
            Err(why) => {
                self.failed += 1;
                ("not ok", why)
            }
        };
        let mark = if text.is_empty() { "" } else { " # " };
        println!(
            "{word} {} {name}{mark}{}",
            self.told,
            text.replace('\n', " ")
        );
    }
}

fn check(tests: &Path, expected: &Path) -> Result<bool, Failure> {
    let own = own_tests::find(tests)?;
    let planned = own.iter().map(|binary| binary.results()).sum::<usize>();
    let mut ktap = Ktap::begin(planned + known::TESTS.len() + sizes::TESTS.len());
    for binary in &own {
        binary.run(expected, &mut ktap);
    }
    for (name, test) in known::TESTS.iter().chain(sizes::TESTS) {
        ktap.result(name, test().map(|()| String::new()));
    }
    Ok(ktap.failed == 0)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["check", tests, expected] => check(Path::new(tests), Path::new(expected)),
        ["show", file] => perf::read(Path::new(file)).map(|records| {
            records
                .iter()
                .for_each(|record| println!("{}", record.text));
            true
        }),
        _ => Err("usage: clients check TESTS EXPECTED | clients show FILE".to_string()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("clients: {why}");
            ExitCode::from(2)
        }
    }
}
