// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading beside users: while processes open, register, write, toggle, read trace
//! files, hold perf and eBPF, fork and die, the module says that it is in use, or goes and leaves
//! nothing behind.

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
use crate::stress::stress_users::{self, StressUsers, ALL, COUNT};
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

/// In how many rounds, at most, each kind of use goes on alone.
const ROUNDS_ALONE: usize = 60;

/// The kinds of use that hold nothing of the module's: it goes beside them whenever it is asked to.
const HOLDS_NOTHING: [&str; 2] = ["reads trace files", "sets the limit"];

/// It holds the module while a line is taken, which is too short to be met each time, and is met now and then.
const HOLDS_FOR_A_MOMENT: &str = "makes dynamic events";

/// How often it is looked whether the module is in use, before it is unloaded because it is.
const LOOKS: usize = 200;

/// How many steps loading has; what fails at a later one does not fail.
const STEPS: u64 = 14;

/// In one of so many rounds in a row a load is made to fail.
const FAILING_OF: usize = 8;

fn a_path_to_a_file_that_is_gone_opens_nothing() {
    let mut kept = Vec::new();
    for _ in 0..3 {
        module::load();
        // They hold neither the file open nor the module, only the place.
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

/// The event is about to be retired, which the probe holds up.
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

/// What came of the rounds.
#[derive(Default)]
struct Outcomes {
    /// Gone while it was used all around.
    gone: usize,
    /// In use whenever it was tried, until all had let go.
    busy: usize,
    /// How often unloading was refused.
    refused: usize,
    /// Loads that were made to fail.
    unloaded: usize,
    /// How often it went while a kind of use went on.
    gone_beside: [usize; COUNT],
    /// How often it went while that kind alone went on, and was refused.
    gone_alone: [usize; COUNT],
    refused_alone: [usize; COUNT],
}

struct Attack {
    users: StressUsers,
    /// Chooses what the rounds are, so it chooses nothing whose number depends on time.
    random: Random,
    waits: Random,
    /// Which of [`FAILING_OF`] rounds is the one in which a load is made to fail.
    failing: usize,
    log: Log,
    outcomes: Outcomes,
}

impl Attack {
    /// The kinds of use that go on in a round: all, or a few.
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
        let before: [u64; COUNT] = std::array::from_fn(|kind| self.users.done(kind));
        // They are at it when the module comes.
        self.users.order(kinds);
        if within == self.failing {
            self.fail_to_load();
        } else {
            let loaded = module::load_with("");
            assert_eq!(loaded, Ok(()), "round {number}: load");
            stress_users::wait_for_each(&self.users, kinds, &before);
            self.unload(kinds);
        }
        self.judge(number);
    }

    /// A kind of use goes on alone, until the module was seen to go beside it and, if it holds something of the
    /// module's, to be in use: beside others each of them may hide behind what another does.
    fn alone(&mut self, kind: usize) {
        let name = StressUsers::name(kind);
        let holds = !HOLDS_NOTHING.contains(&name) && name != HOLDS_FOR_A_MOMENT;
        self.users.order(1 << kind);
        for number in 1..=ROUNDS_ALONE {
            let before: [u64; COUNT] = std::array::from_fn(|kind| self.users.done(kind));
            let loaded = module::load_with("");
            assert_eq!(loaded, Ok(()), "beside the user that {name}: load");
            self.users.order(1 << kind);
            stress_users::wait_for_each(&self.users, 1 << kind, &before);
            let (gone, refused) = (self.outcomes.gone, self.outcomes.refused);
            // Some hold it for short moments only.
            let is_wanted = holds && self.outcomes.refused_alone[kind] == 0;
            let _ = is_wanted && (0..LOOKS).any(|_| module::users() > 0);
            self.unload(1 << kind);
            self.outcomes.gone_alone[kind] += self.outcomes.gone - gone;
            self.outcomes.refused_alone[kind] += self.outcomes.refused - refused;
            self.judge(number);
            let was_refused = self.outcomes.refused_alone[kind] > 0;
            if self.outcomes.gone_alone[kind] > 0 && (was_refused || !holds) {
                break;
            }
        }
        let (gone, refused) = (
            self.outcomes.gone_alone[kind],
            self.outcomes.refused_alone[kind],
        );
        println!(
            "  # beside the user that {name} alone the module went {gone} times, and was refused {refused} times"
        );
        assert!(gone > 0, "never gone beside the user that {name}");
        assert!(
            (refused > 0) == holds || name == HOLDS_FOR_A_MOMENT,
            "refused {refused} times beside the user that {name}"
        );
    }

    /// What is to be seen after each round.
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
        self.outcomes.unloaded += 1;
    }

    fn unload(&mut self, kinds: u32) {
        let tries = if kinds == ALL { 5 } else { 40 };
        for _ in 0..tries {
            match module::unload() {
                Ok(()) => {
                    self.outcomes.gone += 1;
                    for kind in (0..COUNT).filter(|kind| kinds & (1 << kind) != 0) {
                        self.outcomes.gone_beside[kind] += 1;
                    }
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

    /// The kernel has nothing to say, nor the module, but that it comes and goes.
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
    // Among so many, the test must get its turn.
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
        // Memory, too: two halves of what is left after warming up.
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
    println!(
        "  # {rounds} rounds, and some for each kind alone, in {seconds:.1} s: gone beside users {} times, in use until all let go {} times \
         (refused {} times in all), {} loads failed as asked",
        outcomes.gone, outcomes.busy, outcomes.refused, outcomes.unloaded,
    );
    for kind in 0..COUNT {
        println!(
            "  # the user that {} did so {} times, and {} times could not; the module went beside it {} times",
            StressUsers::name(kind),
            users.done(kind),
            users.failed(kind),
            outcomes.gone_beside[kind],
        );
        assert!(users.done(kind) > 0, "no user {}", StressUsers::name(kind));
        assert!(
            users.failed(kind) > 0,
            "the user that {} was never refused",
            StressUsers::name(kind)
        );
    }
    users.end();
    assert!(outcomes.gone > 0, "never gone beside users");
    assert!(outcomes.busy > 0, "never in use");
    assert!(outcomes.unloaded > 0, "no load failed");
}
