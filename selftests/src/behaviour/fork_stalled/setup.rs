// SPDX-License-Identifier: GPL-2.0

//! How forks are stalled, and what their children look at.

use crate::kit::child::{self, Child, Word};
use crate::kit::event::{is_listed, wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::TraceInstance;
use crate::kit::userfault::{Guard, Userfault};
use crate::kit::{os, tasks, wait};
use std::thread;

/// What a child, forked by a thread of another process, exits with.
pub(in crate::behaviour) const RIGHT: i32 = 10;
pub(in crate::behaviour) const BIT_IS_CLEAR: i32 = 1;
pub(in crate::behaviour) const BIT_IS_SET: i32 = 2;
pub(in crate::behaviour) const WRONG_ERRNO: i32 = 3;

/// What a child looks at, and what it exits with.
pub(in crate::behaviour) type Look<'a> = &'a (dyn Fn(&Event) -> i32 + Sync);

/// Has this process have its own set of registrations: as long as its parent, or a child, shares it, what changes
/// for these changes here.
pub(in crate::behaviour) fn have_own_set(event: &Event) {
    let text = format!("{} u32 a", event.name);
    let page = Mapping::new(1);
    let index = event.data.register_text(&text, page.address(), 0);
    assert_eq!(index, Ok(event.index));
    assert_eq!(event.data.unregister_bit(page.address(), 0), Ok(()));
}

/// Runs a process, of which a thread forks. While that fork is stalled the process calls `meanwhile`. Its child
/// calls `check`, and exits with what that returns. So do two others, forked by the same thread before.
pub(in crate::behaviour) fn stall(
    meanwhile: impl Fn(),
    before: Look<'_>,
    check: Look<'_>,
    event: &Event,
) {
    let process = child::fork(|line| {
        have_own_set(event);
        let fork = |flags, address, check: Look<'_>| {
            let pid = clone_right(flags, address, check, event);
            wait::until("the child's registrations to go", || !is_listed(pid));
        };
        let forks = |address| {
            fork(0, 0, before);
            fork(0, 0, before);
            fork(libc::CLONE_PIDFD, address, check);
        };
        stall_thread(forks, meanwhile);
        line.say(Word::Done);
    });
    done(process);
}

pub(in crate::behaviour) fn done(mut process: Child) {
    process.line.hear(Word::Done);
    process.join();
}

/// The bit is to be set.
pub(in crate::behaviour) fn is_set(event: &Event) -> i32 {
    match event.bit() {
        true => RIGHT,
        false => BIT_IS_CLEAR,
    }
}

/// The bit is to be clear.
pub(in crate::behaviour) fn is_clear(event: &Event) -> i32 {
    match event.bit() {
        true => BIT_IS_SET,
        false => RIGHT,
    }
}

/// Forks a child that exits with what `check` returns, which is to be that all is right.
#[track_caller]
pub(in crate::behaviour) fn fork_right(check: impl Fn(&Event) -> i32, event: &Event) {
    clone_right(0, 0, check, event);
}

/// The same with `flags` of clone, of which one has the kernel store something at `address`. Returns the child's pid.
#[track_caller]
pub(in crate::behaviour) fn clone_right(
    flags: i32,
    address: u64,
    check: impl Fn(&Event) -> i32,
    event: &Event,
) -> i32 {
    let pid = tasks::clone_to(flags, address).unwrap();
    if pid == 0 {
        os::exit_now(check(event));
    }
    assert_eq!(os::wait(pid, 0), Ok((pid, RIGHT << 8)));
    pid
}

/// Runs `run` in a process of its own, with an event that is enabled.
pub(in crate::behaviour) fn with_enabled(name: &str, run: impl FnOnce(&Event)) {
    let mut process = child::fork(|line| {
        let event = Event::new(&format!("{name} u32 a"));
        line.say(Word::Registered);
        event.wait_set();
        run(&event);
        line.say(Word::Done);
    });
    process.line.hear(Word::Registered);
    let top = TraceInstance::top();
    top.enable(name);
    done(process);
    top.disable(name);
    wait_gone(name);
}

/// Has a thread call `fork` with a place for the pidfd that is not there, and `meanwhile` called while that waits.
pub(in crate::behaviour) fn stall_thread(fork: impl FnOnce(u64) + Send, meanwhile: impl FnOnce()) {
    let faults = Userfault::new();
    let pidfd = Mapping::kept(1);
    faults.guard(&pidfd, Guard::Missing);
    let address = pidfd.address();
    thread::scope(|scope| {
        let forking = scope.spawn(move || fork(address));
        wait::until("the fork to be stalled", || {
            assert!(!forking.is_finished(), "the fork is not stalled");
            faults.next_fault().is_some()
        });
        meanwhile();
        faults.fill(address, 0);
        forking.join().unwrap();
    });
}
