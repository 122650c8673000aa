// SPDX-License-Identifier: GPL-2.0

//! What must come of each step, by the contract alone: a few lists, searched from end to end.

use super::actor::{payload, ACTORS};
use super::step::*;
use crate::abi::NO_INDEX;
use crate::errno::{Errno, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Perf events that a lane can have open.
pub const PERFS: usize = 2;

/// Whose behaviour is foretold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Ours,
    C,
}

/// What an event is known by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    pub name: u8,
    pub multi: bool,
    pub fields: u8,
}

/// What listens to an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tracer {
    Top,
    Instance,
    Histogram,
    Perf(usize),
}

/// An event that exists.
#[derive(Clone)]
pub struct Event {
    pub key: Key,
    /// What files and registrations know it by: no other event's, and below 64.
    number: u32,
    persistent: bool,
    pub tracers: BTreeSet<Tracer>,
    /// The lane's instance records nothing of it.
    pub filtered: bool,
    /// The lane's instance once listened to it.
    was_in_instance: bool,
}

#[derive(Clone, Default)]
struct OpenFile {
    mode: u8,
    /// The numbers of the events that have an index.
    indices: Vec<u32>,
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
pub struct Actor {
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
    shared: [u32; PLACES],
    pub page: Page,
}

impl Actor {
    fn new() -> Actor {
        Actor {
            is_root: true,
            files: [None; FILES],
            bits: BTreeMap::new(),
            words: [0; PLACES],
            unknown: [0; PLACES],
            shared: [0; PLACES],
            page: Page::Writable,
        }
    }

    /// May the kernel write there?
    pub fn is_writable(&self, place: usize) -> bool {
        place < PLACES / 2 || self.page == Page::Writable
    }

    /// The kernel writes a bit, if it can.
    fn put(&mut self, (place, bit): (u8, u8), set: bool) {
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

/// What is to come of everything in one lane.
#[derive(Clone)]
pub struct Model {
    pub whose: Whose,
    /// The oldest first.
    pub events: Vec<Event>,
    pub actors: [Option<Actor>; ACTORS],
    open: BTreeMap<u32, OpenFile>,
    /// Events that nobody uses and that are about to go.
    pub going: Vec<Key>,
    pub has_instance: bool,
    /// Records that the instance took since it was last asked;
    pub recorded: u64,
    /// or fewer: the trace core empties a buffer, whenever an event is deleted by `dynamic_events`,
    /// once an event is gone that may have records there.
    pub may_be_emptied: bool,
    /// The event, the slot of the process and the records of each open perf event.
    pub perfs: [Option<(Key, usize, u64)>; PERFS],
    next: u32,
}

/// The bit for an event's number.
fn bit(number: u32) -> u64 {
    1 << number
}

fn check(condition: bool, errno: Errno) -> Result<()> {
    match condition {
        true => Ok(()),
        false => Err(errno),
    }
}

impl Model {
    /// One process, which has done nothing.
    pub fn new(whose: Whose) -> Model {
        let mut actors = [const { None }; ACTORS];
        actors[0] = Some(Actor::new());
        Model {
            whose,
            events: Vec::new(),
            actors,
            open: BTreeMap::new(),
            going: Vec::new(),
            has_instance: true,
            recorded: 0,
            may_be_emptied: false,
            perfs: [None; PERFS],
            next: 0,
        }
    }

    fn is_c(&self) -> bool {
        self.whose == Whose::C
    }

    pub fn actor(&self, slot: usize) -> &Actor {
        self.actors[slot].as_ref().expect("an actor")
    }

    fn actor_mut(&mut self, slot: usize) -> &mut Actor {
        self.actors[slot].as_mut().expect("an actor")
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn event(&self, number: u32) -> &Event {
        let event = self.events.iter().find(|event| event.number == number);
        event.expect("an event that is used exists")
    }

    /// Where the event of a key is among the others.
    pub fn position(&self, key: Key) -> Option<usize> {
        self.events.iter().position(|event| event.key == key)
    }

    /// The events that an open file of a process has indices of.
    pub fn indices(&self, slot: usize, file: u8) -> Vec<Key> {
        let file = self.actor(slot).files[usize::from(file)];
        let numbers = file.map_or(&[][..], |file| &self.open[&file].indices);
        let keys = numbers.iter().map(|number| self.event(*number).key);
        keys.collect()
    }

    /// A bit for the number of each event that is used.
    fn used(&self) -> u64 {
        let actors = self.actors.iter().flatten();
        let registered = actors.flat_map(|actor| actor.bits.values()).copied();
        let indexed = self.open.values().flat_map(|file| &file.indices).copied();
        let traced = self.events.iter().filter(|event| !event.tracers.is_empty());
        let traced = traced.map(|event| event.number);
        let numbers = registered.chain(indexed).chain(traced);
        numbers.fold(0, |bits, number| bits | bit(number))
    }

    /// Forgets files that nobody has open, and events that nobody uses.
    fn settle(&mut self) {
        let actors = self.actors.iter().flatten();
        let open: BTreeSet<u32> = actors.flat_map(|actor| actor.files).flatten().collect();
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

    /// Forgets events that are not used.
    fn forget(&mut self, is_meant: impl Fn(&Event) -> bool) {
        self.events.retain(|event| {
            let forgotten = is_meant(event);
            self.may_be_emptied |= forgotten && event.was_in_instance;
            !forgotten
        });
    }

    /// Does something about this name still have to settle?
    pub fn is_going(&self, name: u8) -> bool {
        self.going.iter().any(|key| key.name == name)
    }

    /// What comes of a step of the process in `slot`.
    pub fn step(&mut self, slot: usize, step: &Step) -> Result<i64> {
        let result = self.try_step(slot, step);
        match step.call {
            Call::Write | Call::Odd | Call::Flip | Call::Discard => {}
            _ => self.settle(),
        }
        result
    }

    fn file(&self, slot: usize, step: &Step) -> Result<u32> {
        let file = self.actor(slot).files[usize::from(step.file)];
        file.ok_or(Errno::EBADF)
    }

    fn try_step(&mut self, slot: usize, step: &Step) -> Result<i64> {
        match step.call {
            Call::Open => {
                check(self.actor(slot).is_root, Errno::EACCES)?;
                let number = self.number();
                let mode = step.value;
                let file = OpenFile {
                    mode,
                    ..OpenFile::default()
                };
                self.open.insert(number, file);
                self.actor_mut(slot).files[usize::from(step.file)] = Some(number);
            }
            Call::Close => self.actor_mut(slot).files[usize::from(step.file)] = None,
            Call::Duplicate => {
                let file = self.file(slot, step)?;
                self.actor_mut(slot).files[usize::from(step.value)] = Some(file);
            }
            Call::Register => return self.register(slot, step),
            Call::Unregister => return self.unregister(slot, step),
            Call::Delete => return self.delete(slot, step),
            Call::Write => return self.write(slot, step),
            Call::Odd => return self.odd(slot, step),
            Call::Protect => self.actor_mut(slot).page = Page::ReadOnly,
            Call::Unprotect => self.actor_mut(slot).page = Page::Writable,
            Call::Unmap => self.actor_mut(slot).page = Page::Unmapped,
            Call::MapAgain => {
                self.actor_mut(slot).page = Page::Writable;
                self.clear_second(slot);
            }
            Call::Discard => self.clear_second(slot),
            Call::PageOut => {}
            Call::Flip => {
                let (place, mask) = physical(step.place, step.bit);
                self.actor_mut(slot).words[place] ^= mask;
            }
            Call::BecomeNobody => self.actor_mut(slot).is_root = false,
        }
        Ok(0)
    }

    /// The second page of a process is fresh. A bit that was set there may come back: the next change
    /// brings it, or earlier whatever else has the kernel write it.
    fn clear_second(&mut self, slot: usize) {
        let is_on = |number: &u32| !self.event(*number).tracers.is_empty();
        let bits = self.actor(slot).bits.iter();
        let bits = bits.filter(|(_, number)| is_on(number));
        let bits: Vec<_> = bits
            .map(|(&(place, bit), _)| physical(place, bit))
            .collect();
        let actor = self.actor_mut(slot);
        for place in PLACES / 2..PLACES {
            actor.words[place] = 0;
            actor.unknown[place] = actor.shared[place];
        }
        for (place, mask) in bits {
            if place >= PLACES / 2 {
                actor.unknown[place] |= mask;
            }
        }
    }

    fn compat(&self, step: &Step) -> Result<()> {
        check(!(self.is_c() && step.has(flag::COMPAT)), Errno::ENOTTY)
    }

    fn register(&mut self, slot: usize, step: &Step) -> Result<i64> {
        use super::step::register::*;
        let file = self.file(slot, step)?;
        self.compat(step)?;
        match step.twist {
            NULL_ARGUMENT | ARGUMENT_OVER_THE_EDGE => return Err(Errno::EFAULT),
            SIZE_OF_ALL_ONES | LONGER_THAN_A_PAGE | UNKNOWN_BYTES => return Err(Errno::E2BIG),
            SHORT | UNKNOWN_FLAG | HIGHEST_FLAG | WORD_OF_3_BYTES | MISALIGNED | BIT_TOO_HIGH => {
                return Err(Errno::EINVAL)
            }
            WORD_IN_THE_KERNEL => return Err(Errno::EFAULT),
            _ => {}
        }
        let at = (step.place, step.bit);
        let actor = self.actor(slot);
        check(!actor.bits.contains_key(&at), Errno::EADDRINUSE)?;
        match step.twist {
            NAME_UNMAPPED | NAME_OVER_THE_EDGE => return Err(Errno::EFAULT),
            UNKNOWN_TYPE | NO_FIELD_NAME | TWO_SPACES if self.is_c() => {
                self.asked_first(slot, step)?
            }
            _ => {}
        }
        match step.twist {
            NAME_TOO_LONG | UNKNOWN_TYPE | NO_FIELD_NAME | TWO_SPACES | NO_NAME | FLAGS_IN_NAME => {
                return Err(Errno::EINVAL)
            }
            _ => {}
        }
        let only_in_c = FIELDS[usize::from(step.fields)].only_in_c.is_some();
        check(!only_in_c || self.is_c(), Errno::EINVAL)?;
        let persistent = step.has(flag::PERSIST);
        check(!persistent || actor.is_root, Errno::EPERM)?;

        let can_write = actor.is_writable(physical(step.place, step.bit).0);
        let key = Key {
            name: step.name,
            multi: step.has(flag::MULTI_FORMAT),
            fields: step.fields,
        };
        let event = self.find_or_make(key, persistent)?;
        if !can_write && self.is_c() {
            // The file has its index all the same.
            self.index(file, event);
            return Err(Errno::ENOMEM);
        }
        check(can_write, Errno::EFAULT)?;
        let is_on = !self.event(event).tracers.is_empty();
        let actor = self.actor_mut(slot);
        if actor.is_written(step.place, step.bit) {
            let (place, mask) = physical(step.place, step.bit);
            actor.shared[place] |= mask;
            actor.unknown[place] |= mask;
        }
        actor.put(at, is_on);
        if step.twist == READ_ONLY_ARGUMENT && self.is_c() {
            // It is registered, and the caller is not told as what.
            self.actor_mut(slot).bits.insert(at, event);
            self.index(file, event);
            return Ok(NO_INDEX.into());
        }
        if step.twist == READ_ONLY_ARGUMENT {
            // What could not be told did not happen; but the file has its index.
            self.actor_mut(slot).put(at, false);
            self.index(file, event);
            return Err(Errno::EFAULT);
        }
        self.actor_mut(slot).bits.insert(at, event);
        Ok(self.index(file, event))
    }

    /// The C implementation reads fields only when it needs an event of that name.
    fn asked_first(&self, slot: usize, step: &Step) -> Result<()> {
        let is_root = self.actor(slot).is_root;
        check(is_root || !step.has(flag::PERSIST), Errno::EPERM)?;
        let is_taken = !step.has(flag::MULTI_FORMAT) && self.has_single(step.name);
        check(!is_taken, Errno::EADDRINUSE)
    }

    /// Is there an event that is alone with its name?
    fn has_single(&self, name: u8) -> bool {
        let mut keys = self.events.iter().map(|event| event.key);
        keys.any(|key| key.name == name && !key.multi)
    }

    /// The index of an event in a file.
    fn index(&mut self, file: u32, event: u32) -> i64 {
        let indices = &mut self.open.get_mut(&file).expect("an open file").indices;
        let index = indices.iter().position(|known| *known == event);
        let index = index.unwrap_or_else(|| {
            indices.push(event);
            indices.len() - 1
        });
        index as i64
    }

    fn find_or_make(&mut self, key: Key, persistent: bool) -> Result<u32> {
        for event in &self.events {
            if event.key == key {
                return Ok(event.number);
            }
            let same_name = event.key.name == key.name;
            let taken = same_name && !event.key.multi && !key.multi;
            check(!taken, Errno::EADDRINUSE)?;
        }
        let known = self.events.iter().map(|event| event.number);
        let known = known.fold(0, |bits, number| bits | bit(number));
        let number = known.trailing_ones();
        self.events.push(Event {
            key,
            number,
            persistent,
            tracers: BTreeSet::new(),
            filtered: false,
            was_in_instance: false,
        });
        Ok(number)
    }

    fn unregister(&mut self, slot: usize, step: &Step) -> Result<i64> {
        use super::step::unregister::*;
        self.file(slot, step)?;
        self.compat(step)?;
        match step.twist {
            NULL_ARGUMENT | ARGUMENT_OVER_THE_EDGE => return Err(Errno::EFAULT),
            LONGER_THAN_A_PAGE | UNKNOWN_BYTES => return Err(Errno::E2BIG),
            SHORT | RESERVED | RESERVED2 => return Err(Errno::EINVAL),
            WORD_IN_THE_KERNEL => return Err(Errno::ENOENT),
            _ => {}
        }
        let actor = self.actor_mut(slot);
        let at = (step.place, step.bit);
        check(actor.bits.remove(&at).is_some(), Errno::ENOENT)?;
        let (place, _) = physical(step.place, step.bit);
        if !actor.is_writable(place) {
            // It keeps its value, whatever that is.
            return Err(Errno::EFAULT);
        }
        actor.put(at, false);
        Ok(0)
    }

    fn delete(&mut self, slot: usize, step: &Step) -> Result<i64> {
        use super::step::delete::*;
        self.file(slot, step)?;
        self.compat(step)?;
        match step.twist {
            NULL_ARGUMENT | OVER_THE_EDGE => return Err(Errno::EFAULT),
            TOO_LONG => return Err(Errno::EINVAL),
            UNKNOWN => return Err(Errno::ENOENT),
            _ => {}
        }
        let is_root = self.actor(slot).is_root;
        self.delete_name(step.name, is_root).map(|()| 0)
    }

    /// Deletes all events of a name.
    fn delete_name(&mut self, name: u8, is_root: bool) -> Result<()> {
        let has_name = |event: &&Event| event.key.name == name;
        let mut found = self.events.iter().filter(has_name).peekable();
        check(found.peek().is_some(), Errno::ENOENT)?;
        let used = self.used();
        for event in found {
            check(used & bit(event.number) == 0, Errno::EBUSY)?;
        }
        // Those that are left are persistent.
        check(is_root, Errno::EPERM)?;
        self.forget(|event| event.key.name == name);
        Ok(())
    }

    /// Is there an event of the name that is in use, and one that is not?
    pub fn is_mixed(&self, name: u8) -> bool {
        let events = self.events.iter().filter(|event| event.key.name == name);
        let used = self.used();
        let used: BTreeSet<bool> = events.map(|event| used & bit(event.number) != 0).collect();
        used.len() > 1
    }

    fn write(&mut self, slot: usize, step: &Step) -> Result<i64> {
        use super::step::write::*;
        let file = self.file(slot, step)?;
        let open = &self.open[&file];
        check(open.mode != mode::READ_ONLY, Errno::EBADF)?;
        match step.twist {
            PART_OF_AN_INDEX | ALL_UNREADABLE => return Err(Errno::EFAULT),
            NEGATIVE_INDEX => return Err(Errno::EINVAL),
            _ => {}
        }
        let number = open.indices.get(usize::from(step.value));
        let number = *number.ok_or(Errno::ENOENT)?;
        let event = self.event(number);
        let mut length = payload(step).len();
        if step.twist == UNREADABLE {
            length = length.max(1);
        }
        let fields = &FIELDS[usize::from(event.key.fields)];
        check(length >= fields.fixed, Errno::EINVAL)?;
        check(!event.tracers.is_empty(), Errno::EBADF)?;
        check(step.twist != UNREADABLE, Errno::EFAULT)?;
        let location = fields.location.filter(|_| step.fields == event.key.fields);
        if let Some(location) = location {
            let good = match step.twist {
                OUTSIDE => false,
                NO_NUL => !location.text,
                IN_FRONT => location.relative && !location.text,
                _ => true,
            };
            check(good, Errno::EFAULT)?;
        }
        if step.twist == TOO_MUCH && !self.is_c() {
            return Err(Errno::E2BIG);
        }
        let key = event.key;
        if step.twist != TOO_MUCH && event.tracers.contains(&Tracer::Instance) && !event.filtered {
            self.recorded += 1;
        }
        for (perf_key, actor, count) in self.perfs.iter_mut().flatten() {
            if *perf_key == key && *actor == slot && !step.has(flag::THREAD) {
                *count += 1;
            }
        }
        Ok(4 + length as i64)
    }

    fn odd(&self, slot: usize, step: &Step) -> Result<i64> {
        use super::step::odd::*;
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
            other => panic!("no odd call {other}"),
        })
    }

    /// A process forks one that takes another slot.
    pub fn fork(&mut self, slot: usize, child: usize) {
        let actor = self.actor(slot).clone();
        self.actors[child] = Some(actor);
    }

    /// A process executes the program anew.
    pub fn exec(&mut self, slot: usize) {
        let is_root = self.actor(slot).is_root;
        self.actors[slot] = Some(Actor {
            is_root,
            ..Actor::new()
        });
        self.settle();
    }

    /// A process ends.
    pub fn exit(&mut self, slot: usize) {
        self.actors[slot] = None;
        for (_, actor, _) in self.perfs.iter_mut().flatten() {
            if *actor == slot {
                // Whoever takes the slot is another process.
                *actor = ACTORS;
            }
        }
        self.settle();
    }

    /// Something begins or ceases to listen.
    fn listen(&mut self, key: Key, tracer: Tracer, on: bool) -> Result<()> {
        let at = self.position(key).ok_or(Errno::ENOENT)?;
        let event = &mut self.events[at];
        let was = !event.tracers.is_empty();
        event.was_in_instance |= matches!(tracer, Tracer::Instance | Tracer::Histogram);
        match on {
            true => event.tracers.insert(tracer),
            false => event.tracers.remove(&tracer),
        };
        let (number, is) = (event.number, !event.tracers.is_empty());
        if was != is {
            for actor in self.actors.iter_mut().flatten() {
                let bits = actor.bits.iter().filter(|(_, event)| **event == number);
                let bits: Vec<_> = bits.map(|(at, _)| *at).collect();
                for at in bits {
                    actor.put(at, is);
                }
            }
        }
        Ok(())
    }

    /// A file that attaches a tracer is written.
    pub fn attach(&mut self, key: Key, tracer: Tracer, on: bool) -> Result<()> {
        let result = self.listen(key, tracer, on);
        self.settle();
        result
    }

    /// A perf event that counts what a process writes is opened.
    pub fn open_perf(&mut self, perf: usize, key: Key, slot: usize) -> Result<()> {
        self.listen(key, Tracer::Perf(perf), true)?;
        self.perfs[perf] = Some((key, slot, 0));
        Ok(())
    }

    /// It is closed. Returns what it must have counted.
    pub fn close_perf(&mut self, perf: usize) -> Option<u64> {
        let (key, _, count) = self.perfs[perf].take()?;
        let closed = self.attach(key, Tracer::Perf(perf), false);
        closed.expect("an event with a tracer");
        Some(count)
    }

    /// The lane's instance goes, and with it what it listened to.
    pub fn remove_instance(&mut self) {
        let keys: Vec<Key> = self.events.iter().map(|event| event.key).collect();
        for key in keys {
            for tracer in [Tracer::Instance, Tracer::Histogram] {
                self.listen(key, tracer, false).expect("an event");
            }
        }
        for event in &mut self.events {
            event.filtered = false;
            event.was_in_instance = false;
        }
        self.has_instance = false;
        self.may_be_emptied = false;
        self.recorded = 0;
        self.settle();
    }

    /// A line of `dynamic_events` makes an event.
    pub fn make(&mut self, key: Key) -> Result<()> {
        let only_in_c = FIELDS[usize::from(key.fields)].only_in_c.is_some();
        check(!only_in_c || self.is_c(), Errno::EINVAL)?;
        self.find_or_make(key, true).map(drop)
    }

    /// A line of `dynamic_events` does not make an event, since its last field is not right.
    pub fn make_nonsense(&mut self, name: u8) -> Result<()> {
        let is_taken = self.is_c() && self.has_single(name);
        check(!is_taken, Errno::EADDRINUSE)?;
        Err(Errno::EINVAL)
    }

    /// A line of `dynamic_events` deletes an event: by its name, and these fields if there are any.
    pub fn unmake(&mut self, name: u8, fields: u8) -> Result<()> {
        let mut events = self.events.iter();
        let event = events.find(|event| event.key.name == name);
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
