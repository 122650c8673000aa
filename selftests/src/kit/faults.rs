// SPDX-License-Identifier: GPL-2.0

//! Fault injection: allocations, and copies of user memory, that fail on request.
//!
//! Only debug kernels have it; on others the tests that need [`PATH`] are skipped.

use crate::kit::errno::{Errno, Result};
use crate::kit::tool::succeeds;
use crate::kit::{module, wait};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Takes n, and the nth fault point that this thread passes from then on fails.
pub const PATH: &str = "/proc/self/fail-nth";
/// Not 0: allocations of this process and of its later children may fail at random.
const AT_RANDOM: &str = "/proc/self/make-it-fail";
const DEBUGFS: &str = "/sys/kernel/debug";
const PAGES: &str = "fail_page_alloc";
const USERCOPY: &str = "fail_usercopy";
const KINDS: [&str; 3] = ["failslab", PAGES, USERCOPY];

/// The errors of a call without memory, or whose user memory cannot be accessed.
pub const EITHER: &[Errno] = &[Errno::ENOMEM, Errno::EFAULT];

pub fn are_known() -> bool {
    Path::new(PATH).exists()
}

/// Enables faults of all kinds: by number, and for allocations also at random, in `percent` of the
/// cases, where [`at_random`] is on.
pub fn allow(percent: u32) {
    let debug = Path::new(DEBUGFS);
    if !debug.join(KINDS[0]).exists() {
        let is_mounted = succeeds("mount", &["-t", "debugfs", "none", DEBUGFS]);
        assert!(is_mounted, "mount debugfs");
    }
    for kind in KINDS {
        let set = |file: &str, value: &str| set(&debug.join(kind).join(file), value);
        let percent = if kind == USERCOPY { 0 } else { percent };
        // Off first, so that the settings below do not fail under the old ones.
        set("probability", "0");
        require(&debug.join(kind), &(0..u64::MAX));
        set("task-filter", "Y");
        set("times", "-1");
        set("verbose", "0");
        set("probability", &percent.to_string());
        // Also allocations that may sleep, and those of order 0.
        if kind != USERCOPY {
            set("ignore-gfp-wait", "N");
        }
        if kind == PAGES {
            set("min-order", "0");
        }
    }
}

/// Writes to a file of fault injection, and reads it back.
#[track_caller]
fn set(file: &Path, value: &str) {
    let set = fs::write(file, value).and_then(|()| fs::read_to_string(file));
    let set = set.unwrap_or_else(|error| panic!("{value} to {}: {error}", file.display()));
    assert_eq!(set.trim(), value, "{}", file.display());
}

/// Writes to a file of fault injection until that succeeds: the write itself can hit a fault.
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

/// Switches random faults of allocations on or off for this process and its later children.
pub fn at_random(fail: bool) {
    insist(|| fs::write(AT_RANDOM, if fail { "1" } else { "0" }));
}

/// Sets the number of this process's next fault, which stays across execve; 0 for none.
pub fn ask(number: u32) {
    insist(|| fs::write(PATH, number.to_string()));
}

/// While this exists, allocations with the module's code on their call stack fail, in any task,
/// worker or interrupt. All others succeed, also those of the process that made this.
pub struct InModule {
    dirs: Vec<PathBuf>,
}

/// More than the faults to come.
const MANY: u64 = 1_000_000_000;

impl InModule {
    /// Makes allocations of some kinds fail, each at its percentage.
    pub fn fail(kinds: &[(&str, u32)]) -> InModule {
        allow(0);
        let code = module::code();
        let mut in_module = InModule { dirs: Vec::new() };
        for (kind, percent) in kinds {
            assert!(KINDS.contains(kind), "{kind}");
            let dir = Path::new(DEBUGFS).join(kind);
            set(&dir.join("task-filter"), "N");
            set(&dir.join("times"), &MANY.to_string());
            // Also pages of user memory.
            if *kind == PAGES {
                set(&dir.join("ignore-gfp-highmem"), "N");
            }
            require(&dir, &code);
            set(&dir.join("probability"), &percent.to_string());
            in_module.dirs.push(dir);
        }
        in_module
    }

    pub fn met(&self) -> u64 {
        let left = |dir: &PathBuf| {
            let left = fs::read_to_string(dir.join("times")).expect("how many may fail still");
            MANY - left.trim().parse::<u64>().expect("a number")
        };
        self.dirs.iter().map(left).sum()
    }

    #[track_caller]
    pub fn wait_for(&self, count: u64) {
        wait::until("allocations of the module to fail", || self.met() >= count);
    }

    /// Ends the faults. Returns their number.
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

/// Limits faults to calls from this range of addresses.
#[track_caller]
fn require(dir: &Path, range: &Range<u64>) {
    for (file, address) in [("require-start", range.start), ("require-end", range.end)] {
        set(&dir.join(file), &format!("{address:#018x}"));
    }
}

/// The fault of one round of [`walk`].
pub struct Fault {
    file: File,
    /// Starts at 1.
    pub number: u32,
    /// Whether the operation reached the fault.
    pub met: bool,
    /// The number of failed calls, by error.
    failed: BTreeMap<Errno, u32>,
}

/// The failed calls of a [`walk`].
#[must_use]
pub struct Failures {
    what: String,
    by_error: BTreeMap<Errno, u32>,
}

impl Failures {
    /// Returns whether each of these errors occurred. Caches can hide one: a call that takes a
    /// cached object skips the allocation, and the walk skips that fault.
    pub fn has(&self, errors: &[Errno]) -> bool {
        (errors.iter()).all(|errno| self.by_error.contains_key(errno))
    }

    /// Checks that each of these errors occurred.
    #[track_caller]
    pub fn include(&self, errors: &[Errno]) {
        for errno in errors {
            assert!(self.has(&[*errno]), "{}: never {errno:?}", self.what);
        }
    }
}

impl Fault {
    /// Runs `operation` with the round's fault set, at most once a round.
    pub fn during<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let number = self.number.to_string();
        self.file.write_all(number.as_bytes()).expect("ask for it");
        let result = operation();
        // Accessing this file copies user memory, which counts as a fault point and can fail.
        let mut left = [0];
        self.met = self.file.read_at(&mut left, 0).is_ok() && left == [b'0'];
        insist(|| self.file.write_all(b"0"));
        result
    }

    /// The same for an operation that may fail with one of the `known` errors.
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
            *self.failed.entry(*errno).or_default() += 1;
        }
        result
    }
}

/// Calls `round` with the first fault set, with the second, and so on, until the fault is not
/// reached.
#[track_caller]
pub fn walk(what: &str, round: impl FnMut(&mut Fault)) -> Failures {
    walk_by(what, |_| 1, round)
}

/// The same, with `step` for the distance from each fault to the next.
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
    println!("  # {what}: {met} faults up to number {last}; calls failed with {failed:?}");
    assert!(!failed.is_empty(), "{what}: no call failed");
    Failures {
        what: what.into(),
        by_error: failed,
    }
}
