// SPDX-License-Identifier: GPL-2.0

//! Seeds: those repeated by each run, new ones, and records of those that failed.

use super::Options;
use crate::kit::random;
use std::fs;
use std::io::Read;
use std::path::Path;

/// The seeds repeated by each run.
pub fn listed() -> Vec<u64> {
    let lines = include_str!("seeds").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let seeds: Vec<u64> = lines
        .map(|line| random::number(line).unwrap_or_else(|| panic!("no seed: {line}")))
        .collect();
    assert!(!seeds.is_empty(), "no seeds");
    seeds
}

pub fn new_one() -> u64 {
    let mut bytes = [0; 8];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.unwrap_or_else(|error| panic!("no new seed from /dev/urandom: {error}"));
    u64::from_ne_bytes(bytes)
}

/// The directory shared with the host, and the directory in it for seeds that failed.
const BUILD: &str = "/build";
const FOUND: &str = "/build/fuzz-found";

/// Prints and stores the command to reproduce a failure.
pub fn keep(options: &Options, failures: &[String]) {
    let (target, file) = match options.against_c {
        true => ("fuzz KERNEL=c", format!("{FOUND}/{:#x}-c", options.seed)),
        false => ("fuzz", format!("{FOUND}/{:#x}", options.seed)),
    };
    let how = if options.rush { " RUSH=1" } else { "" };
    let again = format!(
        "make {target} SEED={:#x} OPERATIONS={} WORKERS={}{how}",
        options.seed, options.operations, options.workers.end
    );
    println!("  again: {again}");
    if Path::new(BUILD).is_dir() {
        let text = format!("{again}\n{}\n", failures.join("\n"));
        let kept = fs::create_dir_all(FOUND).and_then(|()| fs::write(&file, text));
        match kept {
            Ok(()) => println!("  kept in {}", file.trim_start_matches('/')),
            Err(error) => println!("  not kept in {file}: {error}"),
        }
    }
}
