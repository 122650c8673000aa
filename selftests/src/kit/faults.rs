// SPDX-License-Identifier: GPL-2.0

//! Faults on request: allocations, and copies of user memory, that fail.
//!
//! Only kernels made for testing have them; on others the tests with [`PATH`] are left out.

use crate::kit::errno::{Errno, Result};
use crate::kit::{module, wait};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A number n: the nth thing that may fail, from now on, does so, in this thread only.
pub const PATH: &str = "/proc/self/fail-nth";
/// Not 0: things may fail at random for this process, and for the children that it forks.
const AT_RANDOM: &str = "/proc/self/make-it-fail";
const DEBUGFS: &str = "/sys/kernel/debug";
const PAGES: &str = "fail_page_alloc";
const USERCOPY: &str = "fail_usercopy";
const KINDS: [&str; 3] = ["failslab", PAGES, USERCOPY];

/// What a call says when there is no memory, or memory cannot be read or written.
pub const EITHER: &[Errno] = &[Errno::ENOMEM, Errno::EFAULT];

/// Is this a kernel on which things can be made to fail?
pub fn are_known() -> bool {
    Path::new(PATH).exists()
}

/// Lets all kinds of allocations and copies fail: when a thread asks for it, and the allocations so
/// many times in a hundred where [`at_random`] is asked for.
pub fn allow(percent: u32) {
    let debug = Path::new(DEBUGFS);
    if !debug.join(KINDS[0]).exists() {
        let mounted = Command::new("mount")
            .args(["-t", "debugfs", "none"])
            .arg(debug)
            .status();
        assert!(mounted.expect("mount").success(), "mount debugfs");
    }
    for kind in KINDS {
        let set = |file: &str, value: &str| set(&debug.join(kind).join(file), value);
        let percent = if kind == USERCOPY { 0 } else { percent };
        // First: what is let fail from here on is not what was.
        set("probability", "0");
        require(&debug.join(kind), &(0..u64::MAX));
        set("task-filter", "Y");
        set("times", "-1");
        set("verbose", "0");
        set("probability", &percent.to_string());
        // Also what may wait for memory, and single pages.
        if kind != USERCOPY {
            set("ignore-gfp-wait", "N");
        }
        if kind == PAGES {
            set("min-order", "0");
        }
    }
}

/// Writes to a file of fault injection, and sees whether it has taken it.
#[track_caller]
fn set(file: &Path, value: &str) {
    let set = fs::write(file, value).and_then(|()| fs::read_to_string(file));
    let set = set.unwrap_or_else(|error| panic!("{value} to {}: {error}", file.display()));
    assert_eq!(set.trim(), value, "{}", file.display());
}

/// Writes to a file of fault injection, which takes allocations and copies, too.
#[track_caller]
fn insist(mut write: impl FnMut() -> std::io::Result<()>) {
    let mut refused = None;
    for _ in 0..10_000 {
        match write() {
            Ok(()) => return,
            Err(error) => refused = Some(error),
        }
    }
    panic!("a setting of fault injection is refused: {refused:?}");
}

/// Has the allocations of this process, and of the children that it forks, fail at random, or not.
pub fn at_random(fail: bool) {
    insist(|| fs::write(AT_RANDOM, if fail { "1" } else { "0" }));
}

/// Has this process meet the fault of this number, also in the program that it executes; 0 for none.
pub fn ask(number: u32) {
    insist(|| fs::write(PATH, number.to_string()));
}

/// Allocations that the module has asked for, or that are made for what it called, fail until this ends: in whatever task,
/// worker or interrupt. All others are left alone, and with them the process that asked for it.
pub struct InModule {
    dirs: Vec<PathBuf>,
}

/// More than will fail.
const MANY: u64 = 1_000_000_000;

impl InModule {
    /// Has allocations of some kinds fail so many times in a hundred.
    pub fn fail(kinds: &[(&str, u32)]) -> InModule {
        allow(0);
        let code = module::code();
        let dir = |kind: &&str| {
            assert!(KINDS.contains(kind), "{kind}");
            Path::new(DEBUGFS).join(kind)
        };
        let in_module = InModule {
            dirs: kinds.iter().map(|(kind, _)| dir(kind)).collect(),
        };
        for (dir, (kind, percent)) in in_module.dirs.iter().zip(kinds) {
            set(&dir.join("task-filter"), "N");
            set(&dir.join("times"), &MANY.to_string());
            // Pages of user memory, too.
            if *kind == PAGES {
                set(&dir.join("ignore-gfp-highmem"), "N");
            }
            require(dir, &code);
            set(&dir.join("probability"), &percent.to_string());
        }
        in_module
    }

    /// How many have failed.
    pub fn met(&self) -> u64 {
        let left = |dir: &PathBuf| {
            let left = fs::read_to_string(dir.join("times")).expect("how many may fail still");
            MANY - left.trim().parse::<u64>().expect("a number")
        };
        self.dirs.iter().map(left).sum()
    }

    /// Waits until so many have failed.
    #[track_caller]
    pub fn wait_for(&self, count: u64) {
        wait::until("allocations of the module to fail", || self.met() >= count);
    }

    /// Ends it. Returns how many have failed.
    pub fn end(self) -> u64 {
        for dir in &self.dirs {
            set(&dir.join("probability"), "0");
        }
        self.met()
    }
}

impl Drop for InModule {
    fn drop(&mut self) {
        allow(0);
    }
}

/// What fails must have an address of this range among its callers.
#[track_caller]
fn require(dir: &Path, range: &Range<u64>) {
    set(
        &dir.join("require-start"),
        &format!("{:#018x}", range.start),
    );
    set(&dir.join("require-end"), &format!("{:#018x}", range.end));
}

/// The fault of one round of [`walk`].
pub struct Fault {
    file: File,
    /// Which one, from 1 on.
    pub number: u32,
    /// Has it come to it?
    pub met: bool,
    /// How often calls failed, by error.
    failed: BTreeMap<i32, u32>,
}

/// How the calls of a [`walk`] failed.
#[must_use]
pub struct Failures {
    what: String,
    by_error: BTreeMap<i32, u32>,
}

impl Failures {
    /// Has each of these errors come up? What is cached when a walk begins may take the place of a call by one, so that
    /// the faults of the walk miss that.
    pub fn has(&self, errors: &[Errno]) -> bool {
        (errors.iter()).all(|errno| self.by_error.contains_key(&errno.0))
    }

    /// Each of these errors must have come up.
    #[track_caller]
    pub fn include(&self, errors: &[Errno]) {
        for errno in errors {
            let (what, number) = (&self.what, errno.0);
            assert!(
                self.by_error.contains_key(&number),
                "{what}: never {errno:?}"
            );
        }
    }
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
        insist(|| self.file.write_all(b"0"));
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
            *self.failed.entry(errno.0).or_default() += 1;
        }
        result
    }
}

/// Calls `round` with the first fault to come, with the second, and so on, until it is not met.
#[track_caller]
pub fn walk(what: &str, round: impl FnMut(&mut Fault)) -> Failures {
    walk_by(what, |_| 1, round)
}

/// The same, in steps of the caller's choice: how far to go is asked before each but the first.
#[track_caller]
pub fn walk_by(
    what: &str,
    mut step: impl FnMut(&Fault) -> u32,
    mut round: impl FnMut(&mut Fault),
) -> Failures {
    let file = OpenOptions::new().read(true).write(true).open(PATH);
    let mut fault = Fault {
        file: file.expect(PATH),
        number: 1,
        met: false,
        failed: BTreeMap::new(),
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
    let errors = failed
        .iter()
        .map(|(&number, times)| format!("{:?} {times} times", Errno(number)));
    let errors = errors.collect::<Vec<_>>().join(", ");
    println!("  # {what}: {met} faults up to number {last}; calls failed with {errors}");
    assert!(!failed.is_empty(), "{what}: no call failed");
    Failures {
        what: what.into(),
        by_error: failed,
    }
}
