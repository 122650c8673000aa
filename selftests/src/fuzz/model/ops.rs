// SPDX-License-Identifier: GPL-2.0

//! Model of operations on processes and tracers, and of lines that make and delete events.

use super::state::{Child, Key, PerfEvent, Record, TraceInstance};
use super::{bit, check, Model};
use crate::fuzz::child::CHILDREN;
use crate::fuzz::step::{FIELDS, FIRST_GROUP};
use crate::kit::errno::{Errno, Result};

impl Model {
    /// Forks a process into another slot.
    pub fn fork(&mut self, slot: usize, new: usize, pid: i32) {
        let child = self.child(slot).clone();
        self.children[new] = Some(Child { pid, ..child });
    }

    /// Executes the program again.
    pub fn exec(&mut self, slot: usize) {
        let &Child { is_root, pid, .. } = self.child(slot);
        self.children[slot] = Some(Child {
            is_root,
            ..Child::new(pid)
        });
        self.settle();
    }

    /// Ends a process.
    pub fn exit(&mut self, slot: usize) {
        self.children[slot] = None;
        for perf in self.perfs.iter_mut().flatten() {
            if perf.slot == slot {
                // A later process in this slot is another one.
                perf.slot = CHILDREN;
            }
        }
        self.settle();
    }

    /// Attaches or detaches a tracer.
    fn listen(&mut self, key: Key, tracer: TraceInstance, on: bool) -> Result<()> {
        let event = self.find_mut(key).ok_or(Errno::ENOENT)?;
        let was = !event.tracers.is_empty();
        event.was_in_instance |=
            matches!(tracer, TraceInstance::Instance | TraceInstance::Histogram);
        match on {
            true => event.tracers.insert(tracer),
            false => event.tracers.remove(&tracer),
        };
        let (number, is) = (event.number, !event.tracers.is_empty());
        if was != is {
            let open = self.open.values_mut();
            for file in open.filter(|file| file.indices.contains(&number)) {
                file.has_changed = true;
            }
            for child in self.children.iter_mut().flatten() {
                let bits = child.bits.iter().filter(|(_, event)| **event == number);
                let bits: Vec<_> = bits.map(|(at, _)| *at).collect();
                for at in bits {
                    child.put(at, is);
                }
            }
        }
        Ok(())
    }

    /// Writes a file that attaches or detaches a tracer.
    pub fn attach(&mut self, key: Key, tracer: TraceInstance, on: bool) -> Result<()> {
        let result = self.listen(key, tracer, on);
        self.settle();
        result
    }

    /// Opens a perf event that samples the records of a process, up to a limit of the payload.
    pub fn open_perf(&mut self, perf: usize, key: Key, slot: usize, limit: usize) -> Result<()> {
        self.listen(key, TraceInstance::Perf(perf), true)?;
        self.perfs[perf] = Some(PerfEvent {
            key,
            slot,
            limit,
            records: Vec::new(),
        });
        Ok(())
    }

    /// Returns whether an open perf event samples a process's records of this event.
    pub fn is_sampled(&self, key: Key, slot: usize) -> bool {
        let mut perfs = self.perfs.iter().flatten();
        perfs.any(|perf| perf.key == key && perf.slot == slot)
    }

    /// Closes a perf event. Returns the records that it must have taken.
    pub fn close_perf(&mut self, perf: usize) -> Option<Vec<Record>> {
        let PerfEvent { key, records, .. } = self.perfs[perf].take()?;
        let closed = self.attach(key, TraceInstance::Perf(perf), false);
        closed.expect("an event with a tracer");
        Some(records)
    }

    /// Removes the worker's instance, which detaches it.
    pub fn remove_instance(&mut self) {
        let keys: Vec<Key> = self.events.iter().map(|event| event.key).collect();
        for key in keys {
            for tracer in [TraceInstance::Instance, TraceInstance::Histogram] {
                self.listen(key, tracer, false).expect("an event");
            }
        }
        for event in &mut self.events {
            event.filtered = false;
            event.was_in_instance = false;
        }
        self.may_be_emptied = false;
        self.recorded.clear();
        self.settle();
    }

    /// Makes an event by a line of `dynamic_events`.
    pub fn make(&mut self, key: Key) -> Result<()> {
        let only_in_c = FIELDS[usize::from(key.fields)].only_in_c;
        check(!only_in_c || self.is_c, Errno::EINVAL)?;
        let is_there = key.group == FIRST_GROUP || self.group(key.group).is_some();
        check(is_there, Errno::EINVAL)?;
        self.find_or_make(key, true).map(drop)
    }

    /// Tries to make an event by a line of `dynamic_events` whose last field is bad.
    pub fn make_nonsense(&mut self, name: u8) -> Result<()> {
        let is_taken = self.is_c && self.has_single(name);
        check(!is_taken, Errno::EADDRINUSE)?;
        Err(Errno::EINVAL)
    }

    /// Deletes an event of a group by a line of `dynamic_events`, with its name and optional
    /// fields.
    pub fn unmake(&mut self, group: u8, name: u8, fields: u8) -> Result<()> {
        let mut events = self.events.iter();
        let event = events.find(|event| event.key.is_called(group, name));
        let event = event.ok_or(Errno::ENOENT)?;
        let name_is_enough = fields == 0 && !self.is_c;
        let meant = name_is_enough || event.key.fields == fields;
        check(meant, Errno::ENOENT)?;
        check(self.used() & bit(event.number) == 0, Errno::EBUSY)?;
        let key = event.key;
        self.forget(|event| event.key == key);
        Ok(())
    }
}
