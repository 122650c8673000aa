// SPDX-License-Identifier: GPL-2.0

//! Operations on groups besides the steps of processes: making and removing groups, changing the
//! modes of their files, and keeping their listings open.

use super::listings::{HeldListings, FILES_OF_A_GROUP};
use super::Worker;
use crate::fuzz::model::{Key, Line, Options, TraceInstance as Listener};
use crate::fuzz::step::*;
use crate::kit::errno::{Errno, Result};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{group, wait};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// The maximum length of a line, in bytes.
const MAX_LINE: usize = 255;

/// Lines that are refused, where `{}` is the name of a group.
const WRONG_LINES: [&str; 28] = [
    "{}",
    "g{}",
    "G:{}",
    "g: {}",
    "!g:{}",
    "g:",
    "-:",
    "-",
    "-:{} {}",
    "-:{} events=1",
    "g:multi",
    "g:{}_multi",
    "-:{}_multi",
    "g:{}-r",
    "g:{}/r",
    "g:{}:",
    "g:{}\u{e9}",
    "-:{}\0",
    // 33 bytes.
    "g:_________________________________",
    "g:{} events=",
    "g:{} events=0",
    "g:{} events=32769",
    "g:{} events=4294967297",
    "g:{} EVENTS=1",
    "g:{} events=2 events=2",
    "g:{} bytes_per_second=4294967296",
    "g:{} names=",
    "g:{} r",
];

/// Lines without an effect.
const COMMENTS: [&str; 4] = ["", "  ", "#", "# g:{}"];

/// More than a worker makes, and few enough that the groups of several workers stay within the
/// limit of all.
const MANY_EVENTS: u32 = 4000;

/// The number of open listings of groups.
const LISTINGS: usize = 2;

impl Worker {
    /// Does an operation on groups.
    pub(super) fn group(&mut self) {
        let op: fn(&mut Worker) = self.random.weighted(&[
            (12, Worker::lines as fn(&mut Worker)),
            (8, Worker::remove_group),
            (4, Worker::change_mode),
            (8, Worker::listing),
        ]);
        op(self);
    }

    /// The number of a group, mostly one that exists, or that does not.
    fn group_number(&mut self, exists: bool) -> u8 {
        let any = 1 + self.random.byte_below(GROUPS as u8);
        let there = |number: &u8| self.model.group(*number).is_some() == exists;
        let wanted: Vec<u8> = (1..=GROUPS as u8).filter(there).collect();
        match self.random.thousandths(250) {
            true => any,
            false => self.random.one(&wanted).unwrap_or(any),
        }
    }

    /// Writes one or more lines, in one piece.
    fn lines(&mut self) {
        let count = self.random.weighted(&[(6, 1), (2, 2), (1, 4)]);
        let mut lines: Vec<(String, Line)> = (0..count).map(|_| self.line()).collect();
        let (last, _) = lines.last_mut().expect("one line at least");
        // The end of the text ends the line, too.
        let end = match !last.is_empty() && self.random.thousandths(200) {
            true => "",
            false => "\n",
        };
        self.write_lines(&lines, end);
    }

    /// Chooses a line for `user_events_groups`, with its meaning.
    fn line(&mut self) -> (String, Line) {
        let kind = self.random.weighted(&[
            (30, Line::Set(0, Options::default())),
            (10, Line::Remove(0)),
            (15, Line::Wrong),
            (5, Line::Comment),
        ]);
        let number = self.group_number(!matches!(kind, Line::Set(..)));
        let (line, about) = match kind {
            Line::Set(..) => {
                let (text, options) = self.options();
                (format!("g:{{}}{text}"), Line::Set(number, options))
            }
            Line::Remove(_) => ("-:{}".into(), Line::Remove(number)),
            Line::Wrong => (self.random.one_of(&WRONG_LINES).to_string(), kind),
            Line::Comment => (self.random.one_of(&COMMENTS).to_string(), kind),
        };
        let mut line = line.replace("{}", &group_of(self.number, number));
        if self.random.thousandths(150) {
            line = format!(" {line} ");
        }
        if self.random.thousandths(150) {
            line += " # 2 events, 1 used, 0 open files";
        }
        if self.random.thousandths(80) {
            // The maximum length, or one byte more.
            let length = MAX_LINE + self.random.below(2);
            line = format!("{:x<length$}", line + " #");
            return match length > MAX_LINE {
                true => (line, Line::Wrong),
                false => (line, about),
            };
        }
        (line, about)
    }

    /// Chooses options of a group. Limits on bytes per second are such that no result depends on
    /// the clock.
    fn options(&mut self) -> (String, Options) {
        let events = self.random.weighted(&[
            (4, None),
            (2, Some(1)),
            (3, Some(3)),
            (3, Some(8)),
            (1, Some(MANY_EVENTS)),
        ]);
        let bytes_per_second =
            self.random
                .weighted(&[(7, None), (1, Some(0)), (4, Some(1)), (1, Some(u32::MAX))]);
        let any_names = self
            .random
            .weighted(&[(3, None), (1, Some(false)), (4, Some(true))]);
        let mut options = [
            events.map(|events| format!(" events={events}")),
            bytes_per_second.map(|bytes| format!("  bytes_per_second={bytes}")),
            any_names.map(|any| format!(" names={}", if any { "any" } else { "plain" })),
        ];
        if self.random.thousandths(500) {
            options.reverse();
        }
        let text = options.into_iter().flatten().collect();
        let options = Options {
            events,
            bytes_per_second,
            any_names,
        };
        (text, options)
    }

    /// Writes lines in one piece, then the part that was not taken. The last line has this end, the
    /// others a newline.
    fn write_lines(&mut self, lines: &[(String, Line)], end: &str) {
        for (_, about) in lines {
            // Events that are about to go count as well.
            if let Line::Set(number, _) = about {
                (0..NAMES as u8).for_each(|name| self.settle(*number, name));
            }
        }
        let mut text = String::new();
        let mut failure = None;
        // The number of bytes to be taken, and the positions of removals among them.
        let (mut want, mut removals) = (0, Vec::new());
        for (at, (line, about)) in lines.iter().enumerate() {
            let start = text.len();
            text += line;
            text += if at + 1 == lines.len() { end } else { "\n" };
            if failure.is_some() {
                continue;
            }
            match self.model.group_line(*about) {
                Ok(()) => {
                    want = text.len();
                    if matches!(about, Line::Remove(_)) {
                        removals.push(start);
                    }
                }
                Err(errno) => failure = Some(errno),
            }
        }
        let write = |from: usize| group::write(&text[from..]);

        // A user of the group may have just ended, so that the removal must be repeated.
        let (mut taken, mut got) = (0, Ok(0));
        wait::eventually(|| {
            got = write(taken);
            taken += got.unwrap_or(0);
            let may_be_busy = taken < want && removals.contains(&taken);
            !(may_be_busy && matches!(got, Ok(_) | Err(Errno::EBUSY)))
        });
        let got = match got {
            Err(errno) => Err(errno),
            Ok(_) => Ok(taken),
        };
        let want = match (want, failure) {
            (0, Some(errno)) => Err(errno),
            (want, _) => Ok(want),
        };
        self.tell_op(|| format!("user_events_groups: {text:?} -> {got:?}"));
        self.compare("user_events_groups", got, want);
        if let (Ok(taken), Some(errno)) = (got, failure) {
            let got = write(taken);
            self.tell_op(|| format!("the rest of that -> {got:?}"));
            self.compare("the rest of the lines", got, Err(errno));
        }
    }

    /// Ends some uses of a group, mostly all, and removes the group.
    fn remove_group(&mut self) {
        let number = self.group_number(true);
        if self.model.group(number).is_some() {
            for end in [
                Worker::detach_all,
                Worker::unregister_all,
                Worker::close_all,
            ] {
                if self.random.thousandths(850) {
                    end(self, number);
                }
            }
        }
        let line = format!("-:{}", group_of(self.number, number));
        self.write_lines(&[(line, Line::Remove(number))], "\n");
    }

    /// Detaches all listeners from the events of a group.
    fn detach_all(&mut self, group: u8) {
        let events = self.model.events.iter();
        let events = events.filter(|event| event.key.group == group);
        let found: Vec<(Key, Listener)> = events
            .flat_map(|event| event.tracers.iter().map(|one| (event.key, *one)))
            .collect();
        for (key, listener) in found {
            self.settle(key.group, key.name);
            match listener {
                Listener::Perf(perf) => self.close_perf(perf),
                Listener::Histogram => {
                    self.attach(key, listener, "trigger", "!hist:keys=common_pid", false);
                }
                Listener::Top | Listener::Instance => {
                    self.attach(key, listener, "enable", "0", false);
                }
            }
        }
    }

    /// Unregisters all bits of a group's events, in each process.
    fn unregister_all(&mut self, group: u8) {
        for slot in self.slots() {
            let bits = self.model.bits_in(slot, group);
            let mut steps = Vec::new();
            if !bits.is_empty() && self.model.child(slot).files.iter().all(Option::is_none) {
                steps.push(Step::new(Call::Open));
            }
            let files = &self.model.child(slot).files;
            let file = files.iter().position(Option::is_some).unwrap_or(0);
            steps.extend(bits.into_iter().map(|(place, bit)| Step {
                file: file as u8,
                place,
                bit,
                ..Step::new(Call::Unregister)
            }));
            self.predict_and_take(slot, &steps);
        }
    }

    /// Closes all files of a group, in each process.
    fn close_all(&mut self, group: u8) {
        for slot in self.slots() {
            let files = 0..FILES as u8;
            let files = files.filter(|file| self.model.group_of_file(slot, *file) == group);
            let steps: Vec<Step> = files
                .map(|file| Step {
                    file,
                    ..Step::new(Call::Close)
                })
                .collect();
            self.predict_and_take(slot, &steps);
        }
    }

    fn predict_and_take(&mut self, slot: usize, steps: &[Step]) {
        for steps in steps.chunks(u8::MAX.into()) {
            let predicted = |step: &Step| (*step, self.model.step(slot, step));
            let steps: Vec<(Step, Result<i64>)> = steps.iter().map(predicted).collect();
            self.take(slot, &steps);
        }
    }

    /// Sets the mode of one of a group's files.
    fn change_mode(&mut self) {
        let number = self.group_number(true);
        let file = self.random.weighted(&[(6, 0), (1, 1), (1, 2)]);
        let modes = [0o640, 0o600, 0o666, 0o604, 0o602, 0o000, 0o440];
        let mode = *self.random.one_of(&modes);
        let path = file_of(self.number, number, FILES_OF_A_GROUP[file]);
        let got = fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(Errno::from);
        let want = self.model.change_mode(number, file, mode);
        self.tell_op(|| format!("mode {mode:o} of {path} -> {got:?}"));
        self.compare("change of a mode", got, want);
    }

    /// Opens a group's listings, or reads open ones and may close them.
    fn listing(&mut self) {
        if self.listings.len() < LISTINGS && self.random.thousandths(400) {
            let number = self.group_number(true);
            let serial = self.model.group(number).map(|group| group.serial);
            let opened = HeldListings::open(self.number, number, serial.unwrap_or(0));
            let got = opened.as_ref().map(drop).map_err(|errno| *errno);
            self.tell_op(|| format!("open the listings of group {number} -> {got:?}"));
            self.compare("listings", got, serial.map(drop).ok_or(Errno::ENOENT));
            self.listings.extend(opened);
            return;
        }
        let indices: Vec<usize> = (0..self.listings.len()).collect();
        let Some(at) = self.random.one(&indices) else {
            return;
        };
        self.compare_held(at);
        self.tell_op(|| format!("the listings that are open, number {at}"));
        if self.random.thousandths(300) {
            self.listings.swap_remove(at);
        }
    }

    /// Removes all groups, even after a failure. The processes have ended.
    pub(super) fn end_groups(&mut self) {
        let top = TraceInstance::top();
        for number in 1..=GROUPS as u8 {
            let system = system_of(self.number, number);
            for system in [system.clone(), format!("{system}_multi")] {
                let events = tracefs::group_dir(&system);
                for event in tracefs::names_starting_with(tracefs::PREFIX, &events) {
                    let _ = top.set(&format!("{system}/{event}"), "enable", "0");
                }
            }
            let line = format!("-:{}\n", group_of(self.number, number));
            wait::eventually(|| group::write(&line) != Err(Errno::EBUSY));
        }
    }
}
