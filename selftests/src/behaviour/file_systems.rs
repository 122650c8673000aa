// SPDX-License-Identifier: GPL-2.0

//! Enable bits in shared mappings of files. A task of the process has to fault the page in, from a
//! file system that writes it back, is frozen or full, or has lost the page.
//!
//! FUSE, with a server that does not answer, is in `fuse_stalled`.

use crate::harness::Test;
use crate::kit::abi::Data;
use crate::kit::beside::Beside;
use crate::kit::child::{self, Child, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{repair_pending, stays_due, wait_gone, Event};
use crate::kit::memory::{Mapping, PAGE, READ};
use crate::kit::mounts::{self, Frozen, Kind, Mounted, LENGTH};
use crate::kit::stall::{self, Waiting};
use crate::kit::tracefs::TraceInstance;
use crate::kit::{os, tasks, wait};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// Makes a test of each kind of file system; `skip_if` names a function that returns an obstacle.
macro_rules! of_kinds {
    (skip_if $obstacle:path; $($test:ident: $($kind:ident)*),* $(,)?) => {
        &[$($(Test::new(
            concat!("file_systems::", stringify!($test), "::", stringify!($kind)),
            || $test(Kind::$kind),
        )
        .limit(400)
        .skip_if(|| mounts::obstacle(Kind::$kind).or_else($obstacle))),*),*]
    };
    ($($test:ident: $($kind:ident)*),* $(,)?) => {
        of_kinds!(skip_if Option::default; $($test: $($kind)*),*)
    };
}

pub const TESTS: &[Test] = of_kinds!(
    a_bit_follows_on_pages_in_every_state:
        Ext4 OverlayOnExt4 OverlayInMemory NineP Dax,
    a_page_is_brought_in_by_a_task_of_its_process:
        Ext4 OverlayOnExt4 NineP,
    a_page_that_finds_no_room_waits_for_the_next_change:
        Ext4,
    beneath_a_freeze_a_sleeping_process_holds_up_nothing:
        Ext4 OverlayOnExt4 Dax,
    beneath_a_freeze_a_process_that_runs_waits_alone:
        Ext4,
    beneath_a_freeze_a_kill_ends_a_sleeping_process:
        Ext4,
);

pub const TESTS_AT_PROBES: &[Test] = of_kinds!(skip_if stall::lacks_probes;
    a_bit_is_stored_if_its_page_was_written_back_before:
        Ext4 NineP,
);

const EVENT: &str = "st_fs";
const TEXT: &str = "st_fs u32 a";

/// Bit 0 of the word at the start of the file's second page.
const AT: usize = PAGE;

/// The file's content beside the bit.
const REST: u32 = 0xa5a5_a5a0;

/// A user of a word in a file; runs in a process of its own.
struct User {
    file: File,
    pages: Mapping,
    data: Data,
}

impl User {
    fn new(mounted: &Mounted) -> User {
        let file = mounted.open();
        let pages = Mapping::of_shared(&file, 2);
        let data = Data::open();
        User { file, pages, data }
    }

    fn address(&self) -> u64 {
        self.pages.address() + AT as u64
    }

    fn word(&self) -> u32 {
        self.pages.get(AT)
    }

    /// Drops the page from this process's page tables and from memory.
    fn forget(&self) {
        self.pages.discard();
        self.file.sync_all().expect("fsync");
        os::forget_pages(&self.file).expect("posix_fadvise");
    }

    fn obey(&self, word: Word) {
        let bit = || self.word() & 1 != 0;
        let register = |bit| self.data.register_text(TEXT, self.address(), bit).map(drop);
        match word {
            Word::Register => register(0).expect("register"),
            Word::RegisterSecond => register(1).expect("register"),
            Word::Unregister => {
                let result = self.data.unregister_bit(self.address(), 0);
                result.expect("unregister");
            }
            Word::Set => wait::until("the bit to be set", bit),
            Word::Clear => wait::until("the bit to be cleared", || !bit()),
            Word::SecondSet => wait::until("the second bit to be set", || self.word() & 2 != 0),
            Word::IsSet => assert!(bit(), "not set when the process came back"),
            Word::IsClear => assert!(!bit(), "not cleared when the process came back"),
            // A known content beside the bit.
            Word::Fill => {
                self.pages.word(AT).fetch_or(REST, Relaxed);
            }
            Word::Filled => assert_eq!(self.word() & !1, REST),
            // States of a page: dirty; clean and write-protected; not mapped; not present.
            Word::Write => self.pages.set(AT + 64, 1),
            Word::Sync => self.file.sync_all().expect("fsync"),
            Word::Unmap => self.pages.discard(),
            Word::Forbid => self.pages.protect(READ),
            Word::Forget => self.forget(),
            // The page has no block in the file system any more.
            Word::Punch => {
                os::punch_hole(&self.file, AT as i64, PAGE as i64).expect("punch a hole")
            }
            Word::Remove => {
                let result = self.pages.advise_part(AT, PAGE, libc::MADV_REMOVE);
                result.expect("MADV_REMOVE");
            }
            Word::Truncate => self.file.set_len(AT as u64).expect("truncate"),
            Word::Extend => self.file.set_len(LENGTH as u64).expect("extend"),
            // A visit to user space, which runs task work.
            Word::Look => (),
            word => panic!("told to {word:?}"),
        }
    }
}

fn user(mounted: &Mounted) -> Child {
    child::fork(|line| {
        let user = User::new(mounted);
        child::serve(line, move |word| user.obey(word), |_, _| false)
    })
}

/// Waits until no repair is pending. A repair by the process's own thread is pending until that
/// next returns to user space.
#[track_caller]
fn settle(user: &mut Child) {
    wait::until("no repair to be pending", || {
        user.tell(Word::Look);
        !repair_pending(user.pid)
    });
}

/// Attaches ftrace, or detaches it.
#[track_caller]
fn switch_alone(on: bool) {
    match on {
        true => TraceInstance::top().enable(EVENT),
        false => TraceInstance::top().disable(EVENT),
    }
}

/// Switches the event, and waits until the process sees the change.
#[track_caller]
fn switch(user: &mut Child, on: bool) {
    switch_alone(on);
    user.tell(if on { Word::Set } else { Word::Clear });
}

/// The word in the file system, as read by another process without a mapping.
fn stored(mounted: &Mounted) -> u32 {
    let file = mounted.open();
    file.sync_all().expect("fsync");
    os::forget_pages(&file).expect("posix_fadvise");
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, AT as u64).expect("read");
    u32::from_ne_bytes(bytes)
}

fn a_bit_follows_on_pages_in_every_state(kind: Kind) {
    let mounted = Mounted::new(kind);
    let mut user = user(&mounted);
    user.tell(Word::Register);
    user.tell(Word::Fill);
    for state in [Word::Write, Word::Sync, Word::Unmap, Word::Forget] {
        for on in [true, false] {
            user.tell(state);
            switch(&mut user, on);
            user.tell(Word::Filled);
            // The bit is stored with the page and is in the page that is read back.
            user.tell(Word::Forget);
            assert_eq!(stored(&mounted), REST | u32::from(on), "after {state:?}");
            user.tell(if on { Word::IsSet } else { Word::IsClear });
        }
    }
    let holes: &[Word] = match kind {
        // No holes can be punched into its files.
        Kind::NineP => &[],
        _ => &[Word::Punch, Word::Remove],
    };
    for &hole in holes {
        for on in [true, false] {
            // A pending repair would write to the new page. A later repair writes the current
            // state, so the bit may be set again while the event is enabled: harmless.
            settle(&mut user);
            user.tell(hole);
            user.tell(if on { Word::IsClear } else { Word::Look });
            switch(&mut user, on);
            assert_eq!(stored(&mounted), u32::from(on), "after {hole:?}");
        }
        // A bit that is lost with its page is written by the next change only.
        switch(&mut user, true);
        settle(&mut user);
        user.tell(hole);
        switch(&mut user, false);
    }
    // A page beyond the end of its file cannot be faulted in: the bit is given up until the next
    // change.
    user.tell(Word::Truncate);
    for on in [true, false, true, false] {
        switch_alone(on);
        user.tell(Word::Sync);
    }
    settle(&mut user);
    user.tell(Word::Extend);
    user.tell(Word::IsClear);
    for on in [true, false, true, false] {
        switch(&mut user, on);
    }
    user.tell(Word::Unregister);
    user.kill();
    wait_gone(EVENT);
}

/// No kernel worker faults in a page from a file system, so none waits for one.
fn a_page_is_brought_in_by_a_task_of_its_process(kind: Kind) {
    let mounted = Mounted::new(kind);
    let mut user = user(&mounted);
    user.tell(Word::Register);
    for state in [Word::Sync, Word::Forget] {
        for on in [true, false] {
            user.tell(state);
            sleeps(&user);
            switch_alone(on);
            stays_due(user.pid);
            // Reading a page may take longer than the process waits for it.
            user.tell(match (state, on) {
                (Word::Forget, true) => Word::Set,
                (Word::Forget, false) => Word::Clear,
                (_, true) => Word::IsSet,
                (_, false) => Word::IsClear,
            });
            settle(&mut user);
        }
    }
    // A bit on a page without write permission is given up: no repair is pending.
    user.tell(Word::Forbid);
    switch_alone(true);
    settle(&mut user);
    user.tell(Word::IsClear);
    switch_alone(false);
    user.kill();
}

/// Waits until the process sleeps, with no task work left before user space.
#[track_caller]
fn sleeps(user: &Child) {
    tasks::wait_state(user.pid, user.pid, 'S');
}

fn a_page_that_finds_no_room_waits_for_the_next_change(kind: Kind) {
    let mounted = Mounted::new(kind);
    let mut user = user(&mounted);
    user.tell(Word::Register);
    // `fill` takes the block that the hole frees.
    user.tell(Word::Punch);
    user.tell(Word::Sync);
    let filled = mounted.fill();
    for on in [true, false, true, false] {
        switch_alone(on);
        // The process is not killed, and finds the bit unchanged.
        user.tell(Word::IsClear);
    }
    settle(&mut user);
    let mut other = child::fork_until(Word::Refused, |line| {
        let user = User::new(&mounted);
        let register = || user.data.register_text(TEXT, user.address(), 3);
        assert_eq!(register(), Err(Errno::EFAULT));
        line.ask(Word::Refused, Word::Again);
        assert_eq!(register(), Ok(0));
    });
    fs::remove_file(filled).expect("remove a file");
    // A transaction frees the room.
    user.tell(Word::Sync);
    other.line.say(Word::Again);
    other.join();
    for on in [true, false, true, false] {
        switch(&mut user, on);
    }
    user.kill();
}

/// The page of the process's word is present but clean: a write to it enters the file system, and
/// waits for the thaw; no signal ends the wait.
fn frozen(kind: Kind) -> Beside<Frozen> {
    let mounted = Mounted::new(kind);
    Beside::new(
        EVENT,
        || user(&mounted),
        |user| {
            user.tell(Word::Register);
            user.tell(Word::Sync);
            sleeps(user);
            // An overlay does not pass a freeze on to the file system below.
            let disk = Mounted {
                directory: mounts::DISK,
            };
            disk.freeze()
        },
    )
}

fn beneath_a_freeze_a_sleeping_process_holds_up_nothing(kind: Kind) {
    let mut setup = frozen(kind);
    setup.switch_on();
    setup.others_carry_on();
    // The last state counts when the bit can be written again.
    setup.switch_on();
    setup.let_go();
    setup.ends_clear(Word::IsSet, Word::Clear);
    setup.end();
}

/// The process waits for as long as the freeze lasts: `sb_start_pagefault()` waits for the thaw
/// even with `FOLL_NOWAIT`.
fn beneath_a_freeze_a_process_that_runs_waits_alone(kind: Kind) {
    let mut setup = frozen(kind);
    setup.switch_on();
    // The process faults its page in on its return to user space.
    setup.user.line.say(Word::IsSet);
    tasks::wait_state(setup.user.pid, setup.user.pid, 'D');
    setup.others_carry_on();
    setup.switch_on();
    setup.let_go();
    setup.user.line.hear(Word::IsSet);
    setup.ends_clear(Word::Set, Word::Clear);
    setup.end();
}

/// The module faults the page in for writing, which dirties it. A stall before the bit is written
/// lets the page be written back.
fn a_bit_is_stored_if_its_page_was_written_back_before(kind: Kind) {
    let mounted = Mounted::new(kind);
    let user = User::new(&mounted);
    let _event = Event::new(TEXT);
    let top = TraceInstance::top();
    let mut cpus = os::cpus().into_iter().cycle();
    top.enable(EVENT);
    user.obey(Word::Fill);
    stall::retry_round(|| {
        let cpu = cpus.next();
        let was_in_time = thread::scope(|scope| {
            let registering = Waiting::new(scope, || {
                // A stalled task keeps its CPU busy, and with PREEMPT_RT the interrupt threads of
                // devices on that CPU. So each round uses another CPU.
                cpu.into_iter().for_each(os::run_on);
                user.obey(Word::Register);
            });
            let stalled = registering.stalled_at_return("pin_user_pages_remote", 1);
            user.obey(Word::Sync);
            stalled.is_not_over()
        });
        user.obey(Word::Forget);
        assert_eq!(stored(&mounted), REST | 1, "in the file");
        user.obey(Word::Unregister);
        was_in_time
    });
    top.disable(EVENT);
}

fn beneath_a_freeze_a_kill_ends_a_sleeping_process(kind: Kind) {
    let mut setup = frozen(kind);
    setup.switch_on();
    setup.kill();
    setup.is_gone();
    setup.others_carry_on();
    setup.let_go();
    setup.end();
}
