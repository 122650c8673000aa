// SPDX-License-Identifier: GPL-2.0

//! Moved, locked and foreign mappings, and those that the kernel may not write: a registration
//! belongs to an address, whatever is mapped there.

use crate::harness::tests;
use crate::kit::abi::{Data, Unregister};
use crate::kit::child::{self, Word};
use crate::kit::dynamic::Probe;
use crate::kit::errno::Errno;
use crate::kit::event::{repair_pending, wait_gone, Event};
use crate::kit::fork_tree::toggle;
use crate::kit::memory::{self, Mapping, DROPPABLE, PAGE, READ, READ_WRITE};
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::stall;
use crate::kit::swap::Swap;
use crate::kit::tracefs::TraceInstance;
use crate::kit::uring::{self, Ring};
use crate::kit::userfault::{self, Guard, Userfault};
use crate::kit::{machine, os, wait};
use std::fs::File;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

tests!("mappings":
    a_page_that_moves_away_is_not_written_where_it_went,
    a_page_that_moves_away_and_leaves_another_is_written_where_it_was,
    a_page_that_moves_away_and_back_follows,
    a_page_that_moves_to_the_word_is_written,
    a_moved_page_that_is_unregistered_is_left_alone,
    a_locked_page_follows,
    a_locked_page_that_was_never_touched_is_brought_in,
    secret_memory_cannot_register.needs_path(SECRET),
    secret_memory_in_place_of_the_word_is_left_alone.needs_path(SECRET),
    a_page_of_perf_cannot_register.skip_if(os::is_of_6_12),
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

/// A toggle that does not wait takes a few milliseconds.
fn limit() -> Duration {
    Duration::from_secs(2) * machine::slowness()
}

/// The other bits of the word.
const REST: u32 = 0x5a5a_5a50;

fn own_pid() -> i32 {
    std::process::id() as i32
}

/// Waits until no repair is pending: nothing is written after that until the next change.
#[track_caller]
fn settle() {
    wait::until("no repair to be pending", || !repair_pending(own_pid()));
}

/// Switches the event: the change does not wait for memory.
#[track_caller]
fn switch(event: &Event, on: bool) {
    let start = Instant::now();
    TraceInstance::top()
        .set(&event.name, "enable", if on { "1" } else { "0" })
        .unwrap();
    let took = start.elapsed();
    assert!(took < limit(), "a change of the event took {took:?}");
}

/// Switches the event several times, at last on. The bit cannot be written, and each repair is
/// given up.
#[track_caller]
fn switch_in_vain(event: &Event) {
    for on in [true, false, true, false, true] {
        switch(event, on);
        settle();
    }
}

/// Asserts that the bit follows the event.
#[track_caller]
fn follows(event: &Event) {
    for _ in 0..2 {
        switch(event, false);
        event.wait_clear();
        switch(event, true);
        event.wait_set();
    }
    switch(event, false);
    event.wait_clear();
}

/// Asserts that the bit is not registered any more, and the word belongs to the program.
#[track_caller]
fn is_forgotten(event: &Event, page: &Mapping) {
    assert_eq!(event.unregister(), Err(Errno::ENOENT));
    for word in [0, REST | 1] {
        page.word(0).store(word, Relaxed);
        for on in [true, false] {
            switch(event, on);
            settle();
            assert_eq!(page.word(0).load(Relaxed), word);
        }
    }
}

fn a_page_that_moves_away_is_not_written_where_it_went() {
    let mut event = Event::new("st_map_moved u32 a");
    event.page.word(0).store(REST, Relaxed);
    let moved = event.page.move_away(false);
    switch_in_vain(&event);
    assert_eq!(moved.word(0).load(Relaxed), REST);
    // The next change is written to the new mapping.
    event.page.map_again();
    assert_eq!(event.page.word(0).load(Relaxed), 0);
    follows(&event);
    assert_eq!(moved.word(0).load(Relaxed), REST);
    assert_eq!(event.unregister(), Ok(()));
    is_forgotten(&event, &event.page);
}

fn a_page_that_moves_away_and_leaves_another_is_written_where_it_was() {
    let mut event = Event::new("st_map_left u32 a");
    event.page.word(0).store(REST, Relaxed);
    let moved = event.page.move_away(true);
    switch(&event, true);
    // Without a read of the word, which would fault the page in.
    wait::until("the kernel to bring a page in", || {
        event.page.resident() == 1
    });
    event.wait_set();
    follows(&event);
    assert_eq!(event.page.word(0).load(Relaxed), 0);
    assert_eq!(moved.word(0).load(Relaxed), REST);
    assert_eq!(event.unregister(), Ok(()));
}

fn a_page_that_moves_away_and_back_follows() {
    let mut event = Event::new("st_map_back u32 a");
    event.page.word(0).store(REST, Relaxed);
    for on in [true, false, true, false] {
        let moved = event.page.move_away(false);
        switch(&event, on);
        settle();
        moved.move_to(&mut event.page);
        // The last change did not reach the page, which was mapped elsewhere.
        assert_eq!(event.page.word(0).load(Relaxed), REST);
        follows(&event);
        assert_eq!(event.page.word(0).load(Relaxed), REST);
    }
}

fn a_page_that_moves_to_the_word_is_written() {
    let mut event = Event::new("st_map_onto u32 a");
    for rest in [REST, !REST & !1] {
        let other = Mapping::new(1);
        other.word(0).store(rest, Relaxed);
        other.move_to(&mut event.page);
        follows(&event);
        assert_eq!(event.page.word(0).load(Relaxed), rest);
    }
    assert_eq!(event.unregister(), Ok(()));
}

fn a_moved_page_that_is_unregistered_is_left_alone() {
    let mut event = Event::new("st_map_gone u32 a");
    switch(&event, true);
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
    let child = child::fork(|line| {
        event.page.word(0).store(REST, Relaxed);
        line.wait_for_kill();
    });
    follows(&event);
    child.kill();
    assert_eq!(event.page.word(0).load(Relaxed), 0);
    assert_eq!(event.page.kilobytes("Locked"), 4);
    event.page.unlock();
    follows(&event);
    assert_eq!(event.unregister(), Ok(()));
}

fn a_locked_page_that_was_never_touched_is_brought_in() {
    let event = Event::new("st_map_onfault u32 a");
    event.page.advise(libc::MADV_DONTNEED).unwrap();
    event.page.lock(libc::MLOCK_ONFAULT);
    assert_eq!(event.page.resident(), 0);
    switch(&event, true);
    wait::until("the kernel to bring the page in", || {
        event.page.resident() == 1
    });
    event.wait_set();
    assert_eq!(event.page.kilobytes("Locked"), 4);
    follows(&event);
}

fn secret_memory_cannot_register() {
    let file = memory::secret_file(PAGE as u64);
    let page = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_SHARED).expect("mmap");
    for touched in [false, true] {
        if touched {
            page.word(0).store(REST, Relaxed);
        }
        let data = Data::open();
        let result = data.register_text("st_map_secret u32 a", page.address(), 0);
        assert_eq!(result, Err(Errno::EFAULT));
        let result = data.unregister(&Unregister::new(page.address(), 0));
        assert_eq!(result, Err(Errno::ENOENT));
    }
    assert_eq!(page.word(0).load(Relaxed), REST);
}

fn secret_memory_in_place_of_the_word_is_left_alone() {
    let event = Event::new("st_map_covered u32 a");
    let file = memory::secret_file(PAGE as u64);
    event.page.cover(&file, READ_WRITE);
    switch_in_vain(&event);
    event.page.word(0).store(REST, Relaxed);
    switch_in_vain(&event);
    assert_eq!(event.page.word(0).load(Relaxed), REST);
    // The process itself can write secret memory, so unregistering clears the bit.
    event.page.word(0).store(REST | 1, Relaxed);
    assert_eq!(event.unregister(), Ok(()));
    assert_eq!(event.page.word(0).load(Relaxed), REST);
    is_forgotten(&event, &event.page);
}

fn a_page_of_perf_cannot_register() {
    let perf = Perf::of_nothing();
    let page = Mapping::kept(1);
    for protection in [READ_WRITE, READ] {
        perf.cover(&page, protection);
        let before = page.word(0).load(Relaxed);
        let data = Data::open();
        let result = data.register_text("st_map_perf u32 a", page.address(), 0);
        assert_eq!(result, Err(Errno::EFAULT));
        assert_eq!(page.word(0).load(Relaxed), before);
    }
    wait_gone("st_map_perf");
}

fn lacks_such_pages() -> Option<String> {
    os::is_of_6_12().or_else(stall::lacks_probes)
}

/// The kernel brings the page of perf in each time, and it cannot be pinned.
fn a_page_that_cannot_be_had_is_brought_in_a_few_times() {
    const BROUGHT_IN: &str = "st_map/st_brought_in";
    const MOST: usize = 10;
    let perf = Perf::of_nothing();
    let page = Mapping::kept(1);
    perf.cover(&page, READ_WRITE);
    let _probe = Probe::new('p', BROUGHT_IN, "fixup_user_fault");
    let tracer = TraceInstance::instance("st_map_brought_in");
    tracer.control("set_event_pid", &own_pid().to_string());
    tracer.control(&format!("events/{BROUGHT_IN}/enable"), "1");
    let result = Data::open().register_text("st_map_perf u32 a", page.address(), 0);
    tracer.control(&format!("events/{BROUGHT_IN}/enable"), "0");
    assert_eq!(result, Err(Errno::EFAULT));
    let times = tracer.lines(BROUGHT_IN).len();
    assert!((1..=MOST).contains(&times), "{times} times");
    wait_gone("st_map_perf");
}

fn a_page_of_perf_in_place_of_the_word_is_left_alone() {
    let perf = Perf::of_nothing();
    for protection in [READ_WRITE, READ] {
        let event = Event::new("st_map_ring u32 a");
        perf.cover(&event.page, protection);
        let before = event.page.word(0).load(Relaxed);
        switch_in_vain(&event);
        assert_eq!(event.page.word(0).load(Relaxed), before);
        let cleared = match protection {
            READ => Err(Errno::EFAULT),
            _ => Ok(()),
        };
        assert_eq!(event.unregister(), cleared);
        assert_eq!(event.unregister(), Err(Errno::ENOENT));
        switch(&event, false);
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
    let result = event.data.register_text("st_map_driver u32 a", address, 0);
    assert_eq!(result, Ok(event.index));
    for on in [true, false, true] {
        switch(&event, on);
        let bit = || ring.word(at).load(Relaxed) & 1 != 0;
        wait::until("the bit on the driver's page", || bit() == on);
        settle();
    }
    assert_eq!(event.data.unregister_bit(address, 0), Ok(()));
    switch(&event, false);
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
                switch(&event, on);
            }
        }
        coming.join().unwrap();
    });
    settle();
    follows(&event);
}

fn a_page_of_ftrace_is_left_alone() {
    let event = Event::new("st_map_trace u32 a");
    let tracer = TraceInstance::instance("st_map_trace");
    let path = tracer.path("per_cpu/cpu0/trace_pipe_raw");
    let file = File::open(path).expect("open a buffer");
    event.page.cover(&file, READ);
    let before = event.page.word(0).load(Relaxed);
    switch_in_vain(&event);
    assert_eq!(event.page.word(0).load(Relaxed), before);
    let register = |bit| {
        event
            .data
            .register_text("st_map_trace u32 a", event.page.address(), bit)
    };
    assert_eq!(register(1), Err(Errno::EFAULT));
    assert_eq!(event.unregister(), Err(Errno::EFAULT));
    assert_eq!(event.unregister(), Err(Errno::ENOENT));
    switch(&event, false);
    let mut event = event;
    event.page.unmap();
}

fn a_page_that_another_process_has_swapped_out_is_brought_back() {
    let _swap = Swap::new();
    let event = Event::new("st_map_advised u32 a");
    event.page.word(64).store(REST, Relaxed);
    let (pid, address) = (own_pid(), event.page.address());
    let mut other = child::fork(|line| loop {
        match line.listen() {
            Word::End => return,
            _ => memory::advise_process(pid, address, libc::MADV_PAGEOUT),
        }
        line.say(Word::Done);
    });
    // Ends the sharing of the page with the child: a shared page is not swapped out.
    event.page.word(128).store(REST, Relaxed);
    for on in [true, false, true, false] {
        wait::until("the page to be swapped out", || {
            std::fs::write("/proc/sys/vm/drop_caches", "1").expect("drop_caches");
            other.line.say(Word::SwapOut);
            other.line.hear(Word::Done);
            event.page.swapped_or_present().0
        });
        switch(&event, on);
        wait::until("the kernel to bring the page back", || {
            event.page.swapped_or_present().1
        });
        wait::until("the bit", || event.bit() == on);
        assert_eq!(event.page.word(64).load(Relaxed), REST);
    }
    other.line.say(Word::End);
    other.join();
}

fn a_hole_in_shared_memory_gets_its_bit() {
    let file = os::memory_file(2 * PAGE as u64);
    let event = Event::new("st_map_hole u32 a");
    let pages = Mapping::of_file(&file, 2, READ_WRITE, libc::MAP_SHARED).expect("mmap");
    let text = "st_map_hole u32 a";
    let address = pages.address() + PAGE as u64;
    assert_eq!(event.data.register_text(text, address, 0), Ok(event.index));
    let word = || pages.word(PAGE).load(Relaxed);
    for how in ["punch", "remove"] {
        for on in [true, false, true, false] {
            pages.word(PAGE).store(REST | u32::from(!on), Relaxed);
            match how {
                "punch" => os::punch_hole(&file, PAGE as i64, PAGE as i64).unwrap(),
                _ => pages.advise_part(PAGE, PAGE, libc::MADV_REMOVE).unwrap(),
            }
            assert_eq!(word(), 0);
            switch(&event, on);
            wait::until("the bit in the hole", || word() == u32::from(on));
        }
        // A bit that is lost with its page stays lost until the next change.
        switch(&event, true);
        wait::until("the bit in the hole", || word() == 1);
        os::punch_hole(&file, PAGE as i64, PAGE as i64).unwrap();
        settle();
        assert_eq!(word(), 0);
        switch(&event, false);
        settle();
    }
    os::punch_hole(&file, PAGE as i64, PAGE as i64).unwrap();
    assert_eq!(event.data.unregister_bit(address, 0), Ok(()));
    assert_eq!(word(), 0);
}

fn a_guarded_page_waits_for_the_next_change() {
    let event = Event::new("st_map_guard u32 a");
    for _ in 0..2 {
        event.page.advise(GUARD).expect("MADV_GUARD_INSTALL");
        switch_in_vain(&event);
        event.page.advise(NO_GUARD).expect("MADV_GUARD_REMOVE");
        assert_eq!(event.page.word(0).load(Relaxed), 0);
        follows(&event);
    }
    event.page.advise(GUARD).expect("MADV_GUARD_INSTALL");
    let register = |bit| {
        event
            .data
            .register_text("st_map_guard u32 a", event.page.address(), bit)
    };
    assert_eq!(register(1), Err(Errno::EFAULT));
    assert_eq!(event.unregister(), Err(Errno::EFAULT));
    event.page.advise(NO_GUARD).expect("MADV_GUARD_REMOVE");
    is_forgotten(&event, &event.page);
}

fn a_page_that_a_child_does_not_get_holds_up_nothing() {
    let event = Event::new("st_map_dontfork u32 a");
    event.page.advise(libc::MADV_DONTFORK).unwrap();
    for on in [false, true] {
        switch(&event, on);
        let mut child = child::fork(|line| {
            line.hear(Word::Look);
            assert_eq!(event.unregister(), Err(Errno::EFAULT));
            assert_eq!(event.unregister(), Err(Errno::ENOENT));
            line.say(Word::Gone);
            line.hear(Word::End);
        });
        toggle(&event, &mut []);
        child.line.say(Word::Look);
        child.line.hear(Word::Gone);
        follows(&event);
        child.line.say(Word::End);
        child.join();
    }
}

fn a_page_that_a_child_gets_empty_follows() {
    let event = Event::new("st_map_wiped u32 a");
    event.page.advise(libc::MADV_WIPEONFORK).unwrap();
    let top = TraceInstance::top();
    event.page.word(0).fetch_or(REST, Relaxed);
    for _ in 0..2 {
        let mut child = child::fork(|line| {
            assert_eq!(event.page.word(0).load(Relaxed), 0);
            line.say(Word::Empty);
            for (word, on) in [(Word::Set, true), (Word::Clear, false)] {
                line.hear(word);
                wait::until("the child's bit", || event.bit() == on);
                assert_eq!(event.page.word(0).load(Relaxed), u32::from(on));
                line.say(Word::Seen);
            }
        });
        child.line.hear(Word::Empty);
        for (word, on) in [(Word::Set, true), (Word::Clear, false)] {
            if on {
                top.enable(&event.name);
            } else {
                top.disable(&event.name);
            }
            child.line.say(word);
            child.line.hear(Word::Seen);
            wait::until("the parent's bit", || event.bit() == on);
            assert_eq!(event.page.word(0).load(Relaxed) & !1, REST);
        }
        child.join();
    }
}

/// Makes an event whose bit is in this page.
fn in_memory(text: &str, page: Mapping) -> Event {
    let event = Event::new(text);
    assert_eq!(event.unregister(), Ok(()));
    let index = event.data.register_text(text, page.address(), 0);
    assert_eq!(index, Ok(event.index));
    Event { page, ..event }
}

fn memory_that_the_kernel_may_empty_follows() {
    let page = Mapping::of_kind(DROPPABLE, 1).expect("mmap");
    let event = in_memory("st_map_droppable u32 a", page);
    follows(&event);
    let top = TraceInstance::top();
    top.enable(&event.name);
    event.wait_set();
    // A child gets an empty page, and its own bit in it.
    child::fork(|_| event.wait_set()).join();
    // As under memory pressure: the page reads as zeros until the next change.
    event.page.advise(libc::MADV_DONTNEED).unwrap();
    top.disable(&event.name);
    event.wait_clear();
    follows(&event);
    assert_eq!(event.unregister(), Ok(()));
}

fn sealed_memory_follows() {
    let event = Event::new("st_map_sealed u32 a");
    event.page.seal();
    follows(&event);
    let child = child::fork(|line| {
        event.page.word(0).store(REST, Relaxed);
        line.wait_for_kill();
    });
    follows(&event);
    child.kill();
    assert_eq!(event.unregister(), Ok(()));
}

fn memory_that_grows_downward_follows() {
    let page = Mapping::of_kind(libc::MAP_PRIVATE | libc::MAP_GROWSDOWN, 1).expect("mmap");
    let event = in_memory("st_map_grows u32 a", page);
    follows(&event);
    assert_eq!(event.unregister(), Ok(()));
}

fn a_page_that_a_userfaultfd_moves_away_is_written_where_it_was() {
    let event = Event::new("st_map_uffd u32 a");
    event.page.word(0).store(REST, Relaxed);
    let moved = Mapping::kept(1);
    let faults = Userfault::new();
    faults.guard(&moved, Guard::Missing);
    faults.move_page(event.page.address(), moved.address());
    assert_eq!(moved.word(0).load(Relaxed), REST);
    follows(&event);
    assert_eq!(event.page.word(0).load(Relaxed), 0);
    assert_eq!(moved.word(0).load(Relaxed), REST);
    assert_eq!(event.unregister(), Ok(()));
}
