// SPDX-License-Identifier: GPL-2.0

//! An unprivileged user with access to the two files, and to nothing else, and root in a user
//! namespace of its own.

use crate::harness::tests;
use crate::kit::abi::{location, Data, Register, MULTI_FORMAT, PERSIST};
use crate::kit::abi::{DIAG_IOCSDEL, DIAG_IOCSREG, DIAG_IOCSUNREG};
use crate::kit::child::{self, Line, Word};
use crate::kit::dynamic::{self, Probe};
use crate::kit::errno::{fails, Errno};
use crate::kit::event::{wait_gone, Event};
use crate::kit::machine::Log;
use crate::kit::memory::{Mapping, READ};
use crate::kit::os;
use crate::kit::perf::Perf;
use crate::kit::tracefs::{self, formats_of, TraceInstance};
use crate::kit::unprivileged::{become_root_of_a_namespace, fork_unprivileged, Access};
use crate::kit::wait;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process;

tests!("unprivileged":
    access_to_data_is_enough_to_register_and_write,
    events_belong_to_root_whatever_user_makes_them,
    deleting_asks_for_the_capability_only_where_it_matters.needs_path("/sys/kernel/security"),
    better_than_c_10_no_error_is_logged.limit(300),
    root_of_a_namespace_makes_nothing_stay.needs_path("/proc/self/ns/user"),
);

fn access_to_data_is_enough_to_register_and_write() {
    let _access = Access::given();
    let name = "st_user_main";
    let mut user = fork_unprivileged(|line| {
        let made = fs::create_dir(format!("{}/st_user_dir", tracefs::ROOT));
        assert_eq!(made.map_err(Errno::from), Err(Errno::EACCES));

        let event = Event::new("st_user_main u32 a; __rel_loc char[] b");
        let (data, page) = (&event.data, &event.page);
        let register = |text, bit, flags| data.register_flags(text, page.address(), bit, flags);
        assert_eq!(register("st_user_multi u8 a", 1, MULTI_FORMAT), Ok(1));
        assert_eq!(register(&event.text, 2, PERSIST), Err(Errno::EPERM));
        line.say(Word::Registered);
        wait::until("both bits to be set", || page.get(0) == 3);
        let payload = [&7u32.to_ne_bytes()[..], &location(0, 3), b"hi\0"].concat();
        assert_eq!(event.write(&payload), Ok(4 + payload.len()));
        assert_eq!(data.write(1, &[9]), Ok(5));
        // A child inherits the registrations.
        let child = child::fork(|_| {
            assert_eq!(page.get(0), 3);
            assert_eq!(event.write(&payload), Ok(4 + payload.len()));
            event.unregister().unwrap();
        });
        child.join();
        event.unregister().unwrap();
        assert_eq!(page.get(0), 2);
        line.say(Word::Wrote);
        line.wait_for_kill();
    });
    user.line.hear(Word::Registered);
    let multi = formats_of("st_user_multi").remove(0);
    let tracer = TraceInstance::instance(name);
    tracer.enable(name);
    tracer.enable(&multi);
    user.line.hear(Word::Wrote);
    let lines = tracer.lines(name);
    assert_eq!(lines, ["st_user_main: a=0x7 (7) b=hi"; 2]);
    assert_eq!(tracer.take_payloads(&multi, 1), [[9]]);
    tracer.disable(name);
    tracer.disable(&multi);
    user.kill();
    wait_gone(name);
    wait_gone(&multi);
}

fn events_belong_to_root_whatever_user_makes_them() {
    let _access = Access::given();
    let mut user = fork_unprivileged(|line| {
        let _event = Event::new("st_user_owner u32 a");
        line.say(Word::Registered);
        line.wait_for_kill();
    });
    user.line.hear(Word::Registered);
    let dir = tracefs::group_dir(tracefs::GROUP).join("st_user_owner");
    let files = fs::read_dir(&dir).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert!(paths.len() > 5, "{paths:?}");
    paths.push(dir.clone());
    for path in paths {
        let file = fs::metadata(&path).unwrap();
        assert_eq!((file.uid(), file.gid()), (0, 0), "{path:?}");
        let others = if file.is_dir() { 0o022 } else { 0o027 };
        assert_eq!(file.mode() & others, 0, "{path:?}");
    }
    // Only root can enable the event.
    let other = fork_unprivileged(|_| {
        let got = fs::write(dir.join("enable"), "1").map_err(Errno::from);
        assert_eq!(got, Err(Errno::EACCES));
    });
    other.join();
}

/// A security module may log each check of a capability.
fn deleting_asks_for_the_capability_only_where_it_matters() {
    const CAP_PERFMON: i32 = 38;
    let asked = "st_user/st_asked";
    let probe = Probe::new('p', asked, "security_capable cap=$arg3:s32");
    let instance = TraceInstance::instance("st_user_asked");
    let mine = format!("common_pid == {} && cap == {CAP_PERFMON}", process::id());
    instance.set(asked, "filter", &mine).expect("a filter");
    let name = "st_user_stays";
    dynamic::run(&format!("u:{name} u32 a")).unwrap();
    instance.enable(asked);
    let event = Event::new("st_user_used u32 a");
    let data = &event.data;
    assert_eq!(data.delete("st_user_none"), Err(Errno::ENOENT));
    assert_eq!(data.delete("st_user_used"), Err(Errno::EBUSY));
    assert_eq!(instance.lines(asked), [""; 0]);
    assert_eq!(data.delete(name), Ok(()));
    assert_eq!(instance.lines(asked).len(), 1);
    instance.disable(asked);
    drop(instance);
    drop(probe);
}

/// How often each mistake is made. Rate-limited messages, ten in five seconds, would show, and so
/// would the message about each flood of them.
const OFTEN: usize = 60;

/// Makes mistakes that an unprivileged user can make on files that it has opened. The harness finds
/// messages of the module in the log of each test; here are those that the rest of the kernel could
/// have, too.
fn get_it_wrong(line: &mut Line) {
    let no_access = Mapping::new(1);
    no_access.protect(libc::PROT_NONE);
    let read_only = Mapping::new(1);
    read_only.protect(READ);
    let bad = [0, 8, no_access.address(), 1 << 62, 0xffff_ffff_8100_0000];

    let data = Data::open();
    let page = Mapping::kept(1);
    let text = "st_user_wrong u32 a; __rel_loc char[] b; __data_loc u64[] c";
    let register = |text, address, bit| data.register_text(text, address, bit);
    register(text, page.address(), 0).unwrap();
    register("st_user_untraced u32 a", page.address(), 1).unwrap();
    line.say(Word::Registered);
    wait::until("the tracers to attach", || page.get(0) & 1 == 1);

    for round in 0..OFTEN {
        // Bad pointers, and words that cannot be written.
        let good = c"st_user_wrong2 u32 a";
        for address in bad.into_iter().chain([read_only.address()]) {
            for command in [DIAG_IOCSREG, DIAG_IOCSUNREG] {
                let got = os::ioctl(&data.file, command, address);
                assert!(got.is_err(), "bad structure, {command:#x}");
            }
            let got = data.register(&Register::new(address, good.as_ptr() as u64));
            fails("bad word", "register", got, Errno::EFAULT);
        }
        for address in bad {
            let got = os::ioctl(&data.file, DIAG_IOCSDEL, address);
            fails("bad name", "delete", got, Errno::EFAULT);
            let got = data.register(&Register::new(page.address() + 8, address));
            fails("bad name", "register", got, Errno::EFAULT);
            let got = os::write_from(&data.file, address, 16);
            fails("bad memory", "write", got, Errno::EFAULT);
            let got = os::writev_from(&data.file, &[(page.address() + 16, 4), (address, 12)]);
            assert!(got.is_err(), "bad memory, writev");
        }
        // One mistake of each kind; `contract` has all of them.
        let bad_text = "st_user_x u32 a\n<0>st_user_x";
        let got = register(bad_text, page.address() + 8, 0);
        fails("bad description", "register", got, Errno::EINVAL);
        let record = |b| [[0; 4], b, location(8, 0), *b"data"].concat();
        let got = data.write(0, &record(location(4, 100)));
        fails("bad location", "write", got, Errno::EFAULT);
        let large = [record(location(0, 0)), vec![0; 66_000]].concat();
        fails("too large", "write", data.write(0, &large), Errno::E2BIG);
        let unwanted = data.write(1, &[0; 12]);
        fails("no consumer", "write", unwanted, Errno::EBADF);
        // Accepted, though the kernel's check of formats takes these names for syntax.
        for (i, fields) in [
            "u32 a)",
            "u32 (a",
            "char[4] a->b->c",
            "char[4] a,b",
            "u32 REC->x",
        ]
        .iter()
        .enumerate()
        {
            let odd = Data::open();
            let text = format!("st_user_odd{round}_{i} {fields}; __rel_loc char[] s)");
            let got = odd.register_text(&text, page.address() + 8, 0);
            assert_eq!(got, Ok(0), "{text}");
            assert_eq!(odd.unregister_bit(page.address() + 8, 0), Ok(()), "{text}");
        }
    }

    // Memory that is absent or protected when the bit changes.
    let mut pages: Vec<_> = (0..OFTEN).map(|_| Mapping::kept(1)).collect();
    for page in &pages {
        page.set(0, 0);
        register("st_user_untraced u32 a", page.address(), 3).unwrap();
    }
    for (i, page) in pages.iter_mut().enumerate() {
        match i % 4 {
            0 => page.unmap(),
            1 => page.protect(READ),
            2 => page.protect(libc::PROT_NONE),
            _ => page.advise(libc::MADV_DONTNEED).unwrap(),
        }
    }
    line.say(Word::Toggle);
    line.hear(Word::Toggled);
    for page in &pages {
        let _ = data.unregister_bit(page.address(), 3);
    }
}

fn better_than_c_10_no_error_is_logged() {
    let _access = Access::given();
    let mut log = Log::from_now();
    let mut user = fork_unprivileged(get_it_wrong);
    user.line.hear(Word::Registered);
    let name = "st_user_wrong";
    let tracer = TraceInstance::instance(name);
    tracer.enable(name);
    let perfs = Perf::sample_everywhere(tracefs::event_id(name), 8);
    user.line.hear(Word::Toggle);
    for _ in 0..20 {
        tracer.enable("st_user_untraced");
        tracer.disable("st_user_untraced");
    }
    user.line.say(Word::Toggled);
    user.join();
    let records = tracer.take_records(tracefs::event_id(name));
    assert_eq!(records.len(), 0, "recorded, though nothing was right");
    drop(perfs);
    tracer.disable(name);
    wait_gone(name);
    // The log may have a few other messages, but none for each of these mistakes, and none about
    // user events.
    let lines = log.take();
    let about_us = |line: &&String| line.contains("event") || line.contains("st_user");
    assert_eq!(lines.iter().find(about_us), None);
    assert!(lines.len() < 5, "the log: {lines:?}");
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
