// SPDX-License-Identifier: GPL-2.0

//! Many processes that come, go and change, while events are attached and detached: after each
//! change every living process sees the right bits.
//!
//! Each of the workers owns a slot of memory that all share, and has the bits of two events
//! registered in it; so the test sees them by just looking. A worker forks and ends, and its child
//! goes on in its place; it registers anew, executes programs, has pages dropped and unmapped, and
//! looks at a second pair of bits in memory of its own.

use crate::harness::{options, tests};
use crate::kit::abi::Data;
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::random::Random;
use crate::kit::tracefs::TraceInstance;
use crate::kit::{machine, os, tasks, wait};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

tests!("storm":
    every_living_process_sees_every_change.limit(3600),
);

const WORKERS: usize = 64;
/// How often a worker's bits are looked at after a change, in all.
const OBSERVATIONS: u64 = 10_000;
/// Where each of them takes long.
const OBSERVATIONS_IF_SLOW: u64 = 1_000;
const OBSERVATIONS_IF_LONG: u64 = 1_000_000;
/// How often each of the [`OPS`] is done at least, how often workers have looked at their bits
/// themselves, and how many processes have ended. With less it is quiet, and shows little.
const MIN_OF_EACH_OP: u64 = 3;
const LOOKS: u64 = 100;
const ENDED: usize = 60;
const EVENTS: [&str; 2] = ["st_storm_a", "st_storm_b"];
/// Both events' bits.
const BITS: u32 = 3;

/// What all processes share: a page of common words, and a page for each worker.
struct SharedWords(Mapping);

impl SharedWords {
    /// Not 0 when all are to end.
    fn stop(&self) -> &AtomicU32 {
        self.0.word(0)
    }

    /// Odd while an event changes.
    fn changes(&self) -> &AtomicU32 {
        self.0.word(4)
    }

    /// What the bits are to be, while no event changes.
    fn want(&self) -> &AtomicU32 {
        self.0.word(8)
    }

    /// How often a worker has looked at bits itself.
    fn seen(&self) -> &AtomicU64 {
        self.0.long(16)
    }

    /// How often a worker did each of the things in [`OPS`].
    fn done(&self, op: usize) -> &AtomicU64 {
        self.0.long(64 + 8 * op)
    }

    fn offset(worker: usize) -> usize {
        (1 + worker) * PAGE
    }

    /// A worker's registered bits.
    fn bits(&self, worker: usize) -> &AtomicU32 {
        self.0.word(SharedWords::offset(worker))
    }

    fn address(&self, worker: usize) -> u64 {
        self.0.address() + SharedWords::offset(worker) as u64
    }

    /// Odd while a worker's bits are registered; goes up with each registration.
    fn turn(&self, worker: usize) -> &AtomicU32 {
        self.0.word(SharedWords::offset(worker) + 64)
    }
}

const OPS: [&str; 8] = [
    "forks that go on",
    "registrations anew",
    "programs executed",
    "children that changed their registrations",
    "children killed",
    "pages dropped",
    "pages unmapped",
    "looks",
];

/// How a child ends that has done what it was forked for.
const HAS_RUN: i32 = 70;

struct Worker<'a> {
    board: &'a SharedWords,
    number: usize,
    random: Random,
    data: Data,
    /// A second pair of bits.
    own: Mapping,
    /// A third, which is not looked at, and which is unmapped at times.
    spare: Mapping,
}

fn register(data: &Data, address: u64) {
    for (bit, name) in EVENTS.iter().enumerate() {
        let text = format!("{name} u32 a");
        data.register_text(&text, address, bit as u8)
            .unwrap_or_else(|errno| panic!("register {name}: {errno:?}"));
    }
}

fn unregister(data: &Data, address: u64) {
    for bit in 0..2 {
        let result = data.unregister_bit(address, bit);
        assert_eq!(result, Ok(()), "unregister bit {bit}");
    }
}

impl<'a> Worker<'a> {
    fn new(board: &'a SharedWords, number: usize) -> Worker<'a> {
        let worker = Worker {
            board,
            number,
            random: Random::new(number as u64),
            data: Data::open(),
            own: Mapping::kept(1),
            spare: Mapping::kept(1),
        };
        register(&worker.data, worker.own.address());
        register(&worker.data, worker.spare.address());
        worker.register_slot();
        worker
    }

    fn did(&self, op: usize) {
        self.board.done(op).fetch_add(1, SeqCst);
    }

    /// Registers the bits that the test looks at. They are right at once, unless an event has been
    /// changing meanwhile.
    fn register_slot(&self) {
        let changes = self.board.changes().load(SeqCst);
        register(&self.data, self.board.address(self.number));
        let bits = self.board.bits(self.number).load(SeqCst) & BITS;
        let want = self.board.want().load(SeqCst);
        if changes % 2 == 0 && self.board.changes().load(SeqCst) == changes {
            assert_eq!(bits, want, "the bits as registered");
            self.board.seen().fetch_add(1, SeqCst);
        }
        self.board.turn(self.number).fetch_add(1, SeqCst);
    }

    /// Waits until the worker's own bits are right, or an event changes.
    fn look(&self) {
        let start = Instant::now();
        let changes = self.board.changes().load(SeqCst);
        let want = self.board.want().load(SeqCst);
        while changes % 2 == 0 && self.board.changes().load(SeqCst) == changes {
            let bits = self.own.word(0).load(SeqCst) & BITS;
            if bits == want && self.board.changes().load(SeqCst) == changes {
                self.board.seen().fetch_add(1, SeqCst);
                return;
            }
            assert!(
                start.elapsed() < wait::limit() || self.board.changes().load(SeqCst) != changes,
                "worker {}: bits {bits}, want {want}",
                self.number
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Forks a child that runs `run`, and waits for its end; or kills it under way.
    fn with_child(&self, run: impl FnOnce(), kill: bool) {
        match os::fork().expect("fork") {
            0 => {
                run();
                os::exit_now(HAS_RUN);
            }
            pid => {
                let mut want = HAS_RUN << 8;
                if kill {
                    os::kill(pid, libc::SIGKILL).expect("kill");
                    want = libc::SIGKILL;
                }
                assert_eq!(os::wait(pid, 0), Ok((pid, want)), "the end of a child");
            }
        }
    }

    fn execute(&self) {
        let mut program = Command::new("true");
        program.stdin(Stdio::null());
        assert!(program.status().expect("spawn").success());
    }

    fn work(&mut self) {
        while self.board.stop().load(SeqCst) == 0 {
            let op = match self.random.below(40) {
                0..=9 => 0,
                10..=15 => 1,
                16..=17 => 2,
                18..=20 => 3,
                21..=24 => 4,
                25..=29 => 5,
                30..=31 => 6,
                _ => 7,
            };
            match op {
                0 => {
                    if os::fork().expect("fork") != 0 {
                        os::exit_now(0);
                    }
                    self.look();
                }
                1 => {
                    self.board.turn(self.number).fetch_add(1, SeqCst);
                    unregister(&self.data, self.board.address(self.number));
                    assert_eq!(self.board.bits(self.number).load(SeqCst), 0);
                    self.register_slot();
                }
                2 => self.execute(),
                3 => self.with_child(
                    || {
                        unregister(&self.data, self.spare.address());
                        self.look();
                        register(&self.data, self.spare.address());
                    },
                    false,
                ),
                4 => self.with_child(|| thread::sleep(wait::limit()), true),
                5 => {
                    // Of the shared page, what it holds stays; of the own one, the bits go, and come
                    // with their next change or registration.
                    let slot = SharedWords::offset(self.number);
                    let dropped = self.board.0.advise_part(slot, PAGE, libc::MADV_DONTNEED);
                    dropped.and(self.own.advise(libc::MADV_DONTNEED)).unwrap();
                    unregister(&self.data, self.own.address());
                    register(&self.data, self.own.address());
                    self.look();
                }
                6 => {
                    self.spare.unmap();
                    self.pause();
                    self.spare.map_again();
                }
                _ => self.look(),
            }
            self.did(op);
            self.pause();
        }
    }

    /// For so long that there are always some at it, and never so many that the machine has no time
    /// left for processes that only look.
    fn pause(&mut self) {
        let ms = self.random.long_below(3000);
        thread::sleep(Duration::from_millis(ms));
    }
}

/// Reaps what has ended. All end well.
fn reap(wait: i32) -> usize {
    let mut reaped = 0;
    while let Ok((pid @ 1.., status)) = os::wait(-1, wait) {
        assert_eq!(status, 0, "status of process {pid}");
        reaped += 1;
    }
    reaped
}

/// Waits until the bits of a worker are right. False if it has none registered now.
fn settles(board: &SharedWords, worker: usize, want: u32) -> bool {
    let start = Instant::now();
    loop {
        let turn = board.turn(worker).load(SeqCst);
        let bits = board.bits(worker).load(SeqCst);
        if turn % 2 == 0 {
            return false;
        }
        if bits == want {
            return true;
        }
        // Looked at while it was registered all the time, and wrong; for how long?
        if board.turn(worker).load(SeqCst) == turn {
            assert!(
                start.elapsed() < wait::limit(),
                "worker {worker}: bits {bits}, want {want}"
            );
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// The bits of a worker are still right, if they are still registered.
fn stay(board: &SharedWords, worker: usize, want: u32) {
    let turn = board.turn(worker).load(SeqCst);
    let bits = board.bits(worker).load(SeqCst);
    let same = board.turn(worker).load(SeqCst) == turn;
    assert!(
        turn % 2 == 0 || !same || bits == want,
        "worker {worker}: bits {bits} after they were {want}"
    );
}

fn every_living_process_sees_every_change() {
    let goal = match (options().long, machine::slowness()) {
        (true, _) => OBSERVATIONS_IF_LONG,
        (false, 1) => OBSERVATIONS,
        (false, _) => OBSERVATIONS_IF_SLOW,
    };
    os::adopt_orphans();
    let board = SharedWords(Mapping::shared(1 + WORKERS));
    let first = Data::open();
    let page = Mapping::kept(1);
    register(&first, page.address());
    for number in 0..WORKERS {
        if os::fork().expect("fork") == 0 {
            Worker::new(&board, number).work();
            os::exit_now(0);
        }
    }
    // Among so many, the test must get its turn.
    tasks::be_nice(-20);

    let top = TraceInstance::top();
    let mut random = Random::new(99);
    let mut observed = [0u64; WORKERS];
    let (mut toggles, mut ended, mut want) = (0u64, 0, 0u32);
    let (start, mut longest) = (Instant::now(), Duration::ZERO);
    let is_quiet = |ended: usize| {
        let rare = |op| board.done(op).load(SeqCst) < MIN_OF_EACH_OP;
        (0..OPS.len()).any(rare) || board.seen().load(SeqCst) < LOOKS || ended < ENDED
    };
    while observed.iter().sum::<u64>() < goal || is_quiet(ended) {
        assert!(
            start.elapsed() < 10 * wait::limit() || observed.iter().sum::<u64>() < goal,
            "it stays quiet: {ended} processes ended"
        );
        let event = random.below(2);
        want ^= 1 << event;
        board.changes().fetch_add(1, SeqCst);
        let on = if want & (1 << event) != 0 { "1" } else { "0" };
        let changed = Instant::now();
        top.set(EVENTS[event], "enable", on).expect("toggle");
        board.want().store(want, SeqCst);
        board.changes().fetch_add(1, SeqCst);
        toggles += 1;
        let mut right = [false; WORKERS];
        for worker in 0..WORKERS {
            right[worker] = settles(&board, worker, want);
            observed[worker] += u64::from(right[worker]);
        }
        longest = longest.max(changed.elapsed());
        for worker in 0..WORKERS {
            stay(&board, worker, want);
        }
        ended += reap(libc::WNOHANG);
    }
    let seconds = start.elapsed().as_secs();
    board.stop().store(1, SeqCst);
    ended += reap(0);
    for event in EVENTS {
        top.disable(event);
    }
    println!(
        "  # {} observations after {toggles} changes in {seconds} s, {} by the processes themselves: none wrong",
        observed.iter().sum::<u64>(),
        board.seen().load(SeqCst),
    );
    println!(
        "  # longest until all were right: {} ms; {ended} processes ended",
        longest.as_millis()
    );
    for (op, name) in OPS.iter().enumerate() {
        let times = board.done(op).load(SeqCst);
        println!("  # {times} {name}");
    }
    // One that is not registered at the moment of a change is passed over, which is seldom so.
    for (worker, &observed) in observed.iter().enumerate() {
        assert!(
            observed >= toggles / 2,
            "worker {worker} was looked at {observed} times in {toggles} changes"
        );
    }
}
