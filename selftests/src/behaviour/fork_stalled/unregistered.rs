// SPDX-License-Identifier: GPL-2.0

//! What is registered and unregistered while a fork is stalled: the child has it, or has its word clear; and what the
//! program stores in a word that is its own again stays.

use super::setup::*;
use crate::harness::tests;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::tracefs::TraceInstance;
use crate::kit::userfault::{Guard, Userfault, SIGN};
use crate::kit::{os, tasks, wait};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;

tests!("fork_stalled":
    what_is_unregistered_meanwhile_is_clear_in_the_child.where_there_is(SIGN),
    what_is_unregistered_with_many_others_is_clear_in_the_child.where_there_is(SIGN),
    what_is_registered_meanwhile_is_the_childs_too_or_clear.where_there_is(SIGN),
    what_is_given_up_and_not_clear_yet_is_clear_in_each_child.where_there_is(SIGN),
    a_word_that_is_used_again_stays_as_it_is_in_later_children.where_there_is(SIGN),
    what_is_unregistered_in_between_is_clear_in_children_of_other_processes.where_there_is(SIGN),
    a_child_that_is_late_clears_what_was_unregistered_twice.where_there_is(SIGN),
    a_child_that_has_not_looked_clears_what_was_unregistered_twice.where_there_is(SIGN),
    a_child_that_has_not_looked_clears_what_went_before_many_others.where_there_is(SIGN),
    a_child_that_is_late_keeps_what_the_program_stored_in_between.where_there_is(SIGN),
    a_word_that_is_shared_is_the_parents_in_any_child.where_there_is(SIGN),
);

fn what_is_unregistered_meanwhile_is_clear_in_the_child() {
    let event = Event::new("st_stalled_unregister u32 a");
    let top = TraceInstance::top();
    top.enable(&event.name);
    event.wait_set();
    let unregister = || assert_eq!(event.unregister(), Ok(()));
    stall(unregister, &is_set, &is_given_up, &event);
    top.disable(&event.name);
}

fn what_is_unregistered_with_many_others_is_clear_in_the_child() {
    let event = Event::new("st_stalled_many u32 a");
    let words = register_many(&event);
    let top = TraceInstance::top();
    top.enable(&event.name);
    event.wait_set();
    let are = |value| (0..MANY).all(|word| words.word(4 * word).load(Ordering::Relaxed) == value);
    wait::until("all bits to be set", || are(1));
    let unregister = || {
        assert_eq!(event.unregister(), Ok(()));
        unregister_many(&event, &words);
    };
    let all_are_given_up = |event: &Event| match are(0) {
        true => is_given_up(event),
        false => BIT_IS_SET,
    };
    stall(unregister, &is_set, &all_are_given_up, &event);
    top.disable(&event.name);
}

fn what_is_registered_meanwhile_is_the_childs_too_or_clear() {
    let event = Event::new("st_stalled_register u32 a");
    let top = TraceInstance::top();
    top.enable(&event.name);
    event.wait_set();
    // Another word of the page.
    const OTHER: u64 = 64;
    fn other_is_right(event: &Event) -> i32 {
        let is_set = event.page.word(OTHER as usize).load(Ordering::Relaxed) != 0;
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
    stall(register, &is_set, &other_is_right, &event);
    let and_unregister = || {
        register();
        assert_eq!(event.data.unregister_bit(site, 0), Ok(()));
    };
    stall(and_unregister, &is_set, &other_is_right, &event);
    top.disable(&event.name);
}

/// A thread waits for the page of a bit that it has given up, and another one forks.
fn what_is_given_up_and_not_clear_yet_is_clear_in_each_child() {
    with_enabled("st_stalled_clear", |event| {
        let faults = Userfault::new();
        faults.guard(&event.page, Guard::Writes);
        thread::scope(|scope| {
            let giving_up = scope.spawn(|| event.unregister());
            wait::until("the thread to wait", || faults.next_fault().is_some());
            let statuses = [(); 3].map(|()| {
                let pid = os::fork().unwrap();
                if pid == 0 {
                    os::exit_now(is_given_up(event));
                }
                os::wait(pid, 0).unwrap().1 >> 8
            });
            faults.allow_writes(event.page.address());
            assert_eq!(giving_up.join().unwrap(), Ok(()));
            assert_eq!(statuses, [RIGHT; 3]);
        });
    });
}

/// Unregistered beside other threads, a word is the program's again: whichever thread forks then, the first time
/// or not, and whether other words are unregistered meanwhile.
fn a_word_that_is_used_again_stays_as_it_is_in_later_children() {
    with_enabled("st_stalled_data", |event| {
        let (to_thread, from_here) = mpsc::channel();
        let (to_here, from_thread) = mpsc::channel();
        thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                fork_right(is_set, event);
                to_here.send(()).unwrap();
                from_here.recv().unwrap();
                fork_right(is_data, event);
            });
            fork_right(is_set, event);
            from_thread.recv().unwrap();
            assert_eq!(event.unregister(), Ok(()));
            event.page.word(0).store(DATA, Ordering::Relaxed);
            // The second fork of this thread, and the first one of another.
            fork_right(is_data, event);
            scope.spawn(|| fork_right(is_data, event)).join().unwrap();
            to_thread.send(()).unwrap();
            waiting.join().unwrap();
        });
        fork_right(is_data, event);
    });
}

fn what_is_unregistered_in_between_is_clear_in_children_of_other_processes() {
    with_enabled("st_stalled_foreign", |event| {
        // A process that shares the memory, and forks.
        let fork = |address| {
            let child = tasks::vfork(|| {
                let pid = tasks::clone_to(libc::CLONE_PIDFD, address).unwrap();
                if pid == 0 {
                    os::exit_now(is_given_up(event));
                }
                os::wait(pid, 0).unwrap().1 >> 8
            });
            let child = child.unwrap();
            assert_eq!(os::wait(child, 0), Ok((child, RIGHT << 8)));
        };
        let reuse = || {
            assert_eq!(event.unregister(), Ok(()));
            event.page.word(0).store(DATA & !1, Ordering::Relaxed);
        };
        stall_thread(fork, reuse, answer, || ());
        event.page.word(0).store(DATA, Ordering::Relaxed);
        fork_right(is_data, event);
    });
}

/// One fork is stalled when the bit is unregistered, another one when it is registered again, and unregistered
/// again; the bit is set in both copies.
fn a_child_that_is_late_clears_what_was_unregistered_twice() {
    with_enabled("st_stalled_twice", |event| {
        let fork = |address| {
            clone_right(libc::CLONE_PIDFD, address, is_given_up, event);
        };
        let text = format!("{} u32 a", event.name);
        let between = || {
            assert_eq!(event.unregister(), Ok(()));
            let register = event.data.register_text(&text, event.page.address(), 0);
            assert_eq!(register, Ok(event.index));
            assert!(event.bit());
            let unregister = || {
                assert_eq!(event.unregister(), Ok(()));
                event.page.word(0).store(DATA, Ordering::Relaxed);
            };
            stall_thread(fork, unregister, answer, || fork_right(is_data, event));
        };
        stall_thread(fork, between, answer, || fork_right(is_data, event));
        fork_right(is_data, event);
    });
}

/// Has a thread fork a child that has given up the event, and is stalled twice: before its parent is told of it, when
/// `before` is called, and once more before the child runs, when `after` is.
fn stall_twice(event: &Event, before: impl FnOnce(), after: impl FnOnce()) {
    let faults = Userfault::new();
    let (pidfd, tid) = (Mapping::kept(1), Mapping::kept(1));
    faults.guard(&pidfd, Guard::Missing);
    faults.guard(&tid, Guard::Missing);
    thread::scope(|scope| {
        let forking = scope.spawn(|| {
            let pid = tasks::clone_to_both(pidfd.address(), tid.address()).unwrap();
            if pid == 0 {
                os::exit_now(is_given_up(event));
            }
            assert_eq!(os::wait(pid, 0), Ok((pid, RIGHT << 8)));
        });
        let wait_for = |page: &Mapping| {
            wait::until("the fork to be stalled", || {
                assert!(!forking.is_finished(), "the fork is not stalled");
                faults.next_fault() == Some(page.address())
            });
        };
        wait_for(&pidfd);
        before();
        faults.fill(pidfd.address(), 0);
        wait_for(&tid);
        after();
        faults.fill(tid.address(), 0);
        forking.join().unwrap();
    });
}

/// Its memory was copied before the first time, and its parent was told of it in between. It has not run by the second time.
fn a_child_that_has_not_looked_clears_what_was_unregistered_twice() {
    with_enabled("st_stalled_both", |event| {
        let unregister = || assert_eq!(event.unregister(), Ok(()));
        let again = || {
            let text = format!("{} u32 a", event.name);
            let register = event.data.register_text(&text, event.page.address(), 0);
            assert_eq!(register, Ok(event.index));
            unregister();
        };
        stall_twice(event, unregister, again);
    });
}

/// Its parent was told of it before these.
fn a_child_that_has_not_looked_clears_what_went_before_many_others() {
    with_enabled("st_stalled_before", |event| {
        let words = register_many(event);
        let unregister = || assert_eq!(event.unregister(), Ok(()));
        stall_twice(event, unregister, || unregister_many(event, &words));
    });
}

/// Forked while the word is the program's, and stalled when its parent has been told of: what is done with the
/// word after that is no matter of the child's.
fn a_child_that_is_late_keeps_what_the_program_stored_in_between() {
    with_enabled("st_stalled_between", |event| {
        let fork = |address| {
            clone_right(libc::CLONE_PARENT_SETTID, address, is_data, event);
        };
        let text = format!("{} u32 a", event.name);
        let again = || {
            let register = event.data.register_text(&text, event.page.address(), 0);
            assert_eq!(register, Ok(event.index));
            assert_eq!(event.unregister(), Ok(()));
        };
        thread::scope(|scope| {
            // Beside another thread that lives.
            let (end, ended) = mpsc::channel::<()>();
            scope.spawn(move || ended.recv());
            assert_eq!(event.unregister(), Ok(()));
            event.page.word(0).store(DATA, Ordering::Relaxed);
            stall_thread(fork, again, answer, || ());
            drop(end);
        });
    });
}

/// A page that parent and child share was cleared in the parent, and is the program's when the child begins.
fn a_word_that_is_shared_is_the_parents_in_any_child() {
    const NAME: &str = "st_stalled_shared";
    with_enabled(NAME, |event| {
        let page = Mapping::shared(1);
        let text = format!("{NAME} u32 a");
        let register = event.data.register_text(&text, page.address(), 0);
        assert_eq!(register, Ok(event.index));
        assert_eq!(page.word(0).load(Ordering::Relaxed), 1);
        let fork = |address| {
            let is_data = |_: &Event| match page.word(0).load(Ordering::Relaxed) {
                DATA => RIGHT,
                _ => BIT_IS_CLEAR,
            };
            clone_right(libc::CLONE_PIDFD, address, is_data, event);
        };
        let reuse = || {
            assert_eq!(event.data.unregister_bit(page.address(), 0), Ok(()));
            page.word(0).store(DATA, Ordering::Relaxed);
        };
        stall_thread(fork, reuse, answer, || ());
        assert_eq!(page.word(0).load(Ordering::Relaxed), DATA);
    });
}
