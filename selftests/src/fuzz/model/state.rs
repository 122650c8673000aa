// SPDX-License-Identifier: GPL-2.0

//! What there is: events, open files, processes and their memory.

use super::super::polls::Polls;
use super::super::step::{FILES, PLACES};
use std::collections::{BTreeMap, BTreeSet};

/// What an event is known by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    /// The number of its group.
    pub group: u8,
    pub name: u8,
    pub multi: bool,
    pub fields: u8,
}

impl Key {
    /// Is it of this group, with this name?
    pub fn is_called(&self, group: u8, name: u8) -> bool {
        self.group == group && self.name == name
    }
}

/// What listens to an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TraceInstance {
    Top,
    Instance,
    Histogram,
    Perf(usize),
}

/// An event that exists.
#[derive(Clone)]
pub struct Event {
    pub key: Key,
    /// What files and registrations know it by: no other event's, and below 128.
    pub(super) number: u32,
    /// No other event's, also of those that are gone.
    pub serial: u32,
    pub(super) persistent: bool,
    pub tracers: BTreeSet<TraceInstance>,
    /// The worker's instance records nothing of it.
    pub filtered: bool,
    /// The worker's instance once listened to it.
    pub(super) was_in_instance: bool,
}

/// A record that something took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The serial of the event.
    pub event: u32,
    /// The process that wrote it, if it was its first thread.
    pub pid: Option<i32>,
    pub payload: Vec<u8>,
}

/// A perf event that is open.
#[derive(Clone)]
pub struct PerfEvent {
    pub(super) key: Key,
    /// The slot of the process whose records it takes.
    pub(super) slot: usize,
    /// The longest payload that its samples have room for.
    pub(super) limit: usize,
    pub(super) records: Vec<Record>,
}

#[derive(Clone, Default)]
pub(super) struct OpenFile {
    /// The number of the group that it is of.
    pub group: u8,
    pub mode: u8,
    /// The numbers of the events that have an index.
    pub indices: Vec<u32>,
    pub polls: Polls,
}

/// What the process did with its second page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Writable,
    ReadOnly,
    Unmapped,
}

/// A process.
#[derive(Clone)]
pub struct Child {
    pub pid: i32,
    pub is_root: bool,
    /// The numbers of open files.
    pub files: [Option<u32>; FILES],
    /// By place and bit: the number of the event, and whether the word is a wide one.
    pub bits: BTreeMap<(u8, u8), u32>,
    /// What its memory holds,
    pub words: [u32; PLACES],
    /// but these bits, which it may hold or not.
    pub unknown: [u32; PLACES],
    /// Bits that more than one registration writes: never known again.
    pub(super) shared: [u32; PLACES],
    pub page: Page,
    /// The group to whose data file it keeps a path: its number, and which one of that number.
    pub held: Option<(u8, u32)>,
}

impl Child {
    pub(super) fn new(pid: i32) -> Child {
        Child {
            pid,
            is_root: true,
            files: [None; FILES],
            bits: BTreeMap::new(),
            words: [0; PLACES],
            unknown: [0; PLACES],
            shared: [0; PLACES],
            page: Page::Writable,
            held: None,
        }
    }

    /// May the kernel write there?
    pub fn is_writable(&self, place: usize) -> bool {
        place < PLACES / 2 || self.page == Page::Writable
    }

    /// The kernel writes a bit, if it can.
    pub(super) fn put(&mut self, (place, bit): (u8, u8), set: bool) {
        let (place, mask) = physical(place, bit);
        if self.is_writable(place) {
            self.words[place] &= !mask;
            self.words[place] |= if set { mask } else { 0 };
            self.unknown[place] &= !mask | self.shared[place];
        } else {
            // It may be written yet, if the page is writable soon.
            self.unknown[place] |= mask;
        }
    }

    /// Is a registration writing this very bit, under whatever address?
    pub fn is_written(&self, place: u8, bit: u8) -> bool {
        let at = physical(place, bit);
        let mut keys = self.bits.keys();
        keys.any(|&(place, bit)| physical(place, bit) == at)
    }
}

/// The 32-bit word a bit lies in, and the bit there.
pub fn physical(place: u8, bit: u8) -> (usize, u32) {
    (usize::from(place) + usize::from(bit / 32), 1 << (bit % 32))
}
