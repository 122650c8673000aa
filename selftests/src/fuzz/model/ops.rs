// SPDX-License-Identifier: GPL-2.0

//! What becomes of processes, and what listens to events, makes and deletes them.

use super::state::{Child, Key, PerfEvent, Record, TraceInstance};
use super::{bit, check, Model};
use crate::fuzz::child::CHILDREN;
use crate::fuzz::step::{FIELDS, FIRST_GROUP};
use crate::kit::errno::{Errno, Result};

impl Model {
    /// A process forks one that takes another slot.
    pub fn fork(&mut self, slot: usize, new: usize, pid: i32) {
        let child = self.child(slot).clone();
        self.children[new] = Some(Child { pid, ..child });
    }

    /// A process executes the program anew.
    pub fn exec(&mut self, slot: usize) {
        let &Child { is_root, pid, .. } = self.child(slot);
        self.children[slot] = Some(Child {
            is_root,
            ..Child::new(pid)
        });
        self.settle();
    }

    /// A process ends.
    pub fn exit(&mut self, slot: usize) {
        self.children[slot] = None;
        for perf in self.perfs.iter_mut().flatten() {
            if perf.slot == slot {
                // What takes the slot is another process.
                perf.slot = CHILDREN;
            }
        }
        self.settle();
    }

    /// Something begins or ceases to listen.
    fn listen(&mut self, key: Key, tracer: TraceInstance, on: bool) -> Result<()> {
        let at = self.position(key).ok_or(Errno::ENOENT)?;
        let event = &mut self.events[at];
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
                file.polls.change();
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

    /// A file that attaches a tracer is written.
    pub fn attach(&mut self, key: Key, tracer: TraceInstance, on: bool) -> Result<()> {
        let result = self.listen(key, tracer, on);
        self.settle();
        result
    }

    /// A perf event that samples what a process writes, as far as there is room in its samples, is opened.
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

    /// Does an open perf event sample what a process writes of this event?
    pub fn is_sampled(&self, key: Key, slot: usize) -> bool {
        let mut perfs = self.perfs.iter().flatten();
        perfs.any(|perf| perf.key == key && perf.slot == slot)
    }

    /// It is closed. Returns what it must have taken.
    pub fn close_perf(&mut self, perf: usize) -> Option<Vec<Record>> {
        let PerfEvent { key, records, .. } = self.perfs[perf].take()?;
        let closed = self.attach(key, TraceInstance::Perf(perf), false);
        closed.expect("an event with a tracer");
        Some(records)
    }

    /// The worker's instance goes, and with it what it listened to.
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
        self.has_instance = false;
        self.may_be_emptied = false;
        self.recorded.clear();
        self.settle();
    }

    /// A line of `dynamic_events` makes an event.
    pub fn make(&mut self, key: Key) -> Result<()> {
        let only_in_c = FIELDS[usize::from(key.fields)].only_in_c.is_some();
        check(!only_in_c || self.is_c(), Errno::EINVAL)?;
        let is_there = key.group == FIRST_GROUP || self.group(key.group).is_some();
        check(is_there, Errno::EINVAL)?;
        self.find_or_make(key, true).map(drop)
    }

    /// A line of `dynamic_events` does not make an event, since its last field is not right.
    pub fn make_nonsense(&mut self, name: u8) -> Result<()> {
        let is_taken = self.is_c() && self.has_single(name);
        check(!is_taken, Errno::EADDRINUSE)?;
        Err(Errno::EINVAL)
    }

    /// A line of `dynamic_events` deletes an event of a group: by its name, and these fields if there are any.
    pub fn unmake(&mut self, group: u8, name: u8, fields: u8) -> Result<()> {
        let mut events = self.events.iter();
        let event = events.find(|event| event.key.is_called(group, name));
        let event = event.ok_or(Errno::ENOENT)?;
        let name_is_enough = fields == 0 && !self.is_c();
        let meant = name_is_enough || event.key.fields == fields;
        check(meant, Errno::ENOENT)?;
        check(self.used() & bit(event.number) == 0, Errno::EBUSY)?;
        let key = event.key;
        self.forget(|event| event.key == key);
        Ok(())
    }
}
