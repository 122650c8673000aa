// SPDX-License-Identifier: GPL-2.0

//! Random choice of a process's next step.

use super::model::{Child, Key, Model, Page, TraceInstance};
use super::step::*;
use crate::kit::os;
use crate::kit::random::Random;

/// The approximate maximum of registrations of a process.
const BITS: usize = 40;

/// Generates steps for one worker.
pub struct Gen<'a> {
    pub random: &'a mut Random,
    pub model: &'a Model,
    pub slot: usize,
    /// Mostly steps that are quick and make no event.
    pub rush: bool,
    /// Include steps with groups.
    pub groups: bool,
}

impl Gen<'_> {
    fn child(&self) -> &Child {
        self.model.child(self.slot)
    }

    /// Returns a step that the model can predict.
    pub fn step(&mut self) -> Step {
        loop {
            if let Some(mut step) = self.try_step() {
                let threads = if self.rush { 1 } else { 20 };
                if self.random.thousandths(threads) && self.may_be_in_thread(&step) {
                    step.flags |= flag::THREAD;
                }
                return step;
            }
        }
    }

    fn may_be_in_thread(&self, step: &Step) -> bool {
        // Privileges are those of a thread; and the C implementation can identify a process by the
        // thread that registered first.
        let may_register = !self.model.is_c;
        step.call != Call::DropPrivileges && (may_register || step.call != Call::Register)
    }

    fn try_step(&mut self) -> Option<Step> {
        let child = self.child();
        let open = child.files.iter().flatten().count();
        let bits = child.bits.len();
        // Less frequent in a rush.
        let slow = |weight: usize| match self.rush {
            true => weight.div_ceil(20),
            false => weight,
        };
        // 0 without groups, so that the same random numbers choose the other steps.
        let of_groups = |weight| if self.groups { weight } else { 0 };
        let by_name = match (child.is_root, open) {
            (true, 0 | 1) => 200,
            (true, _) => slow(30),
            // Fails.
            (false, _) => slow(10),
        };
        let call = self.random.weighted(&[
            (if open < 2 { 200 } else { slow(30) }, Call::Open),
            (slow(if open > 1 { 25 } else { 5 }), Call::Close),
            (slow(10), Call::Duplicate),
            (if bits < BITS { 220 } else { 60 }, Call::Register),
            (if bits < BITS { 120 } else { 220 }, Call::Unregister),
            (slow(35), Call::Delete),
            (400, Call::Write),
            (25, Call::Unsupported),
            (slow(12), Call::Protect),
            (slow(20), Call::Unprotect),
            (slow(8), Call::Unmap),
            (slow(20), Call::MapAgain),
            (slow(15), Call::Discard),
            (slow(16), Call::PageOut),
            (60, Call::Flip),
            (1, Call::DropPrivileges),
            (of_groups(by_name), Call::OpenIn),
            (of_groups(slow(6)), Call::Hold),
            (of_groups(slow(12)), Call::OpenHeld),
            // The C implementation does not support poll.
            (if self.model.is_c { 0 } else { 40 }, Call::Poll),
        ]);
        let mut step = Step::new(call);
        step.file = self.file();
        match call {
            Call::Open => self.open(&mut step),
            Call::OpenIn => {
                self.open(&mut step);
                step.name = self.group();
            }
            Call::Hold => step.name = self.group(),
            Call::OpenHeld => {
                self.only_if(self.child().held.is_some())?;
                self.open(&mut step);
            }
            Call::Duplicate => step.value = self.random.byte_below(FILES as u8),
            Call::Register => self.register(&mut step)?,
            Call::Unregister => self.unregister(&mut step),
            Call::Delete => self.delete(&mut step)?,
            Call::Write => self.write(&mut step)?,
            Call::Unsupported => step.value = self.random.byte_below(unsupported::END),
            Call::Poll => step.value = self.random.byte_below(way::END),
            Call::Flip => self.flip(&mut step)?,
            Call::Close => {}
            Call::PageOut => {
                step.value = self.random.byte_below(2);
                self.only_if(step.value == 0 || self.child().page != Page::Unmapped)?;
            }
            Call::Protect => self.only_if(self.child().page == Page::Writable)?,
            Call::Unprotect => self.only_if(self.child().page == Page::ReadOnly)?,
            Call::Unmap => self.only_if(self.child().page != Page::Unmapped)?,
            Call::MapAgain => self.only_if(self.child().page == Page::Unmapped)?,
            Call::Discard => self.only_if(self.child().page == Page::Writable)?,
            Call::DropPrivileges => self.only_if(self.slot != 0 && self.child().is_root)?,
        }
        Some(step)
    }

    fn open(&mut self, step: &mut Step) {
        step.file = self.random.byte_below(FILES as u8);
        step.value = self.random.weighted(&[
            (20, mode::READ_WRITE),
            (2, mode::READ_ONLY),
            (3, mode::WRITE_ONLY),
        ]);
    }

    /// A group, mostly one that exists.
    fn group(&mut self) -> u8 {
        let groups = self.model.groups.iter();
        let groups: Vec<u8> = groups.map(|group| group.number).collect();
        let any = 1 + self.random.byte_below(GROUPS as u8);
        match self.random.thousandths(150) {
            true => any,
            false => self.random.one(&groups).unwrap_or(any),
        }
    }

    fn only_if(&self, possible: bool) -> Option<()> {
        possible.then_some(())
    }

    /// A file, mostly an open one.
    fn file(&mut self) -> u8 {
        let files = &self.child().files;
        let open: Vec<u8> = (0..FILES as u8)
            .filter(|file| files[usize::from(*file)].is_some())
            .collect();
        let any = self.random.byte_below(FILES as u8);
        match self.random.thousandths(15) {
            true => any,
            false => self.random.one(&open).unwrap_or(any),
        }
    }

    fn defect(&mut self, end: u8) -> u8 {
        match self.random.thousandths(250) {
            true => self.random.byte_below(end),
            false => RIGHT,
        }
    }

    fn ways(&mut self, step: &mut Step) {
        // The random numbers are the same on all architectures.
        if self.random.thousandths(60) && os::HAS_CALLS_OF_32_BITS {
            step.flags |= flag::COMPAT;
        }
    }

    /// Chooses a bit of a 32- or 64-bit word.
    fn bit(&mut self, step: &mut Step) {
        step.place = self.random.byte_below(PLACES as u8);
        step.bit = self.random.byte_below(32);
        if self.random.thousandths(300) {
            step.flags |= flag::WIDE;
            step.place &= !1;
            step.bit = self.random.byte_below(64);
        }
    }

    fn register(&mut self, step: &mut Step) -> Option<()> {
        step.name = self.random.byte_below(NAMES as u8);
        step.fields = self.random.byte_below(FIELDS.len() as u8);
        step.value = self.random.byte_below(2);
        step.defect = self.defect(register::END);
        self.ways(step);
        // C makes events without a name, and accepts two spaces that were one before.
        let odd_in_c = matches!(step.defect, register::NO_NAME | register::TWO_SPACES);
        self.only_if(!(self.model.is_c && odd_in_c))?;
        let is_multi = usize::from(step.name) >= FIRST_MULTI;
        let group = self.model.group_of_file(self.slot, step.file);
        if is_multi {
            step.flags |= flag::MULTI_FORMAT;
        } else if self.random.thousandths(850) {
            // Mostly the fields of the existing event.
            let mut events = self.model.events.iter();
            if let Some(event) = events.find(|event| event.key.is_called(group, step.name)) {
                step.fields = event.key.fields;
            }
        }
        if self.rush && self.random.thousandths(980) {
            // An existing event.
            let keys = self.model.events.iter().map(|event| event.key);
            let keys: Vec<Key> = keys.filter(|key| key.group == group).collect();
            if let Some(key) = self.random.one(&keys) {
                (step.name, step.fields) = (key.name, key.fields);
                step.flags &= !flag::MULTI_FORMAT;
                if key.multi {
                    step.flags |= flag::MULTI_FORMAT;
                }
            }
        }
        if self.random.thousandths(100) {
            step.flags |= flag::PERSIST;
        }
        self.bit(step);
        let known: Vec<(u8, u8)> = self.child().bits.keys().copied().collect();
        if self.random.thousandths(40) {
            // A registered bit.
            (step.place, step.bit) = self.random.one(&known)?;
            step.flags &= !flag::WIDE;
            if step.bit >= 32 {
                step.flags |= flag::WIDE;
            }
        } else if self.child().is_written(step.place, step.bit) {
            // A bit that two processes write is rare, as it can no longer be checked.
            return self.random.thousandths(20).then_some(());
        }
        Some(())
    }

    fn unregister(&mut self, step: &mut Step) {
        step.defect = self.defect(unregister::END);
        self.ways(step);
        self.bit(step);
        step.flags &= !flag::WIDE;
        let known: Vec<(u8, u8)> = self.child().bits.keys().copied().collect();
        if !self.random.thousandths(100) {
            if let Some(at) = self.random.one(&known) {
                (step.place, step.bit) = at;
            }
        }
    }

    fn delete(&mut self, step: &mut Step) -> Option<()> {
        step.name = self.random.byte_below(NAMES as u8);
        step.defect = self.defect(delete::END);
        self.ways(step);
        // The C implementation deletes the formats in front of one that is in use.
        self.only_if(!(self.model.is_c && self.model.is_mixed(step.name)))
    }

    /// The indices of those events.
    fn those(&self, known: &[Key], are_meant: impl Fn(Key) -> bool) -> Vec<u8> {
        let indices = 0..known.len() as u8;
        indices
            .filter(|index| are_meant(known[usize::from(*index)]))
            .collect()
    }

    fn write(&mut self, step: &mut Step) -> Option<()> {
        let known = self.model.indices(self.slot, step.file);
        step.value = self.random.byte_below(known.len() as u8 + 1);
        if self.random.thousandths(900) {
            // Mostly an event with a consumer.
            let heard = self.those(&known, |key| {
                (self.model.find(key)).is_some_and(|event| !event.tracers.is_empty())
            });
            step.value = self.random.one(&heard).unwrap_or(step.value);
        }
        // Large records mostly go to an event that is sampled, as samples of them would be rare
        // otherwise.
        let sampled = self.those(&known, |key| self.model.is_sampled(key, self.slot));
        let to_sampled = !sampled.is_empty() && !self.model.is_c && self.random.thousandths(150);
        if to_sampled {
            step.value = self.random.one(&sampled).unwrap_or(step.value);
        }
        let key = known.get(usize::from(step.value)).copied();
        step.fields = key.map_or(1, |key| key.fields);
        step.bit = self.random.byte_below(255);
        step.defect = self.defect(write::END);
        if (to_sampled || self.random.thousandths(30)) && step.defect == RIGHT {
            step.defect = write::LARGE;
        }
        if self.model.is_c {
            self.only_if(self.is_defined_in_c(step, key))?;
        }
        let location = FIELDS[usize::from(step.fields)].location;
        // The bytes in front of relative data are the fields, so this is no defect.
        if step.defect == write::IN_FRONT && location.is_some_and(|location| location.relative) {
            step.defect = RIGHT;
        }
        Some(())
    }

    /// Returns whether the C implementation takes a record without a warning, and within bounds.
    fn is_defined_in_c(&self, step: &Step, key: Option<Key>) -> bool {
        let event = key.and_then(|key| self.model.find(key));
        let mut tracers = event.iter().flat_map(|event| &event.tracers);
        match step.defect {
            write::EMPTY | write::IN_FRONT | write::LARGE => false,
            write::TOO_MUCH => !tracers.any(|tracer| matches!(tracer, TraceInstance::Perf(_))),
            // Checked only if the record goes to a buffer.
            write::OUTSIDE | write::NO_NUL => {
                tracers.any(|tracer| matches!(tracer, TraceInstance::Top | TraceInstance::Instance))
            }
            _ => true,
        }
    }

    fn flip(&mut self, step: &mut Step) -> Option<()> {
        step.place = self.random.byte_below(PLACES as u8);
        step.bit = self.random.byte_below(32);
        let child = self.child();
        let is_free = !child.is_written(step.place, step.bit);
        self.only_if(child.is_writable(step.place.into()) && is_free)
    }
}
