// SPDX-License-Identifier: GPL-2.0

//! The program with which scripts judge the kernel's log.

#![forbid(unsafe_code)]

use kernel_log::{
    check,
    emulator_fault,
    Allowed,
    Extent, //
};
use std::{
    fs,
    process::ExitCode, //
};

const USAGE: &str = "usage: kernel-log check [--with-faults] [--of-c] [--part] FILE...
       kernel-log emulator-fault FILE

check: is each of these logs of a kernel free of reports, and of messages of
user_events besides loading and unloading? Shows each line that is not expected.
A load that is made to fail may say so, also for want of a symbol that no kernel
has (it ends in \"#\"), an unloading that root has wait may say for what, and a
cgroup at its limit may have a process killed.
  --with-faults  allocations were made to fail, and the kernel may say so
  --of-c         the kernel has the C implementation, which tells of every bit
                 that it cannot write, and has the trace core warn of a record
                 that is too long for perf
  --part         of a log: it need not begin where the kernel did

emulator-fault: did the kernel with this console die of what the emulator did?
Says what that was.

The exit status is 0 for yes, 1 for no, and 2 if nothing can be said.";

/// The exit status if there is no result.
const UNKNOWN: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["check", words @ ..] => check_logs(words),
        ["emulator-fault", file] => read(file).map(|console| {
            let fault = emulator_fault(&console);
            fault.inspect(|what| println!("{what}")).is_some()
        }),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(UNKNOWN)
        }
    }
}

/// Reads a log, which need not be valid UTF-8: a console shows any bytes.
fn read(file: &str) -> Result<String, String> {
    let bytes = fs::read(file).map_err(|error| format!("kernel-log: {file}: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Prints unexpected lines. Returns `Ok(false)` if there is such a line, or no log.
fn check_logs(words: &[&str]) -> Result<bool, String> {
    let mut allowed = Allowed::default();
    let mut extent = Extent::FromStart;
    let mut files = Vec::new();
    for word in words {
        match *word {
            "--with-faults" => allowed.injected_faults = true,
            "--of-c" => allowed.c_implementation = true,
            "--part" => extent = Extent::Part,
            file if !file.starts_with('-') => files.push(file),
            _ => return Err(USAGE.into()),
        }
    }
    if files.is_empty() {
        return Err(USAGE.into());
    }
    let mut all_are_clean = true;
    for file in files {
        // A machine that dies leaves no log.
        let log = read(file).unwrap_or_default();
        if log.is_empty() {
            println!("  there is no kernel log: {file}");
            all_are_clean = false;
            continue;
        }
        let findings = check(&log, allowed, extent);
        if !findings.is_empty() {
            println!("  unexpected in the kernel's log ({file}):");
            all_are_clean = false;
        }
        for finding in findings {
            println!("    | {finding}");
        }
    }
    Ok(all_are_clean)
}
