// SPDX-License-Identifier: GPL-2.0

//! Model of the steps of processes.

use super::state::{physical, Event, Key, OpenFile, Page, Record, TraceInstance};
use super::{bit, check, Model};
use crate::fuzz::large;
use crate::fuzz::payload::payload;
use crate::fuzz::polls;
use crate::fuzz::step::*;
use crate::kit::abi::NO_INDEX;
use crate::kit::errno::{Errno, Result};
use std::collections::BTreeSet;
use std::mem;

impl Model {
    /// The result of a step of the process in `slot`.
    pub fn step(&mut self, slot: usize, step: &Step) -> Result<i64> {
        let result = self.try_step(slot, step);
        match step.call {
            Call::Write | Call::Unsupported | Call::Poll | Call::Flip | Call::Discard => {}
            _ => self.settle(),
        }
        result
    }

    fn file(&self, slot: usize, step: &Step) -> Result<u32> {
        let file = self.child(slot).files[usize::from(step.file)];
        file.ok_or(Errno::EBADF)
    }

    fn try_step(&mut self, slot: usize, step: &Step) -> Result<i64> {
        match step.call {
            Call::Open => {
                check(self.child(slot).is_root, Errno::EACCES)?;
                self.open_file(slot, step, FIRST_GROUP);
            }
            Call::OpenIn => {
                self.look_up(slot, step.name)?;
                self.open_file(slot, step, step.name);
            }
            Call::Hold => {
                let serial = self.look_up(slot, step.name)?;
                self.child_mut(slot).held = Some((step.name, serial));
            }
            Call::OpenHeld => self.open_held(slot, step)?,
            Call::Close => self.child_mut(slot).files[usize::from(step.file)] = None,
            Call::Duplicate => {
                let file = self.file(slot, step)?;
                self.child_mut(slot).files[usize::from(step.value)] = Some(file);
            }
            Call::Register => return self.register(slot, step),
            Call::Unregister => return self.unregister(slot, step),
            Call::Delete => return self.delete(slot, step),
            Call::Write => return self.write(slot, step),
            Call::Unsupported => return self.unsupported(slot, step),
            Call::Poll => {
                let file = self.file(slot, step)?;
                let open = self.open.get_mut(&file).expect("an open file");
                let has_changed = mem::take(&mut open.has_changed);
                return Ok(polls::predicted(has_changed, !open.indices.is_empty()));
            }
            Call::Protect => self.child_mut(slot).page = Page::ReadOnly,
            Call::Unprotect => self.child_mut(slot).page = Page::Writable,
            Call::Unmap => self.child_mut(slot).page = Page::Unmapped,
            Call::MapAgain => {
                self.child_mut(slot).page = Page::Writable;
                self.clear_second(slot);
            }
            Call::Discard => self.clear_second(slot),
            Call::PageOut => {}
            Call::Flip => {
                let (place, mask) = physical(step.place, step.bit);
                self.child_mut(slot).words[place] ^= mask;
            }
            Call::DropPrivileges => self.child_mut(slot).is_root = false,
        }
        Ok(0)
    }

    pub(super) fn open_file(&mut self, slot: usize, step: &Step, group: u8) {
        let number = self.number();
        let file = OpenFile {
            group,
            mode: step.value,
            indices: Vec::new(),
            has_changed: false,
        };
        self.open.insert(number, file);
        self.child_mut(slot).files[usize::from(step.file)] = Some(number);
    }

    /// Replaces the second page of a process by a fresh one. A bit that was set there may be set
    /// again, by the next switch or any earlier write of the kernel.
    fn clear_second(&mut self, slot: usize) {
        let is_on = |number: &u32| !self.event(*number).tracers.is_empty();
        let bits = self.child(slot).bits.iter();
        let bits = bits.filter(|(_, number)| is_on(number));
        let bits: Vec<_> = bits
            .map(|(&(place, bit), _)| physical(place, bit))
            .collect();
        let child = self.child_mut(slot);
        for place in PLACES / 2..PLACES {
            child.words[place] = 0;
            child.unknown[place] = child.shared[place];
        }
        for (place, mask) in bits {
            if place >= PLACES / 2 {
                child.unknown[place] |= mask;
            }
        }
    }

    fn compat(&self, step: &Step) -> Result<()> {
        check(!(self.is_c && step.has(flag::COMPAT)), Errno::ENOTTY)
    }

    fn register(&mut self, slot: usize, step: &Step) -> Result<i64> {
        use crate::fuzz::step::register::*;
        let file = self.file(slot, step)?;
        self.compat(step)?;
        match step.defect {
            NULL_ARGUMENT | ARGUMENT_OVER_THE_EDGE => return Err(Errno::EFAULT),
            SIZE_OF_ALL_ONES | LONGER_THAN_A_PAGE | UNKNOWN_BYTES => return Err(Errno::E2BIG),
            SHORT | UNKNOWN_FLAG | HIGHEST_FLAG | WORD_OF_3_BYTES | MISALIGNED | BIT_TOO_HIGH => {
                return Err(Errno::EINVAL)
            }
            WORD_IN_THE_KERNEL => return Err(Errno::EFAULT),
            _ => {}
        }
        let at = (step.place, step.bit);
        let child = self.child(slot);
        check(!child.bits.contains_key(&at), Errno::EADDRINUSE)?;
        match step.defect {
            NAME_UNMAPPED | NAME_OVER_THE_EDGE => return Err(Errno::EFAULT),
            UNKNOWN_TYPE | NO_FIELD_NAME | TWO_SPACES if self.is_c => {
                self.asked_first(slot, step)?
            }
            _ => {}
        }
        match step.defect {
            NAME_TOO_LONG | UNKNOWN_TYPE | NO_FIELD_NAME | TWO_SPACES | NO_NAME | FLAGS_IN_NAME => {
                return Err(Errno::EINVAL)
            }
            _ => {}
        }
        let only_in_c = FIELDS[usize::from(step.fields)].only_in_c;
        check(!only_in_c || self.is_c, Errno::EINVAL)?;
        let persistent = step.has(flag::PERSIST);
        check(!persistent || child.is_root, Errno::EPERM)?;

        let can_write = child.is_writable(physical(step.place, step.bit).0);
        let key = Key {
            group: self.open[&file].group,
            name: step.name,
            multi: step.has(flag::MULTI_FORMAT),
            fields: step.fields,
        };
        let takes_any = (self.group(key.group)).is_none_or(|group| group.limits.any_names);
        check(takes_any || !key.multi, Errno::EINVAL)?;
        let event = self.find_or_make(key, persistent)?;
        if !can_write && self.is_c {
            // The file has its index nevertheless.
            self.index(file, event);
            return Err(Errno::ENOMEM);
        }
        check(can_write, Errno::EFAULT)?;
        let is_on = !self.event(event).tracers.is_empty();
        let child = self.child_mut(slot);
        if child.is_written(step.place, step.bit) {
            let (place, mask) = physical(step.place, step.bit);
            child.shared[place] |= mask;
            child.unknown[place] |= mask;
        }
        child.put(at, is_on);
        let index = self.index(file, event);
        let is_told = step.defect != READ_ONLY_ARGUMENT;
        if !is_told && !self.is_c {
            // The registration is undone, but the file has its index.
            self.child_mut(slot).put(at, false);
            return Err(Errno::EFAULT);
        }
        // C registers even if the caller does not receive the index.
        self.child_mut(slot).bits.insert(at, event);
        Ok(if is_told { index } else { NO_INDEX.into() })
    }

    /// The C implementation parses fields only after these checks.
    fn asked_first(&self, slot: usize, step: &Step) -> Result<()> {
        let is_root = self.child(slot).is_root;
        check(is_root || !step.has(flag::PERSIST), Errno::EPERM)?;
        let is_taken = !step.has(flag::MULTI_FORMAT) && self.has_single(step.name);
        check(!is_taken, Errno::EADDRINUSE)
    }

    /// Returns whether there is an event that is alone with its name.
    pub(super) fn has_single(&self, name: u8) -> bool {
        let mut keys = self.events.iter().map(|event| event.key);
        keys.any(|key| key.name == name && !key.multi)
    }

    fn index(&mut self, file: u32, event: u32) -> i64 {
        let indices = &mut self.open.get_mut(&file).expect("an open file").indices;
        let index = indices.iter().position(|known| *known == event);
        let index = index.unwrap_or_else(|| {
            indices.push(event);
            indices.len() - 1
        });
        index as i64
    }

    pub(super) fn find_or_make(&mut self, key: Key, persistent: bool) -> Result<u32> {
        for event in &self.events {
            if event.key == key {
                return Ok(event.number);
            }
            let same_name = event.key.is_called(key.group, key.name);
            let taken = same_name && !event.key.multi && !key.multi;
            check(!taken, Errno::EADDRINUSE)?;
        }
        check(!self.is_full(key.group), Errno::EMFILE)?;
        let known = self.events.iter().map(|event| event.number);
        let known = known.fold(0, |bits, number| bits | bit(number));
        let number = known.trailing_ones();
        let serial = self.number();
        self.events.push(Event {
            key,
            number,
            serial,
            persistent,
            tracers: BTreeSet::new(),
            filtered: false,
            was_in_instance: false,
        });
        Ok(number)
    }

    fn unregister(&mut self, slot: usize, step: &Step) -> Result<i64> {
        use crate::fuzz::step::unregister::*;
        self.file(slot, step)?;
        self.compat(step)?;
        match step.defect {
            NULL_ARGUMENT | ARGUMENT_OVER_THE_EDGE => return Err(Errno::EFAULT),
            LONGER_THAN_A_PAGE | UNKNOWN_BYTES => return Err(Errno::E2BIG),
            SHORT | RESERVED | RESERVED2 => return Err(Errno::EINVAL),
            WORD_IN_THE_KERNEL => return Err(Errno::ENOENT),
            _ => {}
        }
        let child = self.child_mut(slot);
        let at = (step.place, step.bit);
        check(child.bits.remove(&at).is_some(), Errno::ENOENT)?;
        let (place, _) = physical(step.place, step.bit);
        if !child.is_writable(place) {
            // The bit keeps its value, known or not.
            return Err(Errno::EFAULT);
        }
        child.put(at, false);
        Ok(0)
    }

    fn delete(&mut self, slot: usize, step: &Step) -> Result<i64> {
        use crate::fuzz::step::delete::*;
        let file = self.file(slot, step)?;
        self.compat(step)?;
        match step.defect {
            NULL_ARGUMENT | OVER_THE_EDGE => return Err(Errno::EFAULT),
            TOO_LONG => return Err(Errno::EINVAL),
            UNKNOWN => return Err(Errno::ENOENT),
            _ => {}
        }
        let is_root = self.child(slot).is_root;
        let group = self.open[&file].group;
        self.delete_name(group, step.name, is_root).map(|()| 0)
    }

    fn delete_name(&mut self, group: u8, name: u8, is_root: bool) -> Result<()> {
        let has_name = |event: &&Event| event.key.is_called(group, name);
        let mut found = self.events.iter().filter(has_name).peekable();
        check(found.peek().is_some(), Errno::ENOENT)?;
        let used = self.used();
        for event in found {
            check(used & bit(event.number) == 0, Errno::EBUSY)?;
        }
        // The unused events that still exist are persistent.
        check(is_root, Errno::EPERM)?;
        self.forget(|event| event.key.is_called(group, name));
        Ok(())
    }

    /// Returns whether the name has both used and unused events.
    pub fn is_mixed(&self, name: u8) -> bool {
        let events = self.events.iter().filter(|event| event.key.name == name);
        let used = self.used();
        let used: BTreeSet<bool> = events.map(|event| used & bit(event.number) != 0).collect();
        used.len() > 1
    }

    fn write(&mut self, slot: usize, step: &Step) -> Result<i64> {
        use crate::fuzz::step::write::*;
        let file = self.file(slot, step)?;
        let open = &self.open[&file];
        check(open.mode != mode::READ_ONLY, Errno::EBADF)?;
        match step.defect {
            PART_OF_AN_INDEX | ALL_UNREADABLE => return Err(Errno::EFAULT),
            NEGATIVE_INDEX => return Err(Errno::EINVAL),
            _ => {}
        }
        let number = open.indices.get(usize::from(step.value));
        let number = *number.ok_or(Errno::ENOENT)?;
        let event = self.event(number);
        let payload = payload(step);
        let mut length = payload.len();
        if step.defect == UNREADABLE {
            length = length.max(1);
        }
        let fields = &FIELDS[usize::from(event.key.fields)];
        check(length >= fields.fixed, Errno::EINVAL)?;
        check(!event.tracers.is_empty(), Errno::EBADF)?;
        check(step.defect != UNREADABLE, Errno::EFAULT)?;
        let location = fields.location.filter(|_| step.fields == event.key.fields);
        if let Some(location) = location {
            let good = match step.defect {
                OUTSIDE => false,
                NO_NUL => !location.text,
                IN_FRONT => location.relative && !location.text,
                _ => true,
            };
            check(good, Errno::EFAULT)?;
        }
        let (key, serial) = (event.key, event.serial);
        let takes = event.tracers.contains(&TraceInstance::Instance) && !event.filtered;
        // The histogram trigger takes records of any size.
        let has_trigger = event.tracers.contains(&TraceInstance::Histogram);
        let mut tracers = event.tracers.iter();
        let in_ftrace = tracers.any(|tracer| !matches!(tracer, TraceInstance::Perf(_)));
        // Even a record that is too large for all consumers is charged.
        self.charge(key.group, payload.len())?;
        let by_thread = step.has(flag::THREAD);
        let perfs = self.perfs.iter().flatten().filter(|perf| perf.key == key);
        let listening = perfs.clone().filter(|perf| perf.slot == slot && !by_thread);
        // All open perf events limit the size, even those of another process.
        let limits = (listening.count() > 0).then(|| perfs.clone().map(|perf| perf.limit));
        let limits = limits.into_iter().flatten();
        // The module adds a NUL behind a record with an array of characters.
        let recorded = payload.len() + usize::from(fields.has_chars && !self.is_c);
        let outcome = large::outcome(recorded, in_ftrace, perfs.count() > 0, limits);
        check(outcome.can || has_trigger || self.is_c, Errno::E2BIG)?;
        let record = Record {
            event: serial,
            pid: (!by_thread).then_some(self.child(slot).pid),
            payload,
        };
        for perf in self.perfs.iter_mut().flatten() {
            if perf.key == key && perf.slot == slot && !by_thread && outcome.perf {
                perf.records.push(record.clone());
            }
        }
        if outcome.ftrace && takes {
            self.recorded.push(record);
        }
        Ok(4 + length as i64)
    }

    fn unsupported(&self, slot: usize, step: &Step) -> Result<i64> {
        use crate::fuzz::step::unsupported::*;
        let open = &self.open[&self.file(slot, step)?];
        Err(match step.value {
            READ if open.mode == mode::WRITE_ONLY => Errno::EBADF,
            READ => Errno::EINVAL,
            SEEK => Errno::ESPIPE,
            MMAP if open.mode == mode::WRITE_ONLY => Errno::EACCES,
            MMAP => Errno::ENODEV,
            UNKNOWN_IOCTL => Errno::ENOTTY,
            WRITE_AT_AN_OFFSET if open.mode == mode::READ_ONLY => Errno::EBADF,
            WRITE_AT_AN_OFFSET => Errno::EFAULT,
            other => panic!("no unsupported call {other}"),
        })
    }
}
