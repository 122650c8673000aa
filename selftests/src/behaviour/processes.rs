// SPDX-License-Identifier: GPL-2.0

//! Registrations belong to the mm: the effects of its end, of exec, and of other processes.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Word};
use crate::kit::event::{toggler, wait_gone, Event};
use crate::kit::fork_tree::{end, serving, tell};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::usage::grows_by_nothing;
use crate::kit::{machine, os, tasks};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

tests!("processes":
    a_process_may_end_while_its_pages_are_brought_in,
    the_only_thread_that_registered_may_end,
    an_event_of_many_processes_sets_all_their_bits,
    toggling_while_processes_come_and_go,
    those_that_are_looked_at_again_leave_nothing.limit(300),
    a_child_keeps_nothing_of_a_parent_that_ended.limit(300),
    threads_that_are_the_first_to_register_at_once_are_of_one_process.limit(300),
);

fn a_process_may_end_while_its_pages_are_brought_in() {
    const NAME: &str = "st_proc_ends";
    const PAGES: usize = 200;
    let top = TraceInstance::top();
    for how in [Word::Kill, Word::Exit, Word::Exec].repeat(3) {
        let mut child = child::fork_until(Word::Dropped, |line| {
            let data = Data::open();
            let pages = Mapping::new(PAGES);
            data.register_pages("st_proc_ends u32 a", &pages, 0);
            // The file does not keep the event.
            drop(data);
            pages.discard();
            line.say(Word::Dropped);
            if line.listen() == Word::Exec {
                panic!("exec: {}", Command::new("true").exec());
            }
        });
        // The process ends while the kernel brings its pages in.
        top.enable(NAME);
        if how == Word::Kill {
            child.kill();
        } else {
            child.line.say(how);
            child.join();
        }
        assert!(tracefs::event_exists(NAME), "a tracer uses it");
        top.disable(NAME);
        wait_gone(NAME);
    }
}

/// In C the first registration ends with its thread; by the contract, registrations belong to the
/// address space.
fn the_only_thread_that_registered_may_end() {
    let register = || Event::new("st_proc_only u32 a");
    thread::spawn(register).join().unwrap().toggle();
}

fn an_event_of_many_processes_sets_all_their_bits() {
    const NAME: &str = "st_proc_many";
    let mut children: Vec<_> = (0..8).map(|_| serving(NAME)).collect();
    assert_eq!(tracefs::events_of_tests(), [NAME]);
    let top = TraceInstance::top();
    for _ in 0..3 {
        top.enable(NAME);
        tell(&mut children, Word::Set);
        // The end of one leaves the others alone.
        children.remove(0).kill();
        top.disable(NAME);
        tell(&mut children, Word::Clear);
    }
    end(children);
    wait_gone(NAME);
}

fn toggling_while_processes_come_and_go() {
    let event = Event::new("st_proc_come u32 a");
    // Meanwhile this process makes others come and go.
    let toggler = toggler(&event.name);
    for round in 0..30 {
        let is_killed = round % 2 == 0;
        let child = child::fork_until(Word::Registered, |line| {
            event.add_bit(Mapping::kept(1).address(), 0);
            line.say(Word::Registered);
            if is_killed {
                line.wait_for_kill();
            }
        });
        match is_killed {
            true => child.kill(),
            false => child.join(),
        }
    }
    toggler.kill();
    event.toggle();
}

/// A bit in an absent page is tried again after a pause. Here the page is dropped again and again
/// until the process ends, while children that share its memory leave it.
fn those_that_are_looked_at_again_leave_nothing() {
    const EVENT: &str = "st_proc_again";
    const CHILDREN: usize = 60;
    let event = Event::new(&format!("{EVENT} u32 a"));
    grows_by_nothing(5, machine::rounds(20), |round| {
        let process = child::fork(|_| {
            os::forget_children();
            let own = Event::new(&format!("{EVENT} u32 a"));
            for _ in 0..CHILDREN {
                own.page.discard();
                tasks::vfork(|| 0).expect("vfork");
            }
        });
        event.switch(round % 2 == 0);
        process.join();
    });
    event.follows(false);
}

/// Each process of a line forks the next one and ends: all of them have had the registration.
fn a_child_keeps_nothing_of_a_parent_that_ended() {
    let process = child::fork(|_| {
        os::adopt_orphans();
        os::forget_children();
        let mut first = child::fork_until(Word::Registered, |line| {
            let _event = Event::new("st_proc_line u32 a");
            line.say(Word::Registered);
            while line.listen() == Word::Fork {
                if os::fork().expect("fork") != 0 {
                    os::exit_now(0);
                }
                line.say(Word::Forked);
            }
        });
        grows_by_nothing(10, machine::rounds(60), |_| {
            first.line.ask(Word::Fork, Word::Forked);
        });
        first.line.say(Word::End);
        // It ended long ago, and the kernel has reaped it.
        std::mem::forget(first);
        wait_gone("st_proc_line");
    });
    process.join();
}

/// Both registrations belong to the process, and nothing else is left. The threads seldom coincide.
fn threads_that_are_the_first_to_register_at_once_are_of_one_process() {
    const PROCESSES: usize = 10;
    grows_by_nothing(2, machine::rounds(16), |_| {
        for _ in 0..PROCESSES {
            child::fork(|_| register_at_once()).join();
        }
    });
}

fn register_at_once() {
    let (data, page) = (Data::open(), Mapping::kept(1));
    let ready = AtomicU32::new(0);
    let address = |thread: u64| page.address() + 4 * thread;
    thread::scope(|scope| {
        for thread in 0..2 {
            let (data, ready, address) = (&data, &ready, &address);
            scope.spawn(move || {
                os::run_on(os::cpus()[thread % os::cpus().len()]);
                ready.fetch_add(1, Ordering::SeqCst);
                while ready.load(Ordering::SeqCst) < 2 {
                    std::hint::spin_loop();
                }
                let index = data.register_text("st_proc_first u32 a", address(thread as u64), 0);
                assert!(index.is_ok(), "register: {index:?}");
            });
        }
    });
    for thread in 0..2 {
        assert_eq!(data.unregister_bit(address(thread), 0), Ok(()));
    }
}
