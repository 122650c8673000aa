// SPDX-License-Identifier: GPL-2.0

//! The expected result of each step, derived from the contract only, with simple lists.

mod groups;
mod ops;
mod state;
mod steps;

pub use groups::{Group, Line, Options, Usage};
pub use state::{Child, Event, Key, Page, PerfEvent, Record, TraceInstance};

use super::child::CHILDREN;
use crate::kit::errno::{Errno, Result};
use state::OpenFile;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum of a worker's open perf events.
pub const PERFS: usize = 2;

/// The expected state of a worker.
pub struct Model {
    /// The kernel has the C implementation.
    pub is_c: bool,
    /// The oldest first.
    pub events: Vec<Event>,
    /// Groups with a name.
    pub groups: Vec<Group>,
    pub children: [Option<Child>; CHILDREN],
    open: BTreeMap<u32, OpenFile>,
    /// Unused events that are about to go.
    pub going: Vec<Key>,
    /// Records taken by the instance since the last comparison, in order.
    pub recorded: Vec<Record>,
    /// The trace core may empty the instance's buffer. When a line of `dynamic_events` is to delete
    /// an event, it does so if an event is gone that may have records there, even if the line
    /// fails.
    pub may_be_emptied: bool,
    pub perfs: [Option<PerfEvent>; PERFS],
    next: u32,
}

/// The bit for an event's number.
fn bit(number: u32) -> u128 {
    assert!(number < u128::BITS, "too many events");
    1 << number
}

fn check(condition: bool, errno: Errno) -> Result<()> {
    match condition {
        true => Ok(()),
        false => Err(errno),
    }
}

impl Model {
    /// The state of one new process.
    pub fn new(is_c: bool, pid: i32) -> Model {
        let mut children = [const { None }; CHILDREN];
        children[0] = Some(Child::new(pid));
        Model {
            is_c,
            events: Vec::new(),
            groups: Vec::new(),
            children,
            open: BTreeMap::new(),
            going: Vec::new(),
            recorded: Vec::new(),
            may_be_emptied: false,
            perfs: [const { None }; PERFS],
            next: 0,
        }
    }

    pub fn child(&self, slot: usize) -> &Child {
        self.children[slot].as_ref().expect("a child")
    }

    fn child_mut(&mut self, slot: usize) -> &mut Child {
        self.children[slot].as_mut().expect("a child")
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn event(&self, number: u32) -> &Event {
        let event = self.events.iter().find(|event| event.number == number);
        event.expect("an event that is used exists")
    }

    pub fn find(&self, key: Key) -> Option<&Event> {
        self.events.iter().find(|event| event.key == key)
    }

    pub fn find_mut(&mut self, key: Key) -> Option<&mut Event> {
        self.events.iter_mut().find(|event| event.key == key)
    }

    /// The events with an index in a process's open file.
    pub fn indices(&self, slot: usize, file: u8) -> Vec<Key> {
        let file = self.child(slot).files[usize::from(file)];
        let numbers = file.map_or(&[][..], |file| &self.open[&file].indices);
        let keys = numbers.iter().map(|number| self.event(*number).key);
        keys.collect()
    }

    /// The bits of all used events.
    fn used(&self) -> u128 {
        let children = self.children.iter().flatten();
        let registered = children.flat_map(|child| child.bits.values()).copied();
        let indexed = self.open.values().flat_map(|file| &file.indices).copied();
        let traced = self.events.iter().filter(|event| !event.tracers.is_empty());
        let traced = traced.map(|event| event.number);
        let numbers = registered.chain(indexed).chain(traced);
        numbers.fold(0, |bits, number| bits | bit(number))
    }

    /// Removes files that no process has open, and schedules unused events for removal.
    fn settle(&mut self) {
        let children = self.children.iter().flatten();
        let open: BTreeSet<u32> = children.flat_map(|child| child.files).flatten().collect();
        self.open.retain(|number, _| open.contains(number));
        let used = self.used();
        let mut going = Vec::new();
        for event in &self.events {
            if !event.persistent && used & bit(event.number) == 0 {
                going.push(event.key);
            }
        }
        self.forget(|event| going.contains(&event.key));
        self.going.extend(going);
    }

    /// Removes unused events.
    fn forget(&mut self, is_meant: impl Fn(&Event) -> bool) {
        self.events.retain(|event| {
            let forgotten = is_meant(event);
            self.may_be_emptied |= forgotten && event.was_in_instance;
            !forgotten
        });
    }

    /// The names of a group for which a removal is pending and matters to a step with `name`: all
    /// names if the group has a low limit of events.
    pub fn unsettled(&self, group: u8, name: u8) -> BTreeSet<u8> {
        let is_limited = self.group(group).is_some_and(Group::may_be_full);
        let going = self.going.iter().filter(|key| key.group == group);
        let going = going.filter(|key| is_limited || key.name == name);
        going.map(|key| key.name).collect()
    }
}
