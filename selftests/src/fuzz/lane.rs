// SPDX-License-Identifier: GPL-2.0

//! A lane: some processes with events of their own, and one that tells them what to do, foretells what
//! comes of it and looks whether it did.

use super::actor::{order, Actor, Pipes, ACTORS, WORDS};
use super::draw::Draw;
use super::model::{Key, Model, Page, Tracer as Listener, Whose, PERFS};
use super::random::Random;
use super::step::*;
use crate::abi::Data;
use crate::errno::{Errno, Result};
use crate::memory::PAGE;
use crate::perf::{Perf, ANY_CPU};
use crate::tracefs::{self, Tracer};
use crate::{dynamic, os, wait};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

/// Steps that a process does in a row, at most.
const BURST: usize = 40;
/// What is told of the past when something is wrong.
const TOLD: usize = 300;

/// A process, as seen by the one that tells it what to do.
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

/// One thing that was done.
enum Told {
    Step(usize, Step, Result<i64>),
    Deed(String),
}

/// The lane.
pub struct Lane {
    number: u32,
    random: Random,
    ours: Model,
    /// On the C implementation.
    c: Option<Model>,
    pipes: Vec<Pipes>,
    processes: [Option<Process>; ACTORS],
    instance: Option<Tracer>,
    perfs: [Option<Perf>; PERFS],
    past: VecDeque<Told>,
    /// Steps and deeds so far.
    pub done: u64,
    /// How many of them ours and C are to answer differently.
    differences: u64,
}

impl Lane {
    /// Starts the first process.
    pub fn new(seed: u64, number: u32, whose: Whose) -> Lane {
        let pipes: Vec<_> = (0..ACTORS).map(|_| Pipes::new()).collect();
        let pid = match os::fork().expect("fork") {
            0 => {
                os::forget_children();
                let run = AssertUnwindSafe(|| Actor::new(number, 0, &pipes).run());
                // Those that it forks come back here, too.
                let _ = panic::catch_unwind(run);
                os::exit_now(1);
            }
            pid => pid,
        };
        let mut processes = [const { None }; ACTORS];
        processes[0] = Some(Process::new(pid));
        Lane {
            number,
            random: Random::new(seed, number),
            ours: Model::new(Whose::Ours),
            c: (whose == Whose::C).then(|| Model::new(Whose::C)),
            pipes,
            processes,
            instance: Some(Tracer::instance(&instance_name(number))),
            perfs: [const { None }; PERFS],
            past: VecDeque::new(),
            done: 0,
            differences: 0,
        }
    }

    /// Goes on for so many steps and deeds; panics when something is not as foretold. Calls `each`
    /// with how many were done, and how many of them differ between ours and C.
    pub fn run(&mut self, operations: u64, mut each: impl FnMut(u64, u64)) {
        while self.done < operations {
            match self.random.thousandths(350) {
                true => self.deed(),
                false => self.burst(),
            }
            each(self.done, self.differences);
        }
        self.list();
        self.look_at_all();
    }

    /// Ends everything, also what went wrong midway.
    pub fn end(&mut self) {
        for process in self.processes.iter_mut().filter_map(Option::take) {
            let _ = os::kill(process.pid, libc::SIGKILL);
            let _ = os::wait_for_end(process.pid, wait::limit());
        }
        self.perfs = [const { None }; PERFS];
        self.instance = None;
        let data = Data::open();
        for name in (0..NAMES as u8).map(|name| name_of(self.number, name)) {
            for directory in [vec![name.clone()], tracefs::formats_of(&name)].concat() {
                let _ = Tracer::top().set(&directory, "enable", "0");
            }
            wait::comes(|| data.delete(&name) != Err(Errno::EBUSY));
        }
    }

    /// What has happened lately.
    pub fn past(&self) -> String {
        let lines = self.past.iter().map(|told| match told {
            Told::Step(slot, step, result) => format!("  {slot}: {step:?} -> {result:?}\n"),
            Told::Deed(deed) => format!("  {deed}\n"),
        });
        lines.collect()
    }

    fn tell(&mut self, told: Told) {
        if self.past.len() == TOLD {
            self.past.pop_front();
        }
        self.past.push_back(told);
    }

    fn tell_deed(&mut self, deed: impl FnOnce() -> String) {
        self.done += 1;
        self.tell(Told::Deed(deed()));
    }

    /// What the kernel that runs is in.
    fn model(&self) -> &Model {
        self.c.as_ref().unwrap_or(&self.ours)
    }

    /// Foretells; counts where ours and C differ.
    fn foretell<T: PartialEq>(&mut self, foretell: impl Fn(&mut Model) -> T) -> T {
        let ours = foretell(&mut self.ours);
        match &mut self.c {
            Some(c) => {
                let theirs = foretell(c);
                self.differences += u64::from(ours != theirs);
                theirs
            }
            None => ours,
        }
    }

    /// Panics unless it is as foretold.
    #[track_caller]
    fn compare<T: PartialEq + Debug>(&self, what: &str, got: T, want: T) {
        assert!(got == want, "{what}: foretold {want:?}, got {got:?}");
    }

    fn slot(&mut self) -> usize {
        let alive: Vec<usize> = (0..ACTORS)
            .filter(|slot| self.processes[*slot].is_some())
            .collect();
        self.random.one(&alive).expect("the first one is")
    }

    /// Has a process do some steps in a row.
    fn burst(&mut self) {
        let slot = self.slot();
        let length = 1 + self.random.below(BURST);
        let mut steps: Vec<(Step, Result<i64>)> = Vec::with_capacity(length);
        let mut bytes = vec![order::STEPS, 0];
        while steps.len() < length {
            let mut draw = Draw {
                random: &mut self.random,
                ours: &self.ours,
                c: self.c.as_ref(),
                slot,
            };
            let mut step = draw.step();
            if matches!(step.call, Call::Register | Call::Delete) && self.is_going(step.name) {
                if !steps.is_empty() {
                    break;
                }
                self.wait_gone(step.name);
            }
            let want = self.foretell(|model| model.step(slot, &step));
            if step.call == Call::Delete && want != Err(Errno::EBUSY) {
                step.flags |= flag::PATIENT;
            }
            bytes.extend(step.bytes());
            steps.push((step, want));
        }
        bytes[1] = steps.len() as u8;
        self.order(slot, &bytes);
        let mut answers = vec![0; 8 * steps.len()];
        self.hear(slot, &mut answers);
        for ((step, want), answer) in steps.iter().zip(answers.chunks(8)) {
            let answer = i64::from_ne_bytes(answer.try_into().expect("8 bytes"));
            let got = match answer {
                ..0 => Err(Errno(-answer as i32)),
                _ => Ok(answer),
            };
            self.done += 1;
            self.tell(Told::Step(slot, *step, got));
            if got != *want {
                panic!("process {slot}, {step:?}: foretold {want:?}, got {got:?}");
            }
        }
        self.look(slot);
    }

    fn order(&self, slot: usize, bytes: &[u8]) {
        let mut to = &self.pipes[slot].orders.1;
        to.write_all(bytes).expect("order");
    }

    /// Reads what a process answers.
    fn hear(&self, slot: usize, bytes: &mut [u8]) {
        let mut from = &self.pipes[slot].answers.0;
        let pid = self.processes[slot].as_ref().expect("a process").pid;
        while !os::is_readable(from, Duration::from_secs(1)) {
            let ended = os::wait_for_end(pid, Duration::ZERO);
            assert!(ended == Ok(false), "process {slot} has died: {ended:?}");
        }
        from.read_exact(bytes).expect("an answer");
    }

    /// Does the memory of a process hold what it must? What has to be faulted in may take a while.
    #[track_caller]
    fn look(&mut self, slot: usize) {
        let Some(process) = &self.processes[slot] else {
            return;
        };
        let actor = self.model().actor(slot);
        let mut wrong = None;
        let right = wait::comes(|| {
            let mut bytes = vec![0; PLACES * 4];
            let (first, second) = bytes.split_at_mut(PLACES * 2);
            let read = process.memory.read_exact_at(first, WORDS);
            read.expect("the memory of a process");
            if actor.page != Page::Unmapped {
                let read = process.memory.read_exact_at(second, WORDS + PAGE as u64);
                read.expect("the memory of a process");
            }
            wrong = bytes.chunks(4).enumerate().find_map(|(place, word)| {
                let is = u32::from_ne_bytes(word.try_into().expect("4 bytes"));
                let mapped = place < PLACES / 2 || actor.page != Page::Unmapped;
                let differs = (is ^ actor.words[place]) & !actor.unknown[place];
                (mapped && differs != 0).then_some((place, is, actor.words[place], differs))
            });
            wrong.is_none()
        });
        if !right {
            let (place, is, want, differs) = wrong.expect("a wrong word");
            panic!("process {slot}: word {place} is {is:#x}, not {want:#x}: bits {differs:#x}");
        }
    }

    fn look_at_all(&mut self) {
        for slot in 0..ACTORS {
            self.look(slot);
        }
    }

    fn is_going(&self, name: u8) -> bool {
        self.ours.is_going(name) || self.c.as_ref().is_some_and(|c| c.is_going(name))
    }

    /// Waits until the events of a name that nobody uses are gone.
    fn wait_gone(&mut self, name: u8) {
        let text = name_of(self.number, name);
        let events = self.model().events.iter();
        let alive = events.filter(|event| event.key.name == name).count();
        let count = || match usize::from(name) < FIRST_MULTI {
            true => usize::from(tracefs::event_exists(&text)),
            false => tracefs::formats_of(&text).len(),
        };
        wait::until(&format!("{text} to have {alive} events"), || {
            count() == alive
        });
        for model in [Some(&mut self.ours), self.c.as_mut()]
            .into_iter()
            .flatten()
        {
            model.going.retain(|key| key.name != name);
        }
    }

    fn wait_all_gone(&mut self) {
        for name in 0..NAMES as u8 {
            if self.is_going(name) {
                self.wait_gone(name);
            }
        }
    }

    /// Does something else than a process does: makes, ends and changes them, and listens.
    fn deed(&mut self) {
        let deed: fn(&mut Lane) = self.random.weighted(&[
            (60, Lane::switch as fn(&mut Lane)),
            (12, Lane::histogram),
            (12, Lane::filter),
            (16, Lane::perf),
            (10, Lane::dynamic),
            (6, Lane::list),
            (6, Lane::count),
            (14, Lane::fork),
            (2, Lane::exec),
            (10, Lane::end_one),
            (2, Lane::instance),
        ]);
        deed(self);
        self.look_at_all();
    }

    /// An event that exists, for ours and for C.
    fn event(&mut self) -> Option<Key> {
        let mut keys: Vec<Key> = self.ours.events.iter().map(|event| event.key).collect();
        if let Some(c) = &self.c {
            keys.retain(|key| c.position(*key).is_some());
        }
        let key = self.random.one(&keys)?;
        if self.is_going(key.name) {
            self.wait_gone(key.name);
        }
        Some(key)
    }

    /// The directory of an event.
    fn directory(&self, key: Key) -> String {
        let name = name_of(self.number, key.name);
        if !key.multi {
            return name;
        }
        let events = self.model().events.iter();
        let formats: Vec<Key> = events
            .map(|event| event.key)
            .filter(|one| one.name == key.name)
            .collect();
        let at = formats.iter().position(|one| *one == key);
        tracefs::formats_of(&name)[at.expect("an event that exists")].clone()
    }

    /// Writes a file of an event that attaches or detaches a listener.
    fn attach(&mut self, key: Key, listener: Listener, file: &str, value: &str, on: bool) {
        let directory = self.directory(key);
        let want = self.foretell(|model| model.attach(key, listener, on));
        let top = Tracer::top();
        let tracer = match listener {
            Listener::Top => &top,
            _ => self.instance.as_ref().expect("an instance"),
        };
        // To truncate a file of triggers ends them all, and then the event may be gone.
        let path = tracer.file(&directory, file);
        let open = fs::OpenOptions::new().write(true).open(path);
        let got = open.and_then(|mut file| file.write_all(value.as_bytes()));
        let got = got.map_err(Errno::from);
        self.tell_deed(|| format!("{directory}/{file} of {listener:?}: {value} -> {got:?}"));
        self.compare(file, got, want);
    }

    fn switch(&mut self) {
        let Some(key) = self.event() else { return };
        let on = self.random.thousandths(500);
        let listener = match self.random.thousandths(500) && self.instance.is_some() {
            true => Listener::Instance,
            false => Listener::Top,
        };
        self.attach(key, listener, "enable", if on { "1" } else { "0" }, on);
    }

    fn histogram(&mut self) {
        let Some(key) = self.event() else { return };
        if self.instance.is_none() {
            return;
        }
        let at = self.ours.position(key).expect("it was just found");
        let is_on = self.ours.events[at].tracers.contains(&Listener::Histogram);
        let value = match is_on {
            true => "!hist:keys=common_pid",
            false => "hist:keys=common_pid",
        };
        self.attach(key, Listener::Histogram, "trigger", value, !is_on);
    }

    fn filter(&mut self) {
        let Some(key) = self.event() else { return };
        let Some(instance) = &self.instance else {
            return;
        };
        let on = self.random.thousandths(600);
        let directory = self.directory(key);
        let value = if on { "common_pid == 0" } else { "0" };
        let got = instance.set(&directory, "filter", value);
        let want = self.foretell(|model| {
            let at = model.position(key).ok_or(Errno::ENOENT)?;
            model.events[at].filtered = on;
            Ok(())
        });
        self.tell_deed(|| format!("{directory}/filter: {value} -> {got:?}"));
        self.compare("filter", got, want);
    }

    fn perf(&mut self) {
        let perf = self.random.below(PERFS);
        if let Some(open) = self.perfs[perf].take() {
            let got = open.count();
            drop(open);
            let want = self.foretell(|model| model.close_perf(perf));
            self.tell_deed(|| format!("close perf {perf}: {got}"));
            self.compare("records that perf counted", Some(got), want);
            return;
        }
        let Some(key) = self.event() else { return };
        let slot = self.slot();
        let id = tracefs::event_id(&self.directory(key));
        let pid = self.processes[slot].as_ref().expect("a process").pid;
        self.perfs[perf] = Some(Perf::open(id, pid, ANY_CPU).expect("perf_event_open"));
        let want = self.foretell(|model| model.open_perf(perf, key, slot));
        self.tell_deed(|| format!("perf {perf} of {key:?} in process {slot}"));
        self.compare("perf", Ok(()), want);
    }

    /// A line of `dynamic_events`.
    fn dynamic(&mut self) {
        let name = self.random.byte_below(FIRST_MULTI as u8);
        let fields = self.random.byte_below(FIELDS.len() as u8);
        if self.is_going(name) {
            self.wait_gone(name);
        }
        let key = Key {
            name,
            multi: false,
            fields,
        };
        let text = description(&name_of(self.number, name), fields, false);
        let (line, want) = match self.random.below(4) {
            0 => (format!("u:{text}"), self.foretell(|model| model.make(key))),
            1 => (
                format!("u:{} u32 a; long x", name_of(self.number, name)),
                self.foretell(|model| model.make_nonsense(name)),
            ),
            2 => (
                format!("-:{text}"),
                self.foretell(|model| model.unmake(name, fields)),
            ),
            _ => (
                format!("-:{}", name_of(self.number, name)),
                self.foretell(|model| model.unmake(name, 0)),
            ),
        };
        let mut got = dynamic::run(&line);
        if want != Err(Errno::EBUSY) {
            wait::comes(|| {
                if got == Err(Errno::EBUSY) {
                    got = dynamic::run(&line);
                }
                got != Err(Errno::EBUSY)
            });
        }
        self.tell_deed(|| format!("dynamic_events: {line} -> {got:?}"));
        self.compare("dynamic_events", got, want);
    }

    /// Compares the listings.
    fn list(&mut self) {
        self.wait_all_gone();
        let start = name_of(self.number, 0);
        let start = &start[..start.len() - 1];
        let is_ours = |line: &&str| line.starts_with(start);

        let without_id = |line: &str| match line.split_once('.') {
            Some((name, rest)) => {
                let used = rest.split_once(' ').map_or("", |(_, used)| used);
                format!("{name}. {used}").trim_end().to_string()
            }
            None => line.to_string(),
        };
        let read = || {
            let text = fs::read_to_string(crate::abi::STATUS).expect("read the status file");
            let mut status: Vec<String> = text.lines().filter(is_ours).map(without_id).collect();
            let lines = dynamic::user_lines();
            let lines = lines.iter().map(|line| &line[2..]);
            let mut lines: Vec<String> = lines.filter(is_ours).map(String::from).collect();
            if self.c.is_some() {
                // In no order there.
                status.sort();
                lines.sort();
            }
            (status, lines)
        };

        let events = &self.model().events;
        let mut want: Vec<String> = events
            .iter()
            .map(|event| {
                let name = name_of(self.number, event.key.name);
                let dot = if event.key.multi { "." } else { "" };
                let perf = |listener: &Listener| matches!(listener, Listener::Perf(_));
                let by_perf = event.tracers.iter().any(perf);
                let by_ftrace = event.tracers.iter().any(|listener| !perf(listener));
                let used = match (by_ftrace, by_perf) {
                    (false, false) => "",
                    (true, false) => " # Used by ftrace",
                    (false, true) => " # Used by perf",
                    (true, true) => " # Used by ftrace perf",
                };
                format!("{name}{dot}{used}")
            })
            .collect();
        let mut want_lines: Vec<String> = events
            .iter()
            .map(|event| {
                description(
                    &name_of(self.number, event.key.name),
                    event.key.fields,
                    false,
                )
            })
            .collect();
        if self.c.is_some() {
            want.sort();
            want_lines.sort();
        }
        let want = (want, want_lines);
        // A reader of several pages can miss an event while others, of another lane, go.
        let mut got = read();
        for _ in 0..100 {
            if got != want {
                got = read();
            }
        }
        self.compare("user_events_status", got.0, want.0);
        self.compare("dynamic_events", got.1, want.1);
        self.tell_deed(|| "the listings".into());
    }

    /// Compares how many records the instance took.
    fn count(&mut self) {
        let Some(instance) = &self.instance else {
            return;
        };
        let mut got = 0;
        for cpu in fs::read_dir(instance.path("per_cpu")).expect("per_cpu") {
            let path = cpu.expect("a CPU").path().join("stats");
            let text = fs::read_to_string(path).expect("stats");
            for line in text.lines() {
                if let Some(("entries" | "overrun", count)) = line.split_once(": ") {
                    got += count.parse::<u64>().expect("a count");
                }
            }
        }
        instance.control("trace", "");
        let want = self.foretell(|model| std::mem::take(&mut model.recorded));
        self.tell_deed(|| format!("{got} records in the instance"));
        if self.model().may_be_emptied {
            assert!(got <= want, "{got} records in the instance, of {want}");
        } else {
            self.compare("records in the instance", got, want);
        }
    }

    fn fork(&mut self) {
        let Some(child) = (0..ACTORS).find(|slot| self.processes[*slot].is_none()) else {
            return;
        };
        let slot = self.slot();
        self.order(slot, &[order::FORK, child as u8]);
        let mut pid = [0; 8];
        self.hear(slot, &mut pid);
        let pid = i64::from_ne_bytes(pid);
        assert!(pid > 0, "fork: {:?}", Errno(-pid as i32));
        self.processes[child] = Some(Process::new(pid as i32));
        self.foretell(|model| model.fork(slot, child));
        self.tell_deed(|| format!("{slot} forks {child}"));
    }

    fn exec(&mut self) {
        let slot = self.slot();
        if !self.ours.actor(slot).is_root {
            // It might not be allowed to read the program.
            return;
        }
        self.order(slot, &[order::EXEC, 0]);
        self.hear(slot, &mut [0; 8]);
        let process = self.processes[slot].as_mut().expect("a process");
        process.memory = Process::memory(process.pid);
        self.foretell(|model| model.exec(slot));
        self.tell_deed(|| format!("{slot} executes a program"));
    }

    fn end_one(&mut self) {
        let slot = self.slot();
        if slot == 0 {
            return;
        }
        let process = self.processes[slot].take().expect("a process");
        let killed = self.random.thousandths(400);
        match killed {
            true => os::kill(process.pid, libc::SIGKILL).expect("kill"),
            false => self.order(slot, &[order::EXIT, 0]),
        }
        match os::wait_for_end(process.pid, wait::limit()) {
            Ok(true) | Err(Errno::ESRCH) => {}
            other => panic!("process {slot} does not end: {other:?}"),
        }
        self.foretell(|model| model.exit(slot));
        self.tell_deed(|| format!("{slot} ends, killed: {killed}"));
    }

    fn instance(&mut self) {
        match self.instance.take() {
            Some(instance) => {
                drop(instance);
                self.foretell(|model| model.remove_instance());
                self.tell_deed(|| "the instance goes".into());
            }
            None => {
                self.instance = Some(Tracer::instance(&instance_name(self.number)));
                self.foretell(|model| model.has_instance = true);
                self.tell_deed(|| "the instance comes".into());
            }
        }
    }
}

fn instance_name(lane: u32) -> String {
    format!("{}fuzz{lane}", tracefs::PREFIX)
}
