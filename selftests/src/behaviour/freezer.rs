// SPDX-License-Identifier: GPL-2.0

//! Processes frozen by their control group, or by a suspend, with bits still to be written.

use super::userfaultfd::Guarded;
use crate::harness::tests;
use crate::kit::cgroup::Cgroup;
use crate::kit::child::{self, Child, Word};
use crate::kit::event::{repair_pending, wait_due, wait_repaired, Event};
use crate::kit::fork_tree::serve;
use crate::kit::fuse::{self, Server};
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::numbered::{Numbered, Order};
use crate::kit::setting::Setting;
use crate::kit::tracefs::TraceInstance;
use crate::kit::userfault::Guard;
use crate::kit::{dynamic, machine, wait};
use std::fs;
use std::time::{Duration, Instant};

tests!("freezer":
    a_page_of_a_file_is_written_at_the_thaw.needs_path(fuse::PATH),
    processes_go_on_when_the_machine_wakes.needs_path(PM_TEST),
);

/// The step of a suspend after which the kernel resumes, for tests.
const PM_TEST: &str = "/sys/power/pm_test";
const PM_TEST_DELAY: &str = "/sys/module/suspend/parameters/pm_test_delay";

/// Asserts that `run` waits for no process: the limit is far longer than anything else here takes.
fn promptly<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    let limit = Duration::from_secs(5) * machine::slowness();
    assert!(start.elapsed() < limit, "{what} took {:?}", start.elapsed());
    result
}

/// A group to be frozen, with one process.
struct Frozen {
    group: Cgroup,
    child: Child,
}

impl Frozen {
    /// Freezes a process.
    #[track_caller]
    fn new(name: &str, child: Child) -> Frozen {
        let group = Cgroup::new(name);
        group.set("cgroup.procs", &child.pid.to_string());
        let frozen = Frozen { group, child };
        frozen.freeze();
        frozen
    }

    #[track_caller]
    fn freeze(&self) {
        self.group.set("cgroup.freeze", "1");
        wait::until("the process to be frozen", || self.is_frozen());
    }

    fn thaw(&self) {
        self.group.set("cgroup.freeze", "0");
    }

    fn is_frozen(&self) -> bool {
        self.group.number("cgroup.events", "frozen") == 1
    }
}

fn a_page_of_a_file_is_written_at_the_thaw() {
    const NAME: &str = "st_frozen_file";
    let mut server = Server::start(1, PAGE);
    let other = Event::new(&format!("{NAME} u32 a"));
    let child = child::fork_until(Word::Registered, |line| {
        let page = Mapping::of_shared(&fuse::open(), 1);
        let event = Event::in_memory(&format!("{NAME} u32 a"), page);
        event.page.discard();
        line.say(Word::Registered);
        serve(line, &event);
    });
    // Only a task of the process may fault in the page from the server.
    server.drop_pages();
    let mut frozen = Frozen::new(NAME, child);
    let pid = frozen.child.pid;
    let top = TraceInstance::top();
    for _ in 0..3 {
        for _ in 0..3 {
            promptly("attaching", || top.enable(NAME));
            other.wait_set();
            promptly("detaching", || top.disable(NAME));
            other.wait_clear();
        }
        top.enable(NAME);
        wait_due(pid);
        promptly("forking and registering", || {
            let other = child::fork(|_| drop(Event::new("st_frozen_other u32 a")));
            other.join();
        });
        assert!(
            frozen.is_frozen() && repair_pending(pid),
            "it has run meanwhile"
        );
        frozen.thaw();
        frozen.child.tell(Word::Set);
        wait_repaired(pid);
        top.disable(NAME);
        frozen.child.tell(Word::Clear);
        frozen.child.tell(Word::Drop);
        server.drop_pages();
        frozen.freeze();
    }
    frozen.thaw();
    frozen.child.tell(Word::End);
    frozen.child.join();
}

/// Starts a suspend, which freezes all processes but this one, and resumes after `seconds`.
#[track_caller]
fn nap(state: &str, seconds: u32) {
    let _delay = Setting::new(PM_TEST_DELAY, &seconds.to_string());
    // The file lists all values, so its text cannot be written back.
    fs::write(PM_TEST, "freezer").expect("freeze only");
    let slept = fs::write("/sys/power/state", state);
    fs::write(PM_TEST, "none").expect("suspend wholly");
    slept.unwrap_or_else(|error| panic!("{state}: {error}"));
}

fn processes_go_on_when_the_machine_wakes() {
    let states = fs::read_to_string("/sys/power/state").expect("ways to sleep");
    // Not hibernation: before it freezes anything it makes room for an image, which takes long.
    let states = states.split_whitespace().filter(|state| *state != "disk");
    let states: Vec<&str> = states.collect();
    assert!(states.contains(&"freeze"), "{states:?}");
    let event = Event::new("st_nap_bits u32 a");
    let mut child = child::fork(|line| serve(line, &event));
    let mut tell = |word| child.tell(word);
    let numbered = Numbered::new("st_nap_records", 2);
    let tracer = numbered.attached(1024);
    let top = TraceInstance::top();
    let mut order = Order::default();
    numbered.beside(|| {
        for state in states {
            numbered.wait_taken(50);
            tell(Word::Drop);
            event.page.discard();
            event.switch(true);
            // A bit that is due while all processes are frozen, and after the resume.
            let mut guarded = Guarded::new("st_nap_due", Guard::Missing);
            top.enable("st_nap_due");
            guarded.wait_for_fault();
            assert!(repair_pending(guarded.child.pid), "nothing is due");
            nap(state, 1);
            assert!(repair_pending(guarded.child.pid), "it is forgotten");
            guarded.faults.fill(guarded.page, 0);
            guarded.child.tell(Word::Set);
            top.disable("st_nap_due");
            guarded.child.kill();
            event.wait_set();
            tell(Word::Set);
            event.switch(false);
            nap(state, 0);
            event.wait_clear();
            tell(Word::Clear);
            numbered.wait_taken(50);
            order.see(&numbered.take(&tracer));
        }
    });
    order.judge();
    assert!(numbered.event.bit(), "the bit is lost");
    numbered.all_is_recorded(&tracer);
    // Adding and removing events works again, too.
    dynamic::run("u:st_nap_made u32 a").expect("make an event");
    dynamic::run("-:st_nap_made").expect("delete it");
    tell(Word::End);
    child.join();
}
