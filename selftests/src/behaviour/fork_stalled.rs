// SPDX-License-Identifier: GPL-2.0

//! Forks that a program stalls between the copying of the memory and the start of the child, as long as it
//! likes: what is toggled, registered and unregistered meanwhile is right in the child.
//!
//! The stall is the storing of the child's pidfd, to a page whose faults the test answers.

use crate::harness::Test;
use crate::kit::child::{self, Child};
use crate::kit::errno::Errno;
use crate::kit::event::{is_listed, wait_gone, Event};
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::swap::{put_out, Swap};
use crate::kit::tracefs::Tracer;
use crate::kit::userfault::{Guard, Userfault, SIGN};
use crate::kit::{os, tasks, wait};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
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
        "fork_stalled::a_change_meanwhile_of_another_bit_is_in_the_child",
        a_change_meanwhile_of_another_bit_is_in_the_child,
    ),
    test(
        "fork_stalled::a_change_of_a_page_of_its_own_is_in_the_child",
        a_change_of_a_page_of_its_own_is_in_the_child,
    ),
    test(
        "fork_stalled::a_change_before_another_task_forks_is_in_the_child",
        a_change_before_another_task_forks_is_in_the_child,
    ),
    test(
        "fork_stalled::what_is_unregistered_meanwhile_is_clear_in_the_child",
        what_is_unregistered_meanwhile_is_clear_in_the_child,
    ),
    test(
        "fork_stalled::what_is_unregistered_with_many_others_is_clear_in_the_child",
        what_is_unregistered_with_many_others_is_clear_in_the_child,
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
        "fork_stalled::a_word_that_is_used_again_stays_as_it_is_in_later_children",
        a_word_that_is_used_again_stays_as_it_is_in_later_children,
    ),
    test(
        "fork_stalled::a_fork_that_failed_has_no_part_in_the_next_one",
        a_fork_that_failed_has_no_part_in_the_next_one,
    ),
    test(
        "fork_stalled::what_is_unregistered_in_between_is_clear_in_children_of_other_processes",
        what_is_unregistered_in_between_is_clear_in_children_of_other_processes,
    ),
    test(
        "fork_stalled::a_child_that_is_late_clears_what_was_unregistered_twice",
        a_child_that_is_late_clears_what_was_unregistered_twice,
    ),
    test(
        "fork_stalled::a_child_that_has_not_looked_clears_what_was_unregistered_twice",
        a_child_that_has_not_looked_clears_what_was_unregistered_twice,
    ),
    test(
        "fork_stalled::a_child_that_has_not_looked_clears_what_went_before_many_others",
        a_child_that_has_not_looked_clears_what_went_before_many_others,
    ),
    test(
        "fork_stalled::a_child_that_is_late_keeps_what_the_program_stored_in_between",
        a_child_that_is_late_keeps_what_the_program_stored_in_between,
    ),
    test(
        "fork_stalled::a_word_that_is_shared_is_the_parents_in_any_child",
        a_word_that_is_shared_is_the_parents_in_any_child,
    ),
    test(
        "fork_stalled::very_many_forks_at_once_are_over_some_time",
        very_many_forks_at_once_are_over_some_time,
    ),
    test(
        "fork_stalled::more_forks_than_can_be_noted_are_over_some_time",
        more_forks_than_can_be_noted_are_over_some_time,
    ),
    test(
        "fork_stalled::a_child_does_not_copy_a_repair_that_is_pending",
        a_child_does_not_copy_a_repair_that_is_pending,
    ),
    test(
        "fork_stalled::a_child_that_was_killed_has_looked_for_no_other",
        a_child_that_was_killed_has_looked_for_no_other,
    ),
    test(
        "fork_stalled::a_repair_meanwhile_is_in_the_child",
        a_repair_meanwhile_is_in_the_child,
    ),
    test(
        "fork_stalled::a_change_of_a_page_that_is_swapped_out_is_in_the_child",
        a_change_of_a_page_that_is_swapped_out_is_in_the_child,
    )
    .swapping(),
];

/// What a child, forked by a thread of another process, exits with.
pub(super) const RIGHT: i32 = 10;
const BIT_IS_CLEAR: i32 = 1;
const BIT_IS_SET: i32 = 2;
pub(super) const WRONG_ERRNO: i32 = 3;

/// What a child looks at, and what it exits with.
type Look<'a> = &'a (dyn Fn(&Event) -> i32 + Sync);

/// Has this process have its own set of registrations: as long as its parent, or a child, shares it, what changes
/// for these changes here.
fn have_own_set(event: &Event) {
    let text = format!("{} u32 a", event.name);
    let page = Mapping::new(1);
    let index = event.data.register_text(&text, page.address(), 0);
    assert_eq!(index, Ok(event.index));
    assert_eq!(event.data.unregister_bit(page.address(), 0), Ok(()));
}

/// Runs a process, of which a thread forks. While that fork is stalled the process calls `meanwhile`. Its child
/// calls `check`, and exits with what that returns. So do two others, forked by the same thread before.
fn stall(meanwhile: impl Fn(), before: Look<'_>, check: Look<'_>, event: &Event) {
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
        stall_thread(forks, meanwhile, answer, || ());
        line.say("done");
    });
    done(process);
}

fn done(mut process: Child) {
    process.line.hear("done");
    process.join();
}

/// The bit is to be set.
pub(super) fn is_set(event: &Event) -> i32 {
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
pub(super) fn is_given_up(event: &Event) -> i32 {
    match event.unregister() {
        Err(Errno::ENOENT) => is_clear(event),
        _ => WRONG_ERRNO,
    }
}

/// Enables the event, and disables it, each while a fork is stalled, and waits until this process sees it by a look; `before`
/// and `after` are called just before that, and with the look after it. The child sees it, too.
fn is_in_the_child(
    event: &Event,
    [is_set, is_clear]: [Look<'_>; 2],
    before: impl Fn(),
    after: impl Fn(Look<'_>),
) {
    let top = Tracer::top();
    for _ in 0..2 {
        let enable = || {
            before();
            top.enable(&event.name);
            wait::until("the bit to be set", || is_set(event) == RIGHT);
            after(is_set);
        };
        let disable = || {
            before();
            top.disable(&event.name);
            wait::until("the bit to be cleared", || is_clear(event) == RIGHT);
            after(is_clear);
        };
        stall(enable, is_clear, is_set, event);
        stall(disable, is_set, is_clear, event);
    }
}

fn a_change_meanwhile_is_in_the_child() {
    let event = Event::new("st_stalled_change u32 a");
    is_in_the_child(&event, [&is_set, &is_clear], || (), |_| ());
}

/// It is alone on its page, and not the first bit of its word.
fn a_change_meanwhile_of_another_bit_is_in_the_child() {
    const BIT: u8 = 5;
    let event = Event::new("st_stalled_other u32 a");
    let text = format!("{} u32 a", event.name);
    let page = Mapping::kept(1);
    let index = event.data.register_text(&text, page.address(), BIT);
    assert_eq!(index, Ok(event.index));
    let bit = || page.word(0).load(Ordering::Relaxed) & (1 << BIT) != 0;
    let is_set = |_: &Event| if bit() { RIGHT } else { BIT_IS_CLEAR };
    let is_clear = |_: &Event| if bit() { BIT_IS_SET } else { RIGHT };
    is_in_the_child(&event, [&is_set, &is_clear], || (), |_| ());
}

/// The page is the process's own since the fork, so that its bit is written at once.
fn a_change_of_a_page_of_its_own_is_in_the_child() {
    let event = Event::new("st_stalled_at_once u32 a");
    let touch = || event.page.word(64).store(1, Ordering::Relaxed);
    is_in_the_child(&event, [&is_set, &is_clear], touch, |_| ());
}

/// What one task has in the copy that it makes says nothing of the copy that another made before.
fn a_change_before_another_task_forks_is_in_the_child() {
    let event = Event::new("st_stalled_tasks u32 a");
    let fork = |look: Look<'_>| fork_right(look, &event);
    is_in_the_child(&event, [&is_set, &is_clear], || (), fork);
}

fn what_is_unregistered_meanwhile_is_clear_in_the_child() {
    let event = Event::new("st_stalled_unregister u32 a");
    let top = Tracer::top();
    top.enable(&event.name);
    event.wait_set();
    let unregister = || assert_eq!(event.unregister(), Ok(()));
    stall(unregister, &is_set, &is_given_up, &event);
    top.disable(&event.name);
}

/// More than a process keeps note of without looking whether a fork needs them.
const MANY: usize = 100;

/// Has a process register a bit in each of many words. Returns where.
pub(super) fn register_many(event: &Event) -> Mapping {
    let words = Mapping::kept(1);
    for word in 0..MANY as u64 {
        let text = format!("{} u32 a", event.name);
        let index = event
            .data
            .register_text(&text, words.address() + 4 * word, 0);
        assert_eq!(index, Ok(event.index));
    }
    words
}

pub(super) fn unregister_many(event: &Event, words: &Mapping) {
    for word in 0..MANY as u64 {
        let result = event.data.unregister_bit(words.address() + 4 * word, 0);
        assert_eq!(result, Ok(()));
    }
}

fn what_is_unregistered_with_many_others_is_clear_in_the_child() {
    let event = Event::new("st_stalled_many u32 a");
    let words = register_many(&event);
    let top = Tracer::top();
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
    let top = Tracer::top();
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

/// What the program stores in a word of its own.
const DATA: u32 = u32::MAX;

/// The word is to be the program's, and not registered.
fn is_data(event: &Event) -> i32 {
    let word = event.page.word(0).load(Ordering::Relaxed);
    match (event.unregister(), word) {
        (Err(Errno::ENOENT), DATA) => RIGHT,
        (Err(Errno::ENOENT), _) => BIT_IS_CLEAR,
        _ => WRONG_ERRNO,
    }
}

/// Forks a child that exits with what `check` returns, which is to be that all is right.
#[track_caller]
pub(super) fn fork_right(check: impl Fn(&Event) -> i32, event: &Event) {
    clone_right(0, 0, check, event);
}

/// The same with `flags` of clone, of which one has the kernel store something at `address`. Returns the child's pid.
#[track_caller]
pub(super) fn clone_right(
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
pub(super) fn with_enabled(name: &str, run: impl FnOnce(&Event)) {
    let mut process = child::fork(|line| {
        let event = Event::new(&format!("{name} u32 a"));
        line.say("registered");
        event.wait_set();
        run(&event);
        line.say("done");
    });
    process.line.hear("registered");
    let top = Tracer::top();
    top.enable(name);
    done(process);
    top.disable(name);
    wait_gone(name);
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

/// Has a thread call `fork` with a place for the pidfd that is not there, and `meanwhile` called while that
/// waits; then the fork goes on by `end`, and the thread calls `after`.
pub(super) fn stall_thread(
    fork: impl FnOnce(u64) + Send,
    meanwhile: impl FnOnce(),
    end: fn(&Userfault, &Mapping),
    after: impl FnOnce() + Send,
) {
    let faults = Userfault::new();
    let pidfd = Mapping::kept(1);
    faults.guard(&pidfd, Guard::Missing);
    let address = pidfd.address();
    thread::scope(|scope| {
        let forking = scope.spawn(move || {
            fork(address);
            after();
        });
        wait::until("the fork to be stalled", || {
            assert!(!forking.is_finished(), "the fork is not stalled");
            faults.next_fault().is_some()
        });
        meanwhile();
        end(&faults, &pidfd);
        forking.join().unwrap();
    });
}

pub(super) fn answer(faults: &Userfault, pidfd: &Mapping) {
    faults.fill(pidfd.address(), 0);
}

fn a_fork_that_failed_has_no_part_in_the_next_one() {
    with_enabled("st_stalled_failed", |event| {
        let fail = |address| {
            let result = tasks::clone_to(libc::CLONE_PIDFD, address);
            if result == Ok(0) {
                os::exit_now(WRONG_ERRNO);
            }
            assert_eq!(result, Err(Errno::EFAULT));
        };
        let reuse = || {
            assert_eq!(event.unregister(), Ok(()));
            event.page.word(0).store(DATA, Ordering::Relaxed);
        };
        // The page comes, and cannot be written to by then.
        let refuse = |faults: &Userfault, pidfd: &Mapping| {
            pidfd.protect(libc::PROT_NONE);
            answer(faults, pidfd);
        };
        stall_thread(fail, reuse, refuse, || fork_right(is_data, event));
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

/// A few, and more than the kernel is asked for at once: all of their children clear the bit, and later ones do not.
fn very_many_forks_at_once_are_over_some_time() {
    many_forks_are_over(3);
    many_forks_are_over(40);
}

fn many_forks_are_over(forks: usize) {
    with_enabled("st_stalled_crowd", |event| {
        let faults = Userfault::new();
        let pidfds = Mapping::kept(forks);
        faults.guard(&pidfds, Guard::Missing);
        let page = |fork| pidfds.address() + (fork * PAGE) as u64;
        thread::scope(|scope| {
            for fork in 0..forks {
                scope.spawn(move || {
                    clone_right(libc::CLONE_PIDFD, page(fork), is_given_up, event);
                });
                wait::until("a fork to be stalled", || faults.next_fault().is_some());
            }
            assert_eq!(event.unregister(), Ok(()));
            (0..forks).for_each(|fork| faults.fill(page(fork), 0));
        });
        // The first fork after them finds that they are over.
        fork_right(is_given_up, event);
        event.page.word(0).store(DATA, Ordering::Relaxed);
        fork_right(is_data, event);
    });
}

/// Each is noted until its thread is back in the program, and 64 can be: of no more than 32 of them the parent has not
/// been told at a time, as many as are looked for.
fn more_forks_than_can_be_noted_are_over_some_time() {
    const GROUPS: [std::ops::Range<usize>; 3] = [0..32, 32..64, 64..65];
    with_enabled("st_stalled_noted", |event| {
        let faults = Userfault::new();
        let (pidfds, tids) = (Mapping::kept(65), Mapping::kept(65));
        faults.guard(&pidfds, Guard::Missing);
        faults.guard(&tids, Guard::Missing);
        let at = |pages: &Mapping, fork| pages.address() + (fork * PAGE) as u64;
        let wait_for_one = || {
            wait::until("a fork to be stalled", || faults.next_fault().is_some());
        };
        thread::scope(|scope| {
            for group in GROUPS {
                let is_last = group.len() == 1;
                for fork in group.clone() {
                    let (pidfd, tid) = (at(&pidfds, fork), at(&tids, fork));
                    scope.spawn(move || {
                        let pid = tasks::clone_to_both(pidfd, tid).unwrap();
                        if pid == 0 {
                            let is_right = !is_last || is_given_up(event) == RIGHT;
                            os::exit_now(i32::from(!is_right));
                        }
                        assert_eq!(os::wait(pid, 0), Ok((pid, 0)));
                    });
                    wait_for_one();
                }
                match is_last {
                    true => assert_eq!(event.unregister(), Ok(())),
                    false => have_own_set(event),
                }
                for fork in group {
                    faults.fill(at(&pidfds, fork), 0);
                    wait_for_one();
                }
            }
            (0..65).for_each(|fork| faults.fill(at(&tids, fork), 0));
        });
        fork_right(is_given_up, event);
    });
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
            fork_right(is_set, &event);
        }
        assert!(!event.bit());
        line.say("done");
    });
    process.line.hear("guarded");
    top.enable(&event.name);
    done(process);
    top.disable(&event.name);
}

/// Runs a process whose event is switched while its page, which is guarded, keeps it from being written. A thread forks a
/// child, which is killed before it runs, so that it does not look at its bits; and then does `then`.
fn with_one_killed(name: &str, then: impl FnOnce(&Event, &Userfault) + Send) {
    let event = Event::new(&format!("{name} u32 a"));
    let top = Tracer::top();
    let mut process = child::fork(|line| {
        have_own_set(&event);
        let faults = Userfault::new();
        let tid = Mapping::kept(1);
        faults.guard(&tid, Guard::Missing);
        faults.guard(&event.page, Guard::Writes);
        line.say("guarded");
        wait::until("the kernel's fault", || faults.next_fault().is_some());
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
        line.say("done");
    });
    process.line.hear("guarded");
    top.enable(&event.name);
    done(process);
    top.disable(&event.name);
}

/// Its bits still differ from what they are to be: the next one of the same task has to look, though nothing changed
/// between the two.
fn a_child_that_was_killed_has_looked_for_no_other() {
    with_one_killed("st_stalled_killed", |event, _| {
        fork_right(is_set, event);
        assert!(!event.bit());
    });
}

/// What is written late changes what a child has copied before, as a change of the event does.
fn a_repair_meanwhile_is_in_the_child() {
    with_one_killed("st_stalled_repaired", |event, faults| {
        let other = Userfault::new();
        let pidfd = Mapping::kept(1);
        other.guard(&pidfd, Guard::Missing);
        thread::scope(|scope| {
            scope.spawn(|| {
                wait::until("the fork to be stalled", || other.next_fault().is_some());
                faults.allow_writes(event.page.address());
                event.wait_set();
                other.fill(pidfd.address(), 0);
            });
            clone_right(libc::CLONE_PIDFD, pidfd.address(), is_set, event);
        });
    });
}

/// The child's copy of it is on the swap, too, and has the bit as it was.
fn a_change_of_a_page_that_is_swapped_out_is_in_the_child() {
    let _swap = Swap::new();
    let event = Event::new("st_stalled_swapped u32 a");
    event.page.put(8, b"contents");
    let top = Tracer::top();
    let process = child::fork(|line| {
        have_own_set(&event);
        event.page.put(8, b"contents");
        let fork = |address| {
            fork_right(is_clear, &event);
            put_out(&event.page);
            clone_right(libc::CLONE_PIDFD, address, is_set, &event);
        };
        let enable = || {
            top.enable(&event.name);
            event.wait_set();
        };
        stall_thread(fork, enable, answer, || ());
        line.say("done");
    });
    done(process);
    top.disable(&event.name);
}
