// SPDX-License-Identifier: GPL-2.0

//! The enable bit on pages that are shared, merged, or otherwise not a process's own.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Child, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{repair_pending, Event};
use crate::kit::fork_tree::{end, fork, tell, toggle};
use crate::kit::memory::{Mapping, PAGE, READ, READ_WRITE};
use crate::kit::setting::Setting;
use crate::kit::swap::{Device, Swap};
use crate::kit::tracefs::TraceInstance;
use crate::kit::usage::grows_by_nothing;
use crate::kit::wait::{self, SetOnDrop};
use crate::kit::{machine, os, tasks};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

tests!("page_kinds":
    a_copied_page_is_right_on_both_sides,
    a_page_shared_until_written_is_never_written_through,
    memory_shared_by_fork_has_one_bit_for_both,
    a_file_in_memory_shows_the_bits_of_two_processes,
    the_programs_own_data_is_written,
    a_page_past_the_end_of_its_file_waits_for_the_next_change,
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
        page.word(at).store(seed ^ at as u32, Ordering::Relaxed);
    }
}

fn is_filled(page: &Mapping, seed: u32) -> bool {
    (4..PAGE)
        .step_by(4)
        .all(|at| page.word(at).load(Ordering::Relaxed) == seed ^ at as u32)
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
        let top = TraceInstance::top();
        top.enable(&event.name);
        child.line.say(Word::Set);
        event.wait_set();
        child.line.hear(Word::Set);
        top.disable(&event.name);
        event.wait_clear();
        assert!(is_filled(&event.page, 5), "the parent's page");
        child.line.hear(Word::Clear);
        top.enable(&event.name);
        child.line.hear(Word::Again);
        child.join();
        assert!(event.bit());
        assert!(is_filled(&event.page, 5), "the parent's page");
        top.disable(&event.name);
        event.wait_clear();
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
    let top = TraceInstance::top();
    // The child has no registration any more, but shares the page.
    let event = Event::new("st_kind_through u32 a");
    let mut child = child::fork(|line| {
        give_up(&event);
        line.say(Word::GivenUp);
        line.hear(Word::Set);
        assert_eq!(event.page.word(0).load(Ordering::Relaxed), 0);
        line.hear(Word::Clear);
        assert_eq!(event.page.word(0).load(Ordering::Relaxed), 0);
    });
    child.line.hear(Word::GivenUp);
    top.enable(&event.name);
    event.wait_set();
    child.line.say(Word::Set);
    top.disable(&event.name);
    event.wait_clear();
    child.line.say(Word::Clear);
    child.join();

    // And the other way round.
    let mut children = vec![fork(&event)];
    give_up(&event);
    top.enable(&event.name);
    tell(&mut children, Word::Set);
    assert_eq!(event.page.word(0).load(Ordering::Relaxed), 0);
    top.disable(&event.name);
    tell(&mut children, Word::Clear);
    end(children);
    assert_eq!(event.page.word(0).load(Ordering::Relaxed), 0);
}

fn memory_shared_by_fork_has_one_bit_for_both() {
    let data = Data::open();
    let page = Mapping::shared(1);
    data.register_text("st_kind_family u32 a", page.address(), 4)
        .unwrap();
    let child = child::fork(|line| line.wait_for_kill());
    let top = TraceInstance::top();
    let is = |word| page.word(0).load(Ordering::Relaxed) == word;
    let toggle = || {
        for _ in 0..3 {
            top.enable("st_kind_family");
            wait::until("the bit to be set", || is(1 << 4));
            page.advise(libc::MADV_DONTNEED).unwrap();
            top.disable("st_kind_family");
            wait::until("the bit to be cleared", || is(0));
        }
    };
    toggle();
    child.kill();
    toggle();
}

fn a_file_in_memory_shows_the_bits_of_two_processes() {
    let file = os::memory_file(2 * PAGE as u64);
    // Each process maps the file itself, and registers a bit of its own in the second page.
    let user = |line: &mut child::Line, bit: u8| {
        let data = Data::open();
        let pages = Mapping::of_file(&file, 2, READ_WRITE, libc::MAP_SHARED).unwrap();
        let address = pages.address() + PAGE as u64 + 8;
        data.register_text("st_kind_two u32 a", address, bit)
            .unwrap();
        line.say(Word::Registered);
        line.hear(Word::Drop);
        pages.advise(libc::MADV_DONTNEED).unwrap();
        line.say(Word::Dropped);
        line.hear(Word::End);
    };
    let mut one = child::fork(|line| user(line, 3));
    let mut two = child::fork(|line| user(line, 30));
    one.line.hear(Word::Registered);
    two.line.hear(Word::Registered);
    let seen = || {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, PAGE as u64 + 8).unwrap();
        u32::from_ne_bytes(bytes)
    };
    let top = TraceInstance::top();
    let toggle = |want: u32| {
        top.enable("st_kind_two");
        wait::until("the bits in the file", || seen() == want);
        top.disable("st_kind_two");
        wait::until("the bits in the file to be cleared", || seen() == 0);
    };
    toggle((1 << 3) | (1 << 30));
    one.line.say(Word::Drop);
    one.line.hear(Word::Dropped);
    toggle((1 << 3) | (1 << 30));
    one.kill();
    toggle(1 << 30);
    two.line.say(Word::Drop);
    two.line.hear(Word::Dropped);
    toggle(1 << 30);
    two.line.say(Word::End);
    two.join();
}

/// What most programs register: a variable on a private page of the program's file.
static VARIABLE: AtomicU32 = AtomicU32::new(0xf0);

fn the_programs_own_data_is_written() {
    let data = Data::open();
    data.register_text("st_kind_data u32 a", VARIABLE.as_ptr() as u64, 0)
        .unwrap();
    let is = |word| move || VARIABLE.load(Ordering::Relaxed) == word;
    let mut child = child::fork(|line| {
        for _ in 0..2 {
            wait::until("the child's bit", is(0xf1));
            line.say(Word::Set);
            wait::until("the child's bit to be cleared", is(0xf0));
            line.say(Word::Clear);
        }
    });
    let top = TraceInstance::top();
    for _ in 0..2 {
        top.enable("st_kind_data");
        wait::until("the variable's bit", is(0xf1));
        child.line.hear(Word::Set);
        top.disable("st_kind_data");
        wait::until("it to be cleared", is(0xf0));
        child.line.hear(Word::Clear);
    }
    child.join();
}

fn a_page_past_the_end_of_its_file_waits_for_the_next_change() {
    let file = os::memory_file(PAGE as u64);
    let event = Event::new("st_kind_end u32 a");
    let page = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_SHARED).unwrap();
    event
        .data
        .register_text("st_kind_end u32 a", page.address(), 0)
        .unwrap();
    file.set_len(0).unwrap();
    for _ in 0..2 {
        toggle(&event, &mut []);
    }
    file.set_len(PAGE as u64).unwrap();
    let top = TraceInstance::top();
    let is = |word| page.word(0).load(Ordering::Relaxed) == word;
    top.enable(&event.name);
    wait::until("the bit on the page that is back", || is(1));
    top.disable(&event.name);
    wait::until("it to be cleared", || is(0));
}

fn a_page_given_back_keeps_its_bit() {
    let _swap = Swap::new();
    let event = Event::new("st_kind_free u32 a");
    let top = TraceInstance::top();
    for _ in 0..5 {
        // The kernel may drop the page until something writes to it, as the bit does.
        event.page.advise(libc::MADV_FREE).unwrap();
        top.enable(&event.name);
        event.page.page_out();
        event.wait_set();
        top.disable(&event.name);
        event.wait_clear();
    }
}

const GIVEN_BACK: usize = 64;

/// Calls `write`, which sets bit 3 in each page's first word, while the kernel drops the pages: it
/// locks each, and nothing else may dirty it meanwhile. Waits until all bits are set.
fn set_while_dropped(pages: &Mapping, round: usize, write: impl FnOnce()) {
    // Drains the batches of pages to the lists that reclaim walks. 4: without log messages.
    for value in ["4", "1"] {
        fs::write("/proc/sys/vm/drop_caches", value).expect("drop_caches");
    }
    // The kernel may drop the pages until something writes to them.
    pages.advise(libc::MADV_FREE).unwrap();
    let is_written = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // From the first write on, at a page that depends on the round.
            let is_to_wait = || !is_written.load(Ordering::Relaxed);
            while is_to_wait() && pages.word(0).load(Ordering::Relaxed) == 0 {}
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
    let is_set = |page| pages.word(page * PAGE).load(Ordering::Relaxed) == 1 << 3;
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
        let is_clear = |page| pages.word(page * PAGE).load(Ordering::Relaxed) == 0;
        wait::until("all bits to be clear", || (0..GIVEN_BACK).all(is_clear));
    }
}

fn pages_given_back_while_they_are_registered_keep_their_bits() {
    let _swap = Swap::new();
    let event = Event::new("st_kind_taken u32 a");
    let text = format!("{} u32 a", event.name);
    let pages = Mapping::kept(GIVEN_BACK);
    let address = |page: usize| pages.address() + (page * PAGE) as u64;
    let top = TraceInstance::top();
    top.enable(&event.name);
    for round in 0..machine::rounds(10) {
        // The pages are present and dirty.
        (0..GIVEN_BACK).for_each(|page| pages.put(page * PAGE, &[0]));
        set_while_dropped(&pages, round, || {
            let index = event.data.register_pages(&text, &pages, 3);
            assert_eq!(index, event.index);
        });
        for page in 0..GIVEN_BACK {
            assert_eq!(event.data.unregister_bit(address(page), 3), Ok(()));
        }
    }
    top.disable(&event.name);
}

/// Registers a bit on the first page of a device. Any program may serve a device, even if its node
/// lies in a file system in memory, so no worker faults in the page.
fn register_on(device: &Device, text: &str) -> (Data, Mapping) {
    let file = File::options().read(true).write(true).open(device.path());
    let file = file.expect("open a device");
    let page = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_SHARED).expect("mmap");
    let data = Data::open();
    data.register_text(text, page.address(), 0)
        .expect("register");
    (data, page)
}

/// The first thread sleeps all the time.
fn a_page_of_a_device_is_brought_in_by_any_thread() {
    let device = Device::new();
    let event = Event::new("st_kind_thread u32 a");
    let mut child = child::fork(|line| {
        let (_data, page) = register_on(&device, "st_kind_thread u32 a");
        let other = || {
            for on in [true, false] {
                page.advise(libc::MADV_DONTNEED).expect("MADV_DONTNEED");
                line.say(Word::Dropped);
                // Without a read of the word, which would fault the page in.
                wait::until("this thread to bring the page in", || {
                    page.swapped_or_present().1
                });
                let bit = page.word(0).load(Ordering::Relaxed) & 1 != 0;
                assert_eq!(bit, on, "the bit");
                line.say(Word::Seen);
            }
        };
        thread::scope(|scope| scope.spawn(other).join().expect("the other thread"));
    });
    let pid = child.pid;
    switch_when_dropped(&mut child, &event, || {
        wait::until("the first thread to sleep", || {
            tasks::state(pid, pid) == Some('S')
        });
    });
    child.join();
}

/// Enables, then disables the event, each when the child has reported its page as dropped and
/// `wait` has returned. The child reports that its bit has followed.
fn switch_when_dropped(child: &mut Child, event: &Event, wait: impl Fn()) {
    let top = TraceInstance::top();
    for on in [true, false] {
        child.line.hear(Word::Dropped);
        wait();
        if on {
            top.enable(&event.name);
        } else {
            top.disable(&event.name);
        }
        child.line.hear(Word::Seen);
    }
}

/// Exits the first thread of this process, which keeps its memory. Another thread calls `run`, and
/// ends the process.
fn without_the_first_thread(run: impl FnOnce() + Send) {
    let first = std::process::id() as i32;
    thread::scope(|scope| {
        scope.spawn(move || {
            wait::until("the first thread to exit", || {
                tasks::state(first, first) == Some('Z')
            });
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
        let (_data, page) = register_on(&device, "st_kind_first u32 a");
        without_the_first_thread(|| {
            for on in [true, false] {
                page.advise(libc::MADV_DONTNEED).expect("MADV_DONTNEED");
                line.say(Word::Dropped);
                let bit = || page.word(0).load(Ordering::Relaxed) & 1 != 0;
                wait::until("the bit", || bit() == on);
                line.say(Word::Seen);
            }
        });
    });
    switch_when_dropped(&mut child, &event, || ());
    child.join();
}

/// The work queue notifies that thread, too, which does not run task work any more.
fn a_first_thread_that_has_exited_keeps_nothing_of_its_process() {
    let device = Device::new();
    let event = Event::new("st_kind_first u32 a");
    let top = TraceInstance::top();
    grows_by_nothing(10, machine::rounds(60), |_| {
        let mut child = child::fork(|line| {
            let (_data, page) = register_on(&device, "st_kind_first u32 a");
            page.advise(libc::MADV_DONTNEED).expect("MADV_DONTNEED");
            without_the_first_thread(|| {
                line.say(Word::Dropped);
                line.hear(Word::End);
            });
        });
        child.line.hear(Word::Dropped);
        top.enable(&event.name);
        event.wait_set();
        child.line.say(Word::End);
        child.join();
        top.disable(&event.name);
        event.wait_clear();
    });
}

fn a_page_of_a_device_is_brought_in_by_its_own_process() {
    let device = Device::new();
    let event = Event::new("st_kind_device u32 a");
    let mut child = child::fork(|line| {
        let (_data, page) = register_on(&device, "st_kind_device u32 a");
        let bit = || page.word(0).load(Ordering::Relaxed) & 1 != 0;
        for (word, on) in [(Word::Set, true), (Word::Clear, false)] {
            page.advise(libc::MADV_DONTNEED).expect("MADV_DONTNEED");
            line.say(Word::Dropped);
            line.hear(word);
            // Written by the task work of this thread, before it returned from its sleep.
            assert_eq!(bit(), on, "the bit");
            line.say(Word::Seen);
        }
    });
    let top = TraceInstance::top();
    for (word, on) in [(Word::Set, true), (Word::Clear, false)] {
        child.line.hear(Word::Dropped);
        // On its way to sleep the process would write the bit itself.
        wait::until("the process to sleep", || {
            tasks::state(child.pid, child.pid) == Some('S')
        });
        if on {
            top.enable(&event.name);
            event.wait_set();
        } else {
            top.disable(&event.name);
            event.wait_clear();
        }
        wait::until("a repair to be pending", || repair_pending(child.pid));
        // A worker would need a fraction of this time.
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            assert!(repair_pending(child.pid), "written while its process slept");
            thread::sleep(Duration::from_millis(10));
        }
        child.line.say(word);
        child.line.hear(Word::Seen);
    }
    child.join();
}

/// Makes the kernel merge equal pages until the result is dropped.
fn merge_pages() -> [Setting; 3] {
    [
        Setting::new("/sys/kernel/mm/ksm/sleep_millisecs", "5"),
        Setting::new("/sys/kernel/mm/ksm/pages_to_scan", "1000"),
        Setting::new("/sys/kernel/mm/ksm/run", "1"),
    ]
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
            let value = if at % PAGE == 0 { 0 } else { 77 };
            pages.word(at).store(value, Ordering::Relaxed);
        }
        pages.advise(libc::MADV_MERGEABLE).unwrap();
        let merging = merge_pages();
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
                pages.word(page * PAGE).load(Ordering::Relaxed) == want
            })
        };
        top.enable("st_kind_merged");
        wait::until("the bits of two pages, and no other", || is(true));
        top.disable("st_kind_merged");
        wait::until("the bits to be cleared", || is(false));
        let others = (0..PAGES * PAGE).step_by(4).filter(|at| at % PAGE != 0);
        for at in others {
            assert_eq!(pages.word(at).load(Ordering::Relaxed), 77, "at {at:#x}");
        }
    }
}

fn the_latest_state_wins_on_a_page_that_comes_and_goes() {
    let event = Event::new("st_kind_latest u32 a");
    let top = TraceInstance::top();
    for round in 0..20 {
        thread::scope(|scope| {
            // Drops the page all the time, so that some changes are repaired and others are not.
            let dropper = scope.spawn(|| {
                for _ in 0..200 {
                    event.page.advise(libc::MADV_DONTNEED).unwrap();
                }
            });
            while !dropper.is_finished() {
                top.enable(&event.name);
                top.disable(&event.name);
            }
        });
        // The next change writes a bit that was lost with the page; no late repair reverts it.
        if round % 2 == 0 {
            top.enable(&event.name);
            event.wait_set();
            top.disable(&event.name);
            event.wait_clear();
        } else {
            top.enable(&event.name);
            event.wait_set();
            event.page.advise(libc::MADV_DONTNEED).unwrap();
            for _ in 0..5 {
                top.disable(&event.name);
                top.enable(&event.name);
            }
            event.wait_set();
            for _ in 0..20 {
                assert!(event.bit());
                thread::yield_now();
            }
            top.disable(&event.name);
            event.wait_clear();
        }
    }
}
