// SPDX-License-Identifier: GPL-2.0

//! Processes with a seccomp filter, or with root in a user namespace of their own.

use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST};
use crate::kit::child::{self, Word};
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::fork_tree::obey;
use crate::kit::memory::Mapping;
use crate::kit::restriction::{be_killed_by_calls_on, become_root_of_a_namespace};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{os, tasks, wait};
use std::sync::mpsc;
use std::thread;

tests!("restricted":
    a_thread_killed_by_a_filter_leaves_all_registered.needs_path(SECCOMP),
    root_of_a_namespace_makes_nothing_stay.needs_path(USER_NAMESPACES),
);

const SECCOMP: &str = "/proc/sys/kernel/seccomp/actions_avail";
const USER_NAMESPACES: &str = "/proc/self/ns/user";

fn a_thread_killed_by_a_filter_leaves_all_registered() {
    let mut child = child::fork(|line| {
        let event: &'static Event = Box::leak(Box::new(Event::new("st_filter_thread u32 a")));
        let (to, from) = mpsc::channel();
        // Never joined: a killed thread leaves no result.
        let thread = thread::spawn(move || {
            to.send(os::thread_id()).unwrap();
            be_killed_by_calls_on(&event.data.file);
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
    child.finish();
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
