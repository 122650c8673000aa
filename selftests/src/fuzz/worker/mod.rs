// SPDX-License-Identifier: GPL-2.0

//! A worker: some processes with events of their own, and a director that gives them orders,
//! predicts the results and compares them.

mod groups;
mod listings;
mod ops;
mod records;

use super::child::{order, Child, Pipes, CHILDREN, WORDS};
use super::gen::Gen;
use super::model::{Implementation, Model, Page, PERFS};
use super::polls;
use super::step::*;
use crate::kit::abi::Data;
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::PAGE;
use crate::kit::perf::Perf;
use crate::kit::random::Random;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{os, ring, wait};
use listings::HeldListings;
pub use records::Emptied;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::time::Duration;

/// The maximum of steps that a process does in a row, usually and in a rush.
const BURST: usize = 40;
const RUSH: usize = 255;
/// The number of past operations to print after a failure.
const TOLD: usize = 300;

/// A process, as seen by the director.
struct Process {
    pid: i32,
    memory: File,
}

impl Process {
    fn new(pid: i32) -> Process {
        Process {
            pid,
            memory: Process::memory(pid),
        }
    }

    fn memory(pid: i32) -> File {
        File::open(format!("/proc/{pid}/mem")).expect("open a process's memory")
    }
}

/// An open perf event, and the records taken so far.
struct Sampler {
    perf: Perf,
    records: Vec<ring::Record>,
}

/// A past operation.
enum Told {
    Step(usize, Step, Result<i64>),
    Op(String),
}

pub struct Worker {
    number: u32,
    random: Random,
    ours: Model,
    /// Present if the C implementation runs.
    c: Option<Model>,
    pipes: Vec<Pipes>,
    processes: [Option<Process>; CHILDREN],
    instance: Option<TraceInstance>,
    perfs: [Option<Sampler>; PERFS],
    /// The ids of events that had a listener, by serial.
    ids: BTreeMap<u32, u64>,
    emptied: Rc<Emptied>,
    /// For each expected record of the instance: how often buffers had been emptied before its
    /// burst.
    over_before: Vec<u64>,
    /// The number of compared records of the instance and of perf, and of those that could be
    /// missing.
    pub compared: u64,
    pub unsure: u64,
    writes: u32,
    past: VecDeque<Told>,
    /// The number of steps and ops.
    pub done: u64,
    /// The number of those for which this implementation and C differ.
    pub differences: u64,
    /// Mostly quick steps, in long rows.
    pub rush: bool,
    /// Include groups, which the C implementation lacks.
    pub groups: bool,
    listings: Vec<HeldListings>,
}

impl Worker {
    /// Starts the first process.
    pub fn new(
        seed: u64,
        number: u32,
        implementation: Implementation,
        emptied: Rc<Emptied>,
    ) -> Worker {
        let pipes: Vec<_> = (0..CHILDREN).map(|_| Pipes::new()).collect();
        let pid = match os::fork().expect("fork") {
            0 => {
                os::forget_children();
                let run = AssertUnwindSafe(|| Child::new(number, 0, &pipes).run());
                // Forked children return here, too.
                let _ = panic::catch_unwind(run);
                os::exit_now(1);
            }
            pid => pid,
        };
        let mut processes = [const { None }; CHILDREN];
        processes[0] = Some(Process::new(pid));
        Worker {
            number,
            random: Random::new(seed ^ (u64::from(number) << 48)),
            ours: Model::new(Implementation::Ours, pid),
            c: (implementation == Implementation::C).then(|| Model::new(Implementation::C, pid)),
            pipes,
            processes,
            instance: Some(new_instance(number)),
            perfs: [const { None }; PERFS],
            ids: BTreeMap::new(),
            emptied,
            over_before: Vec::new(),
            compared: 0,
            unsure: 0,
            writes: 0,
            past: VecDeque::new(),
            done: 0,
            differences: 0,
            rush: false,
            groups: false,
            listings: Vec::new(),
        }
    }

    /// Runs until `operations` steps and ops are done; panics if a result is not as predicted.
    /// Calls `each` after some of them.
    pub fn run(&mut self, operations: u64, mut each: impl FnMut(&Worker)) {
        while self.done < operations {
            match self.random.thousandths(if self.rush { 80 } else { 350 }) {
                true => self.op(),
                false => self.burst(),
            }
            if self.model().recorded.len() > records::MAX_KEPT {
                self.records();
            }
            each(self);
        }
        self.records();
        for perf in 0..PERFS {
            self.close_perf(perf);
        }
        self.list();
        self.look_at_all();
        each(self);
    }

    /// Ends everything, even after a failure.
    pub fn end(&mut self) {
        for process in self.processes.iter_mut().filter_map(Option::take) {
            let _ = os::kill(process.pid, libc::SIGKILL);
            let _ = os::wait_for_end(process.pid, wait::limit());
        }
        self.perfs = [const { None }; PERFS];
        self.instance = None;
        self.listings.clear();
        if self.groups {
            self.end_groups();
        }
        let data = Data::open();
        for name in (0..NAMES as u8).map(|name| name_of(self.number, name)) {
            for directory in [vec![name.clone()], tracefs::formats_of(&name)].concat() {
                let _ = TraceInstance::top().set(&directory, "enable", "0");
            }
            wait::eventually(|| data.delete(&name) != Err(Errno::EBUSY));
        }
    }

    /// The last operations.
    pub fn past(&self) -> String {
        let lines = self.past.iter().map(|told| match told {
            Told::Step(slot, step, result) => format!("  {slot}: {step:?} -> {result:?}\n"),
            Told::Op(op) => format!("  {op}\n"),
        });
        lines.collect()
    }

    fn tell(&mut self, told: Told) {
        if self.past.len() == TOLD {
            self.past.pop_front();
        }
        self.past.push_back(told);
    }

    fn tell_op(&mut self, op: impl FnOnce() -> String) {
        self.done += 1;
        self.tell(Told::Op(op()));
    }

    /// The model of the running implementation.
    fn model(&self) -> &Model {
        self.c.as_ref().unwrap_or(&self.ours)
    }

    fn models(&mut self) -> impl Iterator<Item = &mut Model> {
        [Some(&mut self.ours), self.c.as_mut()]
            .into_iter()
            .flatten()
    }

    /// Predicts a result, and counts differences between this implementation and C.
    fn predict<T: PartialEq>(&mut self, predict: impl Fn(&mut Model) -> T) -> T {
        let ours = predict(&mut self.ours);
        match &mut self.c {
            Some(c) => {
                let theirs = predict(c);
                self.differences += u64::from(ours != theirs);
                theirs
            }
            None => ours,
        }
    }

    /// Panics unless the result is as predicted.
    #[track_caller]
    fn compare<T: PartialEq + Debug>(&self, what: &str, got: T, want: T) {
        assert!(got == want, "{what}: predicted {want:?}, got {got:?}");
    }

    fn slot(&mut self) -> usize {
        let alive: Vec<usize> = (0..CHILDREN)
            .filter(|slot| self.processes[*slot].is_some())
            .collect();
        self.random.one(&alive).expect("the first one is")
    }

    /// Makes a process do some steps in a row.
    fn burst(&mut self) {
        let slot = self.slot();
        let over = self.emptied.over();
        let length = 1 + self.random.below(if self.rush { RUSH } else { BURST });
        let mut steps: Vec<(Step, Result<i64>)> = Vec::with_capacity(length);
        while steps.len() < length {
            let mut gen = Gen {
                random: &mut self.random,
                ours: &self.ours,
                c: self.c.as_ref(),
                slot,
                rush: self.rush,
                groups: self.groups,
            };
            let mut step = gen.step();
            if matches!(step.call, Call::Register | Call::Delete) {
                let group = self.ours.group_of_file(slot, step.file);
                if !steps.is_empty() && !self.unsettled(group, step.name).is_empty() {
                    break;
                }
                self.settle(group, step.name);
            }
            if step.call == Call::Write {
                self.writes += 1;
                step.serial = self.writes;
            }
            let want = self.predict(|model| model.step(slot, &step));
            if step.call == Call::Delete && want != Err(Errno::EBUSY) {
                step.flags |= flag::PATIENT;
            }
            if step.call == Call::Poll && want.is_ok_and(polls::tells_of_a_change) {
                step.flags |= flag::PATIENT;
            }
            steps.push((step, want));
        }
        let recorded = self.model().recorded.len();
        self.over_before.resize(recorded, over);
        self.take(slot, &steps);
    }

    /// Makes a process do these steps, and compares the results.
    fn take(&mut self, slot: usize, steps: &[(Step, Result<i64>)]) {
        let count = u8::try_from(steps.len()).expect("no more steps than can be told");
        let mut bytes = vec![order::STEPS, count];
        bytes.extend(steps.iter().flat_map(|(step, _)| step.bytes()));
        let over = self.emptied.over();
        self.order(slot, &bytes);
        let mut answers = vec![0; 8 * steps.len()];
        self.hear(slot, &mut answers);
        // C checks a record only when storing it, and stores none while buffers are being emptied.
        let may_be_unseen = self.c.is_some() && self.emptied.begun() > over;
        for ((step, want), answer) in steps.iter().zip(answers.chunks(8)) {
            let answer = i64::from_ne_bytes(answer.try_into().expect("8 bytes"));
            let got = match answer {
                ..0 => Err(Errno(-answer as i32)),
                _ => Ok(answer),
            };
            self.done += 1;
            self.tell(Told::Step(slot, *step, got));
            let is_predicted = match (got, *want) {
                (Ok(got), Ok(want)) if step.call == Call::Poll => polls::is_predicted(got, want),
                (Ok(_), Err(Errno::EFAULT)) if step.call == Call::Write && may_be_unseen => true,
                (got, want) => got == want,
            };
            if !is_predicted {
                panic!("process {slot}, {step:?}: predicted {want:?}, got {got:?}");
            }
        }
        for sampler in self.perfs.iter_mut().flatten() {
            sampler.records.extend(sampler.perf.take());
        }
        self.look(slot);
    }

    fn order(&self, slot: usize, bytes: &[u8]) {
        let mut to = &self.pipes[slot].orders.1;
        to.write_all(bytes).expect("order");
    }

    /// Reads the answer of a process.
    fn hear(&self, slot: usize, bytes: &mut [u8]) {
        let mut from = &self.pipes[slot].answers.0;
        let pid = self.processes[slot].as_ref().expect("a process").pid;
        while !os::is_readable(from, Duration::from_secs(1)) {
            let ended = os::wait_for_end(pid, Duration::ZERO);
            assert!(ended == Ok(false), "process {slot} has died: {ended:?}");
        }
        from.read_exact(bytes).expect("an answer");
    }

    /// Checks the memory of a process, for a while, as pages may have to be faulted in.
    #[track_caller]
    fn look(&mut self, slot: usize) {
        let Some(process) = &self.processes[slot] else {
            return;
        };
        let child = self.model().child(slot);
        let mut wrong = None;
        let right = wait::eventually(|| {
            let mut bytes = vec![0; PLACES * 4];
            let (first, second) = bytes.split_at_mut(PLACES * 2);
            let read = process.memory.read_exact_at(first, WORDS);
            read.expect("the memory of a process");
            if child.page != Page::Unmapped {
                let read = process.memory.read_exact_at(second, WORDS + PAGE as u64);
                read.expect("the memory of a process");
            }
            wrong = bytes.chunks(4).enumerate().find_map(|(place, word)| {
                let is = u32::from_ne_bytes(word.try_into().expect("4 bytes"));
                let mapped = place < PLACES / 2 || child.page != Page::Unmapped;
                let differs = (is ^ child.words[place]) & !child.unknown[place];
                (mapped && differs != 0).then_some((place, is, child.words[place], differs))
            });
            wrong.is_none()
        });
        if !right {
            let (place, is, want, differs) = wrong.expect("a wrong word");
            panic!("process {slot}: word {place} is {is:#x}, not {want:#x}: bits {differs:#x}");
        }
    }

    fn look_at_all(&mut self) {
        for slot in 0..CHILDREN {
            self.look(slot);
        }
    }

    /// [`Model::unsettled`] of all models.
    fn unsettled(&self, group: u8, name: u8) -> BTreeSet<u8> {
        let models = [Some(&self.ours), self.c.as_ref()].into_iter().flatten();
        let names = models.map(|model| model.unsettled(group, name));
        names.flatten().collect()
    }

    /// Waits until no removal is pending that matters to a step with this name.
    fn settle(&mut self, group: u8, name: u8) {
        for name in self.unsettled(group, name) {
            self.wait_gone(group, name);
        }
    }

    /// Waits until the unused events of a name are gone.
    fn wait_gone(&mut self, group: u8, name: u8) {
        let text = name_of(self.number, name);
        let system = system_of(self.number, group);
        let events = self.model().events.iter();
        let alive = events.filter(|event| event.key.is_called(group, name));
        let alive = alive.count();
        let count = || match usize::from(name) < FIRST_MULTI {
            true => usize::from(tracefs::event_exists(&format!("{system}/{text}"))),
            false => tracefs::formats_in(&format!("{system}_multi"), &text).len(),
        };
        wait::until(&format!("{text} to have {alive} events"), || {
            count() == alive
        });
        for model in self.models() {
            model.going.retain(|key| !key.is_called(group, name));
        }
    }

    fn wait_all_gone(&mut self) {
        for group in 0..=GROUPS as u8 {
            for name in 0..NAMES as u8 {
                self.settle(group, name);
            }
        }
    }
}

fn instance_name(worker: u32) -> String {
    format!("{}fuzz{worker}", tracefs::PREFIX)
}

/// Makes a worker's instance. Its clock counts records, so that their order is known across CPUs.
fn new_instance(worker: u32) -> TraceInstance {
    let instance = TraceInstance::instance(&instance_name(worker));
    instance.control("trace_clock", "counter");
    instance
}
