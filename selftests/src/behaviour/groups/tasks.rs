// SPDX-License-Identifier: GPL-2.0

//! Processes that get a group from others, by a fork or by a passed descriptor. The file determines
//! the group, wherever the process is.

use crate::harness::tests;
use crate::kit::abi::{Data, PERSIST, REGISTRATIONS};
use crate::kit::cgroup::{self, Cgroup};
use crate::kit::child::{self, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::fork_tree::{end, fork, tell, toggle};
use crate::kit::group::{Group, GROUPS};
use crate::kit::memory::Mapping;
use crate::kit::restriction::become_root_of_a_namespace;
use crate::kit::traced::Traced;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::transfer::{receive_file, send_file};
use crate::kit::{os, tasks, wait};
use std::fs;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;

tests!("groups::tasks":
    a_child_has_the_registrations_of_its_parent,
    a_child_alone_keeps_the_group,
    executing_a_program_ends_what_was_registered,
    threads_register_in_several_groups_at_once,
    a_file_that_is_passed_on_is_of_its_group,
    a_process_in_other_namespaces_uses_the_group_of_its_file,
    memory_is_charged_to_the_cgroup_that_registers.needs_path(cgroup::PATH),
    groups_are_charged_to_the_cgroup_that_makes_them.needs_path(cgroup::PATH),
);

fn a_child_has_the_registrations_of_its_parent() {
    let group = Group::new("st_g_fork");
    let event = Event::new_in(&group, "st_g_event u32 a");
    // An event of the same name in the first group, which must not be confused with it.
    let first = Event::new("st_g_event u32 a");
    let mut children = vec![fork(&event), fork(&event)];
    children[0].tell(Word::Fork);
    toggle(&event, &mut children);
    tell(&mut children, Word::Unregister);
    tell(&mut children, Word::Register);
    tell(&mut children, Word::RegisterSecond);
    let top = TraceInstance::top();
    top.enable(&event.name);
    tell(&mut children, Word::SecondSet);
    top.disable(&event.name);
    tell(&mut children, Word::SecondClear);
    toggle(&event, &mut children);
    assert!(!first.bit());
    let lines = fs::read_to_string(REGISTRATIONS).unwrap();
    let its = lines
        .lines()
        .filter(|line| line.starts_with("user_events_st_g_fork/st_g_event "));
    // One of the parent, and two of each of three descendants.
    assert_eq!(its.count(), 7, "{lines}");
    // A child's write to its parent's file is recorded in the group.
    let tracer = TraceInstance::instance("st_g_fork");
    tracer.enable(&event.name);
    event.wait_set();
    let writer = child::fork(|_| assert_eq!(event.write(&[5; 4]), Ok(8)));
    writer.join();
    assert_eq!(tracer.take_payloads(&event.name, 4), [[5; 4]]);
    tracer.disable(&event.name);
    end(children);
}

fn a_child_alone_keeps_the_group() {
    let group = Group::new("st_g_orphan");
    let Event {
        data, page, name, ..
    } = Event::new_in(&group, "st_g_event u32 a");
    let mut child = child::fork(|line| {
        line.say(Word::Forked);
        line.hear(Word::End);
    });
    child.line.hear(Word::Forked);
    assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
    drop(data);
    // The child alone has the file and the registration.
    assert_eq!(group.numbers(), [1, 1, 1]);
    assert_eq!(group.remove(), Err(Errno::EBUSY));
    let top = TraceInstance::top();
    top.enable(&name);
    wait::until("the child's bit to be set", || {
        tasks::word_of(child.pid, page.address()) == Some(1)
    });
    assert_eq!(page.word(0).load(Ordering::Relaxed), 0);
    top.disable(&name);
    child.line.say(Word::End);
    child.join();
    group.remove_when_idle();
}

fn executing_a_program_ends_what_was_registered() {
    let group = Group::new("st_g_exec");
    let mut child = child::fork(|line| {
        let _event = Event::new_in(&group, "st_g_event u32 a");
        line.say(Word::Registered);
        line.hear(Word::Exec);
        panic!("exec: {}", Command::new("sleep").arg("10000").exec());
    });
    child.line.hear(Word::Registered);
    assert_eq!(group.remove(), Err(Errno::EBUSY));
    child.line.say(Word::Exec);
    wait_gone(&group.event("st_g_event"));
    group.remove_when_idle();
    child.kill();
}

fn threads_register_in_several_groups_at_once() {
    const ROUNDS: usize = 100;
    let groups = [
        Group::new("st_g_a"),
        Group::new("st_g_b"),
        Group::new("st_g_c"),
    ];
    let page = Mapping::kept(1);
    thread::scope(|scope| {
        for (at, group) in groups.iter().enumerate() {
            for thread in 0..2 {
                let page = &page;
                // The name is the same in all groups, the fields differ.
                let text = format!("st_g_same u32 a{at}");
                let address = page.address() + 64 * (2 * at + thread) as u64;
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let data = Data::open_in(group);
                        assert_eq!(data.register_text(&text, address, 0), Ok(0));
                        let format = tracefs::event_format(&group.event("st_g_same"));
                        assert!(format.contains(&format!("field:u32 a{at};")), "{format}");
                        assert_eq!(data.unregister_bit(address, 0), Ok(()));
                    }
                });
            }
        }
    });
    groups.into_iter().for_each(Group::remove_when_idle);
}

fn a_file_that_is_passed_on_is_of_its_group() {
    let groups = [Group::new("st_g_a"), Group::new("st_g_b")];
    let traced = groups
        .each_ref()
        .map(|group| Traced::new_in(group, "st_g_event u32 a"));
    let (mine, its) = UnixStream::pair().unwrap();
    let mut child = child::fork(|line| {
        os::become_unprivileged();
        let files = [receive_file(&its), receive_file(&its)].map(|file| Data { file });
        let page = Mapping::kept(1);
        for (bit, data) in files.iter().enumerate() {
            let bit = bit as u8;
            assert_eq!(
                data.register_text("st_g_event u32 a", page.address(), bit),
                Ok(0)
            );
            assert_eq!(data.write(0, &[bit; 4]), Ok(8));
            let got = data.register_text("st_g_event u64 a", page.address(), 5);
            assert_eq!(got, Err(Errno::EADDRINUSE));
        }
        line.say(Word::Written);
        line.hear(Word::End);
    });
    for group in &groups {
        // From here on only the child has this file.
        let data = Data::open_in(group);
        send_file(&mine, &data.file);
    }
    child.line.hear(Word::Written);
    for (at, traced) in traced.iter().enumerate() {
        assert_eq!(traced.recorded(4), [[at as u8; 4]]);
    }
    // One file of this process's event, one of the child.
    assert!(groups.iter().all(|group| group.numbers() == [1, 1, 2]));
    traced.iter().for_each(Traced::detach);
    child.line.say(Word::End);
    child.join();
}

/// Unshares the namespaces of users, mounts and cgroups, and that of processes for its children.
fn unshare_all() {
    become_root_of_a_namespace();
    os::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWCGROUP);
}

/// A container in which tracefs is not accessible.
fn a_process_in_other_namespaces_uses_the_group_of_its_file() {
    let group = Group::new("st_g_inside");
    let tracer = TraceInstance::instance("st_g_inside");
    let (mine, its) = UnixStream::pair().unwrap();
    let mut child = child::fork(|line| {
        os::become_unprivileged();
        unshare_all();
        let inner = child::fork(|_| {
            assert_eq!(std::process::id(), 1);
            for path in [GROUPS.as_ref(), group.data().as_path()] {
                let opened = fs::File::open(path).map_err(Errno::from);
                assert_eq!(opened.err(), Some(Errno::EACCES), "{}", path.display());
            }
            let data = Data {
                file: receive_file(&its),
            };
            let page = Mapping::kept(1);
            let register = |text, bit| data.register_text(text, page.address(), bit);
            assert_eq!(register("st_g_event u32 a", 0), Ok(0));
            // Root of the namespace has no privilege outside, where the event is.
            let persistent = data.register_flags("st_g_stays u32 a", page.address(), 1, PERSIST);
            assert_eq!(persistent, Err(Errno::EPERM));
            line.say(Word::Registered);
            wait::until("the bit to be set", || {
                page.word(0).load(Ordering::Relaxed) == 1
            });
            assert_eq!(data.write(0, &[9; 4]), Ok(8));
            line.say(Word::Written);
            line.hear(Word::Unregister);
            assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
            assert_eq!(data.delete("st_g_event"), Err(Errno::EBUSY));
            line.say(Word::Unregistered);
            line.hear(Word::End);
        });
        inner.join();
    });
    let data = Data::open_in(&group);
    send_file(&mine, &data.file);
    drop(data);
    child.line.hear(Word::Registered);
    let event = group.event("st_g_event");
    assert_eq!(group.status().names(), ["st_g_event"]);
    assert_eq!(tracefs::events_of_tests(), [event.as_str()]);
    let inner = tasks::a_child_of(child.pid).expect("the process inside");
    let lines = fs::read_to_string(REGISTRATIONS).unwrap();
    let its_line = lines.lines().nth(1).expect("its line");
    let start = format!("{event} {inner} ");
    assert!(its_line.starts_with(&start), "{its_line:?}, want {start:?}");
    tracer.enable(&event);
    child.line.hear(Word::Written);
    assert_eq!(tracer.take_payloads(&event, 4), [[9; 4]]);
    assert_eq!(group.remove(), Err(Errno::EBUSY));
    tracer.disable(&event);
    child.line.say(Word::Unregister);
    child.line.hear(Word::Unregistered);
    // The file alone keeps the group.
    assert_eq!(group.remove(), Err(Errno::EBUSY));
    child.line.say(Word::End);
    child.join();
    group.remove_when_idle();
}

/// The file was opened by a process of another cgroup.
fn memory_is_charged_to_the_cgroup_that_registers() {
    const EVENTS: u64 = 500;
    let group = Group::new("st_g_charged");
    let cgroup = Cgroup::new("st_g_charged");
    let (mine, its) = UnixStream::pair().unwrap();
    let mut child = child::fork(|line| {
        cgroup.enter();
        let data = Data {
            file: receive_file(&its),
        };
        let page = Mapping::kept(1);
        line.say(Word::Entered);
        line.hear(Word::Register);
        for event in 0..EVENTS {
            let text = format!("st_g_event{event} u32 a; u64 b");
            data.register_text(&text, page.address() + 4 * event, 0)
                .unwrap();
        }
        line.say(Word::Registered);
        line.hear(Word::End);
    });
    let data = Data::open_in(&group);
    send_file(&mine, &data.file);
    child.line.hear(Word::Entered);
    let before = cgroup.slab();
    child.line.say(Word::Register);
    child.line.hear(Word::Registered);
    // As for events of the first group: see `cgroup::events_are_charged`.
    let least = 500 * EVENTS as i64;
    wait::until("its cgroup to be charged", || {
        cgroup.slab() - before >= least
    });
    assert_eq!(group.numbers(), [EVENTS, EVENTS, 1]);
    child.line.say(Word::End);
    child.join();
    drop(data);
    group.remove_when_idle();
    wait::until("the charge to go", || {
        cgroup.slab() - before < 100 * EVENTS as i64
    });
}

/// Most of the memory is that of their files.
fn groups_are_charged_to_the_cgroup_that_makes_them() {
    const GROUPS: i64 = 100;
    let cgroup = Cgroup::new("st_g_makes");
    let mut child = child::fork(|line| {
        cgroup.enter();
        line.say(Word::Entered);
        line.hear(Word::Make);
        let groups: Vec<_> = (0..GROUPS)
            .map(|number| Group::with(&format!("st_g_made{number}"), "events=1"))
            .collect();
        line.say(Word::Made);
        line.hear(Word::Remove);
        drop(groups);
        line.say(Word::Removed);
        line.hear(Word::End);
    });
    child.line.hear(Word::Entered);
    let before = cgroup.slab();
    child.line.say(Word::Make);
    child.line.hear(Word::Made);
    wait::until("the maker's cgroup to be charged", || {
        cgroup.slab() - before >= 2000 * GROUPS
    });
    child.line.say(Word::Remove);
    child.line.hear(Word::Removed);
    wait::until("the charge to go", || cgroup.slab() - before < 500 * GROUPS);
    child.line.say(Word::End);
    child.join();
}
