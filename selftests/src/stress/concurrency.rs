// SPDX-License-Identifier: GPL-2.0

//! Processes and threads that use the same few events concurrently in all ways. No event may go
//! while it is used, and none may stay when unused.

use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST};
use crate::kit::child::{self, Child, Line, Word};
use crate::kit::dynamic;
use crate::kit::errno::{allow, Errno, Result};
use crate::kit::event::{wait_gone, Event};
use crate::kit::machine;
use crate::kit::memory::Mapping;
use crate::kit::perf::{Perf, ALL_PROCESSES};
use crate::kit::random::Random;
use crate::kit::status::Status;
use crate::kit::tracefs::{self, formats_of, TraceInstance, GROUP};
use crate::kit::wait;
use std::fs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Barrier;
use std::thread;

tests!("concurrency":
    a_hundred_thousand_operations_on_a_few_events.limit(600),
    of_many_threads_one_has_the_bit,
    of_many_threads_one_unregisters,
    of_two_descriptions_one_wins,
);

/// The events with the same description in all processes.
const EVENTS: usize = 4;
const PROCESSES: u64 = 4;
const THREADS: u64 = 3;
/// Operations of each thread.
const OPERATIONS: usize = 8000;
/// Operations of each process that toggles, and of each that forks.
const TOGGLES: usize = 1500;
const FORKS: usize = 200;

fn name(event: usize) -> String {
    format!("st_conc_{event}")
}

fn text(event: usize) -> String {
    format!("st_conc_{event} u32 a; u32 b")
}

/// A thread that registers, writes, deletes...
struct Worker<'a> {
    random: Random,
    data: Data,
    page: &'a Mapping,
    /// The offset of its words on the page, one for each event.
    at: usize,
    /// The registered words.
    held: [bool; EVENTS],
    indices: [Option<u32>; EVENTS],
}

impl<'a> Worker<'a> {
    fn new(number: u64, page: &'a Mapping) -> Worker<'a> {
        Worker {
            random: Random::new(number),
            data: Data::open(),
            page,
            at: 64 * (number % THREADS) as usize,
            held: [false; EVENTS],
            indices: [None; EVENTS],
        }
    }

    fn address(&self, word: usize) -> u64 {
        self.page.address() + (self.at + 4 * word) as u64
    }

    /// Returns whether this thread uses the event, so that the event must exist.
    fn uses(&self, event: usize) -> bool {
        self.held[event] || self.indices[event].is_some()
    }

    fn register(&mut self, event: usize, flags: u16) {
        let address = self.address(event);
        let got = self
            .data
            .register_flags(&text(event), address, event as u8, flags);
        let index = got.unwrap_or_else(|errno| panic!("register {event}: {errno:?}"));
        if let Some(before) = self.indices[event] {
            assert_eq!(index, before, "the event's index changed: another event");
        }
        self.held[event] = true;
        self.indices[event] = Some(index);
        self.must_be_there(event);
    }

    fn unregister(&mut self, event: usize) {
        let got = self.data.unregister_bit(self.address(event), event as u8);
        assert_eq!(got, Ok(()), "unregister {event}");
        self.held[event] = false;
        let word = self.page.word(self.at + 4 * event);
        assert_eq!(word.load(Ordering::Relaxed), 0, "set after unregistering");
    }

    fn must_be_there(&self, event: usize) {
        assert!(tracefs::event_exists(&name(event)), "{event} is lost");
    }

    /// Each event that this thread uses is listed, whatever comes and goes beside it.
    fn list(&self) {
        let status = Status::now();
        let names = status.names();
        for event in (0..EVENTS).filter(|event| self.uses(*event)) {
            assert!(
                names.contains(&name(event).as_str()),
                "{event} of {names:?}"
            );
        }
    }

    fn write(&self, event: usize) {
        let Some(index) = self.indices[event] else {
            return;
        };
        let got = self.data.write(index, &[event as u8; 8]);
        if let Some(length) = allow("write", got, &[Errno::EBADF]) {
            assert_eq!(length, 12);
        }
    }

    /// Deletes the event, which must fail if this thread uses it.
    fn delete(&self, event: usize, delete: impl FnOnce(&str) -> Result<()>) {
        let got = delete(&name(event));
        if self.uses(event) {
            assert_eq!(got, Err(Errno::EBUSY), "deleting {event}, which is used");
            self.must_be_there(event);
        } else {
            allow("delete", got, &[Errno::EBUSY, Errno::ENOENT]);
        }
    }

    /// Closes the file. Registrations keep their events, and the indices are gone.
    fn reopen(&mut self) {
        self.data = Data::open();
        self.indices = [None; EVENTS];
        for event in 0..EVENTS {
            if self.held[event] {
                self.must_be_there(event);
            }
        }
    }

    /// Registers a format of a name, which may exist already.
    fn format(&mut self) {
        let fields = ["u32 a", "u64 a", "u8 a; u8 b"][self.random.below(3)];
        let address = self.address(EVENTS);
        let data = Data::open();
        let text = format!("st_conc_0 {fields}");
        let got = data.register_flags(&text, address, 0, MULTI_FORMAT);
        assert_eq!(got, Ok(0), "a format");
        data.unregister_bit(address, 0).unwrap();
    }

    fn step(&mut self) {
        let event = self.random.below(EVENTS);
        match self.random.below(1000) {
            0..500 => self.write(event),
            500..850 if self.held[event] => self.unregister(event),
            500..840 => self.register(event, 0),
            840..850 => self.register(event, PERSIST),
            850..880 => self.reopen(),
            880..920 => self.delete(event, |name| self.data.delete(name)),
            920..923 => self.delete(event, |name| dynamic::run(&format!("-:{name}"))),
            923..933 => dynamic::run(&format!("u:{}", text(event))).expect("u:"),
            933..943 => self.format(),
            943..950 => self.list(),
            _ if self.uses(event) => self.must_be_there(event),
            _ => drop(fs::read_to_string(
                TraceInstance::top().file(&name(event), "format"),
            )),
        }
    }
}

/// Runs a process of threads that do everything.
fn work(line: &mut Line, count: &AtomicU64, process: u64) {
    let page = Mapping::kept(1);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let page = &page;
            scope.spawn(move || {
                let mut worker = Worker::new(process * THREADS + thread, page);
                for _ in 0..machine::rounds(OPERATIONS) {
                    worker.step();
                    count.fetch_add(1, Ordering::Relaxed);
                }
                for event in 0..EVENTS {
                    if worker.held[event] {
                        worker.unregister(event);
                    }
                }
            });
        }
    });
    // Afterwards, a bit must still follow the event.
    let event = Event::new(&text(0));
    line.say(Word::Worked);
    // Until then, the toggling processes may set and clear the bit.
    line.hear(Word::OthersEnded);
    event.wait_set();
    line.say(Word::Set);
    event.wait_clear();
    line.say(Word::Clear);
}

/// Attaches and detaches tracers, also in an instance of its own.
fn toggle(count: &AtomicU64, process: u64) {
    // An event may be gone before its file is opened, or before the write.
    let gone = [Errno::ENOENT, Errno::ENODEV];
    let mut random = Random::new(100 + process);
    let tracers = [
        TraceInstance::top(),
        TraceInstance::instance(&format!("st_conc_toggle{process}")),
    ];
    let switch_all = |value| {
        let switched = fs::write(tracefs::group_dir(GROUP).join("enable"), value);
        allow("all of the group", switched.map_err(Errno::from), &gone);
    };
    for _ in 0..machine::rounds(TOGGLES) {
        let event = name(random.below(EVENTS));
        let tracer = &tracers[random.below(2)];
        let set = |file, value| {
            allow(file, tracer.set(&event, file, value), &gone);
        };
        match random.below(100) {
            0..45 => set("enable", "1"),
            45..85 => set("enable", "0"),
            85..90 => set("filter", "a == 1"),
            90..95 => set("filter", "0"),
            95..98 => switch_all(["0", "1"][random.below(2)]),
            _ => {
                let id = fs::read_to_string(tracer.file(&event, "id"));
                let Some(id) = allow("id", id.map_err(Errno::from), &gone) else {
                    continue;
                };
                let got = Perf::open(id.trim().parse().unwrap(), ALL_PROCESSES, 0);
                allow("perf", got, &[Errno::EINVAL, Errno::ENOENT, Errno::ENODEV]);
            }
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
    // The switch of the system attached its events in the top instance only.
    switch_all("0");
    for event in 0..EVENTS {
        allow(
            "disable",
            tracers[1].set(&name(event), "enable", "0"),
            &gone,
        );
    }
}

/// Forks children that inherit registrations, and end in various ways.
fn fork_often(count: &AtomicU64, process: u64) {
    let page = Mapping::kept(1);
    let data = Data::open();
    let mut random = Random::new(200 + process);
    for _ in 0..machine::rounds(FORKS) {
        let event = random.below(EVENTS);
        let address = page.address() + 4 * event as u64;
        let index = data.register_text(&text(event), address, 0).unwrap();
        let (unregisters, registers) = (random.below(2) == 0, random.below(2) == 0);
        let child = child::fork(|_| {
            assert!(tracefs::event_exists(&name(event)), "{event} is lost");
            allow("write", data.write(index, &[0; 8]), &[Errno::EBADF]);
            if unregisters {
                data.unregister_bit(address, 0).unwrap();
            }
            if registers {
                data.register_text(&text(event), address, 1).unwrap();
            }
            assert!(tracefs::event_exists(&name(event)), "{event} is lost");
            count.fetch_add(5, Ordering::Relaxed);
        });
        if random.below(3) == 0 {
            child.kill_under_way();
            data.unregister_bit(address, 0).unwrap();
        } else {
            data.unregister_bit(address, 0).unwrap();
            child.join();
        }
        assert!(tracefs::event_exists(&name(event)), "{event} is lost");
        count.fetch_add(4, Ordering::Relaxed);
    }
}

fn a_hundred_thousand_operations_on_a_few_events() {
    // Kept attached, as recording of comms is switched, slowly, with the first and the last
    // attached event.
    let base = Event::new("st_conc_base");
    let instance = TraceInstance::instance("st_conc_base");
    instance.enable("st_conc_base");
    let top = TraceInstance::top();

    let counts = Mapping::shared(1);
    let count = counts.long(0);
    let mut workers: Vec<_> = (0..PROCESSES)
        .map(|process| child::fork(|line| work(line, count, process)))
        .collect();
    let mut others = Vec::new();
    for process in 0..2 {
        others.push(child::fork(|_| toggle(count, process)));
        others.push(child::fork(|_| fork_often(count, process)));
    }
    others.into_iter().for_each(Child::join);
    let all = |workers: &mut Vec<Child>, word| {
        workers.iter_mut().for_each(|worker| worker.line.hear(word));
    };
    all(&mut workers, Word::Worked);
    let operations = count.load(Ordering::Relaxed);
    assert!(
        operations >= machine::rounds(100_000) as u64,
        "{operations} operations"
    );

    for worker in &mut workers {
        worker.line.say(Word::OthersEnded);
    }
    top.enable(&name(0));
    all(&mut workers, Word::Set);
    top.disable(&name(0));
    all(&mut workers, Word::Clear);
    workers.into_iter().for_each(Child::join);

    // The remaining events are persistent, and idle.
    for event in 0..EVENTS {
        wait::until("the event to be deletable", || {
            let got = Data::open().delete(&name(event));
            allow("delete", got, &[Errno::EBUSY, Errno::ENOENT]);
            got != Err(Errno::EBUSY)
        });
    }
    wait::eventually(|| Status::now().active == 1);
    let left = [("st_conc_base".to_string(), vec!["ftrace".to_string()])];
    assert_eq!(Status::now().events, left);
    assert_eq!(formats_of("st_conc_0"), [""; 0]);
    assert_eq!(dynamic::user_lines(), ["u:st_conc_base"]);
    assert!(base.bit());
    instance.disable("st_conc_base");
}

fn of_many_threads_one_has_the_bit() {
    let page = Mapping::kept(1);
    let owners = AtomicU32::new(0);
    let won = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            let (page, owners, won) = (&page, &owners, &won);
            scope.spawn(move || {
                let data = Data::open();
                while won.load(Ordering::Relaxed) < 2000 {
                    let got = data.register_text("st_conc_one u32 a", page.address(), 0);
                    if allow("register", got, &[Errno::EADDRINUSE]).is_none() {
                        continue;
                    }
                    let before = owners.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(before, 0, "two registrations of one bit");
                    won.fetch_add(1, Ordering::Relaxed);
                    owners.fetch_sub(1, Ordering::Relaxed);
                    let got = data.unregister_bit(page.address(), 0);
                    assert_eq!(got, Ok(()), "the owner unregisters");
                }
            });
        }
    });
    let got = Data::open().unregister_bit(page.address(), 0);
    assert_eq!(got, Err(Errno::ENOENT));
}

fn of_many_threads_one_unregisters() {
    const ROUNDS: u32 = 300;
    let page = Mapping::kept(1);
    let barrier = Barrier::new(4);
    let [registered, unregistered] = [AtomicU32::new(0), AtomicU32::new(0)];
    thread::scope(|scope| {
        for _ in 0..4 {
            let (page, barrier) = (&page, &barrier);
            let (registered, unregistered) = (&registered, &unregistered);
            scope.spawn(move || {
                let data = Data::open();
                for round in 1..=ROUNDS {
                    let got = data.register_text("st_conc_one u32 a", page.address(), 0);
                    if allow("register", got, &[Errno::EADDRINUSE]).is_some() {
                        registered.fetch_add(1, Ordering::Relaxed);
                    }
                    barrier.wait();
                    assert_eq!(registered.load(Ordering::Relaxed), round, "registered");
                    let got = data.unregister_bit(page.address(), 0);
                    if allow("unregister", got, &[Errno::ENOENT]).is_some() {
                        unregistered.fetch_add(1, Ordering::Relaxed);
                    }
                    barrier.wait();
                    assert_eq!(unregistered.load(Ordering::Relaxed), round, "unregistered");
                    // Waits until all have checked.
                    barrier.wait();
                }
            });
        }
    });
}

fn of_two_descriptions_one_wins() {
    // Each process registers its own description of the name until it has succeeded often enough.
    const WINS: usize = 100;
    let texts = ["st_conc_disputed u32 a; u32 b", "st_conc_disputed u64 c"];
    let children: Vec<_> = texts
        .into_iter()
        .map(|text| {
            child::fork(|_| {
                let page = Mapping::kept(1);
                for _ in 0..WINS {
                    let data = Data::open();
                    wait::until("the name to be free", || {
                        let got = data.register_text(text, page.address(), 0);
                        allow("register", got, &[Errno::EADDRINUSE]).is_some()
                    });
                    let fields = text.split_once(' ').unwrap().1;
                    let mut lines = dynamic::user_lines();
                    lines.retain(|line| line.ends_with(fields));
                    assert_eq!(lines.len(), 1, "it is another's event");
                    assert_eq!(data.write(0, &[0; 8]), Err(Errno::EBADF));
                    data.unregister_bit(page.address(), 0).unwrap();
                }
            })
        })
        .collect();
    children.into_iter().for_each(Child::join);
    wait_gone("st_conc_disputed");
}
