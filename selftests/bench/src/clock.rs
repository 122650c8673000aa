// SPDX-License-Identifier: GPL-2.0

//! The table of timed writes, from the output of several boots of two kernels.

use crate::report::consoles;
use std::collections::BTreeMap;

/// Largest allowed multiple of C's time in the kernel's part of a row. Times vary on a busy host.
const LIMIT: f64 = 1.05;

/// A row: the end of its key, its title, and the row of the same call without user_events, whose
/// time is subtracted.
type Row = (&'static str, &'static str, &'static str);

const ROWS: &[Row] = &[
    ("getppid", "a system call that does nothing", ""),
    ("write.null", "write to /dev/null", ""),
    ("writev.null", "writev to /dev/null", ""),
    ("write.off", "write to a disabled event", "write.null"),
    ("writev.off", "writev to a disabled event", "writev.null"),
    ("write.12", "write of 12 bytes", "write.null"),
    ("writev.12", "writev of 12 bytes", "writev.null"),
    ("write.100", "write of a 100-byte string", "write.null"),
    ("write.1000", "write of a 1000-byte string", "write.null"),
    ("write.4000", "write of a 4000-byte string", "write.null"),
    ("write.500000", "write of 500,000 bytes", "write.null"),
];

/// The rows of several threads, in the kernel.
const THREADS: &[(&str, &str)] = &[
    ("threads.1", "write of 12 bytes, one thread"),
    ("threads.2", "write of 12 bytes, each of two threads"),
    ("threads.4", "write of 12 bytes, each of four threads"),
];

/// The least and the median, in nanoseconds, by keys.
type Times = BTreeMap<String, [f64; 2]>;

/// The least of all boots of a kernel, and the median of their medians.
fn times(directory: &str, kernel: &str) -> Result<Times, String> {
    let mut told: BTreeMap<String, Vec<[f64; 2]>> = BTreeMap::new();
    let is_of_kernel = |name: &str| {
        name.rsplit_once('-')
            .is_some_and(|(name, _)| name == kernel)
    };
    for (path, console) in consoles(directory, is_of_kernel)? {
        for line in console.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["clock", key, least, median] = words[..] {
                let number = |word: &str| word.parse().map_err(|_| format!("{path}: {line}"));
                told.entry(key.into())
                    .or_default()
                    .push([number(least)?, number(median)?]);
            }
        }
    }
    let of_boots = |(key, boots): (String, Vec<[f64; 2]>)| {
        let mut medians: Vec<f64> = boots.iter().map(|boot| boot[1]).collect();
        medians.sort_by(f64::total_cmp);
        let least = boots.iter().map(|boot| boot[0]);
        let least = least.fold(f64::INFINITY, f64::min);
        (key, [least, medians[medians.len() / 2]])
    };
    Ok(told.into_iter().map(of_boots).collect())
}

/// Prints a row; returns the ratio of the least.
fn print(title: &str, c: [f64; 2], ours: [f64; 2], common: Option<[f64; 2]>) -> f64 {
    let ratio = ours[0] / c[0];
    let own = match common {
        Some([of_c, of_ours]) => format!("{:.3}", (ours[0] - of_ours) / (c[0] - of_c)),
        None => String::new(),
    };
    println!(
        "  {title:<42} {:>9.1} {:>9.1} {ratio:>6.3} {own:>8} {:>11.1} {:>9.1} {:>6.3}",
        c[0],
        ours[0],
        c[1],
        ours[1],
        ours[1] / c[1]
    );
    ratio
}

/// Prints the table.
///
/// # Errors
///
/// A row is missing, or takes longer than C's.
pub fn table(directory: &str) -> Result<(), String> {
    let (c, ours) = (times(directory, "uml-c")?, times(directory, "uml")?);
    let both = |key: &str| match (c.get(key), ours.get(key)) {
        (Some(&c), Some(&ours)) => Ok((c, ours)),
        _ => Err(format!("{key} was not measured on both kernels")),
    };
    let (mut passed, mut failed) = (0, 0);
    for (part, title) in [
        ("kernel", "nanoseconds in the kernel"),
        ("program", "nanoseconds of a program"),
    ] {
        println!(
            "{title:<44} {:>9} {:>9} {:>6} {:>8} {:>11} {:>9} {:>6}",
            "C", "ours", "ratio", "own part", "C, median", "ours", "ratio"
        );
        for (key, title, common) in ROWS {
            let (c, ours) = both(&format!("{part}.{key}"))?;
            let common = match *common {
                "" => None,
                key => both(&format!("{part}.{key}")).map(|(c, ours)| Some([c[0], ours[0]]))?,
            };
            // Entering the kernel takes nearly all of a program's time, so the difference of two
            // such times shows nothing.
            let own = common.filter(|_| part == "kernel");
            let ratio = print(title, c, ours, own);
            match own {
                Some(_) if ratio <= LIMIT => passed += 1,
                Some(_) => failed += 1,
                None => {}
            }
        }
        println!();
    }
    println!("threads that write to one file, in the kernel, on two processors");
    for (key, title) in THREADS {
        let (c, ours) = both(key)?;
        print(title, c, ours, None);
    }
    println!("\n{passed} passed, {failed} failed");
    match failed {
        0 => Ok(()),
        _ => Err("the kernel's part of a write takes longer than C's".into()),
    }
}
