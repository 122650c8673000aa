// SPDX-License-Identifier: GPL-2.0

//! Which lines, branches and functions of the module a run of the tests executed.
//!
//! `coverage CODE SOURCE UNREACHED LOG...`: CODE is what objdump says of the module's instructions, SOURCE what
//! llvm-symbolizer says of where each of them comes from, a LOG what an emulator translated in a machine
//! that had the module loaded, some number of times. The table goes to standard output, and to the
//! file UNREACHED each line and branch of the source that was not reached. `coverage addresses CODE` prints the
//! addresses of all instructions, for llvm-symbolizer. `selftests/machine/coverage` makes these files.

mod code;
mod executed;
mod log;
mod report;
mod source;
#[cfg(test)]
mod tests;

use code::Code;
use executed::Executed;
use source::Source;
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::process::ExitCode;

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

fn open(path: &str) -> Result<BufReader<File>, String> {
    match File::open(path) {
        Ok(file) => Ok(BufReader::with_capacity(1 << 20, file)),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

fn print(text: &str) -> Result<(), String> {
    let written = io::stdout().write_all(text.as_bytes());
    written.map_err(|error| format!("standard output: {error}"))
}

fn addresses(code: &str) -> Result<(), String> {
    let code = Code::parse(&read(code)?)?;
    let mut lines = String::new();
    for at in &code.instructions {
        lines.push_str(&format!("{:#x}\n", at.address));
    }
    print(&lines)
}

fn table(code: &str, source: &str, unreached: &str, logs: &[String]) -> Result<(), String> {
    let code = Code::parse(&read(code)?)?;
    let source = Source::parse(open(source)?, &code)?;
    let mut executed = Executed::new(&code);
    for path in logs {
        let loads = executed
            .add(open(path)?)
            .map_err(|error| format!("{path}: {error}"))?;
        if loads == 0 {
            return Err(format!("{path}: this module was never loaded there"));
        }
        eprintln!("  {path}: the module was loaded, up to {loads} times");
    }
    let report = report::Report::new(&code, &source, &executed);
    fs::write(unreached, report.unreached()).map_err(|error| format!("{unreached}: {error}"))?;
    print(&report.table())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match names[..] {
        ["addresses", code] => addresses(code),
        [code, source, unreached, _, ..] => table(code, source, unreached, &words[3..]),
        _ => Err("coverage CODE SOURCE UNREACHED LOG... | addresses CODE".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("coverage: {error}");
            ExitCode::FAILURE
        }
    }
}
