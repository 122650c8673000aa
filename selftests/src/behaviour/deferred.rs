// SPDX-License-Identifier: GPL-2.0

//! Events with very many bits: after a change of the state, bits beyond a fixed budget are written
//! without the trace core's locks, in order, soon.

use crate::harness::{options, tests};
use crate::kit::abi::REGISTRATIONS;
use crate::kit::child::{self, Child, Word};
use crate::kit::event::{toggler, Event};
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::tracefs::TraceInstance;
use crate::kit::userfault::{Guard, Userfault, PATH};
use crate::kit::{machine, os, tasks, wait};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

tests!("deferred":
    a_change_pins_few_pages_at_once,
    no_more_than_two_pages_are_pinned_before_others_can_change_the_set,
    no_more_than_a_turn_is_written_in_one_work,
    another_event_does_not_wait_for_many_bits,
    the_last_of_many_changes_counts,
    a_child_that_joins_where_writing_has_stopped_has_its_bits_right.skip_if(os::is_of_6_12),
    a_process_that_leaves_its_set_where_writing_has_stopped_has_its_bits_right
        .skip_if(os::is_of_6_12),
    sets_without_processes_are_passed_few_at_once.needs_path(PATH),
    each_bit_that_is_not_written_yet_is_shown_as_due,
    what_is_not_written_yet_is_shown_as_due.limit(3000),
);

/// Processes with the same bits of one event, 32 in each word: this one, and children of it.
struct ManyProcesses {
    event: Event,
    words: Mapping,
    count: usize,
    children: Vec<Child>,
}

fn all_are(words: &Mapping, count: usize, value: u32) -> bool {
    (0..count).all(|word| words.get(4 * word) == value)
}

/// Breaks copy-on-write after a fork: a bit in a shared page is left to a repair, which does not
/// stop where the writing of the event's bits stops.
fn touch(words: &Mapping) {
    for page in (words.address()..words.end()).step_by(PAGE) {
        let offset = (page - words.address()) as usize;
        // A write that changes nothing, which the compiler must not take for a read.
        words.word(offset).fetch_or(black_box(0), Ordering::Relaxed);
    }
}

/// Forks twice. The second child calls `run`, and its memory is known to include all writes before
/// the first fork. Returns its PID. The first child is killed before it checks its bits, as fixing
/// them would be a later write. The caller is of a real-time class, where a child does not run
/// before its parent waits.
fn fork_again(run: impl Fn()) -> i32 {
    let first = os::fork().unwrap();
    if first == 0 {
        os::exit_now(0);
    }
    os::kill(first, libc::SIGKILL).unwrap();
    assert_eq!(os::wait(first, 0), Ok((first, libc::SIGKILL)));
    let second = os::fork().unwrap();
    if second == 0 {
        let result = catch_unwind(AssertUnwindSafe(run));
        os::exit_now(i32::from(result.is_err()));
    }
    second
}

impl ManyProcesses {
    fn new(name: &str, count: usize, processes: usize) -> ManyProcesses {
        os::allow_open_files(4 * processes as u64 + 100);
        let text = format!("{name} u32 a");
        let event = Event::new(&text);
        let words = Mapping::kept((4 * count).div_ceil(PAGE));
        for word in 0..count {
            for bit in 0..32 {
                let at = words.address() + 4 * word as u64;
                event.add_bit(at, bit);
            }
        }
        let mut many = ManyProcesses {
            event,
            words,
            count,
            children: Vec::new(),
        };
        for _ in 1..processes {
            let (event, words) = (&many.event, &many.words);
            let child = child::fork(|line| {
                let sees = |value| {
                    wait::until("all words of a child", || all_are(words, count, value));
                };
                let looks = |value| assert!(all_are(words, count, value), "a child's words");
                touch(words);
                let mut grandchild = 0;
                loop {
                    let word = line.listen();
                    match word {
                        Word::Set => sees(u32::MAX),
                        Word::Clear => sees(0),
                        Word::Change => event.add_bit(words.end() - 4, 0),
                        Word::ForkSet => grandchild = fork_again(|| looks(u32::MAX)),
                        Word::ForkClear => grandchild = fork_again(|| looks(0)),
                        Word::Join => {
                            assert_eq!(os::wait(grandchild, 0), Ok((grandchild, 0)));
                            touch(words);
                        }
                        _ => return,
                    }
                    line.say(word);
                }
            });
            many.children.push(child);
        }
        many
    }

    /// Returns whether the last word, which the kernel writes last, has this value.
    fn last_is(&self, value: u32) -> bool {
        self.words.get(4 * (self.count - 1)) == value
    }

    /// The number of children whose first word has this value.
    fn written(&self, value: u32) -> usize {
        let address = self.words.address();
        let is_written = |child: &&Child| tasks::word_of(child.pid, address) == Some(value);
        self.children.iter().filter(is_written).count()
    }

    /// Waits until all words of all processes have followed.
    #[track_caller]
    fn all_see(&mut self, on: bool) {
        let value = if on { u32::MAX } else { 0 };
        wait::until("all words", || all_are(&self.words, self.count, value));
        for child in &mut self.children {
            child.tell(if on { Word::Set } else { Word::Clear });
        }
    }

    #[track_caller]
    fn follows(&mut self, on: bool) {
        self.event.switch(on);
        self.all_see(on);
    }
}

/// Enables the event of many processes, and toggles another event. Returns whether the toggle was
/// done before all bits of the first event were written; on a slow machine, where a toggle takes
/// longer than these writes, whether bits were left when the first event had been enabled.
fn switch_beside(many: &mut ManyProcesses, other: &Event) -> bool {
    many.event.switch(true);
    let is_left = many.last_is(0);
    other.switch(true);
    let at_once = other.bit();
    other.follows(false);
    let was_first = at_once && many.last_is(0);
    many.all_see(true);
    many.follows(false);
    match machine::slowness() {
        1 => was_first,
        _ => is_left,
    }
}

/// The most pages that a task pins while it holds the trace core's locks, with 32 bits in each: a
/// pin costs 32 of 512 units, and each bit one.
const PINS_AT_ONCE: usize = 512 / (32 + 32);

/// Enables an event. Returns this task's calls of `functions` meanwhile, in order, from the
/// function tracer.
fn called_by_enabling(event: &str, functions: &str) -> Vec<String> {
    let tracer = TraceInstance::instance("st_deferred_tracer");
    tracer.control("set_ftrace_filter", functions);
    tracer.control("set_ftrace_pid", &std::process::id().to_string());
    tracer.control("current_tracer", "function");
    TraceInstance::top().enable(event);
    // Reading the trace calls some of them, too.
    tracer.control("tracing_on", "0");
    let trace = tracer.text("trace");
    tracer.control("current_tracer", "nop");
    let calls = trace.lines().filter_map(|line| line.split_once(" <-"));
    calls
        .filter_map(|(call, _)| call.split_whitespace().last())
        .map(String::from)
        .collect()
}

const PIN: &str = "pin_user_pages_remote";

/// Counts how often this task pins a page.
fn a_change_pins_few_pages_at_once() {
    let mut many = ManyProcesses::new("st_deferred_pins", 1, 120);
    let pins = called_by_enabling(&many.event.name, PIN).len();
    // No pin at all would mean that the tracer does not work.
    assert!(
        (1..=PINS_AT_ONCE).contains(&pins),
        "{pins} pages were pinned"
    );
    many.all_see(true);
    many.follows(false);
}

/// The most pages that a task pins while it holds the lock of a set: 128 units are spent there.
const PINS_IN_SET: usize = 128 / (32 + 32);

/// Counts the pages that this task pins between two unlocks of any mutex.
fn no_more_than_two_pages_are_pinned_before_others_can_change_the_set() {
    let mut many = ManyProcesses::new("st_deferred_set", 1, 60);
    let (mut pins, mut most) = (0, 0);
    for function in called_by_enabling(&many.event.name, &format!("{PIN} mutex_unlock")) {
        pins = if function == PIN { pins + 1 } else { 0 };
        most = most.max(pins);
    }
    assert_eq!(most, PINS_IN_SET);
    many.all_see(true);
    many.follows(false);
}

/// More processes than the work queue writes 32 bits to in one turn, with 16 times the budget: it
/// has to stop among them, and to go on there.
const MORE_THAN_A_TURN: usize = 16 * PINS_AT_ONCE + 12;

/// Counts the pages that a worker pins in one work. A pin costs 32 units, and its bits more. The
/// bits are in several leaves of the event's list, for each of which a page is pinned.
fn no_more_than_a_turn_is_written_in_one_work() {
    let mut many = ManyProcesses::new("st_deferred_turn", 4, MORE_THAN_A_TURN);
    let tracer = TraceInstance::instance("st_deferred_turns");
    let begin = "workqueue_execute_start";
    tracer.control("set_ftrace_filter", PIN);
    tracer.control(&format!("events/workqueue/{begin}/enable"), "1");
    tracer.control("current_tracer", "function");
    many.follows(true);
    tracer.control("tracing_on", "0");
    let trace = tracer.text("trace");
    tracer.control("current_tracer", "nop");
    let (mut pins, mut most) = (BTreeMap::new(), 0);
    for line in trace.lines() {
        let Some(worker) = line.split_whitespace().next() else {
            continue;
        };
        if line.contains(begin) {
            pins.insert(worker, 0);
        } else if let Some(pins) = pins.get_mut(worker).filter(|_| line.contains(PIN)) {
            *pins += 1;
            most = most.max(*pins);
        }
    }
    assert!(
        (PINS_AT_ONCE..=16 * 512 / 32).contains(&most),
        "{most} pages were pinned"
    );
    many.follows(false);
}

fn another_event_does_not_wait_for_many_bits() {
    let mut many = ManyProcesses::new("st_deferred_many", machine::rounds(500), MORE_THAN_A_TURN);
    // Made after the forks: its page is not shared, so its bit can be written at once.
    let other = Event::new("st_deferred_other u32 a");
    // Several tries: while a virtual machine is not scheduled, all bits may get written in between.
    let was_first = (0..5).any(|_| switch_beside(&mut many, &other));
    assert!(was_first, "another event waited for all bits of this one");
}

fn the_last_of_many_changes_counts() {
    let mut many = ManyProcesses::new("st_deferred_last", 120, 60);
    for round in 0..12 {
        // Most changes come while the bits of the one before are written.
        for _ in 0..round {
            many.event.switch(true);
            many.event.switch(false);
        }
        many.all_see(false);
        many.follows(true);
        many.event.switch(false);
    }
    many.all_see(false);
}

/// The scheduler's reserve for tasks of the normal class, by processor.
const FAIR_SERVER: &str = "/sys/kernel/debug/sched/fair_server";

/// The longest time of a hog: tasks of the normal class may have to read in a page of the program
/// meanwhile.
const MAX_HOG: Duration = Duration::from_secs(10);

/// Runs this task and its later children on the first processor only, before all tasks of the
/// normal class. Returns the other processors.
fn stay_on_first_cpu() -> Vec<usize> {
    let mut cpus = os::cpus();
    os::run_on(cpus.remove(0));
    tasks::set_fifo();
    cpus
}

/// Keeps the work queue from running: until this is dropped, real-time threads keep the other
/// processors busy. On the remaining one, the caller's children are of that class.
struct CpuHog {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// The reserves before, by file, where the kernel has them.
    kept: Vec<(PathBuf, String)>,
}

impl CpuHog {
    fn on(others: &[usize]) -> CpuHog {
        let cpus = fs::read_dir(FAIR_SERVER).into_iter().flatten();
        let files = cpus.filter_map(|cpu| Some(cpu.ok()?.path().join("runtime")));
        let kept: Vec<_> = files
            .filter_map(|file| Some((file.clone(), fs::read_to_string(file).ok()?)))
            .collect();
        for (file, _) in &kept {
            fs::write(file, "0").expect("a file of the scheduler");
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicUsize::new(0));
        let busy = |&cpu| {
            let (is_over, count) = (is_over.clone(), count.clone());
            thread::spawn(move || {
                os::run_on(cpu);
                count.fetch_add(1, Ordering::Relaxed);
                let start = Instant::now();
                while !is_over.load(Ordering::Relaxed) && start.elapsed() < MAX_HOG {
                    std::hint::spin_loop();
                }
            })
        };
        let threads: Vec<_> = others.iter().map(busy).collect();
        wait::until("the other processors to be busy", || {
            count.load(Ordering::Relaxed) == threads.len()
        });
        CpuHog {
            is_over,
            threads,
            kept,
        }
    }
}

impl Drop for CpuHog {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads
            .drain(..)
            .for_each(|thread| thread.join().unwrap());
        for (file, runtime) in &self.kept {
            fs::write(file, runtime).expect("a file of the scheduler");
        }
    }
}

/// Rounds in which writing must have stopped until all had forked.
const STOPPED: usize = 8;
/// Rounds may fail, as the work queue runs in the scheduler's reserve, or when all tasks of the
/// test wait at once.
const MAX_ROUNDS: usize = 200;

/// Writing proceeds by the address of the mm, stops, and goes on there. A child that is forked
/// meanwhile, and has a lower address, is not written to, and its parent may not have been written
/// to before the fork. Addresses are random, so each child must have correct bits when it starts to
/// run.
fn a_child_that_joins_where_writing_has_stopped_has_its_bits_right() {
    let others = stay_on_first_cpu();
    // Twice as many as are written to at once.
    let mut many = ManyProcesses::new("st_deferred_young", 1, 2 * PINS_AT_ONCE);
    let mut stopped = 0;
    for round in 0..MAX_ROUNDS {
        touch(&many.words);
        let on = round % 2 == 0;
        let (fork, value) = match on {
            true => (Word::ForkSet, u32::MAX),
            false => (Word::ForkClear, 0),
        };
        let hog = CpuHog::on(&others);
        many.event.switch(on);
        for child in &mut many.children {
            child.tell(fork);
        }
        let written = many.written(value);
        drop(hog);
        for child in &mut many.children {
            child.tell(Word::Join);
        }
        many.all_see(on);
        stopped += usize::from((1..many.children.len()).contains(&written));
        if stopped >= STOPPED && !on {
            println!("  # {stopped} of {} rounds", round + 1);
            return;
        }
    }
    panic!("in {stopped} rounds of {MAX_ROUNDS} writing had stopped until all had forked");
}

/// Writing proceeds by the address of the set, too, and stops at one. A member that registers
/// another bit leaves that set for a copy of it, which may have a lower address.
fn a_process_that_leaves_its_set_where_writing_has_stopped_has_its_bits_right() {
    let others = stay_on_first_cpu();
    let mut stopped = 0;
    for _ in 0..MAX_ROUNDS {
        // The set of a new process is a new one.
        let mut process = child::fork(|line| {
            let mut many = ManyProcesses::new("st_deferred_leaves", 1, 2 * PINS_AT_ONCE);
            touch(&many.words);
            let top = TraceInstance::top();
            let hog = CpuHog::on(&others);
            top.set(&many.event.name, "enable", "1").unwrap();
            let written = many.written(u32::MAX);
            for child in &mut many.children {
                child.tell(Word::Change);
            }
            drop(hog);
            many.all_see(true);
            top.disable(&many.event.name);
            many.all_see(false);
            line.send(usize::from(written < many.children.len()));
        });
        let has_stopped: usize = process.line.receive();
        process.join();
        stopped += has_stopped;
        if stopped >= STOPPED {
            return;
        }
    }
    panic!("in {stopped} rounds of {MAX_ROUNDS} writing had stopped among the processes");
}

/// Before the work queue runs, the listing shows each bit as set or as due.
fn each_bit_that_is_not_written_yet_is_shown_as_due() {
    let others = stay_on_first_cpu();
    let mut many = ManyProcesses::new("st_deferred_shown", 1, 2 * PINS_AT_ONCE);
    for _ in 0..MAX_ROUNDS {
        touch(&many.words);
        let hog = CpuHog::on(&others);
        many.event.switch(true);
        let listing = fs::read_to_string(REGISTRATIONS).unwrap();
        drop(hog);
        let (mut set, mut due) = (0, 0);
        for line in listing.lines() {
            if line.starts_with("st_deferred_shown ") {
                let (is_set, is_due) = (line.ends_with(" set"), line.ends_with(" clear repair"));
                assert!(is_set || is_due, "neither written nor due: {line}");
                set += usize::from(is_set);
                due += usize::from(is_due);
            }
        }
        many.all_see(true);
        many.follows(false);
        // More than the bits in pages that are still shared since a fork.
        if set > 0 && due > 2 * many.children.len() {
            return;
        }
    }
    panic!("in {MAX_ROUNDS} rounds all was written before it was looked at");
}

/// The most sets without members that a task locks while it holds the trace core's locks: each
/// costs 8 of 512 units.
const SETS_AT_ONCE: usize = 512 / 8;

/// A child that is being forked is not a member of its set yet. If its parent changes its own
/// registrations, the parent gets another set, and the child's set is left without members.
fn sets_without_processes_are_passed_few_at_once() {
    const SETS: usize = 150;
    const NAME: &str = "st_deferred_sets";
    let mut process = child::fork_until(Word::Stalled, |line| {
        let event = Event::new(&format!("{NAME} u32 a"));
        let (faults, ids, other) = (Userfault::new(), Mapping::kept(1), Mapping::kept(1));
        faults.guard(&ids, Guard::Missing);
        thread::scope(|scope| {
            for set in 0..SETS {
                let address = ids.address();
                scope.spawn(move || {
                    let pid = tasks::clone_to(libc::CLONE_PARENT_SETTID, address).unwrap();
                    if pid == 0 {
                        os::exit_now(0);
                    }
                    assert_eq!(os::wait(pid, 0), Ok((pid, 0)));
                });
                faults.wait_asked();
                let text = format!("{NAME}_other u32 a");
                let at = other.address() + 4 * set as u64;
                event.data.register_text(&text, at, 0).unwrap();
            }
            line.ask(Word::Stalled, Word::GoOn);
            faults.fill(ids.address(), 0);
        });
        line.say(Word::Done);
    });
    // With lockdep, mutex_trylock() is a macro.
    let watched = std::path::Path::new("/proc/lockdep_stats").exists();
    let try_lock = ["mutex_trylock", "_mutex_trylock_nest_lock"][usize::from(watched)];
    let sets = called_by_enabling(NAME, try_lock).len();
    // The first is the lock of the event.
    assert!(
        (2..=SETS_AT_ONCE + 1).contains(&sets),
        "{sets} locks were taken"
    );
    TraceInstance::top().disable(NAME);
    process.line.ask(Word::GoOn, Word::Done);
    process.join();
}

/// With `--long` a hundred thousand bits, each in a thousand processes.
fn what_is_not_written_yet_is_shown_as_due() {
    let (words, processes) = if options().long {
        (3125, 1000)
    } else {
        (250, 100)
    };
    let mut many = ManyProcesses::new("st_deferred_crowd", words, processes);
    let repair_pending =
        |line: &str| line.starts_with("st_deferred_crowd ") && line.ends_with(" repair");
    // Reads at least the lines of this process.
    let shows_due = || {
        let listing = BufReader::new(File::open(REGISTRATIONS).unwrap());
        let mut lines = listing.lines().take(32 * words + 100);
        lines.any(|line| repair_pending(&line.unwrap()))
    };
    let toggler = toggler(&many.event.name);
    wait::until("a bit to be shown as due", shows_due);
    toggler.kill();
    many.follows(false);
    // Made after the last fork: its page is not shared.
    let other = Event::new("st_deferred_beside u32 a");
    // The scheduler decides which is first.
    wait::until("the other event to be first", || {
        switch_beside(&mut many, &other)
    });
    assert!(!shows_due(), "all is written, and shown as due");
}
