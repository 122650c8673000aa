// SPDX-License-Identifier: GPL-2.0

//! Each allocation and each copy of user memory in a call fails once: the call returns the error,
//! leaves nothing behind, and can be repeated. Each possible error must occur.

use crate::harness::tests;
use crate::kit::abi::{Data, Register, Unregister, DIAG_IOCSREG, MULTI_FORMAT, PERSIST};
use crate::kit::abi::{DATA, PROFILE, REGISTRATIONS, STATUS};
use crate::kit::child::{Line, Word};
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::faults::{self, walk, Fault, InModule, EITHER, PATH};
use crate::kit::memory::Mapping;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::poll::{has_changed, Epoll, CHANGED, EDGE};
use crate::kit::status::Status;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::userfault::{Guard, Userfault};
use crate::kit::{child, module, os, wait};
use std::ffi::CString;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

tests!("faults::calls" on PATH:
    registering.limit(3600),
    registering_a_second_event.limit(900),
    registering_where_the_tables_of_a_file_grow.limit(900),
    registering_again_at_once.limit(900),
    registering_what_is_taken_back_at_random.limit(900),
    unregistering.limit(1800),
    unregistering_waits_for_memory,
    deleting.limit(900),
    opening.limit(900),
    writing.limit(900),
    attaching_and_detaching.limit(900),
    perf.limit(900),
    making_by_a_line.limit(900),
    reading_the_listings.limit(900),
    polling,
);

/// Returns whether an event of this name exists, with or without `MULTI_FORMAT`.
fn exists(name: &str) -> bool {
    tracefs::event_exists(name) || !tracefs::formats_of(name).is_empty()
}

/// Deletes a persistent event as soon as it is unused.
#[track_caller]
fn delete(name: &str) {
    let data = Data::open();
    wait::until("an event to be deleted", || {
        matches!(data.delete(name), Ok(()) | Err(Errno::ENOENT))
    });
}

fn registering() {
    for (name, flags) in [
        ("st_faults_register", 0),
        ("st_faults_persist", PERSIST),
        ("st_faults_multi", MULTI_FORMAT),
        ("st_faults_both", PERSIST | MULTI_FORMAT),
    ] {
        registers(name, flags);
    }
}

fn registers(name: &str, flags: u16) {
    faults::allow(0);
    let page = Mapping::kept(1);
    let text = CString::new(format!("{name} u32 a; __rel_loc char[] b")).unwrap();
    let request = Register {
        flags,
        ..Register::new(page.address(), text.as_ptr() as u64)
    };
    let gone = || {
        if flags & PERSIST != 0 {
            delete(name);
        }
        wait::until("the event to go", || !exists(name));
    };
    // The trace core assigns the lowest free number: a failed call must not have kept one.
    let mut first_id = None;
    walk(name, |fault| {
        let data = Data::open();
        let result = fault.fails(EITHER, || data.register(&request));
        let left = data.unregister_bit(page.address(), 0);
        match result {
            Ok(index) => assert_eq!((index, left), (0, Ok(()))),
            Err(_) => assert_eq!(left, Err(Errno::ENOENT), "fault {}", fault.number),
        }
        assert_eq!(page.word(0).load(Ordering::Relaxed), 0);
        drop(data);
        gone();
        let data = Data::open();
        assert_eq!(data.register(&request), Ok(0), "after {}", fault.number);
        let formats = tracefs::formats_of(name);
        let id = tracefs::event_id(formats.first().map_or(name, String::as_str));
        assert_eq!(*first_id.get_or_insert(id), id, "after {}", fault.number);
        assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
        drop(data);
        gone();
    })
    .include(EITHER);
}

/// The tables of events allocate for a second one. If one table lacks memory, neither has the
/// event.
fn registering_a_second_event() {
    const NAMES: [&str; 2] = ["st_faults_first", "st_faults_second"];
    faults::allow(0);
    let page = Mapping::kept(1);
    walk(NAMES[1], |fault| {
        let data = Data::open();
        assert_eq!(data.register_text(NAMES[0], page.address(), 0), Ok(0));
        let register = || data.register_text(NAMES[1], page.address(), 1);
        if fault.fails(EITHER, register).is_err() {
            assert_eq!(register(), Ok(1));
        }
        assert_eq!(Status::now().names(), NAMES, "after {}", fault.number);
        assert!(exists(NAMES[1]), "after {}", fault.number);
        for bit in 0..2 {
            assert_eq!(data.unregister_bit(page.address(), bit), Ok(()));
        }
        drop(data);
        wait::until("the events to go", || !NAMES.into_iter().any(exists));
    })
    .include(EITHER);
}

/// The tables of an open file grow beyond a page, in memory that need not be contiguous. A failure
/// must cause no kernel warning: the harness checks the log at the end.
fn registering_where_the_tables_of_a_file_grow() {
    const EVENTS: u32 = 1030;
    const GROWING: u32 = 1000;
    let page = Mapping::kept(1);
    let name = |number: u32| format!("st_faults_grow_{number}");
    let address = |number: u32| page.address() + 4 * u64::from(number / 32);
    let bit = |number: u32| (number % 32) as u8;
    let kept = Data::open();
    for number in 0..EVENTS {
        kept.register_text(&name(number), address(number), bit(number))
            .expect("register");
    }
    // `kvmalloc()` tries twice before it fails: one fault is not enough.
    faults::allow(60);
    let other = Mapping::kept(1);
    let mut lacked = 0;
    for _ in 0..5 {
        let data = Data::open();
        for number in 0..EVENTS {
            let register = || {
                let address = other.address() + (address(number) - page.address());
                data.register_text(&name(number), address, bit(number))
            };
            let index = loop {
                faults::at_random(number >= GROWING);
                let result = register();
                faults::at_random(false);
                match result {
                    Ok(index) => break index,
                    Err(errno) => assert_eq!(errno, Errno::ENOMEM),
                }
                lacked += 1;
            };
            assert_eq!(index, number);
        }
        for number in 0..EVENTS {
            let address = other.address() + (address(number) - page.address());
            assert_eq!(data.unregister_bit(address, bit(number)), Ok(()));
        }
    }
    faults::allow(0);
    println!("  # {lacked} registrations lacked memory");
    assert!(lacked > 0, "no allocation failed");
}

/// The work queue examines an event whose registration failed only after 32 others. By then the
/// event is registered again, and must stay.
fn registering_again_at_once() {
    const NAME: &str = "st_faults_again";
    const OTHERS: u8 = 32;
    faults::allow(0);
    let page = Mapping::kept(1);
    let words = page.address() + 4;
    walk(NAME, |fault| {
        let (others, data) = (Data::open(), Data::open());
        for bit in 0..OTHERS {
            let text = format!("st_faults_other{bit}");
            assert_eq!(others.register_text(&text, words, bit), Ok(bit.into()));
        }
        for bit in 0..OTHERS {
            assert_eq!(others.unregister_bit(words, bit), Ok(()));
        }
        drop(others);
        let text = format!("{NAME} u32 a");
        let register = || data.register_text(&text, page.address(), 0);
        if fault.fails(EITHER, register).is_err() {
            // The event is listed, until the work queue removes it, only if a step after its
            // creation failed. The queue may remove it between two reads.
            let is_known = || Status::now().names().contains(&NAME);
            let is_right = !is_known() || exists(NAME) || !is_known();
            assert!(is_right, "after {}", fault.number);
            assert_eq!(register(), Ok(0));
        }
        wait::until("the others to go", || Status::now().active <= 1);
        assert_eq!(Status::now().names(), [NAME], "after {}", fault.number);
        assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
        drop(data);
        wait::until("the event to go", || !exists(NAME));
    })
    .include(EITHER);
}

/// The index cannot be stored, so the registration is undone. A child was forked meanwhile and
/// shares the registrations: undoing needs memory for a copy.
fn registering_what_is_taken_back_at_random() {
    const NAME: &str = "st_faults_back";
    const TIMES: usize = 60;
    faults::allow(15);
    let event = Event::new(&format!("{NAME} u32 a"));
    let text = CString::new(format!("{NAME} u32 a")).unwrap();
    let (mut lacked, mut taken_back) = (0, 0);
    for time in 0..TIMES {
        let (page, request) = (Mapping::kept(1), Mapping::kept(1));
        let bytes = Register::new(page.address(), text.as_ptr() as u64).bytes();
        request.put(0, &bytes);
        let guard = Userfault::new();
        guard.guard(&request, Guard::Writes);
        let is_over = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            let forking = scope.spawn(|| {
                let mut is_stored = false;
                wait::until("the index to be stored, or not", || {
                    is_stored = guard.next_fault().is_some();
                    is_stored || is_over.load(Ordering::Relaxed)
                });
                is_stored.then(|| {
                    let child = child::fork(Line::wait_for_kill);
                    request.protect(libc::PROT_READ);
                    guard.allow_writes(request.address());
                    child
                })
            });
            faults::at_random(true);
            let result = os::ioctl(&event.data.file, DIAG_IOCSREG, request.address());
            faults::at_random(false);
            is_over.store(true, Ordering::Relaxed);
            drop(forking.join().unwrap());
            result
        });
        match result {
            Err(Errno::ENOMEM) => lacked += 1,
            Err(Errno::EFAULT) => taken_back += 1,
            other => panic!("it cannot store the index: {other:?}"),
        }
        let left = event.data.unregister_bit(page.address(), 0);
        assert_eq!(left, Err(Errno::ENOENT), "time {time}");
    }
    faults::allow(0);
    assert!(lacked > 0, "no allocation failed");
    assert!(taken_back > 0, "nothing was registered");
    event.end();
    wait_gone(NAME);
}

fn unregistering() {
    [false, true].into_iter().for_each(unregisters);
}

/// With a child, the call copies the registrations, which the two share.
fn unregisters(with_a_child: bool) {
    const TEXT: &str = "st_faults_unregister u32 a";
    faults::allow(0);
    let event = Event::new(TEXT);
    let request = Unregister::new(event.page.address() + 4, 7);
    let word = event.page.word(4);
    TraceInstance::top().enable(&event.name);
    walk(
        &format!("unregister, with a child: {with_a_child}"),
        |fault| {
            let registered = event.data.register_text(TEXT, request.disable_addr, 7);
            assert_eq!(registered, Ok(event.index));
            assert_eq!(word.load(Ordering::Relaxed), 1 << 7);
            let child = with_a_child.then(|| child::fork(Line::wait_for_kill));
            // The call waits for the memory of a copy.
            let known = [EITHER, &[Errno::EFAULT]][usize::from(with_a_child)];
            let result = fault.fails(known, || event.data.unregister(&request));
            if result.is_ok() {
                assert_eq!(word.load(Ordering::Relaxed), 0);
            }
            // The call may have failed before or after it removed the registration.
            let again = event.data.unregister(&request);
            let known = [Ok(()), Err(Errno::ENOENT)];
            assert!(known[usize::from(result.is_ok())..].contains(&again));
            word.store(0, Ordering::Relaxed);
            drop(child);
        },
    )
    .include(&[Errno::EFAULT]);
    event.follows(false);
    event.end();
    wait_gone("st_faults_unregister");
}

/// Unregistering copies registrations that are shared with a child, and retries until there is
/// memory or the task is killed.
fn unregistering_waits_for_memory() {
    const TEXT: &str = "st_faults_waits u32 a";
    const MANY: u64 = 20;
    for is_killed in [false, true] {
        let mut process = child::fork(|line| {
            let event = Event::new(TEXT);
            let child = child::fork(|line| {
                line.hear(Word::Unregister);
                assert_eq!(event.unregister(), Ok(()));
            });
            line.say(Word::Registered);
            line.hear(Word::Unregister);
            assert_eq!(event.unregister(), Ok(()));
            line.say(Word::Unregistered);
            // The child's registration is its own.
            let mut child = child;
            child.line.say(Word::Unregister);
            child.join();
        });
        process.line.hear(Word::Registered);
        let in_module = InModule::fail(&[("failslab", 100)]);
        process.line.say(Word::Unregister);
        in_module.wait_for(MANY);
        assert!(!process.line.has_said(Duration::from_millis(100)));
        if is_killed {
            process.kill();
            assert!(in_module.end() >= MANY);
        } else {
            assert!(in_module.end() >= MANY);
            process.line.hear(Word::Unregistered);
            process.join();
        }
        wait_gone("st_faults_waits");
    }
}

fn deleting() {
    const NAME: &str = "st_faults_delete";
    faults::allow(0);
    let data = Data::open();
    for (way, delete, errors) in [
        (
            "delete by ioctl",
            (|data| data.delete(NAME)) as fn(&Data) -> _,
            &[Errno::EFAULT][..],
        ),
        (
            "delete by a line",
            |_| dynamic::run(&format!("-:{NAME}")),
            EITHER,
        ),
    ] {
        walk(way, |fault| {
            dynamic::run(&format!("u:{NAME} u32 a")).expect("create");
            let result = fault.fails(EITHER, || delete(&data));
            assert_eq!(exists(NAME), result.is_err(), "fault {}", fault.number);
            if result.is_err() {
                assert_eq!(delete(&data), Ok(()));
            }
            assert!(!exists(NAME));
        })
        .include(errors);
    }
}

fn opening() {
    faults::allow(0);
    walk("open", |fault| {
        let open = || fs::File::open(DATA).map_err(Errno::from);
        if fault.fails(EITHER, open).is_err() {
            open().expect("open again");
        }
    })
    .include(EITHER);
}

/// Records of two sizes that fit on a stack, and of one that does not.
fn writing() {
    faults::allow(0);
    let event = Event::new("st_faults_write u32 a");
    let top = TraceInstance::top();
    event.follows(true);
    let perf = Perf::open(event.id(), SELF, ANY_CPU).expect("perf");
    let mut expected = 0;
    for length in [4, 100, 3000] {
        let record = [&event.index.to_ne_bytes()[..], &vec![7; length]].concat();
        // In one part; with the index split; with the index in its own part.
        for cut in [0, 2, 4] {
            let (start, rest) = record.split_at(cut);
            let failures = walk(&format!("write of {length} bytes, cut at {cut}"), |fault| {
                let before = perf.count();
                let result = fault.fails(EITHER, || event.data.writev(&[start, rest]));
                assert_eq!(perf.count() - before, u64::from(result.is_ok()));
                expected += usize::from(result.is_ok());
                assert_eq!(event.data.writev(&[start, rest]), Ok(4 + length));
                expected += 1;
            });
            failures.include(&[Errno::EFAULT]);
        }
    }
    // A record that does not fit on the stack is read to memory of `kvmalloc()`, which tries twice
    // before it fails: one fault is not enough.
    faults::allow(60);
    // The record is longer than 8 KB, the buffer that is kept from the write before. It is built
    // here so that only the write lacks memory.
    let record = [&event.index.to_ne_bytes()[..], &[7; 9000]].concat();
    let mut lacked = 0;
    for _ in 0..100 {
        faults::at_random(true);
        let result = event.data.writev(&[&record[..], &[]]);
        faults::at_random(false);
        match result {
            // Too large for the instance, but perf's counter takes it.
            Ok(_) => {}
            Err(errno) => assert_eq!(errno, Errno::ENOMEM),
        }
        lacked += usize::from(result.is_err());
    }
    faults::allow(0);
    println!("  # {lacked} of 100 writes lacked memory");
    assert!(lacked > 0, "no allocation failed");
    assert_eq!(top.take_records(event.id()).len(), expected);
    top.disable(&event.name);
}

fn attaching_and_detaching() {
    faults::allow(0);
    let event = Event::new("st_faults_toggle u32 a");
    let top = TraceInstance::top();
    // The kernel warns when it stops recording command names that it had no memory to start
    // recording. That is unrelated to the events.
    top.control("options/record-cmd", "0");
    for (value, errors) in [("1", EITHER), ("0", &[Errno::EFAULT])] {
        let round = |fault: &mut Fault| {
            match value {
                "1" => top.disable(&event.name),
                _ => top.enable(&event.name),
            }
            let users = module::users();
            let toggle = || top.set(&event.name, "enable", value);
            let failed = fault.fails(EITHER, toggle).is_err();
            let on = top.get(&event.name, "enable").starts_with('1');
            if failed {
                assert_eq!((on, module::users()), (value == "0", users));
            }
            if !fault.met {
                assert_eq!(on, value == "1");
            }
            wait::until("the bit to be as the event is", || event.bit() == on);
            event.toggle();
        };
        let what = format!("enable set to {value}");
        let mut walks = (0..3).map(|_| walk(&what, round));
        let met = walks.find(|failures| failures.has(errors));
        assert!(met.is_some(), "{what}: not {errors:?} in three walks");
    }
    top.control("options/record-cmd", "1");
}

fn perf() {
    faults::allow(0);
    let event = Event::new("st_faults_perf u32 a");
    let id = event.id();
    walk("perf_event_open", |fault| {
        let open = || Perf::open(id, SELF, ANY_CPU);
        match fault.fails(EITHER, open) {
            Ok(perf) => {
                event.wait_set();
                drop(perf);
            }
            Err(_) => {
                event.wait_clear();
                drop(open().expect("perf again"));
            }
        }
        event.wait_clear();
    })
    .include(EITHER);
}

fn making_by_a_line() {
    const NAME: &str = "st_faults_dynamic";
    faults::allow(0);
    let create = format!("u:{NAME} u32 a");
    walk("make by a line", |fault| {
        let result = fault.fails(EITHER, || dynamic::run(&create));
        assert_eq!(exists(NAME), result.is_ok(), "fault {}", fault.number);
        if result.is_err() {
            dynamic::run(&create).expect("create again");
        }
        dynamic::run(&format!("-:{NAME}")).expect("delete");
    })
    .include(EITHER);
    wait_gone(NAME);
}

fn reading_the_listings() {
    faults::allow(0);
    let _event = Event::new("st_faults_listing u32 a");
    for file in [STATUS, PROFILE, REGISTRATIONS] {
        let read = || fs::read(file).map_err(Errno::from);
        let whole = read().expect("read");
        walk(file, |fault| {
            if let Ok(text) = fault.fails(EITHER, read) {
                assert_eq!(text, whole, "fault {}", fault.number);
            }
            assert_eq!(read().as_ref(), Ok(&whole), "after {}", fault.number);
        })
        .include(EITHER);
    }
}

/// A poll needs none, so none fails.
fn polling() {
    let top = TraceInstance::top();
    for how in [0, EDGE] {
        let data = Data::open();
        let set = Epoll::new();
        set.add(&data.file, CHANGED | how);
        assert!(!set.has_changed(&data.file));
        let page = Mapping::kept(1);
        let register = |bit| data.register_text("st_poll u32 a", page.address(), bit);
        register(0).unwrap();
        // The next poll examines new registrations and changed bits.
        for change in [false, true] {
            register(1 + u8::from(change)).unwrap();
            if change {
                top.enable("st_poll");
            }
            let in_module = InModule::fail(&[("failslab", 100)]);
            if change {
                set.wait_for_change(&data.file);
            }
            for _ in 0..3 {
                assert!(!set.has_changed(&data.file));
                assert!(!has_changed(&data.file));
            }
            assert_eq!(in_module.end(), 0, "allocations of the module");
        }
        top.disable("st_poll");
        set.wait_for_change(&data.file);
    }
}
