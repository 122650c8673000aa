// SPDX-License-Identifier: GPL-2.0

//! Stalls a thread in a kernel function, at its return, or before a work item: an eBPF program at a
//! kprobe or a tracepoint spins for a while.

use crate::kit::bpf::{self, Counters, Instruction, Link, Program};
use crate::kit::dynamic::Probe;
use crate::kit::perf::{Perf, ALL_PROCESSES};
use crate::kit::{machine, os, tracefs, wait};
use std::iter;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

pub const PATH: &str = "/sys/kernel/tracing/kprobe_events";

pub fn lacks_probes() -> Option<String> {
    (!Path::new(PATH).exists()).then(|| format!("there is no {PATH}"))
}

/// The time that one program spins. The kernel ends a program after 250 ms, so a longer stall takes
/// several programs, one after the other.
const TIME: Duration = Duration::from_millis(240);
const SEVERAL: usize = 8;

const NAME: &str = "st_stalled/at";

/// Counters of started and ended stalls.
const BEGUN: u32 = 0;
const ENDED: u32 = 1;

/// Instructions that only this program needs.
const KTIME_GET_NS: i32 = 5;
/// `r0 = (u32)r0`
const TO_U32: Instruction = (0xbc, 0, 0, 0, 0);
const END: [Instruction; 2] = bpf::give(0);

/// Stalls a thread whenever it calls a function, until dropped. There may be one at a time.
pub struct StalledAt {
    _attached: Vec<(Link, Perf)>,
    counters: Counters,
    /// Dropped, and so deleted, after the programs.
    _probe: Option<Probe>,
}

impl StalledAt {
    /// Stalls for two seconds. `thread` is its id in the initial PID namespace.
    #[track_caller]
    pub fn at(function: &str, thread: i32) -> StalledAt {
        StalledAt::by('p', function, thread, SEVERAL)
    }

    /// Stalls the kworker for six seconds before this work function of the module.
    #[track_caller]
    pub fn work(function: u64) -> StalledAt {
        // Behind the common fields and the address of the work item.
        let skip_if_it_is = (0x16, 0, 0, END.len() as i16, function as i32);
        let only = [bpf::load_u32(0, 1, 16), skip_if_it_is];
        let event = "workqueue/workqueue_execute_start";
        StalledAt::with(bpf::TRACEPOINT, event, &only, 3 * SEVERAL, None)
    }

    #[track_caller]
    pub fn at_return(function: &str, thread: i32) -> StalledAt {
        StalledAt::by('r', function, thread, SEVERAL)
    }

    #[track_caller]
    fn by(kind: char, function: &str, thread: i32, programs: usize) -> StalledAt {
        let probe = Probe::new(kind, NAME, function);
        // Skips the exit if register 0 is the thread.
        let skip_if_it_is = (0x15, 0, 0, END.len() as i16, thread);
        let only = [bpf::call(bpf::GET_CURRENT_PID_TGID), TO_U32, skip_if_it_is];
        StalledAt::with(bpf::KPROBE, NAME, &only, programs, Some(probe))
    }

    /// Stalls by programs of a kind at an event, which start with `only` and continue unless that
    /// skips the exit.
    #[track_caller]
    fn with(
        kind: u32,
        event: &str,
        only: &[Instruction],
        programs: usize,
        probe: Option<Probe>,
    ) -> StalledAt {
        let counters = Counters::new(2);
        let counting = |counter: u32| {
            let numbers = [bpf::set(7, counter as i32), bpf::set(8, 1)];
            [&numbers[..], &counters.add()].concat()
        };
        let wait = [
            bpf::call(KTIME_GET_NS),
            bpf::copy(9, 0),
            bpf::add(9, TIME.as_nanos() as i32),
            // `may_goto`: loops as often as the kernel allows.
            (0xe5, 0, 0, 3, 0),
            bpf::call(KTIME_GET_NS),
            // Skips one if r0 > r9.
            (0x2d, 0, 9, 1, 0),
            // Back to the start of the loop.
            (0x05, 0, 0, -4, 0),
        ];
        let attach = |number: usize| {
            // The first program counts the start, and the last one the end.
            let counting_if = |is: bool, counter| if is { counting(counter) } else { Vec::new() };
            let begins = counting_if(number == 0, BEGUN);
            let ends = counting_if(number + 1 == programs, ENDED);
            let program = Program::load(kind, &[only, &END, &begins, &wait, &ends, &END].concat());
            let perf = Perf::open(tracefs::event_id(event), ALL_PROCESSES, 0);
            let perf = perf.expect("perf_event_open");
            let link = Link::new(&program, perf.file(), 0).expect("link the program");
            (link, perf)
        };
        StalledAt {
            _attached: (0..programs).map(attach).collect(),
            counters,
            _probe: probe,
        }
    }

    /// The number of stalls, the current one included.
    pub fn times(&self) -> u64 {
        self.counters.get(BEGUN)
    }

    pub fn is_now(&self) -> bool {
        self.counters.get(BEGUN) > self.counters.get(ENDED)
    }

    /// Returns whether the thread is stalled still, and prints a note if not, as the test then
    /// shows less.
    pub fn is_not_over(&self) -> bool {
        let is_now = self.is_now();
        if !is_now {
            println!("  # it was held up for too short a time");
        }
        is_now
    }
}

const ROUNDS: usize = 4;

/// Repeats `round` until it returns that it was in time, which on a slow debug kernel it may never
/// be.
#[track_caller]
pub fn retry_round(round: impl FnMut() -> bool) {
    let was_in_time = iter::repeat_with(round).take(ROUNDS).any(|is| is);
    assert!(
        was_in_time || machine::slowness() > 1,
        "what was held up was over before it should, {ROUNDS} times"
    );
}

pub struct Waiting<'scope> {
    pub thread: ScopedJoinHandle<'scope, ()>,
    number: i32,
    go: mpsc::Sender<()>,
}

impl<'scope> Waiting<'scope> {
    /// Makes a thread that calls `run` once started.
    pub fn new(scope: &'scope Scope<'scope, '_>, run: impl FnOnce() + Send + 'scope) -> Self {
        let (to_here, from_thread) = mpsc::channel();
        let (go, told) = mpsc::channel();
        let thread = scope.spawn(move || {
            to_here.send(os::thread_id()).unwrap();
            told.recv().unwrap();
            run();
        });
        let number = from_thread.recv().unwrap();
        Waiting { thread, number, go }
    }

    /// Starts the thread, and waits until it is stalled at a function for the `times`th time.
    #[track_caller]
    pub fn stalled_at(&self, function: &str, times: u64) -> StalledAt {
        self.go_until(StalledAt::at(function, self.number), times)
    }

    /// The same at the return of the function.
    #[track_caller]
    pub fn stalled_at_return(&self, function: &str, times: u64) -> StalledAt {
        self.go_until(StalledAt::at_return(function, self.number), times)
    }

    /// The same for a quarter of a second, at a function that is called often.
    #[track_caller]
    pub fn stalled_shortly_at(&self, function: &str, times: u64) -> StalledAt {
        self.go_until(StalledAt::by('p', function, self.number, 1), times)
    }

    #[track_caller]
    fn go_until(&self, stalled: StalledAt, times: u64) -> StalledAt {
        self.go.send(()).unwrap();
        wait::eventually(|| stalled.times() >= times || self.thread.is_finished());
        let was = stalled.times();
        assert!(was >= times, "held up {was} times, not {times}");
        stalled
    }
}
