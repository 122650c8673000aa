// SPDX-License-Identifier: GPL-2.0

//! Bits that cannot be written: how often they are tried again, when they are given up, and that
//! the next change writes them. The tries show in the kernel's tracepoint of queued work.

use crate::harness::tests;
use crate::kit::cgroup::{Cgroup, PATH};
use crate::kit::child::{self, Child, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{repair_pending, settle, wait_gone, wait_repaired, Event};
use crate::kit::fork_tree::{serve, toggle_of};
use crate::kit::fuse::{self, Server};
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{machine, os, tasks, wait};
use std::collections::BTreeMap;
use std::fs;
use std::slice;
use std::thread::sleep;
use std::time::{Duration, Instant};

tests!("retries":
    pauses_grow_and_begin_anew_with_a_change.needs_path(PATH).limit(240),
    a_process_that_shares_the_memory_is_not_looked_for,
    a_page_beyond_the_file_is_given_up_until_the_next_change,
    a_page_that_its_process_cannot_have_is_given_up_until_the_next_change.needs_path(fuse::PATH),
    a_page_taken_away_in_a_loop_is_right_when_that_ends.needs_path(fuse::PATH),
);

/// Records when work is queued on the module's work queues.
pub struct Queued(TraceInstance);

const QUEUE_WORK: &str = "workqueue/workqueue_queue_work";

impl Queued {
    pub fn new(name: &str) -> Queued {
        let tracer = TraceInstance::instance(name);
        tracer.control("buffer_size_kb", "64");
        let filter = tracer.path("events").join(QUEUE_WORK).join("filter");
        tracefs::replace(&filter, "workqueue ~ \"user_events*\"").expect("set a filter");
        tracer.control(&format!("events/{QUEUE_WORK}/enable"), "1");
        Queued(tracer)
    }

    pub fn clear(&self) {
        self.0.control("trace", "");
    }

    /// The times at which each kind of work was queued, in seconds. The kind is the function: soon
    /// after boot all addresses are printed alike.
    fn times(&self) -> BTreeMap<String, Vec<f64>> {
        let mut times: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for line in self.0.text("trace").lines() {
            // `kworker [000] d..1. 12.345678: workqueue_queue_work: work struct=... function=...`
            let Some((before, after)) = line.split_once(": workqueue_queue_work: ") else {
                continue;
            };
            let time = before.rsplit(' ').next().and_then(|time| time.parse().ok());
            let function = after.split_once("function=").expect("a function").1;
            let work = function.split(' ').next().unwrap().to_string();
            times.entry(work).or_default().push(time.expect("a time"));
        }
        times
    }

    pub fn count(&self) -> usize {
        self.times().values().map(Vec::len).sum()
    }

    /// The pauses between the times of the work that was queued most often.
    pub fn pauses(&self) -> Vec<f64> {
        let times = self.times().into_values();
        let times = times.max_by_key(Vec::len).unwrap_or_default();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

/// The longest pause between two tries, in seconds.
const MAX_PAUSE: f64 = 1.28;

/// The control group of the process has no memory for the page.
fn pauses_grow_and_begin_anew_with_a_change() {
    // On one processor, as memory is charged in advance for each.
    os::run_on(os::cpus()[0]);
    let event = Event::new("st_retry_pauses u32 a");
    let group = Cgroup::new(&event.name);
    let mut child = group.fork(&event);
    let pid = child.pid;
    let queued = Queued::new(&event.name);
    group.enable_without_memory(&event, &mut child, || queued.clear());

    // 10 ms, 20 ms, ... 1.28 s, and so on. A busy machine makes none shorter, and some hardly
    // longer.
    let start = Instant::now();
    let longest = |pause: &f64| (0.9 * MAX_PAUSE..1.9 * MAX_PAUSE).contains(pause);
    wait::until("the pauses to be the longest", || {
        queued.pauses().into_iter().filter(longest).count() >= 2
    });
    let (pauses, seconds) = (queued.pauses(), start.elapsed().as_secs_f64());
    let most = 8.0 + seconds / MAX_PAUSE;
    let short = pauses.iter().filter(|pause| **pause < 0.5 * MAX_PAUSE);
    assert!(short.count() <= 8, "{pauses:?}");
    assert!((pauses.len() as f64) <= most + 2.0, "{pauses:?}");
    assert!(repair_pending(pid), "given up");

    // After a change the bit is tried at once, and then after short pauses again: 10 ms, 20 ms, 40
    // ms, ... Without those, two are short: between the two changes, and before the try that was
    // due anyway. A try takes time, too.
    let longest = pauses
        .into_iter()
        .filter(longest)
        .fold(f64::INFINITY, f64::min);
    queued.clear();
    event.switch(false);
    event.switch(true);
    wait::until("many tries soon after each other", || {
        let pauses = queued.pauses();
        let short = pauses
            .iter()
            .filter(|pause| **pause < longest - 0.5 * MAX_PAUSE);
        short.count() >= 4
    });
    assert!(repair_pending(pid), "given up");
    group.set("memory.max", "max");
    child.tell(Word::Set);
    wait_repaired(pid);
    event.switch(false);
    child.tell(Word::Clear);
    child.tell(Word::End);
    child.join();
}

/// A process that ends while another one shares its memory leaves the registrations to that one.
fn a_process_that_shares_the_memory_is_not_looked_for() {
    const NAME: &str = "st_retry_shared";
    let mut child: Child = child::fork(|line| {
        let event = Event::new(&format!("{NAME} u32 a"));
        // This process waits in vfork, and is killed there; the other one goes on.
        let _ = tasks::vfork(|| {
            line.send(std::process::id());
            serve(line, &event);
            0
        });
    });
    let other: i32 = child.line.receive();
    let queued = Queued::new(NAME);
    os::kill(child.pid, libc::SIGKILL).expect("kill it");
    tasks::wait_state(child.pid, child.pid, 'Z');
    // Longer than the longest pause.
    sleep(Duration::from_secs_f64(2.0 * MAX_PAUSE) * machine::slowness());
    assert_eq!(queued.count(), 0, "looked for");
    assert!(tracefs::event_exists(NAME), "gone too early");
    for _ in 0..2 {
        toggle_of(NAME, slice::from_mut(&mut child));
    }
    child.tell(Word::End);
    wait_gone(NAME);
    assert_eq!(child.wait(), libc::SIGKILL, "wait status of the child");
    wait::until("the other process to end", || {
        tasks::state(other, other).is_none_or(|state| state == 'Z')
    });
}

/// Asserts that a bit whose page is taken is given up, and is not written before the next change
/// although the page is given back. The first round checks that for longer than the longest pause.
fn is_given_up_until_the_next_change(event: &Event, take: impl Fn(), give: impl Fn()) {
    let other = Event::new(&event.text);
    let queued = Queued::new(&event.name);
    for round in 0..3 {
        take();
        for on in [true, false, true, false, true] {
            other.follows(on);
            settle();
        }
        give();
        assert!(!event.bit(), "written without a change");
        if round == 0 {
            let before = queued.count();
            sleep(Duration::from_secs_f64(2.0 * MAX_PAUSE) * machine::slowness());
            assert_eq!(queued.count(), before, "tries after it was given up");
            assert!(!repair_pending(std::process::id() as i32), "due again");
            assert!(!event.bit(), "written without a change");
        }
        event.switch(false);
        event.toggle();
    }
}

/// The work queue gives up a bit in a page beyond the end of a file in memory.
fn a_page_beyond_the_file_is_given_up_until_the_next_change() {
    let file = os::memory_file(PAGE as u64);
    let event = Event::in_memory("st_retry_file u32 a", Mapping::of_shared(&file, 1));
    is_given_up_until_the_next_change(
        &event,
        || file.set_len(0).expect("cut the file"),
        || file.set_len(PAGE as u64).expect("extend the file"),
    );
}

/// Task work gives up a bit in a page that may not be written.
fn a_page_that_its_process_cannot_have_is_given_up_until_the_next_change() {
    let _server = Server::start(1, PAGE);
    let event = Event::in_memory("st_retry_own u32 a", Mapping::of_shared(&fuse::open(), 1));
    is_given_up_until_the_next_change(
        &event,
        || event.page.protect(libc::PROT_NONE),
        || event.page.protect(READ_WRITE),
    );
}

fn a_page_taken_away_in_a_loop_is_right_when_that_ends() {
    let _server = Server::start(1, PAGE);
    let event = Event::in_memory("st_retry_loop u32 a", Mapping::of_shared(&fuse::open(), 1));
    let take = || event.page.discard();
    let times = wait::beside(take, || {
        for _ in 0..20 {
            event.switch(true);
            event.switch(false);
            // The repair ends: the bit is given up or written.
            settle();
        }
        // Registering waits for the page, and ends as well, most often in vain.
        let (mut tries, mut registered) = (0, 0);
        wait::until("a registration to be in time", || {
            let address = event.page.address() + 8;
            match event.register(address, 0) {
                Ok(_) => {
                    registered += 1;
                    let _ = event.data.unregister_bit(address, 0);
                }
                Err(errno) => assert_eq!(errno, Errno::EFAULT),
            }
            tries += 1;
            tries >= 20 && registered > 0
        });
    });
    println!("  # the page was taken away {times} times");
    for _ in 0..3 {
        event.toggle();
    }
    let listing = fs::read_to_string(crate::kit::abi::REGISTRATIONS).expect("the listing");
    assert!(!listing.contains(" repair"), "{listing}");
}
