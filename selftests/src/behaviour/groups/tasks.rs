// SPDX-License-Identifier: GPL-2.0

//! A process in other namespaces that was passed a group's file; the control groups that are
//! charged for groups and their events.

use crate::harness::tests;
use crate::kit::abi::{Data, REGISTRATIONS};
use crate::kit::cgroup::{self, Cgroup};
use crate::kit::child::{self, Word};
use crate::kit::errno::Errno;
use crate::kit::group::Group;
use crate::kit::memory::Mapping;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::transfer::{receive_file, send_file};
use crate::kit::unprivileged::become_root_of_a_namespace;
use crate::kit::{os, tasks, wait};
use std::fs;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

tests!("groups::tasks":
    a_process_in_other_namespaces_uses_the_group_of_its_file,
    memory_is_charged_to_the_cgroup_that_registers.needs_path(cgroup::PATH),
    groups_are_charged_to_the_cgroup_that_makes_them.needs_path(cgroup::PATH),
);

/// A container in which tracefs is not accessible.
fn a_process_in_other_namespaces_uses_the_group_of_its_file() {
    let group = Group::new("st_g_inside");
    let tracer = TraceInstance::instance("st_g_inside");
    let (mine, its) = UnixStream::pair().unwrap();
    let mut child = child::fork(|line| {
        os::become_unprivileged();
        become_root_of_a_namespace();
        os::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWCGROUP);
        let inner = child::fork(|_| {
            assert_eq!(std::process::id(), 1);
            assert_eq!(Data::try_open_in(&group).err(), Some(Errno::EACCES));
            let data = Data {
                file: receive_file(&its),
            };
            let page = Mapping::kept(1);
            let registered = data.register_text("st_g_event u32 a", page.address(), 0);
            assert_eq!(registered, Ok(0));
            line.say(Word::Registered);
            wait::until("the bit to be set", || {
                page.word(0).load(Ordering::Relaxed) == 1
            });
            assert_eq!(data.write(0, &[9; 4]), Ok(8));
            line.say(Word::Written);
            line.follow(Word::Unregister, || {
                assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
                assert_eq!(data.delete("st_g_event"), Err(Errno::EBUSY));
            });
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
    child.tell(Word::Unregister);
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
    let mut child = cgroup.fork_to(|line| {
        let data = Data {
            file: receive_file(&its),
        };
        let page = Mapping::kept(1);
        line.follow(Word::Register, || {
            for event in 0..EVENTS {
                let text = format!("st_g_event{event} u32 a; u64 b");
                data.register_text(&text, page.address() + 4 * event, 0)
                    .unwrap();
            }
        });
        line.wait_for_kill();
    });
    let data = Data::open_in(&group);
    send_file(&mine, &data.file);
    let before = cgroup.slab();
    child.tell(Word::Register);
    // As for events of the first group: see `cgroup::events_of_100_fields_are_charged`.
    let least = 500 * EVENTS as i64;
    wait::until("its cgroup to be charged", || {
        cgroup.slab() - before >= least
    });
    assert_eq!(group.numbers(), [EVENTS, EVENTS, 1]);
    child.kill();
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
    let mut child = cgroup.fork_to(|line| {
        let groups: Vec<_> = line.follow(Word::Make, || {
            (0..GROUPS)
                .map(|number| Group::with(&format!("st_g_made{number}"), "events=1"))
                .collect()
        });
        line.follow(Word::Remove, || drop(groups));
        line.wait_for_kill();
    });
    let before = cgroup.slab();
    child.tell(Word::Make);
    wait::until("the maker's cgroup to be charged", || {
        cgroup.slab() - before >= 2000 * GROUPS
    });
    child.tell(Word::Remove);
    wait::until("the charge to go", || cgroup.slab() - before < 500 * GROUPS);
}
