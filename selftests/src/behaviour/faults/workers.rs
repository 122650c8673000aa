// SPDX-License-Identifier: GPL-2.0

//! Allocations of the module fail in its workers while bits are written: no bit may be lost. The
//! nth fault of a thread ([`calls`](super::calls)) never reaches a worker.

use crate::harness::tests;
use crate::kit::child::{self, Child, Word};
use crate::kit::event::{wait_gone, Event};
use crate::kit::faults::{InModule, PATH};
use crate::kit::fork_tree::{end, fork, tell, toggle};
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::userfault::{Guard, Userfault};
use crate::kit::{abi, wait};
use std::fs::{self, File};
use std::sync::atomic::Ordering;

tests!("faults::workers" on PATH:
    no_bit_is_lost_while_allocations_fail.limit(1800),
    events_and_processes_go_without_memory.limit(900),
    no_handler_is_forgotten_that_there_was_no_memory_to_ask.limit(900),
    no_bit_is_lost_for_which_its_process_had_no_memory.limit(1800),
);

const PAGES: usize = 32;

/// An event with a bit on each of several pages, which can be dropped.
struct Bits {
    event: Event,
    pages: Mapping,
}

impl Bits {
    fn new(name: &str) -> Bits {
        // The kernel warns when it stops recording command names that it had no memory to start
        // recording.
        TraceInstance::top().control("options/record-cmd", "0");
        let event = Event::new(&format!("{name} u32 a"));
        let pages = Mapping::kept(PAGES);
        event
            .data
            .register_pages(&format!("{name} u32 a"), &pages, 3);
        Bits { event, pages }
    }

    fn drop_pages(&self) {
        self.pages.advise(libc::MADV_DONTNEED).unwrap();
        self.event.page.advise(libc::MADV_DONTNEED).unwrap();
    }

    /// Switches the event; retries if that lacks memory.
    fn switch(&self, on: bool) {
        let path = TraceInstance::top().file(&self.event.name, "enable");
        wait::until("the event to be switched", || {
            fs::write(&path, if on { "1" } else { "0" }).is_ok()
        });
    }

    /// Waits until all bits show this state, without a further change.
    #[track_caller]
    fn come_to_be(&self, on: bool) {
        let want = if on { 1 << 3 } else { 0 };
        let is_so = |page| self.pages.word(page * PAGE).load(Ordering::Relaxed) == want;
        // No bit is read before: a read would fault the page in.
        wait::until("the kernel to bring all pages in", || {
            self.pages.resident() == PAGES
        });
        wait::until("all bits to be right", || (0..PAGES).all(is_so));
        wait::until("the first one to be right", || self.event.bit() == on);
    }
}

impl Drop for Bits {
    fn drop(&mut self) {
        TraceInstance::top().control("options/record-cmd", "1");
    }
}

/// Most page allocations of a worker fail, or some of all: the bits are written when there is
/// memory again. Not all fail, as attaching may need a page.
fn no_bit_is_lost_while_allocations_fail() {
    let bits = Bits::new("st_failing_bits");
    let mut children = vec![fork(&bits.event), fork(&bits.event)];
    for (kinds, rounds, changes, least) in [
        // More than attaching alone can meet, and one for each page.
        (&[("fail_page_alloc", 90)][..], 4, 1, 2 * PAGES as u64),
        (&[("failslab", 20), ("fail_page_alloc", 50)], 12, 5, 10),
    ] {
        let mut met = 0;
        for round in 0..rounds {
            // A dropped page reads as zero: only setting its bit needs memory.
            tell(&mut children, Word::Drop);
            bits.drop_pages();
            let failing = InModule::fail(kinds);
            // Only the last change counts.
            let on = round % 2 == 0;
            for change in 0..changes {
                bits.switch(on == (change % 2 == 0));
            }
            if on {
                failing.wait_for(least);
            }
            met += failing.end();
            bits.come_to_be(on);
            tell(&mut children, if on { Word::Set } else { Word::Clear });
        }
        println!("  # {met} allocations failed: {kinds:?}");
    }
    toggle(&bits.event, &mut children);
    end(children);
}

/// The work queue also removes events and detects the end of processes. That needs no memory except
/// for the records of a kernel with object debugging.
fn events_and_processes_go_without_memory() {
    const NAME: &str = "st_failing_events";
    let stays = Event::new("st_failing_stays u32 a");
    for round in 0..10 {
        let mut user = child::fork(|line| {
            let event = Event::new(&format!("{NAME} u32 a"));
            // A second process, which ends later.
            let mut other = child::fork(|line| line.hear(Word::End));
            line.say(Word::Registered);
            line.hear(Word::End);
            other.line.say(Word::End);
            drop((event, other));
        });
        user.line.hear(Word::Registered);
        let failing = InModule::fail(&[("failslab", 100), ("fail_page_alloc", 100)]);
        user.kill();
        wait_gone(NAME);
        drop(failing);
        assert!(tracefs::event_exists(&stays.name), "round {round}");
    }
    let listing = fs::read_to_string(abi::REGISTRATIONS).expect("the listing");
    assert!(!listing.contains(NAME), "{listing}");
    toggle(&stays, &mut []);
}

/// Makes a process with an event of this name whose page is guarded. Returns the process, which
/// executes orders, the handler of its page, and the page's address.
fn guarded(name: &str) -> (Child, Userfault, u64) {
    let mut user = child::fork(|line| {
        let event = Event::new(&format!("{name} u32 a"));
        let faults = Userfault::new();
        faults.guard(&event.page, Guard::Missing);
        faults.send(line, &event.page);
        let obey = move |word: Word| match word {
            Word::Drop => event.page.advise(libc::MADV_DONTNEED).unwrap(),
            Word::Set => event.wait_set(),
            Word::Clear => event.wait_clear(),
            word => panic!("told to {word:?}"),
        };
        child::serve(line, obey, |_, _| false)
    });
    let (handler, page) = Userfault::of_child(&mut user);
    (user, handler, page)
}

/// A separate worker faults in a guarded page and waits for it.
fn no_handler_is_forgotten_that_there_was_no_memory_to_ask() {
    const NAME: &str = "st_failing_asked";
    let bits = Bits::new(NAME);
    let (mut user, handler, page) = guarded(NAME);
    let (mut met, mut round) = (0, 0);
    // An even number of rounds: as many changes in each direction.
    while met < 5 || round % 2 != 0 {
        assert!(round < 60, "only {met} allocations of workers failed");
        let on = round % 2 == 0;
        round += 1;
        user.tell(Word::Drop);
        let failing = InModule::fail(&[("failslab", 50)]);
        bits.switch(on);
        // Failures so far may be from attaching.
        let before = failing.met();
        wait::until("the process to ask for its page", || {
            handler.next_fault() == Some(page)
        });
        met += failing.end() - before;
        handler.fill(page, if on { 0 } else { u32::MAX });
        user.tell(if on { Word::Set } else { Word::Clear });
    }
    user.kill();
    println!("  # {met} allocations failed in {round} rounds");
}

/// Makes a process with an event of this name whose bit is in a page of a file system, which only
/// the process can fault in. On order, it waits for a change of the bit, drops the page, and stores
/// the new state in the returned memory.
fn with_page_of_file(name: &str) -> (Child, &'static Mapping) {
    // Clear in the first word of an ELF file.
    const BIT: u8 = 7;
    let file = File::open("/proc/self/exe").expect("open a file");
    let seen: &'static Mapping = Box::leak(Box::new(Mapping::shared(1)));
    let mut user = child::fork(|line| {
        let text = format!("{name} u32 a");
        let event = Event::new(&text);
        let page = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_PRIVATE).expect("mmap");
        let registered = event.data.register_text(&text, page.address(), BIT);
        registered.expect("register");
        line.say(Word::Registered);
        let comes = move |set: bool| {
            wait::until("the bit to be right", || {
                (page.word(0).load(Ordering::Relaxed) & (1 << BIT) != 0) == set
            });
            page.advise(libc::MADV_DONTNEED).unwrap();
            seen.word(0).store(set.into(), Ordering::SeqCst);
        };
        let obey = move |word: Word| match word {
            Word::SetThenDrop => comes(true),
            Word::ClearThenDrop => comes(false),
            word => panic!("told to {word:?}"),
        };
        child::serve(line, obey, |_, _| false)
    });
    user.line.hear(Word::Registered);
    (user, seen)
}

fn no_bit_is_lost_for_which_its_process_had_no_memory() {
    // A worker allocates the task work for the process.
    comes_although_there_is_no_memory("st_failing_told", ("failslab", 50));
    // The process needs memory for its copy of the page.
    comes_although_there_is_no_memory("st_failing_own", ("fail_page_alloc", 90));
}

/// Checks that the bit of such a process is written, however often allocations of a kind fail.
fn comes_although_there_is_no_memory(name: &str, kind: (&str, u32)) {
    let bits = Bits::new(name);
    let (mut user, seen) = with_page_of_file(name);
    let (mut met, mut round) = (0, 0);
    // The number of failures counted in a round depends on how soon the process runs.
    while met < 8 {
        assert!(round < 100, "only {met} allocations failed");
        round += 1;
        user.tell(Word::ClearThenDrop);
        user.line.say(Word::SetThenDrop);
        let failing = InModule::fail(&[kind]);
        bits.switch(true);
        // Failures so far may be from attaching.
        let before = failing.met();
        wait::until("something to fail, or the bit to come", || {
            failing.met() >= before + 2 || seen.word(0).load(Ordering::SeqCst) == 1
        });
        met += failing.end() - before;
        user.line.hear(Word::SetThenDrop);
        bits.switch(false);
    }
    user.kill();
    println!("  # {met} allocations failed in {round} rounds");
}
