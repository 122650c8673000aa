// SPDX-License-Identifier: GPL-2.0

//! Forks that a program stalls, for any time, between the copy of the memory and the start of the
//! child: changes and registrations during the stall are in the child, and what is unregistered is
//! not.
//!
//! The stall is the storing of the child's pidfd, to a page whose faults the test answers.

pub mod setup;

use self::setup::*;
use crate::harness::tests;
use crate::kit::child::{self, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{is_listed, Event};
use crate::kit::memory::Mapping;
use crate::kit::swap::{put_out, Swap};
use crate::kit::userfault::{Guard, Userfault, PATH};
use crate::kit::{os, tasks, wait};
use std::thread;

tests!("fork_stalled" on PATH:
    a_change_meanwhile_is_in_the_child,
    a_change_of_a_page_of_its_own_is_in_the_child,
    a_change_before_another_task_forks_is_in_the_child,
    a_change_of_a_set_without_processes_is_in_the_child,
    what_is_registered_meanwhile_is_the_childs_too,
    what_is_unregistered_meanwhile_is_not_the_childs,
    a_child_does_not_copy_a_repair_that_is_pending,
    a_child_that_was_killed_has_looked_for_no_other,
    a_repair_meanwhile_is_in_the_child,
    a_change_of_a_page_that_is_swapped_out_is_in_the_child.swapping(),
);

/// Enables and disables the event, each during a stalled fork, and waits until this process's bit
/// has followed. `before` runs before each change, `after` with the check after it. The child must
/// see the change, too.
fn is_in_the_child(event: &Event, before: impl Fn(), after: impl Fn(Look<'_>)) {
    let looks: [Look<'_>; 2] = [&is_clear, &is_set];
    for on in [true, false, true, false] {
        let look = looks[usize::from(on)];
        let change = || {
            before();
            event.follows(on);
            after(look);
        };
        stall(change, looks[usize::from(!on)], look, event);
    }
}

fn a_change_meanwhile_is_in_the_child() {
    let event = Event::new("st_stalled_change u32 a");
    is_in_the_child(&event, || (), |_| ());
}

/// The page is not shared since the fork, so its bit is written at once.
fn a_change_of_a_page_of_its_own_is_in_the_child() {
    let event = Event::new("st_stalled_at_once u32 a");
    let touch = || event.page.set(64, 1);
    is_in_the_child(&event, touch, |_| ());
}

/// A fork by another task after the change does not exempt the child of the stalled fork, whose
/// memory was copied before.
fn a_change_before_another_task_forks_is_in_the_child() {
    let event = Event::new("st_stalled_tasks u32 a");
    let fork = |look: Look<'_>| fork_right(look, &event);
    is_in_the_child(&event, || (), fork);
}

/// The child has its set when the fork is stalled, and is no member of it yet. The parent gets
/// another set by a registration, and leaves that one without members.
fn a_change_of_a_set_without_processes_is_in_the_child() {
    let event = Event::new("st_stalled_alone u32 a");
    let text = format!("{} u32 a", event.name);
    let process = child::fork(|_| {
        have_own_set(&event);
        let other = Mapping::kept(1);
        let forks = |address| {
            // After these, a child checks its bits only if one was written since the last of them.
            for _ in 0..2 {
                let pid = clone_right(0, 0, is_clear, &event);
                wait::until("the child's registrations to go", || !is_listed(pid));
            }
            clone_right(libc::CLONE_PARENT_SETTID, address, is_set, &event);
        };
        let change = || {
            let index = event.data.register_text(&text, other.address(), 0);
            assert_eq!(index, Ok(event.index));
            event.follows(true);
        };
        stall_thread(forks, change);
    });
    process.join();
    event.switch(false);
}

fn what_is_registered_meanwhile_is_the_childs_too() {
    with_enabled("st_stalled_register", |event| {
        // Another word of the page.
        let site = event.page.address() + 64;
        let is_right = |event: &Event| {
            let is_set = event.page.get(64) != 0;
            match (event.data.unregister_bit(site, 0), is_set) {
                (Ok(()), true) => RIGHT,
                (Ok(()), false) => BIT_IS_CLEAR,
                _ => WRONG_ERRNO,
            }
        };
        let register = || event.add_bit(site, 0);
        stall(register, &is_set, &is_right, event);
    });
}

/// The child's copy of the word may have either value.
fn what_is_unregistered_meanwhile_is_not_the_childs() {
    with_enabled("st_stalled_unregister", |event| {
        let is_unknown = |event: &Event| match event.unregister() {
            Err(Errno::ENOENT) => RIGHT,
            _ => WRONG_ERRNO,
        };
        let unregister = || assert_eq!(event.unregister(), Ok(()));
        stall(unregister, &is_set, &is_unknown, event);
    });
}

fn a_child_does_not_copy_a_repair_that_is_pending() {
    let event = Event::new("st_stalled_repair u32 a");
    let process = child::fork_until(Word::Guarded, |line| {
        let faults = Userfault::on(&event.page, Guard::Writes);
        line.say(Word::Guarded);
        faults.wait_asked();
        // The page is present with the old bit, and write-protected in this process.
        assert!(!event.bit());
        for _ in 0..3 {
            fork_right(is_set, &event);
        }
        assert!(!event.bit());
    });
    event.switch(true);
    process.join();
    event.switch(false);
}

/// Runs a process whose event is enabled while userfaultfd keeps its page from being written. A
/// thread forks a child, which is killed before it runs, so that it does not check its bits. The
/// thread then runs `then`.
fn with_one_killed(name: &str, then: impl FnOnce(&Event, &Userfault) + Send) {
    let event = Event::new(&format!("{name} u32 a"));
    let process = child::fork_until(Word::Guarded, |line| {
        have_own_set(&event);
        let tid = Mapping::kept(1);
        let faults = Userfault::on(&tid, Guard::Missing);
        faults.guard(&event.page, Guard::Writes);
        line.say(Word::Guarded);
        faults.wait_asked();
        thread::scope(|scope| {
            let forking = scope.spawn(|| {
                let pid = tasks::clone_to(libc::CLONE_PARENT_SETTID, tid.address()).unwrap();
                if pid == 0 {
                    os::exit_now(RIGHT);
                }
                assert_eq!(os::wait(pid, 0), Ok((pid, libc::SIGKILL)));
                then(&event, &faults);
            });
            wait::until("the fork to be stalled", || {
                assert!(!forking.is_finished(), "the fork is not stalled");
                faults.next_fault() == Some(tid.address())
            });
            let child = tasks::a_child_of(std::process::id() as i32).expect("a child");
            os::kill(child, libc::SIGKILL).expect("kill the child");
            faults.fill(tid.address(), 0);
            forking.join().unwrap();
        });
    });
    event.switch(true);
    process.join();
    event.switch(false);
}

/// The killed child's bits are still stale: the next child of the same task must check its bits,
/// though nothing changed between the forks.
fn a_child_that_was_killed_has_looked_for_no_other() {
    with_one_killed("st_stalled_killed", |event, _| {
        fork_right(is_set, event);
        assert!(!event.bit());
    });
}

/// The late write of a bit counts as a change for children that have copied the memory before.
fn a_repair_meanwhile_is_in_the_child() {
    with_one_killed("st_stalled_repaired", |event, faults| {
        let pidfd = Mapping::kept(1);
        let other = Userfault::on(&pidfd, Guard::Missing);
        thread::scope(|scope| {
            scope.spawn(|| {
                other.wait_asked();
                faults.allow_writes(event.page.address());
                event.wait_set();
                other.fill(pidfd.address(), 0);
            });
            clone_right(libc::CLONE_PIDFD, pidfd.address(), is_set, event);
        });
    });
}

/// The child's copy of the page is swapped out as well, with the old bit.
fn a_change_of_a_page_that_is_swapped_out_is_in_the_child() {
    let _swap = Swap::new();
    let event = Event::new("st_stalled_swapped u32 a");
    event.page.put(8, b"contents");
    let process = child::fork(|_| {
        have_own_set(&event);
        event.page.put(8, b"contents");
        let fork = |address| {
            fork_right(is_clear, &event);
            put_out(&event.page);
            clone_right(libc::CLONE_PIDFD, address, is_set, &event);
        };
        stall_thread(fork, || event.follows(true));
    });
    process.join();
    event.switch(false);
}
