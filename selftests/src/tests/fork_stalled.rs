// SPDX-License-Identifier: GPL-2.0

//! Forks that a program stalls between the copying of the memory and the start of the child, as long as it
//! likes: what is toggled, registered and unregistered meanwhile is right in the child.
//!
//! The stall is the storing of the child's pidfd, to a page whose faults the test answers.

use crate::child::{self, Child};
use crate::errno::Errno;
use crate::event::{wait_gone, Event};
use crate::harness::Test;
use crate::memory::Mapping;
use crate::tracefs::Tracer;
use crate::userfault::{Guard, Userfault, SIGN};
use crate::{os, tasks, wait};
use std::thread;

const fn test(name: &'static str, run: fn()) -> Test {
    Test::new(name, run).where_there_is(SIGN)
}

pub const TESTS: &[Test] = &[
    test(
        "fork_stalled::a_change_meanwhile_is_in_the_child",
        a_change_meanwhile_is_in_the_child,
    ),
    test(
        "fork_stalled::what_is_unregistered_meanwhile_is_clear_in_the_child",
        what_is_unregistered_meanwhile_is_clear_in_the_child,
    ),
    test(
        "fork_stalled::what_is_registered_meanwhile_is_the_childs_too_or_clear",
        what_is_registered_meanwhile_is_the_childs_too_or_clear,
    ),
    test(
        "fork_stalled::what_is_given_up_and_not_clear_yet_is_clear_in_each_child",
        what_is_given_up_and_not_clear_yet_is_clear_in_each_child,
    ),
    test(
        "fork_stalled::a_child_does_not_copy_a_repair_that_is_pending",
        a_child_does_not_copy_a_repair_that_is_pending,
    ),
];

/// What a child, forked by a thread of another process, exits with.
const RIGHT: i32 = 10;
const BIT_IS_CLEAR: i32 = 1;
const BIT_IS_SET: i32 = 2;
const WRONG_ERRNO: i32 = 3;

/// Runs a process, of which a thread forks. While that fork is stalled the process calls `meanwhile`. Its child
/// calls `check`, and exits with what that returns. So do two others, forked by the same thread before.
fn stall(meanwhile: impl Fn(), before: fn(&Event) -> i32, check: fn(&Event) -> i32, event: &Event) {
    let process = child::fork(|line| {
        let faults = Userfault::new();
        let pidfd = Mapping::kept(1);
        faults.guard(&pidfd, Guard::Missing);
        let fork = |flags, address, check: fn(&Event) -> i32| {
            let pid = tasks::clone_to(flags, address).unwrap();
            if pid == 0 {
                os::exit_now(check(event));
            }
            assert_eq!(os::wait(pid, 0), Ok((pid, RIGHT << 8)));
        };
        thread::scope(|scope| {
            let forking = scope.spawn(|| {
                fork(0, 0, before);
                fork(0, 0, before);
                fork(libc::CLONE_PIDFD, pidfd.address(), check);
            });
            wait::until("the fork to be stalled", || {
                assert!(!forking.is_finished(), "the fork is not stalled");
                faults.next_fault().is_some()
            });
            meanwhile();
            faults.fill(pidfd.address(), 0);
            forking.join().unwrap();
        });
        line.say("done");
    });
    done(process);
}

fn done(mut process: Child) {
    process.line.hear("done");
    process.join();
}

/// The bit is to be set.
fn is_set(event: &Event) -> i32 {
    match event.bit() {
        true => RIGHT,
        false => BIT_IS_CLEAR,
    }
}

/// The bit is to be clear.
fn is_clear(event: &Event) -> i32 {
    match event.bit() {
        true => BIT_IS_SET,
        false => RIGHT,
    }
}

/// The bit is to be clear, and not registered.
fn is_given_up(event: &Event) -> i32 {
    match event.unregister() {
        Err(Errno::ENOENT) => is_clear(event),
        _ => WRONG_ERRNO,
    }
}

fn a_change_meanwhile_is_in_the_child() {
    let event = Event::new("st_stalled_change u32 a");
    let top = Tracer::top();
    for _ in 0..2 {
        let enable = || {
            top.enable(&event.name);
            event.wait_set();
        };
        let disable = || {
            top.disable(&event.name);
            event.wait_clear();
        };
        stall(enable, is_clear, is_set, &event);
        stall(disable, is_set, is_clear, &event);
    }
}

fn what_is_unregistered_meanwhile_is_clear_in_the_child() {
    let event = Event::new("st_stalled_unregister u32 a");
    let top = Tracer::top();
    top.enable(&event.name);
    event.wait_set();
    let unregister = || assert_eq!(event.unregister(), Ok(()));
    stall(unregister, is_set, is_given_up, &event);
    top.disable(&event.name);
}

fn what_is_registered_meanwhile_is_the_childs_too_or_clear() {
    let event = Event::new("st_stalled_register u32 a");
    let top = Tracer::top();
    top.enable(&event.name);
    event.wait_set();
    // Another word of the page.
    const OTHER: u64 = 64;
    fn other_is_right(event: &Event) -> i32 {
        let is_set = event
            .page
            .word(OTHER as usize)
            .load(std::sync::atomic::Ordering::Relaxed)
            != 0;
        let site = event.page.address() + OTHER;
        match (event.data.unregister_bit(site, 0), is_set) {
            (Ok(()), true) | (Err(Errno::ENOENT), false) => RIGHT,
            (Ok(()), false) => BIT_IS_CLEAR,
            (Err(Errno::ENOENT), true) => BIT_IS_SET,
            _ => WRONG_ERRNO,
        }
    }
    let text = format!("{} u32 a", event.name);
    let site = event.page.address() + OTHER;
    let register = || assert_eq!(event.data.register_text(&text, site, 0), Ok(event.index));
    stall(register, is_set, other_is_right, &event);
    let and_unregister = || {
        register();
        assert_eq!(event.data.unregister_bit(site, 0), Ok(()));
    };
    stall(and_unregister, is_set, other_is_right, &event);
    top.disable(&event.name);
}

/// A thread waits for the page of a bit that it has given up, and another one forks.
fn what_is_given_up_and_not_clear_yet_is_clear_in_each_child() {
    const NAME: &str = "st_stalled_clear";
    let mut process = child::fork(|line| {
        let event = Event::new(&format!("{NAME} u32 a"));
        line.say("registered");
        event.wait_set();
        let faults = Userfault::new();
        faults.guard(&event.page, Guard::Writes);
        thread::scope(|scope| {
            let giving_up = scope.spawn(|| event.unregister());
            wait::until("the thread to wait", || faults.next_fault().is_some());
            let statuses = [(); 3].map(|()| {
                let pid = os::fork().unwrap();
                if pid == 0 {
                    os::exit_now(is_given_up(&event));
                }
                os::wait(pid, 0).unwrap().1 >> 8
            });
            faults.allow_writes(event.page.address());
            assert_eq!(giving_up.join().unwrap(), Ok(()));
            assert_eq!(statuses, [RIGHT; 3]);
        });
        line.say("done");
    });
    process.line.hear("registered");
    let top = Tracer::top();
    top.enable(NAME);
    done(process);
    top.disable(NAME);
    wait_gone(NAME);
}

fn a_child_does_not_copy_a_repair_that_is_pending() {
    let event = Event::new("st_stalled_repair u32 a");
    let top = Tracer::top();
    let mut process = child::fork(|line| {
        let faults = Userfault::new();
        faults.guard(&event.page, Guard::Writes);
        line.say("guarded");
        wait::until("the kernel's fault", || faults.next_fault().is_some());
        // The page is there, with the bit as it was, and may not be written: not in this process.
        assert!(!event.bit());
        for _ in 0..3 {
            let pid = os::fork().unwrap();
            if pid == 0 {
                os::exit_now(is_set(&event));
            }
            assert_eq!(os::wait(pid, 0), Ok((pid, RIGHT << 8)));
        }
        assert!(!event.bit());
        line.say("done");
    });
    process.line.hear("guarded");
    top.enable(&event.name);
    done(process);
    top.disable(&event.name);
}
