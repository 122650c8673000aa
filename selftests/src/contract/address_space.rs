// SPDX-License-Identifier: GPL-2.0

//! "The enable bit": its address space, and changes of its memory.

use super::bit::register;
use super::check::{expect, Check, Row, NAME, TEXT};
use crate::harness::options;
use crate::kit::abi::{Data, REGISTRATIONS};
use crate::kit::child::{self, Child, Line, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{repair_pending, wait_gone, Event};
use crate::kit::machine::Log;
use crate::kit::memory::{Mapping, PAGE, READ, READ_WRITE};
use crate::kit::os;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::wait;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;

const SPACE: Row = Row::new(
    "bit",
    "Belongs to the address space, not to the file or thread: it outlives the file; it ends at exec and \
     when the last task of the address space exits",
);
const FORK: Row = Row::new(
    "bit",
    "fork without CLONE_VM: the child inherits every registration at the same addresses, and each \
     process's bit is updated in its own memory. CLONE_VM shares. vfork changes nothing for the parent",
);
const PAGES: Row = Row::new(
    "bit",
    "A page that is not present is faulted in asynchronously; a page that cannot be written (unmapped, \
     read-only) is skipped until the next change",
);
const FILES: Row = Row::new(
    "bit",
    "MAP_PRIVATE file pages are copied, never written through; MAP_SHARED are written in place",
);
const FLOOD: Row = Row::better_than_c(
    10,
    "bit",
    "no user-triggered message that is not rate-limited",
    "* messages about 64 bits in 4 rounds",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        SPACE.scenarios(&[
            ("outlives_its_file", outlives_its_file),
            ("outlives_the_thread_that_registered", outlives_its_thread),
            ("ends_at_exit", ends_at_exit),
            ("ends_with_a_kill", ends_with_a_kill),
            ("ends_at_exec", ends_at_exec),
        ]),
        FORK.scenarios(&[
            ("a_childs_bit_is_in_its_own_memory", own_memory),
            ("a_grandchild_inherits_too", grandchild),
            ("a_child_outlives_its_parents_registration", child_outlives),
            ("a_program_spawned_changes_nothing", spawned),
            ("threads_see_one_bit", threads),
        ]),
        PAGES.scenarios(&[
            ("a_page_dropped_is_faulted_in", dropped_page),
            (
                "a_page_protected_is_skipped_until_the_next_change",
                protected_page,
            ),
            (
                "a_page_unmapped_is_skipped_until_the_next_change",
                unmapped_page,
            ),
            ("a_page_unmapped_stalls_no_other", unmapped_beside),
        ]),
        FILES.scenarios(&[
            (
                "a_private_page_of_a_file_is_not_written_through",
                private_file,
            ),
            ("a_shared_page_of_a_file_is_written_in_place", shared_file),
        ]),
        FLOOD.scenarios(&[("pages_that_cannot_be_written_do_not_flood_the_log", flood)]),
    ]
}

/// Checks that the bit follows in this process.
#[track_caller]
fn must_follow(page: &Mapping) {
    let tracer = TraceInstance::instance("st_follow");
    let word = || page.word(0).load(Ordering::Relaxed);
    for _ in 0..3 {
        tracer.enable(NAME);
        wait::until("the bit to be set", || word() == 1);
        tracer.disable(NAME);
        wait::until("the bit to be cleared", || word() == 0);
    }
}

fn outlives_its_file() {
    let Event { data, page, .. } = Event::new(TEXT);
    drop(data);
    must_follow(&page);
    expect(Data::open().unregister_bit(page.address(), 0), Ok(()));
}

fn outlives_its_thread() {
    // The C implementation identifies a process by the thread that registered first: this one.
    let _first = Event::new("st_first");
    let event = thread::spawn(|| Event::new(TEXT)).join().unwrap();
    must_follow(&event.page);
}

/// Forks a child that registers, closes the file, waits for an order and runs `then`.
fn holder(then: impl FnOnce()) -> Child {
    let mut child = child::fork(|line| {
        let Event { data, .. } = Event::new(TEXT);
        drop(data);
        line.say(Word::Registered);
        line.hear(Word::GoOn);
        then();
    });
    child.line.hear(Word::Registered);
    assert!(tracefs::event_exists(NAME));
    child
}

fn ends_at_exit() {
    let mut child = holder(|| {});
    child.line.say(Word::GoOn);
    child.join();
    wait_gone(NAME);
}

fn ends_with_a_kill() {
    holder(|| {}).kill();
    wait_gone(NAME);
}

fn ends_at_exec() {
    let mut child = holder(|| {
        let mut sleep = Command::new("sleep");
        panic!("exec: {}", sleep.arg("1000").stdin(Stdio::null()).exec());
    });
    child.line.say(Word::GoOn);
    wait_gone(NAME);
    // execve releases the old memory before it sets the new name.
    let name = || fs::read_to_string(format!("/proc/{}/comm", child.pid)).unwrap();
    wait::until("the new program", || name().trim() == "sleep");
    child.kill();
}

/// Reports the changes of an inherited bit, in a child of the process that registered.
fn watch(line: &mut Line, event: &Event) {
    line.say(Word::Forked);
    event.wait_set();
    line.say(Word::Set);
    event.wait_clear();
    line.say(Word::Cleared);
}

/// Checks that the child sees the bit set and cleared.
fn show(child: &mut Child) {
    child.line.hear(Word::Forked);
    let tracer = TraceInstance::instance("st_show");
    tracer.enable(NAME);
    child.line.hear(Word::Set);
    tracer.disable(NAME);
    child.line.hear(Word::Cleared);
}

fn own_memory() {
    let event = Event::new(TEXT);
    let mut child = child::fork(|line| {
        line.say(Word::Forked);
        line.hear(Word::Enabled);
        event.wait_set();
        // This process's own write does not affect its parent.
        event.page.word(0).store(0, Ordering::Relaxed);
        line.say(Word::Spoiled);
        line.hear(Word::End);
    });
    child.line.hear(Word::Forked);
    let tracer = TraceInstance::instance(NAME);
    tracer.enable(NAME);
    event.wait_set();
    child.line.say(Word::Enabled);
    child.line.hear(Word::Spoiled);
    expect(event.bit(), true);
    child.line.say(Word::End);
    child.join();
}

fn grandchild() {
    let event = Event::new(TEXT);
    let mut child = child::fork(|line| {
        let mut grandchild = child::fork(|line| watch(line, &event));
        grandchild.line.hear(Word::Forked);
        line.say(Word::Forked);
        grandchild.line.hear(Word::Set);
        line.say(Word::Set);
        grandchild.line.hear(Word::Cleared);
        line.say(Word::Cleared);
        grandchild.join();
    });
    show(&mut child);
    child.join();
}

fn child_outlives() {
    let event = Event::new(TEXT);
    let mut child = child::fork(|line| watch(line, &event));
    expect(event.unregister(), Ok(()));
    show(&mut child);
    expect(event.bit(), false);
    child.join();
}

fn spawned() {
    let event = Event::new(TEXT);
    let spawn = || assert!(Command::new("true").status().unwrap().success());
    spawn();
    must_follow(&event.page);
    let tracer = TraceInstance::instance(NAME);
    tracer.enable(NAME);
    event.wait_set();
    spawn();
    expect(event.bit(), true);
}

fn threads() {
    let event = Event::new(TEXT);
    let tracer = TraceInstance::instance(NAME);
    let (says, hears) = mpsc::channel();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            event.wait_set();
            says.send(()).unwrap();
            event.wait_clear();
        });
        tracer.enable(NAME);
        event.wait_set();
        hears.recv_timeout(wait::limit()).unwrap();
        tracer.disable(NAME);
        event.wait_clear();
        other.join().unwrap();
    });
}

fn dropped_page() {
    let event = Event::new(TEXT);
    event.page.advise(libc::MADV_DONTNEED).unwrap();
    let tracer = TraceInstance::instance(NAME);
    tracer.enable(NAME);
    event.wait_set();
}

/// Waits until the bit is skipped until the next change. Returns false on C, which does not show
/// this.
fn is_left_alone() -> bool {
    let shows = Path::new(REGISTRATIONS).exists();
    if shows {
        let own = std::process::id() as i32;
        wait::until("the bit to be left alone", || !repair_pending(own));
    }
    shows
}

/// Checks a bit that could not be written when the event was enabled, but can be now: it keeps its
/// value, and the next change is written.
#[track_caller]
fn next_change_is_written(event: &Event, tracer: &TraceInstance, was_left_alone: bool) {
    if was_left_alone {
        expect(event.bit(), false);
        // A different value, so that a single change is visible.
        event.page.word(0).store(1, Ordering::Relaxed);
        tracer.disable(NAME);
        event.wait_clear();
        tracer.enable(NAME);
        event.wait_set();
    } else {
        // A change can come too early, and is skipped, too.
        wait::until("the next change to be seen", || {
            tracer.disable(NAME);
            tracer.enable(NAME);
            event.bit()
        });
    }
}

fn protected_page() {
    let event = Event::new(TEXT);
    let tracer = TraceInstance::instance(NAME);
    event.page.protect(READ);
    tracer.enable(NAME);
    let was_left_alone = is_left_alone();
    expect(event.bit(), false);
    event.page.protect(READ_WRITE);
    next_change_is_written(&event, &tracer, was_left_alone);
}

fn unmapped_page() {
    let mut event = Event::new(TEXT);
    let tracer = TraceInstance::instance(NAME);
    event.page.unmap();
    tracer.enable(NAME);
    let was_left_alone = is_left_alone();
    event.page.map_again();
    next_change_is_written(&event, &tracer, was_left_alone);
}

fn unmapped_beside() {
    let event = Event::new(TEXT);
    let mut gone = Event::new(TEXT);
    gone.page.unmap();
    must_follow(&event.page);
    expect(gone.unregister(), Err(Errno::EFAULT));
}

/// Registers a bit in a page of a file full of 0xf0, and checks the file's content when the bit
/// changes.
fn bit_in_a_file(flags: i32, is_written: bool) {
    const OLD: [u8; PAGE] = [0xf0; PAGE];
    let file = os::memory_file(PAGE as u64);
    file.write_all_at(&OLD, 0).unwrap();
    let page = Mapping::of_file(&file, 1, READ_WRITE, flags).unwrap();
    let (data, address) = (Data::open(), page.address() + 8);
    expect(data.register_text(TEXT, address, 1), Ok(0));
    let is = |value: u8| {
        let word = u32::from_ne_bytes([value, 0xf0, 0xf0, 0xf0]);
        wait::until("the bit to follow", || {
            page.word(8).load(Ordering::Relaxed) == word
        });
        let (mut bytes, mut want) = ([0; PAGE], OLD);
        file.read_exact_at(&mut bytes, 0).unwrap();
        if is_written {
            want[8] = value;
        }
        assert!(
            bytes == want,
            "the file is wrong, with {value:#x} in memory"
        );
    };
    let tracer = TraceInstance::instance(NAME);
    tracer.enable(NAME);
    is(0xf2);
    tracer.disable(NAME);
    is(0xf0);
    expect(data.unregister_bit(address, 1), Ok(()));
}

fn private_file() {
    bit_in_a_file(libc::MAP_PRIVATE, false);
}

fn shared_file() {
    bit_in_a_file(libc::MAP_SHARED, true);
}

fn flood() {
    const BITS: u8 = 64;
    const ROUNDS: usize = 4;
    // The burst of the kernel's rate limit.
    const MAX_LINES: usize = 10;
    let event = Event::new(TEXT);
    for bit in 0..BITS {
        register(&event, 8, 8, bit);
    }
    let (mut log, mut said) = (Log::from_now(), 0);
    let mut hear = || {
        let lines = log.take();
        said += lines
            .iter()
            .filter(|line| line.contains("user_events"))
            .count();
        said
    };
    let tracer = TraceInstance::instance(NAME);
    for _ in 0..ROUNDS {
        event.page.protect(READ);
        tracer.enable(NAME);
        // C retries in a worker, and logs then.
        wait::until("the bits to be tried", || match options().against_c {
            true => hear() > MAX_LINES,
            false => !repair_pending(std::process::id() as i32),
        });
        event.page.protect(READ_WRITE);
        // Once all bits follow again, all messages have been logged.
        wait::until("all bits to be set", || {
            tracer.disable(NAME);
            tracer.enable(NAME);
            event.page.long(8).load(Ordering::Relaxed) == u64::MAX
        });
        tracer.disable(NAME);
    }
    let said = hear();
    assert!(
        said <= MAX_LINES,
        "{said} messages about {BITS} bits in {ROUNDS} rounds"
    );
}
