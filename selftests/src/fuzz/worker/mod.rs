// SPDX-License-Identifier: GPL-2.0

//! A worker: some processes with events of their own, and a director that gives them orders,
//! predicts the results and compares them.

mod groups;
mod listings;
mod ops;
mod records;

use super::child::{address, line, order, Child, CHILDREN};
use super::gen::Gen;
use super::model::{Model, Page, PERFS};
use super::polls;
use super::step::*;
use super::Options;
use crate::kit::abi::Data;
use crate::kit::errno::{Errno, Result};
use crate::kit::perf::Perf;
use crate::kit::random::Random;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{os, ring, wait};
use listings::HeldListings;
pub use records::Emptied;
use std::collections::{BTreeMap, VecDeque};
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
        let memory = File::open(format!("/proc/{pid}/mem")).expect("open a process's memory");
        Process { pid, memory }
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
    pub number: u32,
    random: Random,
    model: Model,
    /// The lines to the processes of all slots; and their other ends, so that none is closed.
    lines: Vec<File>,
    _ends: Vec<File>,
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
    /// Mostly quick steps, in long rows.
    rush: bool,
    /// Include groups, which the C implementation lacks.
    groups: bool,
    listings: Vec<HeldListings>,
}

impl Worker {
    /// Starts the first process.
    pub fn new(options: &Options, number: u32, emptied: Rc<Emptied>) -> Worker {
        let (lines, ends): (Vec<_>, Vec<_>) = (0..CHILDREN).map(|_| line()).unzip();
        let pid = match os::fork().expect("fork") {
            0 => {
                os::forget_children();
                let run = AssertUnwindSafe(|| Child::new(number, 0, &ends).run());
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
            random: Random::new(options.seed ^ (u64::from(number) << 48)),
            model: Model::new(options.against_c, pid),
            lines,
            _ends: ends,
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
            rush: options.rush,
            groups: !options.against_c,
            listings: Vec::new(),
        }
    }

    /// Runs until `operations` steps and ops are done; panics if a result is not as predicted.
    /// Tells the number of those so far.
    pub fn run(&mut self, operations: u64, tell: impl Fn(u64)) {
        while self.done < operations {
            match self.random.thousandths(if self.rush { 80 } else { 350 }) {
                true => self.op(),
                false => self.burst(),
            }
            if self.model.recorded.len() > records::MAX_KEPT {
                self.records();
            }
            tell(self.done);
        }
        self.records();
        for perf in 0..PERFS {
            self.close_perf(perf);
        }
        self.list();
        self.look_at_all();
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

    /// Panics unless the result is as predicted.
    #[track_caller]
    fn compare<T: PartialEq + Debug>(&self, what: &str, got: T, want: T) {
        assert!(got == want, "{what}: predicted {want:?}, got {got:?}");
    }

    /// The slots with a process.
    fn slots(&self) -> Vec<usize> {
        let is_alive = |slot: &usize| self.processes[*slot].is_some();
        (0..CHILDREN).filter(is_alive).collect()
    }

    fn slot(&mut self) -> usize {
        let slots = self.slots();
        self.random.one(&slots).expect("the first one is")
    }

    fn process(&self, slot: usize) -> &Process {
        self.processes[slot].as_ref().expect("a process")
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
                model: &self.model,
                slot,
                rush: self.rush,
                groups: self.groups,
            };
            let mut step = gen.step();
            if matches!(step.call, Call::Register | Call::Delete) {
                let group = self.model.group_of_file(slot, step.file);
                if !steps.is_empty() && !self.model.unsettled(group, step.name).is_empty() {
                    break;
                }
                self.settle(group, step.name);
            }
            if step.call == Call::Write {
                self.writes += 1;
                step.serial = self.writes;
            }
            let want = self.model.step(slot, &step);
            let is_patient = match step.call {
                Call::Delete => want != Err(Errno::EBUSY),
                Call::Poll => want.is_ok_and(polls::tells_of_a_change),
                _ => false,
            };
            step.flags |= if is_patient { flag::PATIENT } else { 0 };
            steps.push((step, want));
        }
        let recorded = self.model.recorded.len();
        self.over_before.resize(recorded, over);
        self.take(slot, &steps);
    }

    /// Makes a process do these steps, and compares the results.
    fn take(&mut self, slot: usize, steps: &[(Step, Result<i64>)]) {
        let over = self.emptied.over();
        let answers = self.results(slot, steps.iter().map(|(step, _)| step));
        // C checks a record only when storing it, and stores none while buffers are being emptied.
        let may_be_unseen = self.model.is_c && self.emptied.begun() > over;
        for ((step, want), answer) in steps.iter().zip(answers) {
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

    /// Makes a process do these steps. Returns their results, errnos as negative numbers.
    fn results<'a>(&self, slot: usize, steps: impl Iterator<Item = &'a Step>) -> Vec<i64> {
        let bytes: Vec<u8> = steps.flat_map(Step::bytes).collect();
        let count = bytes.len() / Step::SIZE;
        let byte = u8::try_from(count).expect("as many steps as fit into an order");
        self.ask(slot, &[&[order::STEPS, byte], &bytes[..]].concat(), count)
    }

    fn order(&self, slot: usize, bytes: &[u8]) {
        let mut to = &self.lines[slot];
        to.write_all(bytes).expect("order");
    }

    /// Gives an order to a process, and reads its answers.
    fn ask(&self, slot: usize, order: &[u8], answers: usize) -> Vec<i64> {
        self.order(slot, order);
        let mut from = &self.lines[slot];
        while !os::is_readable(from, Duration::from_secs(1)) {
            let ended = os::wait_for_end(self.process(slot).pid, Duration::ZERO);
            assert!(ended == Ok(false), "process {slot} has died: {ended:?}");
        }
        let mut bytes = vec![[0; 8]; answers];
        let read = from.read_exact(bytes.as_flattened_mut());
        read.expect("an answer");
        bytes.into_iter().map(i64::from_ne_bytes).collect()
    }

    /// Checks the memory of a process, for a while, as pages may have to be faulted in.
    #[track_caller]
    fn look(&self, slot: usize) {
        let child = self.model.child(slot);
        let mapped = match child.page {
            Page::Unmapped => PLACES / 2,
            _ => PLACES,
        };
        let mut wrong = String::new();
        wait::eventually(|| {
            let mut words = [[0; 4]; PLACES];
            for place in (0..mapped).step_by(PLACES / 2) {
                let page = words[place..][..PLACES / 2].as_flattened_mut();
                let memory = &self.process(slot).memory;
                let read = memory.read_exact_at(page, address(place as u8));
                read.expect("the memory of a process");
            }
            wrong.clear();
            for (place, word) in words.into_iter().enumerate().take(mapped) {
                let (is, want) = (u32::from_ne_bytes(word), child.words[place]);
                let differs = (is ^ want) & !child.unknown[place];
                if differs != 0 {
                    wrong +=
                        &format!(" word {place} is {is:#x}, not {want:#x}: bits {differs:#x};");
                }
            }
            wrong.is_empty()
        });
        assert!(wrong.is_empty(), "process {slot}:{wrong}");
    }

    fn look_at_all(&self) {
        self.slots().into_iter().for_each(|slot| self.look(slot));
    }

    /// Waits until no removal is pending that matters to a step with this name.
    fn settle(&mut self, group: u8, name: u8) {
        for name in self.model.unsettled(group, name) {
            self.wait_gone(group, name);
        }
    }

    /// Waits until the unused events of a name are gone.
    fn wait_gone(&mut self, group: u8, name: u8) {
        let text = name_of(self.number, name);
        let system = system_of(self.number, group);
        let events = self.model.events.iter();
        let alive = events.filter(|event| event.key.is_called(group, name));
        let alive = alive.count();
        let count = || match usize::from(name) < FIRST_MULTI {
            true => usize::from(tracefs::event_exists(&format!("{system}/{text}"))),
            false => tracefs::formats_in(&format!("{system}_multi"), &text).len(),
        };
        wait::until(&format!("{text} to have {alive} events"), || {
            count() == alive
        });
        self.model.going.retain(|key| !key.is_called(group, name));
    }

    fn wait_all_gone(&mut self) {
        for group in 0..=GROUPS as u8 {
            for name in 0..NAMES as u8 {
                self.settle(group, name);
            }
        }
    }
}

/// Makes a worker's instance. Its clock counts records, so that their order is known across CPUs.
fn new_instance(worker: u32) -> TraceInstance {
    let instance = TraceInstance::instance(&format!("{}fuzz{worker}", tracefs::PREFIX));
    instance.control("trace_clock", "counter");
    instance
}
