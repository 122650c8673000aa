// SPDX-License-Identifier: GPL-2.0

//! Model of groups: lines that make, change and remove them, and opening their files.

use super::{bit, check, Model};
use crate::fuzz::step::*;
use crate::kit::errno::{Errno, Result};
use crate::kit::group::DEFAULT_EVENTS;

/// The initial modes of a group's files: data, status, profile.
pub const MODES: [u32; 3] = [0o640, 0o440, 0o440];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub events: u32,
    pub bytes_per_second: Option<u32>,
    pub any_names: bool,
}

/// The options in a line.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Options {
    pub events: Option<u32>,
    /// 0 for no limit.
    pub bytes_per_second: Option<u32>,
    pub any_names: Option<bool>,
}

impl Options {
    /// The limits after a line with these options, for an existing group or a new one.
    fn over(self, limits: Option<Limits>) -> Limits {
        let had = limits.unwrap_or(Limits {
            events: DEFAULT_EVENTS,
            bytes_per_second: None,
            any_names: false,
        });
        let bytes = self.bytes_per_second.or(had.bytes_per_second);
        Limits {
            events: self.events.unwrap_or(had.events),
            bytes_per_second: bytes.filter(|bytes| *bytes > 0),
            any_names: self.any_names.unwrap_or(had.any_names),
        }
    }
}

/// The meaning of a line of `user_events_groups`.
#[derive(Clone, Copy, Debug)]
pub enum Line {
    /// No effect.
    Comment,
    /// A bad line, name or number.
    Wrong,
    Set(u8, Options),
    Remove(u8),
}

/// A group with a name.
pub struct Group {
    pub number: u8,
    /// Unique, even among removed groups.
    pub serial: u32,
    pub limits: Limits,
    /// The modes of its files, in the order of [`MODES`].
    pub modes: [u32; 3],
    /// Writes refused by the limit on bytes per second.
    pub refused: u64,
}

impl Group {
    /// Returns whether a worker can make as many events as the limit allows.
    pub fn may_be_full(&self) -> bool {
        (self.limits.events as usize) < NAMES * FIELDS.len()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    pub events: usize,
    pub used_events: usize,
    pub open_files: usize,
}

impl Model {
    pub fn group(&self, number: u8) -> Option<&Group> {
        self.groups.iter().find(|group| group.number == number)
    }

    fn group_mut(&mut self, number: u8) -> Option<&mut Group> {
        let mut groups = self.groups.iter_mut();
        groups.find(|group| group.number == number)
    }

    /// The group of a process's open file; the first if the file is not open.
    pub fn group_of_file(&self, slot: usize, file: u8) -> u8 {
        let file = self.child(slot).files[usize::from(file)];
        file.map_or(FIRST_GROUP, |file| self.open[&file].group)
    }

    /// The places and bits of a process that are registered for events of a group.
    pub fn bits_in(&self, slot: usize, group: u8) -> Vec<(u8, u8)> {
        let bits = self.child(slot).bits.iter();
        let bits = bits.filter(|(_, number)| self.event(**number).key.group == group);
        bits.map(|(at, _)| *at).collect()
    }

    pub fn usage(&self, group: u8) -> Usage {
        let used = self.used();
        let events = self.events.iter().filter(|event| event.key.group == group);
        let used = events.clone().filter(|event| used & bit(event.number) != 0);
        let files = self.open.values();
        Usage {
            events: events.count(),
            used_events: used.count(),
            open_files: files.filter(|file| file.group == group).count(),
        }
    }

    /// Writes a line of `user_events_groups`.
    pub fn group_line(&mut self, line: Line) -> Result<()> {
        match line {
            Line::Comment => Ok(()),
            Line::Wrong => Err(Errno::EINVAL),
            Line::Set(number, options) => {
                let had = self.group(number).map(|group| group.limits);
                let limits = options.over(had);
                if had.is_some() {
                    check(options != Options::default(), Errno::EEXIST)?;
                    let events = self.usage(number).events;
                    check(events <= limits.events as usize, Errno::EBUSY)?;
                    self.group_mut(number).expect("the group").limits = limits;
                    return Ok(());
                }
                let serial = self.number();
                self.groups.push(Group {
                    number,
                    serial,
                    limits,
                    modes: MODES,
                    refused: 0,
                });
                Ok(())
            }
            Line::Remove(number) => {
                check(self.group(number).is_some(), Errno::ENOENT)?;
                let usage = self.usage(number);
                let is_idle = usage.used_events == 0 && usage.open_files == 0;
                check(is_idle, Errno::EBUSY)?;
                // Events that are about to go are removed with the group.
                self.going.retain(|key| key.group != number);
                self.forget(|event| event.key.group == number);
                self.groups.retain(|group| group.number != number);
                Ok(())
            }
        }
    }

    pub fn change_mode(&mut self, group: u8, file: usize, mode: u32) -> Result<()> {
        let group = self.group_mut(group).ok_or(Errno::ENOENT)?;
        group.modes[file] = mode;
        Ok(())
    }

    /// Looks up the data file of a group for a process. Returns the group's serial.
    pub(super) fn look_up(&self, slot: usize, group: u8) -> Result<u32> {
        // Other users cannot search the directory.
        check(self.child(slot).is_root, Errno::EACCES)?;
        let group = self.group(group).ok_or(Errno::ENOENT)?;
        Ok(group.serial)
    }

    pub(super) fn open_held(&mut self, slot: usize, step: &Step) -> Result<()> {
        let child = self.child(slot);
        let (number, serial) = child.held.ok_or(Errno::EBADF)?;
        // A later group of the same name has other files.
        let group = self.group(number).filter(|group| group.serial == serial);
        let [data, ..] = group.ok_or(Errno::EIO)?.modes;
        // The mode bits for other users.
        let wanted = match step.value {
            mode::READ_ONLY => 0o4,
            mode::WRITE_ONLY => 0o2,
            _ => 0o6,
        };
        let may = child.is_root || data & wanted == wanted;
        check(may, Errno::EACCES)?;
        self.open_file(slot, step, number);
        Ok(())
    }

    /// Returns whether a group has reached its limit. No worker fills the first group.
    pub(super) fn is_full(&self, group: u8) -> bool {
        self.group(group).is_some_and(|its| {
            let (count, limit) = (self.usage(group).events, its.limits.events as usize);
            assert!(count <= limit, "too many events in group {group}");
            count == limit
        })
    }

    /// Charges a record with `length` bytes of payload to its group.
    pub(super) fn charge(&mut self, group: u8, length: usize) -> Result<()> {
        let Some(group) = self.group_mut(group) else {
            return Ok(());
        };
        // With the common fields and the buffer's header, even if there is no payload.
        let length = 16 + length;
        match group.limits.bytes_per_second {
            None | Some(u32::MAX) => Ok(()),
            Some(bytes) if length > bytes as usize => {
                group.refused += 1;
                Err(Errno::EDQUOT)
            }
            Some(bytes) => panic!("the clock decides whether {length} bytes are within {bytes}"),
        }
    }
}
