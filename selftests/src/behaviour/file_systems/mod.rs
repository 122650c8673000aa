// SPDX-License-Identifier: GPL-2.0

//! Enable bits in shared mappings of files. A task of the process has to fault the page in, from a
//! file system that writes it back, is frozen or full, or has lost the page.
//!
//! FUSE, with a server that does not answer, is in `fuse_stalled`.

use crate::harness::Test;
use crate::kit::abi::Data;
use crate::kit::child::{self, Child, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{repair_pending, stays_due, wait_gone};
use crate::kit::memory::{Mapping, PAGE, READ};
use crate::kit::mounts::{self, Kind, Mounted, LENGTH};
use crate::kit::tracefs::TraceInstance;
use crate::kit::{os, tasks, wait};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;

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

mod clean_page;
mod frozen;

pub use clean_page::TESTS as TESTS_OF_CLEAN_PAGES;
pub use frozen::{TESTS as TESTS_OF_FROZEN, TESTS_OF_LOADING};

pub const TESTS: &[Test] = of_kinds!(
    a_bit_follows_on_pages_in_every_state:
        Ext4 OverlayOnExt4 OverlayInMemory NineP Dax,
    a_page_is_brought_in_by_a_task_of_its_process:
        Ext4 OverlayOnExt4 NineP,
    a_bit_is_not_lost_while_its_page_is_written_back:
        Ext4 NineP Dax,
    a_page_that_finds_no_room_waits_for_the_next_change:
        Ext4,
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

fn a_bit_is_not_lost_while_its_page_is_written_back(kind: Kind) {
    const ROUNDS: usize = 40;
    let mounted = Mounted::new(kind);
    let user = User::new(&mounted);
    user.obey(Word::Register);
    user.obey(Word::Fill);
    let write_back = || {
        user.pages.word(AT + 64).fetch_add(1, Relaxed);
        os::start_writeback(&user.file);
        user.obey(Word::Unmap);
        os::forget_pages(&user.file).expect("posix_fadvise");
    };
    let times = wait::beside(write_back, || {
        for round in 0..2 * ROUNDS {
            let on = round % 2 == 0;
            switch_alone(on);
            user.obey(if on { Word::Set } else { Word::Clear });
            user.obey(Word::Filled);
            // At any time the other thread may drop the page and read it again.
            user.obey(Word::Forget);
            assert_eq!(user.word(), REST | u32::from(on), "in round {round}");
        }
    });
    assert!(times >= ROUNDS, "the page was written back {times} times");
    assert_eq!(stored(&mounted), REST);
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
