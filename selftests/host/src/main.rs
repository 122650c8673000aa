// SPDX-License-Identifier: GPL-2.0

//! Decisions of the scripts of `selftests/machine`.

#![forbid(unsafe_code)]

mod faults;
mod imports;
mod tally;
mod tokens;

use std::{
    io::Read,
    process::ExitCode, //
};

const USAGE: &str = "usage: host-tools tally boot BOOT
       host-tools tally tap STATUS [may-skip] <OUTPUT
       host-tools imports FILE...
       host-tools faults COMMAND...

tally boot: what the tests in a machine came to, a line \"PASSED FAILED WHAT\" for
each program, from BOOT.score. When the machine was started again, as the emulator
had died, the tests that passed before count once, as they were run again; those
that failed before are failures. BOOT.score.1, .2, ... are the scores of those
starts, and BOOT.shown has what all of them printed.

tally tap: what the output of a test program that ended with STATUS comes to:
\"PASSED FAILED\". A test that the plan names and that never reported has failed,
and so has one that it does not name, and one that is skipped, unless the program
may skip some: then it does not count. A status other than 0 is a failure.

imports: does each of these files import only what Documentation/design.rst draws?
Shows each other import as file:line, and the largest circle of files that import
one another, which has a bound.

faults: see selftests/machine/mutants.";

/// The result of a command: its exit status, or an error, which is status 2.
type Outcome = Result<ExitCode, String>;

fn outcome(is_good: bool) -> Outcome {
    Ok(ExitCode::from(u8::from(!is_good)))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["tally", "boot", boot] => {
            let lines = tally::boot(boot);
            lines.iter().for_each(|line| println!("{line}"));
            outcome(true)
        }
        ["tally", "tap", status] => tap(status, false),
        ["tally", "tap", status, "may-skip"] => tap(status, true),
        ["imports", files @ ..] => imports::check(files),
        ["faults", words @ ..] => faults::command(words),
        _ => Err(USAGE.into()),
    };
    result.unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::from(2)
    })
}

fn tap(status: &str, may_skip: bool) -> Outcome {
    let mut output = Vec::new();
    std::io::stdin()
        .read_to_end(&mut output)
        .map_err(|error| format!("standard input: {error}"))?;
    let output = String::from_utf8_lossy(&output);
    let sum = tally::tap(&output, status == "0", may_skip);
    println!("{} {}", sum.passed, sum.failed);
    outcome(true)
}

fn read(file: &str) -> Result<String, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
