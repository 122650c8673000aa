// SPDX-License-Identifier: GPL-2.0

//! Faults on request: allocations, and copies of user memory, that fail.
//!
//! Only kernels made for testing have them; on others the tests with [`SIGN`] are left out.

use crate::errno::{Errno, Result};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// A number n: the nth thing that may fail, from now on, does so, in this thread only.
pub const SIGN: &str = "/proc/self/fail-nth";
/// Not 0: things may fail at random for this process, and for the children that it forks.
const AT_RANDOM: &str = "/proc/self/make-it-fail";
const KINDS: [&str; 3] = ["failslab", "fail_page_alloc", "fail_usercopy"];

/// What a call says when there is no memory, or memory cannot be read or written.
pub const EITHER: &[Errno] = &[Errno::ENOMEM, Errno::EFAULT];

/// Is this a kernel on which things can be made to fail?
pub fn are_known() -> bool {
    Path::new(SIGN).exists()
}

/// Lets all kinds of allocations and copies fail: when a thread asks for it, and the allocations so
/// many times in a hundred where [`at_random`] is asked for.
pub fn allow(percent: u32) {
    let debug = Path::new("/sys/kernel/debug");
    if !debug.join(KINDS[0]).exists() {
        let mounted = Command::new("mount")
            .args(["-t", "debugfs", "none"])
            .arg(debug)
            .status();
        assert!(mounted.expect("mount").success(), "mount debugfs");
    }
    for kind in KINDS {
        let set = |file: &str, value: &str| fs::write(debug.join(kind).join(file), value);
        let percent = if kind == "fail_usercopy" { 0 } else { percent };
        for (file, value) in [
            ("task-filter", "Y"),
            ("times", "-1"),
            ("verbose", "0"),
            ("probability", &percent.to_string()),
        ] {
            set(file, value).expect("a file of fault injection");
        }
        // Where there are such: also what may wait for memory, and single pages.
        let _ = set("ignore-gfp-wait", "N");
        let _ = set("min-order", "0");
    }
}

/// Has the allocations of this process, and of the children that it forks, fail at random, or not.
pub fn at_random(fail: bool) {
    // Setting it takes allocations, too.
    while fs::write(AT_RANDOM, if fail { "1" } else { "0" }).is_err() {}
}

/// Has this process meet the fault of this number, also in the program that it executes; 0 for none.
pub fn ask(number: u32) {
    while fs::write(SIGN, number.to_string()).is_err() {}
}

/// The fault of one round of [`walk`].
pub struct Fault {
    file: File,
    /// Which one, from 1 on.
    pub number: u32,
    /// Has it come to it?
    pub met: bool,
    failed: u32,
}

impl Fault {
    /// Runs `operation`, at most once a round, with the round's fault to come.
    pub fn during<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let number = self.number.to_string();
        self.file.write_all(number.as_bytes()).expect("ask for it");
        let result = operation();
        // Reading and writing this file copies memory, which counts, and fails, too.
        let mut left = [0];
        self.met = self.file.read_at(&mut left, 0).is_ok() && left == [b'0'];
        while self.file.write_all(b"0").is_err() {}
        result
    }

    /// The same for an operation that fails, if it does, with one of the `known` errors.
    #[track_caller]
    pub fn fails<T>(
        &mut self,
        known: &[Errno],
        operation: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let result = self.during(operation);
        if let Err(errno) = &result {
            let number = self.number;
            assert!(self.met, "{errno:?} without a fault, after {number}");
            assert!(known.contains(errno), "fault {number}: {errno:?}");
            self.failed += 1;
        }
        result
    }
}

/// Calls `round` with the first fault to come, with the second, and so on, until it is not met.
#[track_caller]
pub fn walk(what: &str, round: impl FnMut(&mut Fault)) {
    walk_by(what, |_| 1, round);
}

/// The same, in steps of the caller's choice: how far to go is asked before each but the first.
#[track_caller]
pub fn walk_by(what: &str, mut step: impl FnMut(&Fault) -> u32, mut round: impl FnMut(&mut Fault)) {
    let file = OpenOptions::new().read(true).write(true).open(SIGN);
    let mut fault = Fault {
        file: file.expect(SIGN),
        number: 1,
        met: false,
        failed: 0,
    };
    let mut met = 0;
    loop {
        round(&mut fault);
        if !fault.met {
            break;
        }
        met += 1;
        fault.number += step(&fault);
        assert!(fault.number < 100_000, "{what}: the faults do not end");
    }
    let (last, failed) = (fault.number, fault.failed);
    println!("  # {what}: {met} faults up to number {last}, {failed} calls failed");
    assert!(failed > 0, "{what}: no call failed");
}
