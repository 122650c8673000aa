// SPDX-License-Identifier: GPL-2.0

//! Bits on a page that another task has locked while they are written, and that is dropped then: what was written cannot
//! be marked as such.
//!
//! The thread that writes is held up when it has the page, before it writes. Meanwhile the page is written back, so that it
//! is clean; and a task that opens the file, by which all its pages go, has locked it and waits for the end of that.

use super::fork_stalled::have_own_set;
use crate::harness::tests;
use crate::kit::child::{self, Child};
use crate::kit::event::{is_due, Event};
use crate::kit::fuse::{self, Request, Server};
use crate::kit::held_up::{self, HeldUp, Waiting};
use crate::kit::machine::LongSleep;
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
use crate::kit::tracefs::Tracer;
use crate::kit::{os, tasks, wait};
use std::fs::File;
use std::sync::atomic::Ordering;
use std::thread;

tests!("locked_pages":
    a_bit_that_is_set_is_not_lost
        .where_there_is(fuse::SIGN)
        .unless(held_up::lacks_probes)
        .limit(300),
    a_bit_that_is_cleared_does_not_come_back
        .where_there_is(fuse::SIGN)
        .unless(held_up::lacks_probes)
        .limit(300),
);

const TEXT: &str = "st_locked_page u32 a";

/// A word in the page of a file, and an event that is enabled.
struct Word {
    file: File,
    page: Mapping,
    event: Event,
}

impl Word {
    fn new() -> Word {
        let file = File::options().read(true).write(true).open(fuse::path(0));
        let file = file.expect("open a file");
        let page = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_SHARED).expect("mmap");
        let event = Event::new(TEXT);
        Tracer::top().enable(&event.name);
        event.wait_set();
        Word { file, page, event }
    }

    fn touch_and_register(&self) {
        self.page.word(64).store(1, Ordering::Relaxed);
        self.register();
    }

    fn register(&self) {
        let result = self.event.data.register_text(TEXT, self.page.address(), 0);
        assert_eq!(result, Ok(self.event.index));
    }

    fn unregister(&self) {
        let result = self.event.data.unregister_bit(self.page.address(), 0);
        assert_eq!(result, Ok(()));
    }

    /// The page is not mapped, so that the kernel asks for it: in vain for the first time.
    fn drop_and_unregister(&self) {
        self.page
            .advise(libc::MADV_DONTNEED)
            .expect("MADV_DONTNEED");
        self.unregister();
    }

    fn bit(&self) -> bool {
        self.page.word(0).load(Ordering::Relaxed) & 1 != 0
    }

    /// Has a thread call `write`, which is held up when it has asked for the page for the `times`th time. Returns whether
    /// the page was locked by then.
    fn write_beside_a_lock(&self, server: &mut Server, write: fn(&Word), times: u64) -> bool {
        let mut opener = opener(server);
        // Else the thread asks for a page of the other bit, too, which it has in common with that process.
        have_own_set(&self.event);
        let this = std::process::id() as i32;
        wait::until("all bits to be written", || !is_due(this));
        let was_locked = thread::scope(|scope| {
            let writing = Waiting::new(scope, || write(self));
            // The thread may wait for an answer, and is waited for whatever happens here.
            let released = Released(server);
            let held_up = writing.held_up_at_return("pin_user_pages_remote", times);
            let was_locked = self.is_locked_beside(held_up, &mut opener);
            drop(released);
            was_locked
        });
        opener.join();
        was_locked
    }

    /// Has the page locked by the opener while a thread is held up. Returns whether it was in time, when the thread goes on.
    fn is_locked_beside(&self, held_up: HeldUp, opener: &mut Child) -> bool {
        os::start_writeback(&self.file);
        opener.line.say("open");
        let is_locked = || tasks::state(opener.pid, opener.pid) == Some('D');
        wait::until("the page to be locked, or the thread to go on", || {
            is_locked() || !held_up.is_now()
        });
        let was_locked = is_locked() && held_up.is_not_over();
        wait::until("the thread to go on", || !held_up.is_now());
        was_locked
    }
}

/// A process that opens the file when it is told to, and then has its page locked for as long as the server holds what is
/// written to it: which it does from now on.
fn opener(server: &mut Server) -> Child {
    server.drop_at_open();
    server.hold(Request::Write);
    child::fork(|line| {
        line.hear("open");
        drop(File::open(fuse::path(0)).expect("open a file"));
    })
}

/// A server that answers when this is dropped.
struct Released<'a>(&'a mut Server);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Where the machine is slow, or the kernel writes the page back by itself, it takes some rounds until the page is locked
/// in time.
fn in_some_round(mut round: impl FnMut(&mut Server, &Word) -> bool) {
    let _long_sleep = LongSleep::allowed();
    let mut server = Server::start(1, PAGE);
    let word = Word::new();
    held_up::in_some_round(|| round(&mut server, &word));
    Tracer::top().disable(&word.event.name);
}

fn a_bit_that_is_set_is_not_lost() {
    in_some_round(|server, word| {
        let was_locked = word.write_beside_a_lock(server, Word::touch_and_register, 1);
        wait::until("the bit", || word.bit());
        word.unregister();
        was_locked
    });
}

/// The file has it.
fn a_bit_that_is_cleared_does_not_come_back() {
    in_some_round(|server, word| {
        word.register();
        word.file.sync_all().expect("fsync");
        let was_locked = word.write_beside_a_lock(server, Word::drop_and_unregister, 2);
        assert!(!word.bit());
        was_locked
    });
}
