// SPDX-License-Identifier: GPL-2.0

//! Moved, locked and foreign mappings, and those that the kernel may not write: a registration
//! belongs to an address, whatever is mapped there.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Word};
use crate::kit::dynamic::Probe;
use crate::kit::errno::Errno;
use crate::kit::event::{settle, wait_gone, Event};
use crate::kit::memory::{self, Mapping, DROPPABLE, PAGE, READ, READ_WRITE};
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::stall;
use crate::kit::swap::{self, Swap};
use crate::kit::tracefs::TraceInstance;
use crate::kit::uring::{self, Ring};
use crate::kit::userfault::{self, Guard, Userfault};
use crate::kit::{os, wait};
use std::fs::File;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

tests!("mappings":
    a_page_that_moves_away_is_not_written_where_it_went,
    a_page_that_moves_away_and_leaves_another_is_written_where_it_was,
    a_moved_page_that_is_unregistered_is_left_alone,
    a_locked_page_follows,
    secret_memory_cannot_register.needs_path(SECRET),
    secret_memory_in_place_of_the_word_is_left_alone.needs_path(SECRET),
    a_page_that_cannot_be_had_is_brought_in_a_few_times.skip_if(lacks_such_pages),
    a_page_of_perf_in_place_of_the_word_is_left_alone.skip_if(os::is_of_6_12),
    a_buffer_of_perf_that_comes_and_goes_holds_up_nothing.limit(200),
    a_page_of_a_driver_follows.needs_path(uring::PATH),
    a_page_of_ftrace_is_left_alone,
    a_page_that_another_process_has_swapped_out_is_brought_back.swapping(),
    a_hole_in_shared_memory_gets_its_bit,
    a_guarded_page_waits_for_the_next_change.skip_if(os::is_of_6_12),
    a_page_that_a_child_does_not_get_holds_up_nothing,
    a_page_that_a_child_gets_empty_follows,
    memory_that_the_kernel_may_empty_follows,
    sealed_memory_follows,
    memory_that_grows_downward_follows,
    a_page_that_a_userfaultfd_moves_away_is_written_where_it_was.needs_path(userfault::PATH),
);

/// Exists where the kernel has memfd_secret.
const SECRET: &str = "/sys/module/secretmem/parameters/enable";

/// `MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE`.
const GUARD: i32 = 102;
const NO_GUARD: i32 = 103;

/// The other bits of the word.
const REST: u32 = 0x5a5a_5a50;

/// Switches the event several times, at last on. The bit cannot be written, and each repair is
/// given up.
#[track_caller]
fn switch_in_vain(event: &Event) {
    for on in [true, false, true, false, true] {
        event.switch_promptly(on);
        settle();
    }
}

/// The same, and the word stays as it is.
#[track_caller]
fn leaves_alone(event: &Event, word: &AtomicU32) {
    let before = word.load(Relaxed);
    switch_in_vain(event);
    assert_eq!(word.load(Relaxed), before, "the word has changed");
}

/// Asserts that the bit follows the event.
#[track_caller]
fn follows(event: &Event) {
    for on in [false, true, false, true, false] {
        event.switch_promptly(on);
        wait::until("the bit to follow", || event.bit() == on);
    }
}

/// The same beside a child that has written to its copy of the page.
#[track_caller]
fn follows_beside_a_child(event: &Event) {
    let child = child::fork(|line| {
        event.page.set(0, REST);
        line.wait_for_kill();
    });
    follows(event);
    child.kill();
}

/// Asserts that the bit is not registered any more, and the word belongs to the program.
#[track_caller]
fn is_forgotten(event: &Event, page: &Mapping) {
    assert_eq!(event.unregister(), Err(Errno::ENOENT));
    for word in [0, REST | 1] {
        page.set(0, word);
        for on in [true, false] {
            event.switch_promptly(on);
            settle();
            assert_eq!(page.get(0), word);
        }
    }
}

fn a_page_that_moves_away_is_not_written_where_it_went() {
    let mut event = Event::new("st_map_moved u32 a");
    event.page.set(0, REST);
    let moved = event.page.move_away(false);
    leaves_alone(&event, moved.word(0));
    // The next change is written to the new mapping.
    event.page.map_again();
    assert_eq!(event.page.get(0), 0);
    follows(&event);
    assert_eq!(moved.get(0), REST);
    assert_eq!(event.unregister(), Ok(()));
    is_forgotten(&event, &event.page);
}

fn a_page_that_moves_away_and_leaves_another_is_written_where_it_was() {
    let mut event = Event::new("st_map_left u32 a");
    event.page.set(0, REST);
    let moved = event.page.move_away(true);
    event.switch_promptly(true);
    // Without a read of the word, which would fault the page in.
    swap::wait_brought_back(&event.page);
    event.wait_set();
    follows(&event);
    assert_eq!(event.page.get(0), 0);
    assert_eq!(moved.get(0), REST);
    assert_eq!(event.unregister(), Ok(()));
}

fn a_moved_page_that_is_unregistered_is_left_alone() {
    let mut event = Event::new("st_map_gone u32 a");
    event.switch_promptly(true);
    event.wait_set();
    let moved = event.page.move_away(false);
    assert_eq!(event.unregister(), Err(Errno::EFAULT));
    is_forgotten(&event, &moved);
    event.page.map_again();
    is_forgotten(&event, &event.page);
}

fn a_locked_page_follows() {
    let event = Event::new("st_map_locked u32 a");
    event.page.lock(0);
    // A locked page cannot be dropped: the bit is written in place.
    assert_eq!(event.page.advise(libc::MADV_DONTNEED), Err(Errno::EINVAL));
    follows(&event);
    assert_eq!(event.page.kilobytes("Locked"), 4);
    // The child's copy of the page is not locked, the parent's page still is.
    follows_beside_a_child(&event);
    assert_eq!(event.page.get(0), 0);
    assert_eq!(event.page.kilobytes("Locked"), 4);
    event.page.unlock();
    follows(&event);
    assert_eq!(event.unregister(), Ok(()));
}

fn secret_memory_cannot_register() {
    let file = memory::secret_file(PAGE as u64);
    let page = Mapping::of_shared(&file, 1);
    let data = Data::open();
    for is_touched in [false, true] {
        if is_touched {
            page.set(0, REST);
        }
        let result = data.register_text("st_map_secret u32 a", page.address(), 0);
        assert_eq!(result, Err(Errno::EFAULT), "touched: {is_touched}");
        let result = data.unregister_bit(page.address(), 0);
        assert_eq!(result, Err(Errno::ENOENT), "touched: {is_touched}");
    }
    assert_eq!(page.get(0), REST);
}

fn secret_memory_in_place_of_the_word_is_left_alone() {
    let event = Event::new("st_map_covered u32 a");
    let file = memory::secret_file(PAGE as u64);
    event.page.cover(&file, READ_WRITE);
    switch_in_vain(&event);
    event.page.set(0, REST);
    leaves_alone(&event, event.page.word(0));
    // The process itself can write secret memory, so unregistering clears the bit.
    event.page.set(0, REST | 1);
    assert_eq!(event.unregister(), Ok(()));
    assert_eq!(event.page.get(0), REST);
    is_forgotten(&event, &event.page);
}

fn lacks_such_pages() -> Option<String> {
    os::is_of_6_12().or_else(stall::lacks_probes)
}

/// The kernel brings the page of perf in each time, and it cannot be pinned.
fn a_page_that_cannot_be_had_is_brought_in_a_few_times() {
    const BROUGHT_IN: &str = "st_map/st_brought_in";
    const MAX_TIMES: usize = 10;
    let perf = Perf::of_nothing();
    let page = Mapping::kept(1);
    perf.cover(&page, READ_WRITE);
    let _probe = Probe::new('p', BROUGHT_IN, "fixup_user_fault");
    let tracer = TraceInstance::instance("st_map_brought_in");
    tracer.control("set_event_pid", &std::process::id().to_string());
    tracer.control(&format!("events/{BROUGHT_IN}/enable"), "1");
    let result = Data::open().register_text("st_map_perf u32 a", page.address(), 0);
    tracer.control(&format!("events/{BROUGHT_IN}/enable"), "0");
    assert_eq!(result, Err(Errno::EFAULT));
    let times = tracer.lines(BROUGHT_IN).len();
    assert!((1..=MAX_TIMES).contains(&times), "{times} times");
    wait_gone("st_map_perf");
}

fn a_page_of_perf_in_place_of_the_word_is_left_alone() {
    let perf = Perf::of_nothing();
    for (protection, cleared) in [(READ_WRITE, Ok(())), (READ, Err(Errno::EFAULT))] {
        let event = Event::new("st_map_ring u32 a");
        perf.cover(&event.page, protection);
        leaves_alone(&event, event.page.word(0));
        assert_eq!(event.unregister(), cleared);
        assert_eq!(event.unregister(), Err(Errno::ENOENT));
        event.switch_promptly(false);
    }
}

/// A driver's page is in no page cache, but is not reclaimed: a write to it is not lost.
fn a_page_of_a_driver_follows() {
    let uring = Ring::new();
    let ring = uring.shared();
    let event = Event::new("st_map_driver u32 a");
    // After the ring's entries.
    let at = PAGE - 8;
    let address = ring.address() + at as u64;
    event.add_bit(address, 0);
    for on in [true, false, true] {
        event.switch_promptly(on);
        wait::until("the bit on the driver's page", || {
            ring.get(at) & 1 == u32::from(on)
        });
        settle();
    }
    assert_eq!(event.data.unregister_bit(address, 0), Ok(()));
    event.switch_promptly(false);
}

/// Unmapping a perf buffer takes `event_mutex` with the mmap_lock held.
fn a_buffer_of_perf_that_comes_and_goes_holds_up_nothing() {
    const ROUNDS: usize = 30;
    let event = Event::new("st_map_comes u32 a");
    let fresh = os::memory_file(PAGE as u64);
    thread::scope(|scope| {
        let coming = scope.spawn(|| {
            for _ in 0..ROUNDS {
                let perf = Perf::open(event.id(), SELF, ANY_CPU).expect("perf_event_open");
                perf.cover(&event.page, READ_WRITE);
                drop(perf);
                // Unmaps the buffer, which closes the perf event.
                event.page.cover(&fresh, READ_WRITE);
            }
        });
        while !coming.is_finished() {
            for on in [true, false] {
                event.switch_promptly(on);
            }
        }
        coming.join().unwrap();
    });
    settle();
    follows(&event);
}

fn a_page_of_ftrace_is_left_alone() {
    let mut event = Event::new("st_map_trace u32 a");
    let tracer = TraceInstance::instance("st_map_trace");
    let path = tracer.path("per_cpu/cpu0/trace_pipe_raw");
    let file = File::open(path).expect("open a buffer");
    event.page.cover(&file, READ);
    leaves_alone(&event, event.page.word(0));
    let address = event.page.address();
    assert_eq!(event.register(address, 1), Err(Errno::EFAULT));
    assert_eq!(event.unregister(), Err(Errno::EFAULT));
    assert_eq!(event.unregister(), Err(Errno::ENOENT));
    event.switch_promptly(false);
    event.page.unmap();
}

fn a_page_that_another_process_has_swapped_out_is_brought_back() {
    let _swap = Swap::new();
    let event = Event::new("st_map_advised u32 a");
    event.page.set(64, REST);
    let (pid, address) = (std::process::id() as i32, event.page.address());
    let mut other = child::fork(|line| {
        while line.listen() == Word::SwapOut {
            memory::advise_process(pid, address, libc::MADV_PAGEOUT);
            line.say(Word::SwapOut);
        }
    });
    // Ends the sharing of the page with the child: a shared page is not swapped out.
    event.page.set(128, REST);
    for on in [true, false, true, false] {
        wait::until("the page to be swapped out", || {
            std::fs::write("/proc/sys/vm/drop_caches", "1").expect("drop_caches");
            other.tell(Word::SwapOut);
            event.page.swapped_or_present().0
        });
        event.switch_promptly(on);
        swap::wait_brought_back(&event.page);
        wait::until("the bit", || event.bit() == on);
        assert_eq!(event.page.get(64), REST);
    }
    other.finish();
}

fn a_hole_in_shared_memory_gets_its_bit() {
    let file = os::memory_file(2 * PAGE as u64);
    let event = Event::new("st_map_hole u32 a");
    let pages = Mapping::of_shared(&file, 2);
    let address = pages.address() + PAGE as u64;
    event.add_bit(address, 0);
    let word = || pages.get(PAGE);
    let punch = || os::punch_hole(&file, PAGE as i64, PAGE as i64).unwrap();
    let remove = || pages.advise_part(PAGE, PAGE, libc::MADV_REMOVE).unwrap();
    let ways: [&dyn Fn(); 2] = [&punch, &remove];
    for make_hole in ways {
        for on in [true, false, true, false] {
            pages.set(PAGE, REST | u32::from(!on));
            make_hole();
            assert_eq!(word(), 0);
            event.switch_promptly(on);
            wait::until("the bit in the hole", || word() == u32::from(on));
        }
        // A bit that is lost with its page stays lost until the next change.
        event.switch_promptly(true);
        wait::until("the bit in the hole", || word() == 1);
        punch();
        settle();
        assert_eq!(word(), 0);
        event.switch_promptly(false);
        settle();
    }
    punch();
    assert_eq!(event.data.unregister_bit(address, 0), Ok(()));
    assert_eq!(word(), 0);
}

fn a_guarded_page_waits_for_the_next_change() {
    let event = Event::new("st_map_guard u32 a");
    let guard = || event.page.advise(GUARD).expect("MADV_GUARD_INSTALL");
    let end = || event.page.advise(NO_GUARD).expect("MADV_GUARD_REMOVE");
    for _ in 0..2 {
        guard();
        switch_in_vain(&event);
        end();
        assert_eq!(event.page.get(0), 0);
        follows(&event);
    }
    guard();
    let address = event.page.address();
    assert_eq!(event.register(address, 1), Err(Errno::EFAULT));
    assert_eq!(event.unregister(), Err(Errno::EFAULT));
    end();
    is_forgotten(&event, &event.page);
}

fn a_page_that_a_child_does_not_get_holds_up_nothing() {
    let event = Event::new("st_map_dontfork u32 a");
    event.page.advise(libc::MADV_DONTFORK).unwrap();
    for on in [false, true] {
        event.switch_promptly(on);
        let mut child = child::fork(|line| {
            line.hear(Word::Look);
            assert_eq!(event.unregister(), Err(Errno::EFAULT));
            assert_eq!(event.unregister(), Err(Errno::ENOENT));
            line.ask(Word::Gone, Word::End);
        });
        event.toggle();
        child.line.ask(Word::Look, Word::Gone);
        follows(&event);
        child.finish();
    }
}

fn a_page_that_a_child_gets_empty_follows() {
    let event = Event::new("st_map_wiped u32 a");
    event.page.advise(libc::MADV_WIPEONFORK).unwrap();
    event.page.set(0, REST);
    for _ in 0..2 {
        let mut child = child::fork_until(Word::Empty, |line| {
            assert_eq!(event.page.get(0), 0);
            line.say(Word::Empty);
            for on in [true, false] {
                line.hear(Word::Look);
                wait::until("the child's bit", || event.bit() == on);
                assert_eq!(event.page.get(0), u32::from(on));
                line.say(Word::Seen);
            }
        });
        for on in [true, false] {
            event.switch(on);
            child.line.ask(Word::Look, Word::Seen);
            wait::until("the parent's bit", || event.bit() == on);
            assert_eq!(event.page.get(0) & !1, REST);
        }
        child.join();
    }
}

fn memory_that_the_kernel_may_empty_follows() {
    let page = Mapping::of_kind(DROPPABLE, 1).expect("mmap");
    let event = Event::in_memory("st_map_droppable u32 a", page);
    follows(&event);
    event.follows(true);
    // A child gets an empty page, and its own bit in it.
    child::fork(|_| event.wait_set()).join();
    // As under memory pressure: the page reads as zeros until the next change.
    event.page.discard();
    event.follows(false);
    follows(&event);
    assert_eq!(event.unregister(), Ok(()));
}

fn sealed_memory_follows() {
    let event = Event::new("st_map_sealed u32 a");
    event.page.seal();
    follows(&event);
    follows_beside_a_child(&event);
    assert_eq!(event.unregister(), Ok(()));
}

fn memory_that_grows_downward_follows() {
    let page = Mapping::of_kind(libc::MAP_PRIVATE | libc::MAP_GROWSDOWN, 1).expect("mmap");
    let event = Event::in_memory("st_map_grows u32 a", page);
    follows(&event);
    assert_eq!(event.unregister(), Ok(()));
}

fn a_page_that_a_userfaultfd_moves_away_is_written_where_it_was() {
    let event = Event::new("st_map_uffd u32 a");
    event.page.set(0, REST);
    let moved = Mapping::kept(1);
    let faults = Userfault::on(&moved, Guard::Missing);
    faults.move_page(event.page.address(), moved.address());
    assert_eq!(moved.get(0), REST);
    follows(&event);
    assert_eq!(event.page.get(0), 0);
    assert_eq!(moved.get(0), REST);
    assert_eq!(event.unregister(), Ok(()));
}
