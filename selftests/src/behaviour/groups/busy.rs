// SPDX-License-Identifier: GPL-2.0

//! Uses of a group: while there is one, its removal is EBUSY and changes nothing.

use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST};
use crate::kit::child::{self, Word};
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::group::{self, Group};
use crate::kit::memory::Mapping;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::wait;
use std::fs::File;
use std::thread;
use std::time::Duration;

tests!("groups::busy":
    an_open_data_file_keeps_its_group,
    an_open_listing_keeps_no_group,
    a_registered_event_keeps_its_group,
    each_consumer_keeps_its_group,
    an_event_probe_keeps_its_group,
    a_trigger_of_another_event_keeps_its_group,
    one_used_event_keeps_all_of_the_group,
    a_consumer_beside_the_removal_has_all_or_nothing.limit(300),
    a_group_goes_with_its_last_use,
);

/// A persistent event in a group of this name.
fn with_an_event(name: &str) -> (Group, String) {
    let group = Group::new(name);
    let event = group.event("st_g_event");
    dynamic::run(&format!("u:{event} u32 a")).unwrap();
    (group, event)
}

/// Checks that the group cannot be removed, and that its events can still be registered and
/// written.
#[track_caller]
fn is_kept(group: &Group) {
    let before = group.line();
    let events = tracefs::events_of_tests();
    for _ in 0..3 {
        assert_eq!(group.remove(), Err(Errno::EBUSY));
    }
    assert_eq!(group.line(), before);
    assert_eq!(tracefs::events_of_tests(), events);
    for (path, _) in group.files() {
        assert!(path.exists(), "{}", path.display());
    }
    let user = child::fork(|_| {
        let event = Event::new_in(group, "st_g_kept u32 a");
        event.follows(true);
        assert_eq!(event.write(&[1; 4]), Ok(8));
        event.follows(false);
        event.end();
    });
    user.join();
    wait_gone(&group.event("st_g_kept"));
}

/// Removes the group, and checks that nothing of it is left.
#[track_caller]
fn goes(group: Group) {
    let same = Group::of_name(&group.name);
    group.remove_when_idle();
    same.is_gone();
}

fn an_open_data_file_keeps_its_group() {
    let group = Group::new("st_g_open");
    let data = Data::open_in(&group);
    is_kept(&group);
    // A copy of the descriptor is the same open file.
    let copy = data.file.try_clone().unwrap();
    drop(data);
    assert_eq!(group.numbers(), [0, 0, 1]);
    is_kept(&group);
    let read_only = File::open(group.data()).unwrap();
    assert_eq!(group.numbers(), [0, 0, 2]);
    drop(copy);
    is_kept(&group);
    drop(read_only);
    goes(group);
}

fn an_open_listing_keeps_no_group() {
    let group = Group::new("st_g_listing");
    let files = [group.status_file(), group.profile()].map(|path| File::open(path).unwrap());
    assert_eq!(group.remove(), Ok(()));
    group.is_gone();
    drop(files);
}

fn a_registered_event_keeps_its_group() {
    for is_killed in [false, true] {
        println!("  # a process that is killed: {is_killed}");
        let group = Group::new("st_g_bit");
        let mut child = child::fork(|line| {
            let Event { data, page, .. } = Event::new_in(&group, "st_g_event u32 a");
            // The registration alone keeps it.
            drop(data);
            line.say(Word::Registered);
            line.follow(Word::Unregister, || {
                let data = Data::open_in(&group);
                assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
            });
            line.wait_for_kill();
        });
        child.line.hear(Word::Registered);
        assert_eq!(group.numbers(), [1, 1, 0]);
        is_kept(&group);
        match is_killed {
            true => child.kill(),
            false => child.tell(Word::Unregister),
        }
        goes(group);
    }
}

fn each_consumer_keeps_its_group() {
    for tracer in [TraceInstance::top(), TraceInstance::instance("st_g_ftrace")] {
        for (file, on, off) in [
            ("enable", "1", "0"),
            ("trigger", "traceon if a == 77", "!traceon"),
        ] {
            println!("  # {}", tracer.path(file).display());
            let (group, event) = with_an_event("st_g_ftrace");
            tracer.set(&event, file, on).unwrap();
            is_kept(&group);
            tracer.set(&event, file, off).unwrap();
            goes(group);
        }
    }
    let (group, event) = with_an_event("st_g_perf");
    let perf = Perf::open(tracefs::event_id(&event), SELF, ANY_CPU).unwrap();
    is_kept(&group);
    drop(perf);
    goes(group);
}

/// A disabled probe is no consumer, but the event must not go before it.
fn an_event_probe_keeps_its_group() {
    // The first event, to which nothing refers, stays with the second.
    let (group, _) = with_an_event("st_g_probed");
    let event = group.event("st_g_second");
    dynamic::run(&format!("u:{event} u32 a")).unwrap();
    assert_eq!(group.numbers(), [2, 0, 0]);
    dynamic::run(&format!("e:st_kinds/st_g_probe {event} a=$a:u32")).unwrap();
    assert_eq!(group.numbers(), [2, 1, 0]);
    is_kept(&group);
    dynamic::run("-:st_kinds/st_g_probe").unwrap();
    goes(group);
}

fn a_trigger_of_another_event_keeps_its_group() {
    let (group, event) = with_an_event("st_g_enabled");
    let (other, start) = with_an_event("st_g_enabling");
    let top = TraceInstance::top();
    let trigger = format!("enable_event:{}:st_g_event", group.system());
    top.set(&start, "trigger", &trigger).unwrap();
    is_kept(&group);
    is_kept(&other);
    top.set(&start, "trigger", &format!("!{trigger}")).unwrap();
    assert!(tracefs::event_exists(&event));
    goes(group);
    goes(other);
}

/// A group is removed as a whole or not at all.
fn one_used_event_keeps_all_of_the_group() {
    let group = Group::of_any_names("st_g_all");
    let maker = child::fork(|_| {
        let (data, page) = (Data::open_in(&group), Mapping::kept(1));
        for bit in 0..6 {
            let (flags, text) = match bit % 2 {
                0 => (PERSIST, format!("st_g_event{bit} u32 a")),
                _ => (PERSIST | MULTI_FORMAT, format!("st_g_event u32 a{bit}")),
            };
            data.register_flags(&text, page.address(), bit, flags)
                .unwrap();
        }
    });
    maker.join();
    let events = tracefs::events_of_tests();
    assert_eq!(events.len(), 6, "{events:?}");
    let top = TraceInstance::top();
    for used in &events {
        top.enable(used);
        assert_eq!(group.remove(), Err(Errno::EBUSY), "with {used}");
        assert_eq!(tracefs::events_of_tests(), events, "with {used}");
        assert_eq!(group.status().active, 6);
        top.disable(used);
    }
    goes(group);
    assert_eq!(tracefs::events_of_tests(), [""; 0]);
}

/// Events are removed a few at a time, and others take the lock in between.
fn a_consumer_beside_the_removal_has_all_or_nothing() {
    const EVENTS: usize = 150;
    let group = Group::new("st_g_consumer");
    let event = group.event("st_g_consumed0");
    let mut toggler = child::fork(|line| {
        let top = TraceInstance::top();
        line.say(Word::Toggling);
        loop {
            // The first event that is made is the last to be removed.
            let _ = top.set(&event, "enable", "1");
            let _ = top.set(&event, "enable", "0");
        }
    });
    toggler.line.hear(Word::Toggling);
    let mut kept = 0;
    for round in 0..20 {
        if round > 0 {
            group::run("g:st_g_consumer").unwrap();
        }
        for number in 0..EVENTS {
            let event = group.event(&format!("st_g_consumed{number}"));
            dynamic::run(&format!("u:{event} u32 a")).unwrap();
        }
        wait::until("the group to be removed", || match group.remove() {
            Ok(()) => true,
            Err(errno) => {
                assert_eq!(errno, Errno::EBUSY);
                assert_eq!(group.status().active, EVENTS);
                kept += 1;
                false
            }
        });
        group.is_gone();
    }
    println!("  # it was kept {kept} times");
    toggler.kill();
}

/// With `when=unused` the group is removed after its last use, and cannot be opened before that.
fn a_group_goes_with_its_last_use() {
    let end = || group::run("-:st_g_ending when=unused");
    assert_eq!(end(), Err(Errno::ENOENT));
    let (group, _) = with_an_event("st_g_ending");
    assert_eq!(end(), Ok(()));
    group.is_gone();

    let (group, by_a_line) = with_an_event("st_g_ending");
    let event = Event::new_in(&group, "st_g_event_used u32 a");
    let top = TraceInstance::top();
    top.enable(&by_a_line);
    for _ in 0..2 {
        assert_eq!(end(), Ok(()));
    }
    let line = group.line().expect("its line");
    let wanted = "g:st_g_ending events=1024 # 2 events, 2 used, 1 open files, removed when unused";
    assert_eq!(line, wanted);
    assert_eq!(Data::try_open_in(&group).map(drop), Err(Errno::EIO));
    let more = format!("u:{} u32 a", group.event("st_g_more"));
    assert_eq!(dynamic::run(&more), Err(Errno::EINVAL));
    assert_eq!(group::run("g:st_g_ending"), Err(Errno::EEXIST));
    assert_eq!(group::run("g:st_g_ending events=1"), Err(Errno::EBUSY));
    assert_eq!(group::run("g:st_g_ending events=2"), Ok(()));
    assert_eq!(group.remove(), Err(Errno::EBUSY));
    // An open file still works, and its events can be traced.
    event.follows(true);
    assert_eq!(event.write(&[0; 4]), Ok(8));
    event.switch(false);
    event.end();
    wait_gone(&group.event("st_g_event_used"));
    let line = group.line().expect("its line");
    assert!(
        line.contains(" # 1 events, 1 used, 0 open files, "),
        "{line}"
    );
    // Time for at least one attempt of the kernel that fails.
    thread::sleep(Duration::from_millis(500));
    top.disable(&by_a_line);
    wait::until("the group to go", || group.line().is_none());
    group.is_gone();
    drop(Data::open_in(&Group::new("st_g_ending")));
}
