// SPDX-License-Identifier: GPL-2.0

//! Bits on a page that another task has locked while they are written, and drops then, or that was
//! dropped before: the page cannot be marked dirty.
//!
//! The writing task is stalled when it has pinned the page, before it writes. Meanwhile the page is
//! written back, so that it is clean, and another task opens the file, which drops all its pages:
//! it has locked the page, and waits for the end of the writeback.

use crate::harness::tests;
use crate::kit::child::{self, Child, Line, Word};
use crate::kit::event::{wait_repaired, Event};
use crate::kit::fuse::{self, Request, Server};
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::setting::allow_long_sleep;
use crate::kit::stall::{self, StalledAt};
use crate::kit::tracefs::TraceInstance;
use crate::kit::{os, tasks, wait};
use std::fs::File;

tests!("locked_pages":
    a_bit_that_is_set_is_not_lost
        .needs_path(fuse::PATH)
        .skip_if(lacks_locked_pages)
        .limit(300),
    a_bit_that_is_cleared_does_not_come_back
        .needs_path(fuse::PATH)
        .skip_if(lacks_locked_pages)
        .limit(300),
    a_bit_that_is_set_on_a_dropped_page_is_not_lost
        .needs_path(fuse::PATH)
        .skip_if(stall::lacks_probes)
        .limit(300),
);

/// FUSE of Linux 6.12 writes back copies of its pages.
fn lacks_locked_pages() -> Option<String> {
    stall::lacks_probes().or_else(os::is_of_6_12)
}

const EVENT: &str = "st_locked_page";
const TEXT: &str = "st_locked_page u32 a";

/// In a child: maps a page of a file, has an enabled event, and follows the test's messages. Any
/// thread of the process may have to wait for the page, so another process makes the server answer.
fn serve(line: &mut Line) {
    let file = fuse::open();
    let page = Mapping::of_shared(&file, 1);
    let event = Event::new(TEXT);
    event.switch(true);
    event.wait_set();
    let bit = || page.get(0) & 1 != 0;
    let register = || event.add_bit(page.address(), 0);
    let unregister = || {
        let result = event.data.unregister_bit(page.address(), 0);
        assert_eq!(result, Ok(()));
    };
    line.say(Word::Ready);
    loop {
        let word = line.listen();
        match word {
            Word::TouchAndRegister => {
                page.set(64, 1);
                register();
            }
            Word::SeeItSetAndUnregister => {
                wait::until("the bit", bit);
                unregister();
            }
            // Stores the bit in the file.
            Word::RegisterAndStore => {
                register();
                file.sync_all().expect("fsync");
            }
            // The page is not mapped, so the first pin fails, and the kernel faults the page in.
            Word::DropAndUnregister => {
                page.discard();
                unregister();
            }
            Word::SeeItClear => assert!(!bit()),
            Word::End => return,
            word => panic!("told to {word:?}"),
        }
        line.say(word);
    }
}

/// Sends `word` to the process, and stalls it at its `times`th pin of the page until another task
/// has locked the page. Returns whether this was in time.
fn beside_a_lock(user: &mut Child, server: &mut Server, word: Word, times: u64) -> bool {
    wait_repaired(user.pid);
    let file = fuse::open();
    server.drop_at_open();
    server.hold(Request::Write);
    let mut opener = child::fork(|line| {
        line.hear(Word::Open);
        drop(File::open(fuse::path(0)).expect("open a file"));
    });
    // Also on a panic: tasks that wait for an answer are waited for.
    let released = Released(server);
    let stalled = StalledAt::at_return("pin_user_pages_remote", user.pid);
    user.line.say(word);
    wait::until("the page to be asked for", || stalled.times() >= times);
    os::start_writeback(&file);
    opener.line.say(Word::Open);
    let is_locked = || tasks::state(opener.pid, opener.pid) == Some('D');
    wait::until("the page to be locked, or the task to go on", || {
        is_locked() || !stalled.is_now()
    });
    let was_locked = is_locked() && stalled.is_not_over();
    wait::until("the task to go on", || !stalled.is_now());
    drop(stalled);
    drop(released);
    user.line.hear(word);
    opener.join();
    was_locked
}

/// Sends `word` to the process, and stalls it at its first pin of the page, which is written back
/// and dropped meanwhile. Returns whether this was in time.
fn beside_a_drop(user: &mut Child, server: &mut Server, word: Word) -> bool {
    wait_repaired(user.pid);
    let file = fuse::open();
    server.drop_at_open();
    let stalled = StalledAt::at_return("pin_user_pages_remote", user.pid);
    user.line.say(word);
    wait::until("the page to be asked for", || stalled.times() >= 1);
    file.sync_all().expect("fsync");
    drop(fuse::open());
    let was_dropped = stalled.is_not_over();
    wait::until("the task to go on", || !stalled.is_now());
    drop(stalled);
    user.line.hear(word);
    was_dropped
}

/// A server that answers held requests when this is dropped.
struct Released<'a>(&'a mut Server);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Retries a round. On a slow machine, or if the kernel writes the page back by itself, the page
/// may not be locked in time.
fn retry_round(mut round: impl FnMut(&mut Child, &mut Server) -> bool) {
    let _long_sleep = allow_long_sleep();
    let mut server = Server::start(1, PAGE);
    let mut user = child::fork(serve);
    user.line.hear(Word::Ready);
    stall::retry_round(|| round(&mut user, &mut server));
    TraceInstance::top().disable(EVENT);
    user.finish();
}

fn a_bit_that_is_set_is_not_lost() {
    retry_round(|user, server| {
        let was_locked = beside_a_lock(user, server, Word::TouchAndRegister, 1);
        user.tell(Word::SeeItSetAndUnregister);
        was_locked
    });
}

fn a_bit_that_is_cleared_does_not_come_back() {
    retry_round(|user, server| {
        user.tell(Word::RegisterAndStore);
        let was_locked = beside_a_lock(user, server, Word::DropAndUnregister, 2);
        user.tell(Word::SeeItClear);
        was_locked
    });
}

/// A write to the pinned page is lost once the page has been dropped.
fn a_bit_that_is_set_on_a_dropped_page_is_not_lost() {
    retry_round(|user, server| {
        let was_dropped = beside_a_drop(user, server, Word::TouchAndRegister);
        user.tell(Word::SeeItSetAndUnregister);
        was_dropped
    });
}
