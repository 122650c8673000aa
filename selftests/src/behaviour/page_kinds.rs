// SPDX-License-Identifier: GPL-2.0

//! The enable bit on pages that are shared, merged, or otherwise not a process's own.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Child, Line, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{stays_due, Event};
use crate::kit::fork_tree::{end, fork, tell};
use crate::kit::memory::{list_all_pages, Mapping, PAGE, READ, READ_WRITE};
use crate::kit::setting::Setting;
use crate::kit::swap::{self, Device, Swap};
use crate::kit::tracefs::TraceInstance;
use crate::kit::usage::grows_by_nothing;
use crate::kit::wait::{self, SetOnDrop};
use crate::kit::{machine, os, tasks};
use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

tests!("page_kinds":
    a_copied_page_is_right_on_both_sides,
    a_page_shared_until_written_is_never_written_through,
    memory_shared_by_fork_has_one_bit_for_both,
    a_page_given_back_keeps_its_bit.swapping(),
    pages_given_back_while_they_are_written_keep_their_bits.swapping(),
    pages_given_back_while_they_are_registered_keep_their_bits.swapping(),
    a_page_of_a_device_is_brought_in_by_its_own_process.swapping(),
    a_page_of_a_device_is_brought_in_by_any_thread.swapping(),
    a_page_of_a_device_is_brought_in_when_the_first_thread_has_exited.swapping(),
    a_first_thread_that_has_exited_keeps_nothing_of_its_process.swapping().limit(300),
    a_merged_page_is_copied.needs_path("/sys/kernel/mm/ksm/run"),
    the_latest_state_wins_on_a_page_that_comes_and_goes,
);

/// Fills a page, except its first word, with a pattern of `seed`.
fn fill(page: &Mapping, seed: u32) {
    for at in (4..PAGE).step_by(4) {
        page.set(at, seed ^ at as u32);
    }
}

fn is_filled(page: &Mapping, seed: u32) -> bool {
    (4..PAGE)
        .step_by(4)
        .all(|at| page.get(at) == seed ^ at as u32)
}

fn a_copied_page_is_right_on_both_sides() {
    let event = Event::new("st_kind_copied u32 a");
    fill(&event.page, 5);
    for _ in 0..3 {
        // Neither process has written to the page since the fork: the kernel is the first.
        let mut child = child::fork(|line| {
            line.hear(Word::Set);
            event.wait_set();
            line.say(Word::Set);
            event.wait_clear();
            assert!(is_filled(&event.page, 5), "the child's page");
            fill(&event.page, 6);
            line.say(Word::Clear);
            event.wait_set();
            assert!(is_filled(&event.page, 6), "the child's page, written to");
            line.say(Word::Again);
        });
        event.switch(true);
        child.line.say(Word::Set);
        event.wait_set();
        child.line.hear(Word::Set);
        event.follows(false);
        assert!(is_filled(&event.page, 5), "the parent's page");
        child.line.hear(Word::Clear);
        event.switch(true);
        child.line.hear(Word::Again);
        child.join();
        assert!(event.bit());
        assert!(is_filled(&event.page, 5), "the parent's page");
        event.follows(false);
    }
}

/// Gives up the registration without a write to the page, which stays shared: it is read-only
/// meanwhile, so the bit cannot be cleared.
fn give_up(event: &Event) {
    event.page.protect(READ);
    assert_eq!(event.unregister(), Err(Errno::EFAULT));
    event.page.protect(READ_WRITE);
}

fn a_page_shared_until_written_is_never_written_through() {
    // The child has no registration any more, but shares the page.
    let event = Event::new("st_kind_through u32 a");
    let mut child = child::fork_until(Word::GivenUp, |line| {
        give_up(&event);
        line.say(Word::GivenUp);
        for word in [Word::Set, Word::Clear] {
            line.hear(word);
            assert_eq!(event.page.get(0), 0);
        }
    });
    for (on, word) in [(true, Word::Set), (false, Word::Clear)] {
        event.follows(on);
        child.line.say(word);
    }
    child.join();

    // And the other way round.
    let mut children = vec![fork(&event)];
    give_up(&event);
    for (on, word) in [(true, Word::Set), (false, Word::Clear)] {
        event.switch(on);
        tell(&mut children, word);
        assert_eq!(event.page.get(0), 0);
    }
    end(children);
}

fn memory_shared_by_fork_has_one_bit_for_both() {
    let event = Event::in_memory("st_kind_family u32 a", Mapping::shared(1));
    let child = child::fork(|line| line.wait_for_kill());
    let toggle = || {
        for _ in 0..3 {
            event.follows(true);
            event.page.discard();
            event.follows(false);
        }
    };
    toggle();
    child.kill();
    toggle();
}

fn a_page_given_back_keeps_its_bit() {
    let _swap = Swap::new();
    let event = Event::new("st_kind_free u32 a");
    for _ in 0..5 {
        // The kernel may drop the page until something writes to it, as the bit does.
        event.page.advise(libc::MADV_FREE).unwrap();
        event.switch(true);
        event.page.page_out();
        event.wait_set();
        event.follows(false);
    }
}

const GIVEN_BACK: usize = 64;

/// Calls `write`, which sets bit 3 in each page's first word, while the kernel drops the pages: it
/// locks each, and nothing else may dirty it meanwhile. Waits until all bits are set.
fn set_while_dropped(pages: &Mapping, round: usize, write: impl FnOnce()) {
    list_all_pages();
    // The kernel may drop the pages until something writes to them.
    pages.advise(libc::MADV_FREE).unwrap();
    let is_written = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // From the first write on, at a page that depends on the round.
            let is_to_wait = || !is_written.load(Ordering::Relaxed);
            while is_to_wait() && pages.get(0) == 0 {}
            let from = (1 + round % 4 * 4) * PAGE;
            while is_to_wait() {
                pages
                    .advise_part(from, GIVEN_BACK * PAGE - from, libc::MADV_PAGEOUT)
                    .unwrap();
            }
        });
        let _end = SetOnDrop(&is_written);
        write();
    });
    let is_set = |page| pages.get(page * PAGE) == 1 << 3;
    wait::until("all bits to be set", || (0..GIVEN_BACK).all(is_set));
}

fn pages_given_back_while_they_are_written_keep_their_bits() {
    let _swap = Swap::new();
    let data = Data::open();
    let pages = Mapping::kept(GIVEN_BACK);
    data.register_pages("st_kind_given u32 a", &pages, 3);
    let top = TraceInstance::top();
    for round in 0..machine::rounds(10) {
        set_while_dropped(&pages, round, || top.enable("st_kind_given"));
        top.disable("st_kind_given");
        let is_clear = |page| pages.get(page * PAGE) == 0;
        wait::until("all bits to be clear", || (0..GIVEN_BACK).all(is_clear));
    }
}

fn pages_given_back_while_they_are_registered_keep_their_bits() {
    let _swap = Swap::new();
    let event = Event::new("st_kind_taken u32 a");
    let pages = Mapping::kept(GIVEN_BACK);
    event.switch(true);
    for round in 0..machine::rounds(10) {
        // The pages are present and dirty.
        (0..GIVEN_BACK).for_each(|page| pages.set(page * PAGE, 0));
        set_while_dropped(&pages, round, || {
            let index = event.data.register_pages("st_kind_taken u32 a", &pages, 3);
            assert_eq!(index, event.index);
        });
        for address in (pages.address()..pages.end()).step_by(PAGE) {
            assert_eq!(event.data.unregister_bit(address, 3), Ok(()));
        }
    }
    event.switch(false);
}

/// Makes an event with its bit on the first page of a device. Any program may serve a device, even
/// if its node lies in a file system in memory, so no worker faults in the page.
fn event_on(device: &Device, text: &str) -> Event {
    let file = File::options().read(true).write(true).open(device.path());
    Event::in_memory(text, Mapping::of_shared(&file.expect("open a device"), 1))
}

/// In a child: drops the page of its bit, and looks at the bit, for each of two changes.
fn drop_and_look(line: &mut Line, own: &Event, look: impl Fn(&mut Line, bool)) {
    for on in [true, false] {
        own.page.discard();
        line.say(Word::Dropped);
        look(line, on);
        line.say(Word::Seen);
    }
}

/// The first thread sleeps all the time.
fn a_page_of_a_device_is_brought_in_by_any_thread() {
    let device = Device::new();
    let event = Event::new("st_kind_thread u32 a");
    let mut child = child::fork(|line| {
        let own = event_on(&device, "st_kind_thread u32 a");
        let other = || {
            drop_and_look(line, &own, |_, on| {
                // Without a read of the word, which would fault the page in.
                swap::wait_brought_back(&own.page);
                assert_eq!(own.bit(), on, "the bit");
            });
        };
        thread::scope(|scope| scope.spawn(other).join().expect("the other thread"));
    });
    let pid = child.pid;
    switch_when_dropped(&mut child, &event, || tasks::wait_state(pid, pid, 'S'));
    child.join();
}

/// Enables, then disables the event, each when the child has reported its page as dropped and
/// `wait` has returned. The child reports that its bit has followed.
fn switch_when_dropped(child: &mut Child, event: &Event, wait: impl Fn()) {
    for on in [true, false] {
        child.line.hear(Word::Dropped);
        wait();
        event.switch(on);
        child.line.hear(Word::Seen);
    }
}

/// Exits the first thread of this process, which keeps its memory. Another thread calls `run`, and
/// ends the process.
fn without_the_first_thread(run: impl FnOnce() + Send) {
    let first = std::process::id() as i32;
    thread::scope(|scope| {
        scope.spawn(move || {
            tasks::wait_state(first, first, 'Z');
            run();
            os::exit_now(0)
        });
        tasks::exit_thread();
    });
}

fn a_page_of_a_device_is_brought_in_when_the_first_thread_has_exited() {
    let device = Device::new();
    let event = Event::new("st_kind_first u32 a");
    let mut child = child::fork(|line| {
        let own = event_on(&device, "st_kind_first u32 a");
        without_the_first_thread(|| {
            drop_and_look(line, &own, |_, on| {
                wait::until("the bit", || own.bit() == on);
            });
        });
    });
    switch_when_dropped(&mut child, &event, || ());
    child.join();
}

/// The work queue notifies that thread, too, which does not run task work any more.
fn a_first_thread_that_has_exited_keeps_nothing_of_its_process() {
    let device = Device::new();
    let event = Event::new("st_kind_first u32 a");
    grows_by_nothing(10, machine::rounds(60), |_| {
        let child = child::fork_until(Word::Dropped, |line| {
            let own = event_on(&device, "st_kind_first u32 a");
            own.page.discard();
            without_the_first_thread(|| line.ask(Word::Dropped, Word::End));
        });
        event.follows(true);
        child.finish();
        event.follows(false);
    });
}

fn a_page_of_a_device_is_brought_in_by_its_own_process() {
    let device = Device::new();
    let event = Event::new("st_kind_device u32 a");
    let mut child = child::fork(|line| {
        let own = event_on(&device, "st_kind_device u32 a");
        drop_and_look(line, &own, |line, on| {
            line.hear(Word::Look);
            // Written by the task work of this thread, before it returned from its sleep.
            assert_eq!(own.bit(), on, "the bit");
        });
    });
    for on in [true, false] {
        child.line.hear(Word::Dropped);
        // On its way to sleep the process would write the bit itself.
        tasks::wait_state(child.pid, child.pid, 'S');
        event.follows(on);
        stays_due(child.pid);
        child.line.ask(Word::Look, Word::Seen);
    }
    child.join();
}

fn a_merged_page_is_copied() {
    const PAGES: usize = 16;
    let data = Data::open();
    let pages = Mapping::new(PAGES);
    // Two of the pages have a registered bit. All have the same contents, bits included.
    let registered = [3, 11];
    for page in registered {
        let address = pages.address() + (page * PAGE) as u64;
        data.register_text("st_kind_merged u32 a", address, 0)
            .unwrap();
    }
    let top = TraceInstance::top();
    for round in 0..2 {
        for at in (0..PAGES * PAGE).step_by(4) {
            pages.set(at, if at % PAGE == 0 { 0 } else { 77 });
        }
        pages.advise(libc::MADV_MERGEABLE).unwrap();
        let merging = [
            ("/sys/kernel/mm/ksm/sleep_millisecs", "5"),
            ("/sys/kernel/mm/ksm/pages_to_scan", "1000"),
            ("/sys/kernel/mm/ksm/run", "1"),
        ];
        let merging = merging.map(|(path, value)| Setting::new(path, value));
        wait::until("the kernel to merge the pages", || {
            let merged = fs::read_to_string("/proc/self/ksm_merging_pages").unwrap();
            merged.trim() == PAGES.to_string()
        });
        if round == 1 {
            // No further merging: the pages stay as the writes of the bits leave them.
            drop(merging);
        }
        let is = |on: bool| {
            (0..PAGES).all(|page| {
                let want = u32::from(on && registered.contains(&page));
                pages.get(page * PAGE) == want
            })
        };
        top.enable("st_kind_merged");
        wait::until("the bits of two pages, and no other", || is(true));
        top.disable("st_kind_merged");
        wait::until("the bits to be cleared", || is(false));
        for at in (0..PAGES * PAGE).step_by(4).filter(|at| at % PAGE != 0) {
            assert_eq!(pages.get(at), 77, "at {at:#x}");
        }
    }
}

fn the_latest_state_wins_on_a_page_that_comes_and_goes() {
    let event = Event::new("st_kind_latest u32 a");
    for _ in 0..10 {
        thread::scope(|scope| {
            // Drops the page all the time, so that some changes are repaired and others are not.
            let dropper = scope.spawn(|| (0..200).for_each(|_| event.page.discard()));
            while !dropper.is_finished() {
                event.switch(true);
                event.switch(false);
            }
        });
        // The next change writes a bit that was lost with the page; no late repair reverts it.
        event.follows(true);
        event.page.discard();
        for _ in 0..5 {
            event.switch(false);
            event.switch(true);
        }
        event.wait_set();
        for _ in 0..20 {
            assert!(event.bit());
            thread::yield_now();
        }
        event.follows(false);
    }
}
