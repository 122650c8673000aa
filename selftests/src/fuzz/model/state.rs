// SPDX-License-Identifier: GPL-2.0

//! The state: events, open files, processes and their memory.

use crate::fuzz::step::{FILES, PLACES};
use std::collections::{BTreeMap, BTreeSet};

/// The identity of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    /// The number of the group.
    pub group: u8,
    pub name: u8,
    pub multi: bool,
    pub fields: u8,
}

impl Key {
    pub fn is_called(&self, group: u8, name: u8) -> bool {
        self.group == group && self.name == name
    }
}

/// A consumer of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TraceInstance {
    Top,
    Instance,
    Histogram,
    Perf(usize),
}

pub struct Event {
    pub key: Key,
    /// A number used by files and registrations, unique among the existing events, and below 128.
    pub(super) number: u32,
    /// Unique, even among removed events.
    pub serial: u32,
    pub(super) persistent: bool,
    pub tracers: BTreeSet<TraceInstance>,
    /// The filter of the worker's instance rejects all records.
    pub filtered: bool,
    /// The worker's instance has been attached to it.
    pub(super) was_in_instance: bool,
}

/// A record taken by a consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The serial of the event.
    pub event: u32,
    /// The process that wrote it, if by its first thread.
    pub pid: Option<i32>,
    pub payload: Vec<u8>,
}

/// An open perf event.
pub struct PerfEvent {
    pub(super) key: Key,
    /// The slot of the sampled process.
    pub(super) slot: usize,
    /// The longest payload that fits into its samples.
    pub(super) limit: usize,
    pub(super) records: Vec<Record>,
}

pub(super) struct OpenFile {
    /// The number of its group.
    pub group: u8,
    pub mode: u8,
    /// The numbers of the events by index.
    pub indices: Vec<u32>,
    /// One of its events has changed since the last poll.
    pub has_changed: bool,
}

/// The state of a process's second page.
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
    /// The number of the event, by place and bit.
    pub bits: BTreeMap<(u8, u8), u32>,
    /// The expected words,
    pub words: [u32; PLACES],
    /// except for these bits, whose value is unknown.
    pub unknown: [u32; PLACES],
    /// Bits written by several registrations, whose value is unknown from then on.
    pub(super) shared: [u32; PLACES],
    pub page: Page,
    /// The group whose data file is held by an O_PATH descriptor: its number and serial.
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

    /// Returns whether the kernel can write a word.
    pub fn is_writable(&self, place: usize) -> bool {
        place < PLACES / 2 || self.page == Page::Writable
    }

    /// Writes a bit as the kernel does, if possible.
    pub(super) fn put(&mut self, (place, bit): (u8, u8), set: bool) {
        let (place, mask) = physical(place, bit);
        if self.is_writable(place) {
            self.words[place] &= !mask;
            self.words[place] |= if set { mask } else { 0 };
            self.unknown[place] &= !mask | self.shared[place];
        } else {
            // The kernel may still write the bit, if the page becomes writable soon.
            self.unknown[place] |= mask;
        }
    }

    /// Returns whether a registration writes this bit, by any address of the word.
    pub fn is_written(&self, place: u8, bit: u8) -> bool {
        let at = physical(place, bit);
        let mut keys = self.bits.keys();
        keys.any(|&(place, bit)| physical(place, bit) == at)
    }
}

/// The 32-bit word of a bit, and its mask there.
pub fn physical(place: u8, bit: u8) -> (usize, u32) {
    (usize::from(place) + usize::from(bit / 32), 1 << (bit % 32))
}
