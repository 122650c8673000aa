// SPDX-License-Identifier: GPL-2.0

//! Registrations that a forked child inherits.

use crate::harness::tests;
use crate::kit::child::{self, Child, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::fork_tree::{end, fork, obey, serve, tell, toggle, toggle_of};
use crate::kit::memory::Mapping;
use crate::kit::{machine, os, tasks, wait};
use std::slice;
use std::thread;

tests!("fork":
    a_child_has_them_before_its_first_instruction,
    what_a_thread_registers_meanwhile_is_all_there_or_not_at_all,
    a_child_whose_parent_has_ended_keeps_them,
    a_child_forked_while_enabled_follows,
    what_one_process_changes_the_others_keep,
    a_word_that_is_used_again_stays_as_it_is_in_children,
    the_last_of_a_family_may_change_its_registrations,
    every_registration_is_inherited,
);

fn a_child_has_them_before_its_first_instruction() {
    let event = Event::new("st_fork_first u32 a");
    let address = event.page.address();
    let mut parent = fork(&event);
    tasks::stop_at_fork(parent.pid);
    parent.line.say(Word::Fork);
    let child = tasks::wait_for_stopped_child(parent.pid);
    // The bit follows, although the child was never in user space.
    for _ in 0..3 {
        for on in [true, false] {
            event.switch(on);
            wait::until("the bit of the stopped child to follow", || {
                tasks::word_of(child, address).map(|word| word & 1 != 0) == Some(on)
            });
        }
    }
    tasks::let_go(child);
    tasks::let_go(parent.pid);
    parent.line.hear(Word::Fork);
    let mut children = vec![parent];
    toggle(&event, &mut children);
    end(children);
}

fn what_a_thread_registers_meanwhile_is_all_there_or_not_at_all() {
    let event = Event::new("st_fork_meanwhile u32 a");
    event.follows(true);
    let page = Mapping::kept(1);
    let register = || {
        event.add_bit(page.address(), 0);
        assert_eq!(event.data.unregister_bit(page.address(), 0), Ok(()));
    };
    let mut codes = [0; 4];
    wait::beside(register, || {
        for _ in 0..machine::rounds(300) {
            let pid = os::fork().unwrap();
            if pid == 0 {
                let is_set = page.get(0) & 1 != 0;
                // Only this call shows whether the child has inherited the registration. If not,
                // the bit may have any value.
                os::exit_now(match event.data.unregister_bit(page.address(), 0) {
                    Err(Errno::ENOENT) => 0,
                    Ok(()) if is_set => 1,
                    Ok(()) => 2,
                    Err(_) => 3,
                });
            }
            let (_, status) = os::wait(pid, 0).unwrap();
            codes[libc::WEXITSTATUS(status) as usize % 4] += 1;
        }
    });
    let [_, whole, missing, other_errno] = codes;
    assert_eq!((missing, other_errno), (0, 0), "of {codes:?}");
    assert_ne!(whole, 0, "no child inherited it: nothing was tried");
    event.switch(false);
}

fn a_child_whose_parent_has_ended_keeps_them() {
    let event = Event::new("st_fork_orphan u32 a");
    let mut orphan = child::fork(|line| match os::fork().unwrap() {
        0 => serve(line, &event),
        _ => os::exit_now(0),
    });
    // The process in between has exited; its child uses the same line.
    assert_eq!(orphan.wait(), 0);
    let mut follows = || toggle_of(&event.name, slice::from_mut(&mut orphan));
    follows();
    event.unregister().unwrap();
    follows();
    orphan.tell(Word::End);
    drop(event);
    wait_gone("st_fork_orphan");
}

fn a_child_forked_while_enabled_follows() {
    let event = Event::new("st_fork_enabled u32 a");
    for drop_first in [false, true] {
        event.follows(true);
        if drop_first {
            // The child starts without the page, so without a copy of the bit.
            event.page.discard();
        }
        let mut children = vec![fork(&event)];
        if !drop_first {
            tell(&mut children, Word::Set);
        }
        event.switch(false);
        tell(&mut children, Word::Clear);
        event.wait_clear();
        toggle(&event, &mut children);
        end(children);
    }
}

/// A parent and three children: a change by one of them leaves the registrations of the others.
fn what_one_process_changes_the_others_keep() {
    use Word::*;
    let event = Event::new("st_fork_change u32 a");
    let mut family = vec![fork(&event), fork(&event), fork(&event)];
    toggle(&event, &mut family);
    // The parent is the first process.
    let order = |family: &mut [Child], process: usize, word| match process {
        0 => obey(word, &event),
        child => family[child - 1].tell(word),
    };
    let all = |family: &mut [Child], words: [Word; 4]| {
        for (process, word) in words.into_iter().enumerate() {
            order(family, process, word);
        }
    };
    // Toggles. While the event is on, the states of the four processes are `words`.
    let seen = |family: &mut [Child], words: [Word; 4]| {
        for _ in 0..2 {
            event.switch(true);
            all(family, words);
            event.switch(false);
            all(family, [Clear; 4]);
            all(family, [SecondClear; 4]);
        }
    };

    order(&mut family, 1, Unregister);
    seen(&mut family, [Set, Clear, Set, Set]);
    order(&mut family, 0, RegisterSecond);
    seen(&mut family, [SecondSet, Clear, Set, Set]);
    seen(&mut family, [Set, SecondClear, SecondClear, SecondClear]);
    // Only one process is left in the original set.
    order(&mut family, 2, RegisterSecond);
    seen(&mut family, [SecondSet, Clear, SecondSet, Set]);
    seen(&mut family, [Set, SecondClear, Set, SecondClear]);
    // What the parent unregisters the others still have.
    order(&mut family, 0, Unregister);
    seen(&mut family, [Clear, Clear, Set, Set]);
    // An unregistered bit can be registered again.
    order(&mut family, 1, Register);
    seen(&mut family, [Clear, Set, Set, Set]);
    assert_eq!(event.unregister(), Err(Errno::ENOENT));
    // The process left in the original set changes its registrations, too.
    order(&mut family, 3, Unregister);
    seen(&mut family, [SecondSet, Set, Set, Clear]);
    end(family);
    // Only the parent's second bit is left.
    event.switch(true);
    obey(SecondSet, &event);
    assert!(!event.bit());
    event.switch(false);
    obey(SecondClear, &event);
}

/// Once unregistered, a word is the program's own again, also in children of any thread.
fn a_word_that_is_used_again_stays_as_it_is_in_children() {
    const DATA: u32 = u32::MAX;
    let event = Event::new("st_fork_data u32 a");
    event.follows(true);
    let fork = || child::fork(|_| assert_eq!(event.page.get(0), DATA)).join();
    child::fork(|_| assert!(event.bit())).join();
    assert_eq!(event.unregister(), Ok(()));
    event.page.set(0, DATA);
    for _ in 0..2 {
        fork();
        thread::scope(|scope| scope.spawn(fork).join().unwrap());
        event.switch(false);
        event.switch(true);
    }
    assert_eq!(event.page.get(0), DATA);
    event.switch(false);
}

fn the_last_of_a_family_may_change_its_registrations() {
    let event = Event::new("st_fork_last u32 a");
    for _ in 0..3 {
        let mut children = vec![fork(&event), fork(&event)];
        toggle(&event, &mut children);
        end(children);
        // The set is not shared any more.
        event.unregister().unwrap();
        obey(Word::Register, &event);
        event.toggle();
    }
    // The child is the last.
    let mut child = fork(&event);
    event.unregister().unwrap();
    child.tell(Word::Unregister);
    child.tell(Word::Register);
    event.switch(true);
    child.tell(Word::Set);
    assert!(!event.bit());
    event.switch(false);
    child.tell(Word::Clear);
    end(vec![child]);
}

fn every_registration_is_inherited() {
    const WORDS: usize = 500;
    let events = ["st_fork_many u32 a", "st_fork_more u32 a"].map(Event::new);
    let page = Mapping::kept(1);
    let address = |word: usize| page.address() + 4 * word as u64;
    let unregister = |word| events[0].data.unregister_bit(address(word), 9);
    (0..WORDS).for_each(|word| events[word % 2].add_bit(address(word), 9));
    // Words alternate between the two events, and `state` is that of each event.
    let wait = |state: [bool; 2]| {
        let right = |word: usize| page.get(4 * word) == u32::from(state[word % 2]) << 9;
        wait::until("all bits to follow", || (0..WORDS).all(right));
    };
    let states = [[true, false], [true, true], [false, true], [false, false]];
    let mut children = [(); 2].map(|()| {
        child::fork(|line| {
            for state in states {
                wait(state);
                line.say(Word::Seen);
            }
            // The first call gives the child its own set, a copy with all registrations.
            for word in 0..WORDS {
                assert_eq!(unregister(word), Ok(()), "word {word}");
            }
        })
    });
    for (which, state) in [0, 1, 0, 1].into_iter().zip(states) {
        events[which].switch(state[which]);
        wait(state);
        children
            .iter_mut()
            .for_each(|child| child.line.hear(Word::Seen));
    }
    children.into_iter().for_each(Child::join);
    for on in [true, false] {
        events[1].switch(on);
        wait([false, on]);
    }
}
