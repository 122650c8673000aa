// SPDX-License-Identifier: GPL-2.0

//! Further groups of events: made, listed and removed through `user_events_groups`.

use crate::kit::errno::{Errno, Result};
use crate::kit::status::Status;
use crate::kit::tracefs::{self, GROUP, PREFIX};
use crate::kit::{profile, wait};
use std::fs;
use std::path::{Path, PathBuf};

pub const GROUPS: &str = "/sys/kernel/tracing/user_events_groups";

pub const MAX_GROUPS: usize = 4096;

/// The default of a group's limit on events, and the maximum.
pub const DEFAULT_EVENTS: u32 = 1024;
pub const MAX_EVENTS: u32 = 32768;

/// Writes text to the file, in one piece. Returns the number of bytes taken.
pub fn write(text: &str) -> Result<usize> {
    tracefs::append("user_events_groups", text)
}

/// Writes lines to the file, all of which must be taken.
pub fn run(lines: &str) -> Result<()> {
    tracefs::append_line("user_events_groups", lines)
}

#[track_caller]
pub fn listing() -> String {
    fs::read_to_string(GROUPS).expect("read user_events_groups")
}

#[track_caller]
pub fn lines() -> Vec<String> {
    listing().lines().map(String::from).collect()
}

/// The name of the group in a line of the file.
#[track_caller]
pub fn name_in(line: &str) -> &str {
    let rest = line.strip_prefix("g:");
    let name = rest.and_then(|rest| rest.split(' ').next());
    name.unwrap_or_else(|| panic!("a bad line: {line:?}"))
}

/// Removes all idle groups. Returns the lines of the others; none where the kernel has no groups.
pub fn remove_all() -> Vec<String> {
    if !Path::new(GROUPS).exists() {
        return Vec::new();
    }
    for line in lines() {
        let _ = run(&format!("-:{}", name_in(&line)));
    }
    lines()
}

/// A group that a test made, and that is removed when dropped. If a registration keeps the group,
/// the harness removes it once the test's processes have ended.
pub struct Group {
    pub name: String,
}

impl Group {
    /// Makes a group with the default limits; `name` starts with [`PREFIX`].
    #[track_caller]
    pub fn new(name: &str) -> Group {
        Group::with(name, "")
    }

    /// Makes a group that accepts names with any characters, and events of several formats.
    #[track_caller]
    pub fn of_any_names(name: &str) -> Group {
        Group::with(name, "names=any")
    }

    #[track_caller]
    pub fn with(name: &str, options: &str) -> Group {
        Group::made(name, options)
            .unwrap_or_else(|errno| panic!("make {name} {options}: {errno:?}"))
    }

    /// The same, with the error if the kernel refuses.
    pub fn made(name: &str, options: &str) -> Result<Group> {
        assert!(name.starts_with(PREFIX));
        run(format!("g:{name} {options}").trim_end())?;
        Ok(Group { name: name.into() })
    }

    /// A group of this name, which need not exist.
    pub fn of_name(name: &str) -> Group {
        Group { name: name.into() }
    }

    fn file(&self, of_the_first: &str) -> PathBuf {
        Path::new(tracefs::ROOT).join(format!("{of_the_first}.{}", self.name))
    }

    pub fn data(&self) -> PathBuf {
        self.file("user_events_data")
    }

    pub fn status_file(&self) -> PathBuf {
        self.file("user_events_status")
    }

    pub fn profile(&self) -> PathBuf {
        self.file("user_events_profile")
    }

    /// The group's files, each with its initial mode.
    pub fn files(&self) -> [(PathBuf, u32); 3] {
        [
            (self.data(), 0o640),
            (self.status_file(), 0o440),
            (self.profile(), 0o440),
        ]
    }

    /// The system of its events that are alone with their name.
    pub fn system(&self) -> String {
        format!("{GROUP}_{}", self.name)
    }

    /// The system of its events that share their name with other formats.
    pub fn multi_system(&self) -> String {
        format!("{}_multi", self.system())
    }

    /// The name of one of its events in tracefs.
    pub fn event(&self, name: &str) -> String {
        format!("{}/{name}", self.system())
    }

    /// The names of a name's formats in tracefs, by age.
    pub fn formats_of(&self, name: &str) -> Vec<String> {
        tracefs::formats_in(&self.multi_system(), name)
    }

    #[track_caller]
    pub fn status(&self) -> Status {
        Status::of(&self.status_file())
    }

    /// The records of an event that ftrace and perf missed, from its profile.
    #[track_caller]
    pub fn missed(&self, name: &str) -> (u64, u64) {
        profile::missed_in(&self.profile(), name)
    }

    #[track_caller]
    pub fn line(&self) -> Option<String> {
        lines().into_iter().find(|line| name_in(line) == self.name)
    }

    /// The numbers in its line: events, used events, open files, and refused writes if present.
    #[track_caller]
    pub fn numbers(&self) -> Vec<u64> {
        let line = self.line().expect("the group's line");
        let (_, numbers) = line.split_once(" # ").expect("the numbers");
        let number = |part: &str| part.split(' ').next()?.parse().ok();
        let numbers: Option<_> = numbers.split(", ").map(number).collect();
        numbers.unwrap_or_else(|| panic!("a bad line: {line:?}"))
    }

    /// The number of refused writes, for a group with a limit on bytes per second.
    #[track_caller]
    pub fn refused(&self) -> u64 {
        self.numbers()[3]
    }

    pub fn remove(&self) -> Result<()> {
        run(&format!("-:{}", self.name))
    }

    /// Removes it once it is idle: references of tasks that just ended may be dropped with a delay.
    #[track_caller]
    pub fn remove_when_idle(self) {
        let removed = wait::until_idle(&[Errno::EBUSY], || self.remove());
        assert_eq!(removed, Ok(()), "removing the idle group {}", self.name);
    }

    /// Checks that nothing of the group is visible.
    #[track_caller]
    pub fn is_gone(&self) {
        assert_eq!(self.line(), None);
        for (path, _) in self.files() {
            assert!(!path.exists(), "{} is left", path.display());
        }
        for system in [self.system(), self.multi_system()] {
            assert!(!tracefs::group_dir(&system).exists(), "{system} is left");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}
