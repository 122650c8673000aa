// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading beside users: while processes open, register, write, toggle, read trace
//! files, hold perf and eBPF, fork and end, unloading either is refused or leaves nothing behind.

use crate::harness::{self, log, tests};
use crate::kit::abi::{DATA, PROFILE, REGISTRATIONS, STATUS};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::group::GROUPS;
use crate::kit::machine::Log;
use crate::kit::module::{nothing_is_left, nothing_is_seen};
use crate::kit::random::Random;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::usage::grows_by_nothing;
use crate::kit::{child, dynamic, machine, module, tasks, wait};
use crate::stress::stress_users::{StressUsers, ALL, COUNT};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

tests!("unloading":
    a_path_to_a_file_that_is_gone_opens_nothing.of_loading(),
    it_waits_for_an_event_probe_and_says_so.of_loading(),
    beside_users_it_is_in_use_or_goes_and_leaves_nothing.of_loading().lengthy().limit(36_000),
);

const BESIDE_USERS: &str = "unloading::beside_users_it_is_in_use_or_goes_and_leaves_nothing";

const ROUNDS: usize = 16;
const ROUNDS_IF_LONG: usize = 10_000;

/// The maximum of rounds for each kind of use alone.
const ROUNDS_ALONE: usize = 60;

/// The kinds of use that hold no reference to the module, beside which unloading must succeed at
/// once.
const HOLDS_NOTHING: [&str; 2] = ["reads trace files", "sets the limit"];

/// The kind that holds the module during the parsing of a line, which is short, so that unloading
/// is refused rarely.
const HOLDS_FOR_A_MOMENT: &str = "makes dynamic events";

/// The number of checks whether the module is in use, before unloading.
const LOOKS: usize = 200;

/// The number of steps of loading that can fail.
const STEPS: u64 = 14;

/// The number of rounds per failing load.
const FAILING_OF: usize = 8;

fn a_path_to_a_file_that_is_gone_opens_nothing() {
    let mut kept = Vec::new();
    for _ in 0..3 {
        module::load();
        // O_PATH descriptors hold neither the file open nor the module.
        for path in [DATA, STATUS, PROFILE, REGISTRATIONS, GROUPS] {
            let place = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_PATH)
                .open(path);
            kept.push(place.expect("a path"));
        }
        module::unload_when_idle();
        for place in &kept {
            let again = File::open(format!("/proc/self/fd/{}", place.as_raw_fd()));
            assert_eq!(again.map(drop).map_err(Errno::from), Err(Errno::EIO));
        }
    }
    nothing_is_left();
}

/// A module that is being unloaded waits for an event probe that refers to its event.
fn it_waits_for_an_event_probe_and_says_so() {
    const PROBE: &str = "st_unload/st_unload_probe";
    module::load();
    let mut log = Log::from_now();
    let child = child::fork(|_| {
        let event = Event::new("st_unload_probed u32 a");
        let probe = format!("e:{PROBE} user_events/{} a=$a:u32", event.name);
        dynamic::run(&probe).unwrap();
    });
    child.join();
    assert!(tracefs::event_exists("st_unload_probed"));
    let unloading = thread::spawn(module::unload_when_idle);
    let mut said = Vec::new();
    wait::until("it to say what it waits for", || {
        said.extend(module::said(log.take()));
        let waits = "unloading waits for event probes and triggers that refer to its events";
        said.iter().any(|line| line.ends_with(waits))
    });
    assert!(!unloading.is_finished());
    dynamic::run(&format!("-:{PROBE}")).unwrap();
    unloading.join().unwrap();
    nothing_is_left();
}

/// The counts of all rounds.
#[derive(Debug, Default)]
struct Outcomes {
    /// Unloaded while users were active.
    gone: usize,
    /// Refused at each try, until all users had stopped.
    busy: usize,
    /// Refused tries.
    refused: usize,
    /// Loads that were made to fail.
    failed: usize,
}

struct Attack {
    users: StressUsers,
    /// Determines the rounds, so its use may not depend on timing.
    random: Random,
    waits: Random,
    /// The failing one of [`FAILING_OF`] rounds.
    failing: usize,
    log: Log,
    outcomes: Outcomes,
}

impl Attack {
    /// The active kinds of a round: all, or a few.
    fn kinds(&mut self) -> u32 {
        match self.random.below(4) {
            0 => ALL,
            _ => (0..2).fold(0, |kinds, _| kinds | (1 << self.random.below(COUNT))),
        }
    }

    fn round(&mut self, number: usize) {
        let within = number % FAILING_OF;
        if within == 0 {
            self.failing = self.random.below(FAILING_OF);
        }
        let kinds = self.kinds();
        if within == self.failing {
            self.users.order(kinds);
            self.fail_to_load();
        } else {
            self.load_beside(kinds);
            self.unload(kinds);
        }
        self.judge(number);
    }

    /// Loads the module beside active users, and waits until each kind has used it.
    fn load_beside(&mut self, kinds: u32) {
        let before = self.users.all_done();
        self.users.order(kinds);
        assert_eq!(module::load_with(""), Ok(()), "load beside {kinds:#b}");
        self.users.wait_for_each(kinds, &before);
    }

    /// Runs a kind of use alone until the module was unloaded beside it and, unless the kind holds
    /// nothing, found in use: beside other kinds the effect of one can be hidden.
    fn alone(&mut self, kind: usize) {
        let name = StressUsers::name(kind);
        let holds = !HOLDS_NOTHING.contains(&name) && name != HOLDS_FOR_A_MOMENT;
        let before = (self.outcomes.gone, self.outcomes.refused);
        let (mut gone, mut refused) = (0, 0);
        for number in 1..=ROUNDS_ALONE {
            self.load_beside(1 << kind);
            // Some kinds hold the module only briefly.
            let is_wanted = holds && refused == 0;
            let _ = is_wanted && (0..LOOKS).any(|_| module::users() > 0);
            self.unload(1 << kind);
            self.judge(number);
            gone = self.outcomes.gone - before.0;
            refused = self.outcomes.refused - before.1;
            if gone > 0 && (refused > 0 || !holds) {
                break;
            }
        }
        println!(
            "  # beside the user that {name} alone the module went {gone} times, and was refused {refused} times"
        );
        assert!(gone > 0, "never gone beside the user that {name}");
        assert!(
            (refused > 0) == holds || name == HOLDS_FOR_A_MOMENT,
            "refused {refused} times beside the user that {name}"
        );
    }

    /// Checks the state after each round.
    fn judge(&mut self, number: usize) {
        match number % 16 {
            0 => nothing_is_left(),
            _ => nothing_is_seen(),
        }
        self.users.is_well();
        self.judge_log();
    }

    fn fail_to_load(&mut self) {
        let step = 1 + self.random.long_below(STEPS);
        let loaded = module::load_failing(&format!("fail_load_at={step}"));
        assert_eq!(loaded, Err(Errno::EINTR), "fail at step {step}");
        self.outcomes.failed += 1;
    }

    fn unload(&mut self, kinds: u32) {
        let tries = if kinds == ALL { 5 } else { 40 };
        for _ in 0..tries {
            match module::unload() {
                Ok(()) => {
                    self.outcomes.gone += 1;
                    return;
                }
                Err(errno) => assert_eq!(errno, Errno::EAGAIN, "unload"),
            }
            self.outcomes.refused += 1;
            sleep(Duration::from_micros(self.waits.long_below(500)));
        }
        self.outcomes.busy += 1;
        self.users.order(0);
        module::unload_when_idle();
    }

    /// Checks that the kernel and the module logged nothing but loading and unloading.
    fn judge_log(&mut self) {
        let lines = self.log.take();
        assert_eq!(log::first(BESIDE_USERS, &lines), None);
        let usual = ["loaded", "unloaded", "cannot load: "];
        let said = module::said(lines).into_iter().find(|line| {
            let text = &line[module::NAME.len() + 2..];
            !usual.iter().any(|word| text.starts_with(word))
        });
        assert_eq!(said, None, "the module said");
    }
}

fn beside_users_it_is_in_use_or_goes_and_leaves_nothing() {
    let rounds = harness::times(machine::rounds(ROUNDS).max(FAILING_OF), ROUNDS_IF_LONG);
    nothing_is_left();
    let tracer = TraceInstance::instance("st_stress_users");
    let users = StressUsers::new(&tracer);
    // Many processes compete with the test.
    tasks::be_nice(-20);
    let start = Instant::now();
    let mut attack = Attack {
        users,
        random: harness::random(99),
        waits: harness::random(98),
        failing: 0,
        log: Log::from_now(),
        outcomes: Outcomes::default(),
    };
    if rounds >= 1000 {
        // Also checks memory, in two halves after a fifth to warm up.
        let half = rounds * 2 / 5;
        grows_by_nothing(rounds - 2 * half, half, |number| {
            attack.round(number);
            if number + 1 == half {
                attack.users.order(0);
            }
        });
    } else {
        (0..rounds).for_each(|number| attack.round(number));
    }
    (0..COUNT).for_each(|kind| attack.alone(kind));
    attack.users.order(0);
    nothing_is_left();

    let seconds = start.elapsed().as_secs_f32();
    let Attack {
        users, outcomes, ..
    } = attack;
    println!("  # {rounds} rounds, and some for each kind alone, in {seconds:.1} s: {outcomes:?}");
    for (kind, done) in users.all_done().into_iter().enumerate() {
        let (name, failed) = (StressUsers::name(kind), users.failed(kind));
        println!("  # the user that {name} did so {done} times, and {failed} times could not");
        assert!(done > 0, "no user {name}");
        assert!(failed > 0, "the user that {name} was never refused");
    }
    users.end();
    let Outcomes {
        gone, busy, failed, ..
    } = outcomes;
    assert!(gone > 0, "never gone beside users");
    assert!(busy > 0, "never in use");
    assert!(failed > 0, "no load failed");
}
