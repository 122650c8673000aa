// SPDX-License-Identifier: GPL-2.0

//! Comparison of the listings with their expected content.

use super::Worker;
use crate::fuzz::model::{Event, Group, TraceInstance as Listener, Usage};
use crate::fuzz::step::*;
use crate::kit::abi::{DATA, PROFILE, STATUS};
use crate::kit::errno::{Errno, Result};
use crate::kit::{group, tracefs, wait};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::fs::PermissionsExt;

const DYNAMIC: &str = "/sys/kernel/tracing/dynamic_events";

/// A group's files, in the order of their modes in the model.
pub(super) const FILES_OF_A_GROUP: [&str; 3] = [DATA, STATUS, PROFILE];

/// Open listings of a group, which may be gone by now.
pub(super) struct HeldListings {
    /// The group's number; its serial is below.
    pub group: u8,
    serial: u32,
    status: File,
    profile: File,
}

impl HeldListings {
    pub fn open(worker: u32, group: u8, serial: u32) -> Result<HeldListings> {
        Ok(HeldListings {
            group,
            serial,
            status: File::open(file_of(worker, group, STATUS))?,
            profile: File::open(file_of(worker, group, PROFILE))?,
        })
    }
}

impl Worker {
    /// Compares the listings.
    pub(super) fn list(&mut self) {
        self.wait_all_gone();
        let start = name_of(self.number, 0);
        let start = &start[..start.len() - 1];
        let is_ours = |line: &&str| line.starts_with(start);

        // C's listings are unordered.
        let ordered = |mut lines: Vec<String>| {
            if self.model.is_c {
                lines.sort();
            }
            lines
        };

        let want = self.status_of(FIRST_GROUP);
        let events = self.model.events.iter().map(|event| event.key);
        let want_lines = events.map(|key| {
            let name = self.line_name(key.group, key.name);
            description(&name, key.fields, false)
        });
        let (want, want_lines) = (ordered(want), ordered(want_lines.collect()));

        // The events of this worker must be in each reading, in spite of other workers: the module
        // continues behind the last event shown, and C shows all at once.
        let (text, _) = read(STATUS);
        let status = text.lines().filter(is_ours).map(without_id).collect();
        self.compare("user_events_status", ordered(status), want);

        // The trace core continues at a position in its list. A reading in one piece must be right.
        // One in several pieces can miss an event while events of other workers go; but it can have
        // no event twice, no unknown event, and no wrong order.
        for left in (0..100).rev() {
            let (text, is_whole) = read(DYNAMIC);
            let lines = text.lines().filter_map(|line| line.strip_prefix("u:"));
            let lines = lines.filter(|line| {
                // An event of a group is listed with its system, which contains the group's name.
                let of_group = line.strip_prefix("user_events_");
                is_ours(&of_group.unwrap_or(line))
            });
            let got = ordered(lines.map(String::from).collect());
            if is_whole || left == 0 || got == want_lines {
                self.compare("dynamic_events", got, want_lines);
                break;
            }
            let mut rest = want_lines.iter();
            let could_be = got.iter().all(|line| rest.any(|one| one == line));
            assert!(could_be, "dynamic_events: {got:?}, of {want_lines:?}");
        }
        if self.groups {
            self.list_groups();
        }
        self.tell_op(|| "the listings".into());
    }

    /// The expected lines of a group's status file, without the ids of formats.
    fn status_of(&self, group: u8) -> Vec<String> {
        let events = self.model.events.iter();
        let events = events.filter(|event| event.key.group == group);
        let line = |event: &Event| {
            let name = name_of(self.number, event.key.name);
            let dot = if event.key.multi { "." } else { "" };
            let perf = |listener: &Listener| matches!(listener, Listener::Perf(_));
            let by_perf = event.tracers.iter().any(perf);
            let by_ftrace = event.tracers.iter().any(|listener| !perf(listener));
            let used = match (by_ftrace, by_perf) {
                (false, false) => "",
                (true, false) => " # Used by ftrace",
                (false, true) => " # Used by perf",
                (true, true) => " # Used by ftrace perf",
            };
            format!("{name}{dot}{used}")
        };
        events.map(line).collect()
    }

    /// Compares the list of groups, and each group's listings and modes.
    fn list_groups(&self) {
        let groups = &self.model.groups;
        let mut want: Vec<String> = groups.iter().map(|group| self.line_of(group)).collect();
        // By name, as the rest of a line starts with a character lower than those of names.
        want.sort();
        let start = group_of(self.number, 1);
        let start = format!("g:{}", &start[..start.len() - 1]);
        let listed = || -> Vec<String> {
            let (text, _) = read(group::GROUPS);
            let lines = text.lines().filter(|line| line.starts_with(&start));
            lines.map(String::from).collect()
        };
        // An event's reference may be dropped shortly after its last user ends.
        let mut got = Vec::new();
        wait::eventually(|| {
            got = listed();
            got == want
        });
        self.compare("user_events_groups", got, want);

        for number in 1..=GROUPS as u8 {
            let paths = FILES_OF_A_GROUP.map(|file| file_of(self.number, number, file));
            let group = self.model.group(number);
            for (at, path) in paths.iter().enumerate() {
                let mode = fs::metadata(path).map(|found| found.permissions().mode() & 0o7777);
                let want = group.map(|group| group.modes[at]).ok_or(Errno::ENOENT);
                self.compare(path, mode.map_err(Errno::from), want);
            }
            if group.is_some() {
                let [_, status, profile] = paths;
                let (status, profile) = (read(&status).0, read(&profile).0);
                self.compare_listings(number, &status, &profile);
                continue;
            }
            let system = system_of(self.number, number);
            for system in [system.clone(), format!("{system}_multi")] {
                self.compare(&system, tracefs::group_dir(&system).exists(), false);
            }
        }
    }

    /// The expected line of a group in the list.
    fn line_of(&self, group: &Group) -> String {
        let name = group_of(self.number, group.number);
        let bytes = group.limits.bytes_per_second;
        let rate = bytes.map_or(String::new(), |bytes| format!(" bytes_per_second={bytes}"));
        let refused = bytes.map_or(String::new(), |_| format!(", {} refused", group.refused));
        let names = if group.limits.any_names {
            " names=any"
        } else {
            ""
        };
        let events = group.limits.events;
        let Usage {
            events: count,
            used_events,
            open_files,
        } = self.model.usage(group.number);
        format!("g:{name} events={events}{rate}{names} # {count} events, {used_events} used, {open_files} open files{refused}")
    }

    /// Compares all lines of a group's listings. No removal of its events is pending.
    fn compare_listings(&self, group: u8, status: &str, profile: &str) {
        let mut want = self.status_of(group);
        let got: Vec<String> = profile.lines().map(name_in_profile).collect();
        let names = want.iter().map(|line| match line.split_once(' ') {
            Some((name, _)) => name.to_string(),
            None => line.clone(),
        });
        self.compare("user_events_profile", got, names.collect());
        let busy = want.iter().filter(|line| line.contains(' ')).count();
        let totals = [
            String::new(),
            format!("Active: {}", want.len()),
            format!("Busy: {busy}"),
        ];
        want.extend(totals);
        let got: Vec<String> = status.lines().map(without_id).collect();
        self.compare("user_events_status", got, want);
    }

    /// Compares listings that were opened earlier. They show the group of that time, or nothing if
    /// it is gone.
    pub(super) fn compare_held(&mut self, at: usize) {
        let group = self.listings[at].group;
        for name in 0..NAMES as u8 {
            self.settle(group, name);
        }
        let HeldListings {
            serial,
            status,
            profile,
            ..
        } = &self.listings[at];
        let texts = [status, profile].map(|mut file| {
            file.rewind().expect("go to the start of a listing");
            read_from(file, "a listing that is kept").0
        });
        let [status, profile] = texts;
        let now = self.model.group(group);
        match now.is_some_and(|group| group.serial == *serial) {
            true => self.compare_listings(group, &status, &profile),
            false => {
                self.compare("its status", &*status, "\nActive: 0\nBusy: 0\n");
                self.compare("its profile", &*profile, "");
            }
        }
    }
}

/// A line of a status file without the id of a format.
fn without_id(line: &str) -> String {
    match line.split_once('.') {
        Some((name, rest)) => {
            let used = rest.split_once(' ').map_or("", |(_, used)| used);
            format!("{name}. {used}").trim_end().to_string()
        }
        None => line.to_string(),
    }
}

/// The name in a line of a profile, without the id of a format.
fn name_in_profile(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [name, ftrace, perf, refused]
            if [ftrace, perf, refused]
                .iter()
                .all(|word| word.parse::<u64>().is_ok()) =>
        {
            without_id(name)
        }
        _ => panic!("a bad line in a profile: {line:?}"),
    }
}

/// Reads a listing. Returns whether that took one piece, which is consistent.
fn read(path: &str) -> (String, bool) {
    let file = File::open(path).unwrap_or_else(|error| panic!("open {path}: {error}"));
    read_from(&file, path)
}

/// The same for an open listing.
fn read_from(mut file: &File, path: &str) -> (String, bool) {
    let (mut bytes, mut part, mut pieces) = (Vec::new(), vec![0; 1 << 16], 0);
    loop {
        match file.read(&mut part) {
            Ok(0) => break,
            Ok(length) => bytes.extend(&part[..length]),
            Err(error) => panic!("read {path}: {error}"),
        }
        pieces += 1;
    }
    let text = String::from_utf8(bytes).expect("a listing in ASCII");
    (text, pieces <= 1)
}
