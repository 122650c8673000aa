// SPDX-License-Identifier: GPL-2.0

//! "The enable bit": its address space, and changes of its memory.

use super::check::{expect, Check, Row, NAME, TEXT};
use crate::harness::options;
use crate::kit::abi::{Data, REGISTRATIONS};
use crate::kit::child::{self, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{repair_pending, settle, wait_gone, Event};
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
            ("ends_at_exec", ends_at_exec),
        ]),
        FORK.scenarios(&[
            ("a_child_has_the_bit_in_its_own_memory", childs_own),
            ("a_program_spawned_changes_nothing", spawned),
        ]),
        PAGES.each(
            "a_page_unmapped_or_protected_is_skipped_until_the_next_change",
            skipped,
            (),
            &[None, Some(READ)],
        ),
        PAGES.scenarios(&[
            ("a_page_dropped_is_faulted_in", dropped_page),
            ("a_page_unmapped_stalls_no_other", unmapped_beside),
        ]),
        FILES.table(
            "a_page_of_a_file_is_written_in_place_if_it_is_shared",
            bit_in_a_file,
            &[(libc::MAP_PRIVATE, false), (libc::MAP_SHARED, true)],
        ),
        FLOOD.scenarios(&[("pages_that_cannot_be_written_do_not_flood_the_log", flood)]),
    ]
}

fn outlives_its_file() {
    let mut event = Event::new(TEXT);
    // Closes the file that registered.
    event.data = Data::open();
    event.toggle();
    expect(event.unregister(), Ok(()));
}

fn outlives_its_thread() {
    // The C implementation identifies a process by the thread that registered first: this one.
    let _first = Event::new("st_first");
    let event = thread::spawn(|| Event::new(TEXT)).join().unwrap();
    event.toggle();
}

fn ends_at_exec() {
    let mut child = child::fork_until(Word::Registered, |line| {
        let Event { data, .. } = Event::new(TEXT);
        drop(data);
        line.say(Word::Registered);
        line.hear(Word::GoOn);
        let mut sleep = Command::new("sleep");
        panic!("exec: {}", sleep.arg("1000").stdin(Stdio::null()).exec());
    });
    assert!(tracefs::event_exists(NAME));
    child.line.say(Word::GoOn);
    wait_gone(NAME);
    // execve releases the old memory before it sets the new name.
    let name = || fs::read_to_string(format!("/proc/{}/comm", child.pid)).unwrap();
    wait::until("the new program", || name().trim() == "sleep");
    child.kill();
}

/// The child follows beside its parent, and alone once the parent has unregistered.
fn childs_own() {
    let event = Event::new(TEXT);
    let mut child = child::fork_until(Word::Forked, |line| {
        line.say(Word::Forked);
        for _ in 0..2 {
            event.wait_set();
            line.say(Word::Set);
            event.wait_clear();
            line.say(Word::Cleared);
        }
    });
    event.follows(true);
    child.line.hear(Word::Set);
    event.follows(false);
    child.line.hear(Word::Cleared);
    expect(event.unregister(), Ok(()));
    event.switch(true);
    child.line.hear(Word::Set);
    expect(event.bit(), false);
    event.switch(false);
    child.line.hear(Word::Cleared);
    child.join();
}

fn spawned() {
    let event = Event::new(TEXT);
    event.follows(true);
    assert!(Command::new("true").status().unwrap().success());
    expect(event.bit(), true);
    event.follows(false);
}

fn dropped_page() {
    let event = Event::new(TEXT);
    event.page.discard();
    event.toggle();
}

/// A bit that could not be written when the event was enabled, but can be now, keeps its value, and
/// the next change is written.
fn skipped(protection: Option<i32>, (): ()) {
    let mut event = Event::new(TEXT);
    match protection {
        Some(protection) => event.page.protect(protection),
        None => event.page.unmap(),
    }
    event.switch(true);
    // C does not show when it leaves a bit alone.
    let shows = Path::new(REGISTRATIONS).exists();
    if shows {
        settle();
    }
    match protection {
        Some(_) => {
            expect(event.bit(), false);
            event.page.protect(READ_WRITE);
        }
        None => event.page.map_again(),
    }
    if shows {
        expect(event.bit(), false);
        // A different value, so that a single change is visible.
        event.page.set(0, 1);
        event.follows(false);
        event.follows(true);
    } else {
        // A change can come too early, and is skipped, too.
        wait::until("the next change to be seen", || {
            event.switch(false);
            event.switch(true);
            event.bit()
        });
    }
    event.switch(false);
}

fn unmapped_beside() {
    let event = Event::new(TEXT);
    let mut gone = Event::new(TEXT);
    gone.page.unmap();
    event.toggle();
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
        wait::until("the bit to follow", || page.get(8) == word);
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

fn flood() {
    const BITS: u8 = 64;
    const ROUNDS: usize = 4;
    // The burst of the kernel's rate limit.
    const MAX_LINES: usize = 10;
    let event = Event::new(TEXT);
    for bit in 0..BITS {
        event.add_bit_of(8, event.page.address() + 8, bit);
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
