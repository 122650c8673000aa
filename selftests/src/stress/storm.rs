// SPDX-License-Identifier: GPL-2.0

//! Many processes that start, end and change, while events are attached and detached: after each
//! change every living process must have the right bits.
//!
//! Each worker has a slot of shared memory, where it registers a bit of two events, which the test
//! reads directly. A worker forks and ends, and its child continues in its place; it registers
//! again, executes programs, drops and unmaps pages, and checks a second pair of bits in private
//! memory.

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
/// The number of checks of workers' bits after changes.
const OBSERVATIONS: u64 = 10_000;
/// On a slow kernel.
const OBSERVATIONS_IF_SLOW: u64 = 1_000;
const OBSERVATIONS_IF_LONG: u64 = 1_000_000;
/// The minimum of each of the [`OPS`], of checks by workers themselves, and of ended processes.
/// With fewer the test shows little.
const MIN_OF_EACH_OP: u64 = 3;
const LOOKS: u64 = 100;
const ENDED: usize = 60;
const EVENTS: [&str; 2] = ["st_storm_a", "st_storm_b"];
/// The bits of both events.
const BITS: u32 = 3;

/// Memory shared by all processes: a page of common words, and a page for each worker.
struct SharedWords(Mapping);

impl SharedWords {
    /// Not 0 once all workers are to end.
    fn stop(&self) -> &AtomicU32 {
        self.0.word(0)
    }

    /// Odd while an event is being switched.
    fn changes(&self) -> &AtomicU32 {
        self.0.word(4)
    }

    /// The right bits, while no event is being switched.
    fn want(&self) -> &AtomicU32 {
        self.0.word(8)
    }

    /// The number of checks by workers themselves.
    fn seen(&self) -> &AtomicU64 {
        self.0.long(16)
    }

    /// The number of operations of a kind in [`OPS`].
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

    /// Odd while a worker's bits are registered; incremented by each registration.
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

/// The exit status of a child that has completed its job.
const HAS_RUN: i32 = 70;

struct Worker<'a> {
    board: &'a SharedWords,
    number: usize,
    random: Random,
    data: Data,
    /// A second pair of bits.
    own: Mapping,
    /// A third pair, never checked, and unmapped at times.
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

    /// Registers the bits that the test checks. They must be right at once, unless an event was
    /// switched meanwhile.
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

    /// Waits until the worker's private bits are right, or an event is switched.
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

    /// Forks a child that runs `run`, and waits for its end, or kills it.
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

    /// Does one operation. Returns its number in [`OPS`].
    fn step(&mut self) -> usize {
        match self.random.below(40) {
            0..10 => {
                if os::fork().expect("fork") != 0 {
                    os::exit_now(0);
                }
                self.look();
                0
            }
            10..16 => {
                self.board.turn(self.number).fetch_add(1, SeqCst);
                unregister(&self.data, self.board.address(self.number));
                assert_eq!(self.board.bits(self.number).load(SeqCst), 0);
                self.register_slot();
                1
            }
            16..18 => {
                let mut program = Command::new("true");
                program.stdin(Stdio::null());
                assert!(program.status().expect("spawn").success());
                2
            }
            18..21 => {
                let run = || {
                    unregister(&self.data, self.spare.address());
                    self.look();
                    register(&self.data, self.spare.address());
                };
                self.with_child(run, false);
                3
            }
            21..25 => {
                self.with_child(|| thread::sleep(wait::limit()), true);
                4
            }
            25..30 => {
                // The shared page keeps its content. In the private page the bits are lost until
                // the next switch or registration.
                let slot = SharedWords::offset(self.number);
                let dropped = self.board.0.advise_part(slot, PAGE, libc::MADV_DONTNEED);
                dropped.and(self.own.advise(libc::MADV_DONTNEED)).unwrap();
                unregister(&self.data, self.own.address());
                register(&self.data, self.own.address());
                self.look();
                5
            }
            30..32 => {
                self.spare.unmap();
                self.pause();
                self.spare.map_again();
                6
            }
            _ => {
                self.look();
                7
            }
        }
    }

    fn work(&mut self) {
        while self.board.stop().load(SeqCst) == 0 {
            let op = self.step();
            self.board.done(op).fetch_add(1, SeqCst);
            self.pause();
        }
    }

    /// Long enough that the machine has time for the processes that only check, and short enough
    /// that some worker is always active.
    fn pause(&mut self) {
        let ms = self.random.long_below(3000);
        thread::sleep(Duration::from_millis(ms));
    }
}

/// Reaps ended processes, which must have succeeded.
fn reap(wait: i32) -> usize {
    let mut reaped = 0;
    while let Ok((pid @ 1.., status)) = os::wait(-1, wait) {
        assert_eq!(status, 0, "status of process {pid}");
        reaped += 1;
    }
    reaped
}

/// Waits until the bits of a worker are right. Returns false if none are registered now.
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
        // Wrong, and registered all the time.
        if board.turn(worker).load(SeqCst) == turn {
            assert!(
                start.elapsed() < wait::limit(),
                "worker {worker}: bits {bits}, want {want}"
            );
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Checks that the bits of a worker are still right, if still registered.
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
    // Many processes compete with the test.
    tasks::be_nice(-20);

    let top = TraceInstance::top();
    let mut random = Random::new(99);
    let mut observed = [0u64; WORKERS];
    let (mut toggles, mut ended, mut want) = (0u64, 0, 0u32);
    let start = Instant::now();
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
        top.set(EVENTS[event], "enable", on).expect("toggle");
        board.want().store(want, SeqCst);
        board.changes().fetch_add(1, SeqCst);
        toggles += 1;
        let mut right = [false; WORKERS];
        for worker in 0..WORKERS {
            right[worker] = settles(&board, worker, want);
            observed[worker] += u64::from(right[worker]);
        }
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
        "  # {} observations after {toggles} changes in {seconds} s, {} by {ended} processes themselves",
        observed.iter().sum::<u64>(),
        board.seen().load(SeqCst),
    );
    for (op, name) in OPS.iter().enumerate() {
        println!("  # {} {name}", board.done(op).load(SeqCst));
    }
    // A worker without a registration during a change is skipped, which is rare.
    for (worker, &observed) in observed.iter().enumerate() {
        assert!(
            observed >= toggles / 2,
            "worker {worker} was looked at {observed} times in {toggles} changes"
        );
    }
}
