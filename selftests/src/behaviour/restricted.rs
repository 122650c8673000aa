// SPDX-License-Identifier: GPL-2.0

//! Processes with a seccomp filter, or with root in a user namespace of their own.

use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST};
use crate::kit::child::{self, Line, Word};
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::fork_tree::obey;
use crate::kit::memory::Mapping;
use crate::kit::restriction::{become_root_of_a_namespace, forbid_calls_on};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{os, tasks, wait};
use std::sync::mpsc;
use std::thread;

tests!("restricted":
    a_filter_gives_its_errno_and_the_bit_goes_on.needs_path(SECCOMP),
    a_process_killed_by_a_filter_leaves_nothing.needs_path(SECCOMP),
    a_thread_killed_by_a_filter_leaves_all_registered.needs_path(SECCOMP),
    root_of_a_namespace_makes_nothing_stay.needs_path(USER_NAMESPACES),
);

const SECCOMP: &str = "/proc/sys/kernel/seccomp/actions_avail";
const USER_NAMESPACES: &str = "/proc/self/ns/user";

fn a_filter_gives_its_errno_and_the_bit_goes_on() {
    let mut child = child::fork(|line| {
        let event = Event::new("st_filter_errno u32 a");
        let fails = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;
        forbid_calls_on(&event.data.file, fails);
        let calls = || {
            let address = event.page.address() + 64;
            let text = "st_filter_errno u32 a";
            let index = event.index.to_ne_bytes();
            [
                event.write(&[1; 4]).map(drop),
                event.data.writev(&[&index, &[1; 4]]).map(drop),
                event.data.register_text(text, address, 0).map(drop),
                event.unregister(),
                event.data.delete(&event.name),
            ]
        };
        assert_eq!(calls(), [Err(Errno::EACCES); 5]);
        line.say(Word::Filtered);
        loop {
            let word = line.listen();
            match word {
                Word::End => return,
                word => obey(word, &event),
            }
            assert_eq!(calls(), [Err(Errno::EACCES); 5]);
            line.say(word);
        }
    });
    child.line.hear(Word::Filtered);
    let tracer = TraceInstance::instance("st_filter_errno");
    for _ in 0..3 {
        for word in [Word::Set, Word::Drop, Word::Clear] {
            match word {
                Word::Set => tracer.enable("st_filter_errno"),
                Word::Clear => tracer.disable("st_filter_errno"),
                _ => {}
            }
            child.tell(word);
        }
    }
    child.line.say(Word::End);
    child.join();
    let recorded = tracer.lines("st_filter_errno");
    assert_eq!(recorded, [""; 0], "written in spite of the filter");
    wait_gone("st_filter_errno");
}

fn a_process_killed_by_a_filter_leaves_nothing() {
    const NAME: &str = "st_filter_killed";
    for attached in [false, true] {
        let mut child = child::fork(|line| {
            let event = Event::new(&format!("{NAME} u32 a"));
            // A second process has the same registrations.
            let other = child::fork(Line::wait_for_kill);
            forbid_calls_on(&event.data.file, libc::SECCOMP_RET_KILL_PROCESS);
            line.say(Word::Registered);
            line.hear(Word::GoOn);
            let _ = event.unregister();
            drop(other);
        });
        child.line.hear(Word::Registered);
        if attached {
            TraceInstance::top().enable(NAME);
        }
        child.line.say(Word::GoOn);
        let (_, status) = os::wait(child.pid, 0).expect("wait for the child");
        assert_eq!(status & 0x7f, libc::SIGSYS, "wait status {status:#x}");
        std::mem::forget(child);
        if attached {
            TraceInstance::top().disable(NAME);
        }
        wait_gone(NAME);
    }
}

fn a_thread_killed_by_a_filter_leaves_all_registered() {
    let mut child = child::fork(|line| {
        let event: &'static Event = Box::leak(Box::new(Event::new("st_filter_thread u32 a")));
        let (to, from) = mpsc::channel();
        // Never joined: a killed thread leaves no result.
        let thread = thread::spawn(move || {
            to.send(os::thread_id()).unwrap();
            forbid_calls_on(&event.data.file, libc::SECCOMP_RET_KILL_THREAD);
            let _ = event.unregister();
            unreachable!("the call returned");
        });
        let id = from.recv().unwrap();
        let pid = std::process::id() as i32;
        wait::until("the thread to be killed", || {
            tasks::state(pid, id).is_none()
        });
        std::mem::forget(thread);
        line.say(Word::Killed);
        loop {
            let word = line.listen();
            match word {
                Word::Write => assert_eq!(event.write(&[1; 4]), Ok(8)),
                Word::End => os::exit_now(0),
                word => obey(word, event),
            }
            line.say(word);
        }
    });
    child.line.hear(Word::Killed);
    let tracer = TraceInstance::instance("st_filter_thread");
    let mut tell = |word| child.tell(word);
    tell(Word::Drop);
    tracer.enable("st_filter_thread");
    [Word::Set, Word::Write].map(&mut tell);
    let recorded = tracer.take_payloads("st_filter_thread", 4);
    assert_eq!(recorded, [[1; 4]]);
    tracer.disable("st_filter_thread");
    [Word::Clear, Word::Unregister].map(&mut tell);
    child.line.say(Word::End);
    child.join();
    wait_gone("st_filter_thread");
}

const STAYS: &str = "st_namespace_stays";

/// Asserts that nothing persistent can be made or deleted: that requires the capability in the
/// initial user namespace.
#[track_caller]
fn makes_nothing_stay(data: &Data) {
    let page = Mapping::kept(1);
    let register = |flags, bit| {
        let text = "st_namespace u32 a";
        data.register_flags(text, page.address(), bit, flags)
            .map(drop)
    };
    for flags in [PERSIST, PERSIST | MULTI_FORMAT] {
        assert_eq!(register(flags, 0), Err(Errno::EPERM), "flags {flags}");
    }
    assert_eq!(data.delete(STAYS), Err(Errno::EPERM));
    // Everything else is allowed.
    assert_eq!(register(0, 0), Ok(()));
    assert_eq!(register(MULTI_FORMAT, 1), Ok(()));
    assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
    assert_eq!(data.unregister_bit(page.address(), 1), Ok(()));
}

/// Root may open the files, which belong to its user. An ordinary user gets an open one.
fn root_of_a_namespace_makes_nothing_stay() {
    for is_unprivileged in [false, true] {
        println!("  # an unprivileged user: {is_unprivileged}");
        dynamic::run(&format!("u:{STAYS} u32 a")).expect("make an event");
        let data = Data::open();
        let user = child::fork(|_| {
            if is_unprivileged {
                os::become_unprivileged();
            }
            become_root_of_a_namespace();
            makes_nothing_stay(&data);
            if !is_unprivileged {
                makes_nothing_stay(&Data::open());
                for line in ["u:st_namespace_made u32 a", "-:st_namespace_stays"] {
                    assert_eq!(dynamic::run(line), Err(Errno::EPERM), "{line}");
                }
            }
        });
        user.join();
        drop(data);
        wait_gone("st_namespace");
        wait::until("the formats to go", || {
            tracefs::formats_of("st_namespace").is_empty()
        });
        assert!(!tracefs::event_exists("st_namespace_made"));
        assert!(tracefs::event_exists(STAYS));
        assert_eq!(Data::open().delete(STAYS), Ok(()));
    }
}
