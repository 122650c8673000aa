// SPDX-License-Identifier: GPL-2.0

//! What the listings say, compared with what they must.

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

/// The listings of a group, which may be gone by now, opened once.
pub(super) struct HeldListings {
    /// The group's number, and which one of that number.
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

        // In no order there.
        let ordered = |mut lines: Vec<String>| {
            if self.c.is_some() {
                lines.sort();
            }
            lines
        };

        let want = self.status_of(FIRST_GROUP);
        let events = self.model().events.iter().map(|event| event.key);
        let want_lines = events.map(|key| {
            let name = self.line_name(key.group, key.name);
            description(&name, key.fields, false)
        });
        let (want, want_lines) = (ordered(want), ordered(want_lines.collect()));

        // Whatever other workers do meanwhile, the events of this one stand still, and each reading must have
        // them: the module goes on behind the last one that it showed, and C shows all at once.
        let (text, _) = read(STATUS);
        let status = text.lines().filter(is_ours).map(without_id).collect();
        self.compare("user_events_status", ordered(status), want);

        // The trace core goes on at a place in its list. What is read in one piece must be right. A reading of
        // several can miss an event while others, of another worker, go; but it cannot have one twice, nor
        // another, nor two in another order.
        for left in (0..100).rev() {
            let (text, is_whole) = read(DYNAMIC);
            let lines = text.lines().filter_map(|line| line.strip_prefix("u:"));
            let lines = lines.filter(|line| {
                // One of a group has its system in front, in which there is the group's name.
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

    /// The lines that the status file has of a group's events, without the numbers of formats.
    fn status_of(&self, group: u8) -> Vec<String> {
        let events = self.model().events.iter();
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

    /// Compares the list of groups, and the listings and modes of each.
    fn list_groups(&self) {
        let groups = &self.model().groups;
        let mut want: Vec<String> = groups.iter().map(|group| self.line_of(group)).collect();
        // By name: what follows that in a line comes before all that a name has.
        want.sort();
        let start = group_of(self.number, 1);
        let start = format!("g:{}", &start[..start.len() - 1]);
        let listed = || -> Vec<String> {
            let (text, _) = read(group::GROUPS);
            let lines = text.lines().filter(|line| line.starts_with(&start));
            lines.map(String::from).collect()
        };
        // What has just ceased to use an event may still be about to let it go.
        let mut got = Vec::new();
        wait::eventually(|| {
            got = listed();
            got == want
        });
        self.compare("user_events_groups", got, want);

        for number in 1..=GROUPS as u8 {
            let paths = FILES_OF_A_GROUP.map(|file| file_of(self.number, number, file));
            let mode = |path: &String| match fs::metadata(path) {
                Ok(metadata) => Ok(metadata.permissions().mode() & 0o7777),
                Err(error) => Err(Errno::from(error)),
            };
            let Some(group) = self.model().group(number) else {
                for path in &paths {
                    self.compare(path, mode(path), Err(Errno::ENOENT));
                }
                let system = system_of(self.number, number);
                for system in [system.clone(), format!("{system}_multi")] {
                    self.compare(&system, tracefs::group_dir(&system).exists(), false);
                }
                continue;
            };
            for (path, want) in paths.iter().zip(group.modes) {
                self.compare(path, mode(path), Ok(want));
            }
            let [_, status, profile] = paths;
            let (status, profile) = (read(&status).0, read(&profile).0);
            self.compare_listings(number, &status, &profile);
        }
    }

    /// A group's line in the list.
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
        let usage = self.model().usage(group.number);
        let Usage {
            events: count,
            used_events,
            open_files,
        } = usage;
        format!("g:{name} events={events}{rate}{names} # {count} events, {used_events} used, {open_files} open files{refused}")
    }

    /// Compares the whole of what the listings of a group say. No event of it is about to go.
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

    /// Compares what listings say that were opened some time ago. That is of the group of then, or if that is gone,
    /// of nothing.
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
        let now = self.model().group(group);
        match now.is_some_and(|group| group.serial == *serial) {
            true => self.compare_listings(group, &status, &profile),
            false => {
                self.compare("its status", &*status, "\nActive: 0\nBusy: 0\n");
                self.compare("its profile", &*profile, "");
            }
        }
    }
}

/// A line of a status file without the number of the format.
fn without_id(line: &str) -> String {
    match line.split_once('.') {
        Some((name, rest)) => {
            let used = rest.split_once(' ').map_or("", |(_, used)| used);
            format!("{name}. {used}").trim_end().to_string()
        }
        None => line.to_string(),
    }
}

/// The name in a line of a profile, without the number of the format.
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

/// Reads a listing. Tells whether it came in one piece, as it was at one moment.
fn read(path: &str) -> (String, bool) {
    let file = File::open(path).unwrap_or_else(|error| panic!("open {path}: {error}"));
    read_from(&file, path)
}

/// The same of one that is open.
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
