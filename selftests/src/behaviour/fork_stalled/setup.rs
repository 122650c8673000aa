// SPDX-License-Identifier: GPL-2.0

//! Stalled forks, and the checks of their children.

use crate::kit::child::{self, Word};
use crate::kit::event::{is_listed, wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::TraceInstance;
use crate::kit::userfault::{Guard, Userfault};
use crate::kit::{os, tasks, wait};
use std::thread;

/// Exit codes of a child that a thread of another process forks.
pub const RIGHT: i32 = 10;
pub const BIT_IS_CLEAR: i32 = 1;
pub const BIT_IS_SET: i32 = 2;
pub const WRONG_ERRNO: i32 = 3;

/// A child's check, which returns its exit code.
pub type Look<'a> = &'a (dyn Fn(&Event) -> i32 + Sync);

/// Gives this process a set of registrations of its own: a change in a shared set counts for all
/// its members.
pub fn have_own_set(event: &Event) {
    let page = Mapping::new(1);
    event.add_bit(page.address(), 0);
    assert_eq!(event.data.unregister_bit(page.address(), 0), Ok(()));
}

/// Runs a process in which a thread forks three children, one after the other. The third fork is
/// stalled while the process calls `meanwhile`. The first two children exit with the result of
/// `before`, the third with that of `check`.
pub fn stall(meanwhile: impl Fn(), before: Look<'_>, check: Look<'_>, event: &Event) {
    let process = child::fork(|_| {
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
    });
    process.join();
}

/// Checks that the bit is set.
pub fn is_set(event: &Event) -> i32 {
    match event.bit() {
        true => RIGHT,
        false => BIT_IS_CLEAR,
    }
}

/// Checks that the bit is clear.
pub fn is_clear(event: &Event) -> i32 {
    match event.bit() {
        true => BIT_IS_SET,
        false => RIGHT,
    }
}

/// Forks a child, and expects its exit code from `check` to be [`RIGHT`].
#[track_caller]
pub fn fork_right(check: impl Fn(&Event) -> i32, event: &Event) {
    clone_right(0, 0, check, event);
}

/// Like [`fork_right`] with `flags` of clone, one of which stores to `address`. Returns the child's
/// pid.
#[track_caller]
pub fn clone_right(flags: i32, address: u64, check: impl Fn(&Event) -> i32, event: &Event) -> i32 {
    let pid = tasks::clone_to(flags, address).unwrap();
    if pid == 0 {
        os::exit_now(check(event));
    }
    assert_eq!(os::wait(pid, 0), Ok((pid, RIGHT << 8)));
    pid
}

/// Runs `run` in a process of its own, with an event that is enabled.
pub fn with_enabled(name: &str, run: impl FnOnce(&Event)) {
    let process = child::fork_until(Word::Registered, |line| {
        let event = Event::new(&format!("{name} u32 a"));
        line.say(Word::Registered);
        event.wait_set();
        run(&event);
    });
    let top = TraceInstance::top();
    top.enable(name);
    process.join();
    top.disable(name);
    wait_gone(name);
}

/// Calls `fork` in a thread with a missing page for the pidfd, and `meanwhile` while the fork
/// waits.
pub fn stall_thread(fork: impl FnOnce(u64) + Send, meanwhile: impl FnOnce()) {
    let pidfd = Mapping::kept(1);
    let faults = Userfault::on(&pidfd, Guard::Missing);
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
