// SPDX-License-Identifier: GPL-2.0

//! Registrations that a forked child inherits.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Child, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{toggler, wait_gone, Event};
use crate::kit::fork_tree::{end, fork, obey, serve, tell, toggle};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{machine, os, tasks, wait};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

tests!("fork":
    a_child_has_its_parents_registrations,
    a_clone_with_the_same_files_has_them,
    grandchildren_have_them,
    a_child_of_a_thread_has_them,
    a_child_has_them_before_its_first_instruction,
    the_first_call_of_a_child_finds_them,
    what_a_thread_registers_meanwhile_is_all_there_or_not_at_all,
    a_child_whose_parent_has_ended_keeps_them,
    a_child_forked_while_enabled_follows,
    what_one_process_changes_the_others_keep,
    a_word_that_is_used_again_stays_as_it_is_in_children,
    the_last_of_a_family_may_change_its_registrations,
    every_registration_is_inherited,
    memory_that_a_child_does_not_get_waits_for_the_next_change,
    memory_that_is_wiped_in_a_child_follows,
    an_event_goes_with_the_last_of_its_family,
);

fn a_child_has_its_parents_registrations() {
    let event = Event::new("st_fork_child u32 a");
    let mut children = vec![fork(&event), fork(&event)];
    for _ in 0..3 {
        toggle(&event, &mut children);
    }
    tell(&mut children, Word::Drop);
    toggle(&event, &mut children);
    end(children);
    toggle(&event, &mut []);
}

fn a_clone_with_the_same_files_has_them() {
    let event = Event::new("st_fork_clone u32 a");
    let pid = tasks::clone(libc::CLONE_FILES | libc::CLONE_FS).unwrap();
    if pid == 0 {
        event.wait_set();
        event.page.word(4).store(1, Ordering::Relaxed);
        event.wait_clear();
        os::exit_now(0);
    }
    let address = event.page.address();
    let top = TraceInstance::top();
    let seen = || tasks::word_of(pid, address + 4);
    top.enable(&event.name);
    event.wait_set();
    wait::until("the child to see its bit set", || seen() == Some(1));
    top.disable(&event.name);
    event.wait_clear();
    assert_eq!(os::wait(pid, 0), Ok((pid, 0)));
}

fn grandchildren_have_them() {
    let event = Event::new("st_fork_grand u32 a");
    let mut children = vec![fork(&event)];
    for _ in 0..4 {
        tell(&mut children, Word::Fork);
        toggle(&event, &mut children);
    }
    tell(&mut children, Word::Drop);
    toggle(&event, &mut children);
    end(children);
}

fn a_child_of_a_thread_has_them() {
    let event = Event::new("st_fork_thread u32 a");
    // The main thread only waits here, and holds no lock.
    let of_thread = || child::fork(|line| serve(line, &event));
    let child = thread::scope(|scope| scope.spawn(of_thread).join().unwrap());
    let mut children = vec![child];
    toggle(&event, &mut children);
    toggle(&event, &mut children);
    end(children);
}

fn a_child_has_them_before_its_first_instruction() {
    let event = Event::new("st_fork_first u32 a");
    let address = event.page.address();
    let mut parent = fork(&event);
    tasks::stop_at_fork(parent.pid);
    parent.line.say(Word::Fork);
    let child = tasks::wait_for_stopped_child(parent.pid);
    // The bit follows, although the child was never in user space.
    let top = TraceInstance::top();
    let is = |bit| move || tasks::word_of(child, address).map(|word| word & 1) == Some(bit);
    for _ in 0..3 {
        top.enable(&event.name);
        wait::until("the bit of the stopped child to be set", is(1));
        top.disable(&event.name);
        wait::until("the bit of the stopped child to be cleared", is(0));
    }
    tasks::let_go(child);
    tasks::let_go(parent.pid);
    parent.line.hear(Word::Fork);
    let mut children = vec![parent];
    toggle(&event, &mut children);
    end(children);
}

fn the_first_call_of_a_child_finds_them() {
    let event = Event::new("st_fork_call u32 a");
    let toggler = toggler(&event.name);
    for round in 0..60 {
        match os::fork().unwrap() {
            0 => {
                // A registered bit can be unregistered; to register it again is EADDRINUSE.
                let found = if round % 2 == 0 {
                    event.unregister() == Ok(()) && !event.bit()
                } else {
                    let text = format!("{} u32 a", event.name);
                    let again = event.data.register_text(&text, event.page.address(), 0);
                    again == Err(Errno::EADDRINUSE)
                };
                os::exit_now(if found { 0 } else { 1 });
            }
            pid => assert_eq!(os::wait(pid, 0), Ok((pid, 0)), "round {round}"),
        }
    }
    toggler.kill();
    TraceInstance::top().disable(&event.name);
    toggle(&event, &mut []);
}

fn what_a_thread_registers_meanwhile_is_all_there_or_not_at_all() {
    let event = Event::new("st_fork_meanwhile u32 a");
    let top = TraceInstance::top();
    top.enable(&event.name);
    event.wait_set();
    let text = format!("{} u32 a", event.name);
    let page = Mapping::kept(1);
    let is_over = AtomicBool::new(false);
    let mut codes = [0; 4];
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let index = event.data.register_text(&text, page.address(), 0);
                assert_eq!(index, Ok(event.index));
                assert_eq!(event.data.unregister_bit(page.address(), 0), Ok(()));
            }
        });
        for _ in 0..machine::rounds(300) {
            let pid = os::fork().unwrap();
            if pid == 0 {
                let is_set = page.word(0).load(Ordering::Relaxed) & 1 != 0;
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
        is_over.store(true, Ordering::Relaxed);
    });
    let [_, whole, missing, other_errno] = codes;
    assert_eq!((missing, other_errno), (0, 0), "of {codes:?}");
    assert_ne!(whole, 0, "no child inherited it: nothing was tried");
    top.disable(&event.name);
}

fn a_child_whose_parent_has_ended_keeps_them() {
    let event = Event::new("st_fork_orphan u32 a");
    let mut orphan = child::fork(|line| match os::fork().unwrap() {
        0 => serve(line, &event),
        _ => os::exit_now(0),
    });
    // The process in between has exited; its child uses the same line.
    assert_eq!(orphan.wait(), 0);
    let mut toggle = || {
        let top = TraceInstance::top();
        top.enable(&event.name);
        tell(std::slice::from_mut(&mut orphan), Word::Set);
        top.disable(&event.name);
        tell(std::slice::from_mut(&mut orphan), Word::Clear);
    };
    toggle();
    event.unregister().unwrap();
    toggle();
    orphan.tell(Word::End);
    drop(event);
    wait_gone("st_fork_orphan");
}

fn a_child_forked_while_enabled_follows() {
    let event = Event::new("st_fork_enabled u32 a");
    let top = TraceInstance::top();
    for drop_first in [false, true] {
        top.enable(&event.name);
        event.wait_set();
        if drop_first {
            // The child starts without the page, so without a copy of the bit.
            event.page.advise(libc::MADV_DONTNEED).unwrap();
        }
        let mut children = vec![fork(&event)];
        if !drop_first {
            tell(&mut children, Word::Set);
        }
        top.disable(&event.name);
        tell(&mut children, Word::Clear);
        event.wait_clear();
        toggle(&event, &mut children);
        end(children);
    }
}

/// A parent and three children: a change by one of them leaves the registrations of the others.
fn what_one_process_changes_the_others_keep() {
    let event = Event::new("st_fork_change u32 a");
    let mut family = vec![fork(&event), fork(&event), fork(&event)];
    toggle(&event, &mut family);
    let top = TraceInstance::top();
    let state = |family: &mut [Child], words: [Word; 4]| {
        obey(words[0], &event);
        for (child, &word) in family.iter_mut().zip(&words[1..]) {
            tell(std::slice::from_mut(child), word);
        }
    };
    // Toggles. While the event is on, the states of the parent and the children are `words`.
    let seen = |family: &mut [Child], words: [Word; 4]| {
        for _ in 0..2 {
            top.enable(&event.name);
            state(family, words);
            top.disable(&event.name);
            state(family, [Word::Clear; 4]);
            state(family, [Word::SecondClear; 4]);
        }
    };

    // A child unregisters.
    tell(&mut family[0..1], Word::Unregister);
    seen(&mut family, [Word::Set, Word::Clear, Word::Set, Word::Set]);
    // The parent registers one more.
    obey(Word::RegisterSecond, &event);
    seen(
        &mut family,
        [Word::SecondSet, Word::Clear, Word::Set, Word::Set],
    );
    seen(
        &mut family,
        [
            Word::Set,
            Word::SecondClear,
            Word::SecondClear,
            Word::SecondClear,
        ],
    );
    // A child registers one more. Only one process is left in the original set.
    tell(&mut family[1..2], Word::RegisterSecond);
    seen(
        &mut family,
        [Word::SecondSet, Word::Clear, Word::SecondSet, Word::Set],
    );
    seen(
        &mut family,
        [Word::Set, Word::SecondClear, Word::Set, Word::SecondClear],
    );
    // The parent unregisters what the others still have.
    event.unregister().unwrap();
    seen(
        &mut family,
        [Word::Clear, Word::Clear, Word::Set, Word::Set],
    );
    // An unregistered bit can be registered again.
    tell(&mut family[0..1], Word::Register);
    seen(&mut family, [Word::Clear, Word::Set, Word::Set, Word::Set]);
    assert_eq!(event.unregister(), Err(Errno::ENOENT));
    // The process left in the original set changes its registrations, too.
    tell(&mut family[2..3], Word::Unregister);
    seen(
        &mut family,
        [Word::SecondSet, Word::Set, Word::Set, Word::Clear],
    );
    end(family);
    seen_alone(&event);
}

/// Asserts that only the parent's second bit is left.
fn seen_alone(event: &Event) {
    let top = TraceInstance::top();
    top.enable(&event.name);
    obey(Word::SecondSet, event);
    assert!(!event.bit());
    top.disable(&event.name);
    obey(Word::SecondClear, event);
}

/// Once unregistered, a word is the program's own again, also in children of any thread.
fn a_word_that_is_used_again_stays_as_it_is_in_children() {
    const DATA: u32 = u32::MAX;
    let event = Event::new("st_fork_data u32 a");
    let top = TraceInstance::top();
    top.enable(&event.name);
    event.wait_set();
    let is_data = |event: &Event| event.page.word(0).load(Ordering::Relaxed) == DATA;
    let fork = || child::fork(|_| assert!(is_data(&event))).join();
    child::fork(|_| assert!(event.bit())).join();
    assert_eq!(event.unregister(), Ok(()));
    event.page.word(0).store(DATA, Ordering::Relaxed);
    for _ in 0..2 {
        fork();
        thread::scope(|scope| scope.spawn(fork).join().unwrap());
        top.disable(&event.name);
        top.enable(&event.name);
    }
    assert!(is_data(&event));
    top.disable(&event.name);
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
        toggle(&event, &mut []);
    }
    // The child is the last.
    let mut children = vec![fork(&event)];
    event.unregister().unwrap();
    tell(&mut children, Word::Unregister);
    tell(&mut children, Word::Register);
    let top = TraceInstance::top();
    top.enable(&event.name);
    tell(&mut children, Word::Set);
    assert!(!event.bit());
    top.disable(&event.name);
    tell(&mut children, Word::Clear);
    end(children);
}

fn every_registration_is_inherited() {
    const WORDS: usize = 500;
    let first = Event::new("st_fork_many u32 a");
    let second = Event::new("st_fork_more u32 a");
    let page = Mapping::kept(WORDS.div_ceil(1024));
    for word in 0..WORDS {
        let event = [&first, &second][word % 2];
        let text = format!("{} u32 a", event.name);
        let address = page.address() + 4 * word as u64;
        event.data.register_text(&text, address, 9).unwrap();
    }
    // Words alternate between the two events, and `state` is that of each event.
    let wait = |state: [bool; 2]| {
        let right = |word: usize| {
            let value = page.word(4 * word).load(Ordering::Relaxed);
            value == u32::from(state[word % 2]) << 9
        };
        wait::until("all bits to follow", || (0..WORDS).all(right));
    };
    let run = |line: &mut child::Line| {
        for state in [[true, false], [true, true], [false, true], [false, false]] {
            wait(state);
            line.say(Word::Seen);
        }
        // The first call gives the child its own set, a copy with all registrations.
        first.data.unregister_bit(page.address(), 9).unwrap();
        first.data.unregister_bit(page.address() + 4, 9).unwrap();
        let left = (2..WORDS).all(|word| {
            let address = page.address() + 4 * word as u64;
            first.data.unregister_bit(address, 9) == Ok(())
        });
        assert!(left, "what was inherited could not be unregistered");
    };
    let mut children = [child::fork(run), child::fork(run)];
    let top = TraceInstance::top();
    let mut all_see = |state| {
        wait(state);
        children
            .iter_mut()
            .for_each(|child| child.line.hear(Word::Seen));
    };
    top.enable(&first.name);
    all_see([true, false]);
    top.enable(&second.name);
    all_see([true, true]);
    top.disable(&first.name);
    all_see([false, true]);
    top.disable(&second.name);
    all_see([false, false]);
    children.into_iter().for_each(Child::join);
    top.enable(&second.name);
    wait([false, true]);
    top.disable(&second.name);
    wait([false, false]);
}

fn memory_that_a_child_does_not_get_waits_for_the_next_change() {
    let mut event = Event::new("st_fork_dontfork u32 a");
    event.page.advise(libc::MADV_DONTFORK).unwrap();
    let mut child = child::fork(|line| {
        line.say(Word::Forked);
        line.hear(Word::Map);
        // The child has no such mapping; munmap() succeeds all the same.
        event.page.unmap();
        event.page.map_again();
        line.say(Word::Mapped);
        serve(line, &event);
    });
    child.line.hear(Word::Forked);
    toggle(&event, &mut []);
    child.line.say(Word::Map);
    child.line.hear(Word::Mapped);
    let mut children = vec![child];
    toggle(&event, &mut children);
    end(children);
}

fn memory_that_is_wiped_in_a_child_follows() {
    let event = Event::new("st_fork_wiped u32 a");
    event.page.advise(libc::MADV_WIPEONFORK).unwrap();
    let mut children = vec![fork(&event)];
    toggle(&event, &mut children);
    toggle(&event, &mut children);
    end(children);
}

fn an_event_goes_with_the_last_of_its_family() {
    let Event { data, page, .. } = Event::new("st_fork_goes u32 a");
    // Inherited by the children, the file would keep the event.
    drop(data);
    let run = |line: &mut child::Line| {
        line.say(Word::Forked);
        line.hear(Word::End);
    };
    let mut children = vec![child::fork(run), child::fork(run)];
    children
        .iter_mut()
        .for_each(|child| child.line.hear(Word::Forked));
    Data::open().unregister_bit(page.address(), 0).unwrap();
    for mut child in children {
        assert!(tracefs::event_exists("st_fork_goes"));
        child.line.say(Word::End);
        child.join();
    }
    wait_gone("st_fork_goes");
}
