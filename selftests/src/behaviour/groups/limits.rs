// SPDX-License-Identifier: GPL-2.0

//! The maximum number of events: of a group by its line, whatever other groups have, and of all
//! groups together.

use crate::harness::{self, tests};
use crate::kit::abi::{Data, MULTI_FORMAT};
use crate::kit::child;
use crate::kit::dynamic::{self, Probe};
use crate::kit::errno::{allow, Errno};
use crate::kit::event::{wait_gone, Event};
use crate::kit::group::{self, Group};
use crate::kit::max_events::{self, Limit, GROUPS_DEFAULT};
use crate::kit::memory::Mapping;
use crate::kit::module;
use crate::kit::stall::{self, StalledAt};
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

tests!("groups::limits":
    a_group_has_as_many_events_as_its_line_says,
    what_fails_takes_no_place,
    each_group_has_its_own_limit_and_the_first_user_events_max,
    of_many_threads_as_many_make_an_event_as_there_is_room_for,
    all_groups_together_leave_numbers_to_the_host,
    what_all_groups_may_have_is_set_by_the_administrator,
    a_line_changes_the_limits_of_a_group,
    idle_events_are_not_in_the_way_of_their_group,
    an_idle_event_that_goes_meanwhile_makes_room.limit(300),
    idle_events_that_cannot_go_are_not_waited_for,
    idle_events_are_bounded_with_their_group.needs_path(stall::PATH),
    all_events_that_there_may_be_leave_numbers_to_the_host
        .needs_path("/sys/kernel/security")
        .limit(7000),
);

/// Registers the event of this number, with a word of its own.
fn register(data: &Data, page: &Mapping, number: u64) -> Result<u32, Errno> {
    let text = format!("st_g_event{number} u32 a");
    data.register_text(&text, page.address() + 4 * number, 0)
}

/// Tries to make another event in the group in each way. Returns the errors.
fn one_more(data: &Data, group: &Group, page: &Mapping) -> [Option<Errno>; 3] {
    let last = page.end() - 4;
    let register = |flags| {
        let got = data.register_flags("st_g_more u32 a", last, 0, flags);
        if got.is_ok() {
            data.unregister_bit(last, 0).unwrap();
        }
        got.err()
    };
    let line = format!("u:{} u32 a", group.event("st_g_line"));
    [
        register(0),
        register(MULTI_FORMAT),
        dynamic::run(&line).err(),
    ]
}

fn a_group_has_as_many_events_as_its_line_says() {
    for most in [1, 2, 7] {
        let group = Group::with("st_g_few", &format!("events={most} names=any"));
        let (data, page) = (Data::open_in(&group), Mapping::kept(1));
        for event in 0..most {
            let flags = [0, MULTI_FORMAT][event % 2];
            let text = format!("st_g_event{event} u32 a");
            let address = page.address() + 4 * event as u64;
            let got = data.register_flags(&text, address, 0, flags);
            assert_eq!(got, Ok(event as u32), "of {most}");
        }
        let full = [Some(Errno::EMFILE); 3];
        assert_eq!(one_more(&data, &group, &page), full);
        assert_eq!(group.numbers(), [most as u64, most as u64, 1]);
        // An existing event can be registered again, by this file or another.
        let other = Data::open_in(&group);
        for data in [&data, &other] {
            let address = page.end() - 4;
            let got = data.register_text("st_g_event0 u32 a", address, 1);
            assert_eq!(got, Ok(0));
            data.unregister_bit(address, 1).unwrap();
        }
        drop(other);
        assert_eq!(one_more(&data, &group, &page), full);
        for event in 0..most as u64 {
            data.unregister_bit(page.address() + 4 * event, 0).unwrap();
        }
        drop(data);
        group.remove_when_idle();
    }
}

fn what_fails_takes_no_place() {
    let group = Group::with("st_g_fails", "events=1");
    let (data, page) = (Data::open_in(&group), Mapping::kept(1));
    for text in ["st_g_bad u33 a", "st_g_bad u32 a; u32 a", "enable"] {
        let got = data.register_text(text, page.address(), 0);
        assert_eq!(got, Err(Errno::EINVAL), "{text}");
    }
    let line = format!("u:{} u33 a", group.event("st_g_bad"));
    assert_eq!(dynamic::run(&line), Err(Errno::EINVAL));
    // The bit cannot be written, so the event is removed again with the failing call.
    let got = data.register_text("st_g_bad u32 a", 8, 0);
    assert_eq!(got, Err(Errno::EFAULT));
    wait_gone(&group.event("st_g_bad"));
    assert_eq!(group.numbers(), [0, 0, 1]);
    let got = data.register_text("st_g_good u32 a", page.address(), 0);
    assert_eq!(got, Ok(0));
}

fn each_group_has_its_own_limit_and_the_first_user_events_max() {
    let full = Group::with("st_g_full", "events=1");
    let event = Event::new_in(&full, "st_g_event0 u32 a");
    let group = Group::with("st_g_bound", "events=4");
    let limit = Limit::new(1);
    let data = Data::open_in(&group);
    let page = Mapping::kept(1);
    let register = |number| register(&data, &page, number);
    assert_eq!([0, 1].map(register), [Ok(0), Ok(1)]);
    // Events of other groups do not count in the first group.
    let first = Event::new("st_g_first u32 a");
    let more = |bit| {
        first
            .data
            .register_text("st_g_second u32 a", first.page.address(), bit)
    };
    assert_eq!(more(1), Err(Errno::EMFILE));
    limit.set(2);
    assert_eq!(more(1), Ok(1));
    limit.set(1);
    assert_eq!([2, 3].map(register), [Ok(2), Ok(3)]);
    drop(limit);
    assert_eq!(register(4), Err(Errno::EMFILE));
    let more = event
        .data
        .register_text("st_g_more", event.page.address(), 1);
    assert_eq!(more, Err(Errno::EMFILE));
}

fn of_many_threads_as_many_make_an_event_as_there_is_room_for() {
    const THREADS: u64 = 6;
    const EACH: u64 = 20;
    const ROOM: usize = 50;
    let group = Group::with("st_g_race", &format!("events={ROOM}"));
    let (page, made) = (Mapping::kept(1), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (group, page, made) = (&group, &page, &made);
            scope.spawn(move || {
                let data = Data::open_in(group);
                for number in EACH * thread..EACH * (thread + 1) {
                    let got = register(&data, page, number);
                    if allow("register", got, &[Errno::EMFILE]).is_some() {
                        made.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(made.into_inner(), ROOM);
    assert_eq!(group.status().active, ROOM);
}

/// The limits of groups count, not their events: two groups of the largest size would take all of
/// the kernel's numbers.
fn all_groups_together_leave_numbers_to_the_host() {
    let _first = Group::with("st_g_first", "events=20000");
    let more = |events: u32| Group::made("st_g_more", &format!("events={events}")).map(drop);
    let left = GROUPS_DEFAULT - 20000;
    assert_eq!(more(left + 1), Err(Errno::EMFILE));
    assert_eq!(more(32768), Err(Errno::EMFILE));
    // A refused group and a removed one take nothing.
    for _ in 0..3 {
        assert_eq!(more(left), Ok(()));
        assert_eq!(more(left + 1), Err(Errno::EMFILE));
    }
    let _second = Group::with("st_g_second", &format!("events={left}"));
    assert_eq!(more(1), Err(Errno::EMFILE));
    assert_eq!(Group::made("st_g_more", "").map(drop), Err(Errno::EMFILE));
}

fn what_all_groups_may_have_is_set_by_the_administrator() {
    let limit = Limit::of_groups(10);
    let [few, more] = ["events=7", "events=3"]
        .map(|events| Group::with(&format!("st_g_{}", &events[7..]), events));
    let change =
        |group: &Group, events: u32| group::run(&format!("g:{} events={events}", group.name));
    assert_eq!(change(&more, 4), Err(Errno::EMFILE));
    assert_eq!(change(&few, 6), Ok(()));
    assert_eq!(change(&more, 4), Ok(()));
    // Limits that groups have stay, and can be lowered.
    limit.set(5);
    assert_eq!(change(&more, 4), Ok(()));
    assert_eq!(change(&few, 7), Err(Errno::EMFILE));
    assert_eq!(change(&few, 5), Ok(()));
    assert_eq!(change(&few, 6), Err(Errno::EMFILE));
    limit.set(11);
    assert_eq!(change(&few, 7), Ok(()));
    assert_eq!(change(&few, 8), Err(Errno::EMFILE));
}

fn a_line_changes_the_limits_of_a_group() {
    let group = Group::with("st_g_change", "events=2");
    let limits = || {
        let line = group.line().expect("its line");
        line.split(" # ").next().unwrap().to_string()
    };
    let set = |options: &str| group::run(&format!("g:st_g_change {options}"));
    let (data, page) = (Data::open_in(&group), Mapping::kept(1));
    let register = |number| register(&data, &page, number);
    assert_eq!([0, 1].map(register), [Ok(0), Ok(1)]);
    assert_eq!(register(2), Err(Errno::EMFILE));
    assert_eq!(set("events=3"), Ok(()));
    assert_eq!(limits(), "g:st_g_change events=3");
    assert_eq!(register(2), Ok(2));
    assert_eq!(register(3), Err(Errno::EMFILE));
    // No lower than the number of events.
    assert_eq!(set("events=2 bytes_per_second=1"), Err(Errno::EBUSY));
    assert_eq!(limits(), "g:st_g_change events=3");
    // A limit of bytes applies at once to events that have consumers, and so does its end.
    let top = TraceInstance::top();
    let event = group.event("st_g_event0");
    top.enable(&event);
    let write = || data.write(0, &[0; 4]);
    for _ in 0..3 {
        assert_eq!(write(), Ok(8));
        assert_eq!(set("bytes_per_second=1"), Ok(()));
        assert_eq!(limits(), "g:st_g_change events=3 bytes_per_second=1");
        assert_eq!(write(), Err(Errno::EDQUOT));
        assert_eq!(set("bytes_per_second=0"), Ok(()));
        assert_eq!(limits(), "g:st_g_change events=3");
    }
    assert_eq!(write(), Ok(8));
    top.disable(&event);
    // A line changes only the limits that it names.
    assert_eq!(set("bytes_per_second=70"), Ok(()));
    assert_eq!(set("events=4"), Ok(()));
    assert_eq!(limits(), "g:st_g_change events=4 bytes_per_second=70");
    assert_eq!(group.refused(), 3);
}

/// Leaves this many idle events of a group for removal.
fn let_go(group: &Group, count: u32) {
    let (data, page) = (Data::open_in(group), Mapping::kept(1));
    let place = |number: u32| (page.address() + 4 * u64::from(number / 32), number % 32);
    for number in 0..count {
        let (address, bit) = place(number);
        let text = format!("st_g_other{number}");
        data.register_text(&text, address, bit as u8).unwrap();
    }
    for number in 0..count {
        let (address, bit) = place(number);
        data.unregister_bit(address, bit as u8).unwrap();
    }
}

/// Makes an event and leaves it idle, for removal.
fn make_and_let_go(group: &Group, page: &Mapping, number: u32) -> Result<u32, Errno> {
    let data = Data::open_in(group);
    let got = data.register_text(&format!("st_g_event{number}"), page.address(), 0)?;
    data.unregister_bit(page.address(), 0).unwrap();
    Ok(got)
}

/// The number of idle events in other groups does not matter.
fn idle_events_are_not_in_the_way_of_their_group() {
    const OTHERS: u32 = 1000;
    let group = Group::with("st_g_small", "events=1");
    let other = Group::with("st_g_large", &format!("events={}", 2 * OTHERS));
    let page = Mapping::kept(1);
    for round in 0..3 {
        let_go(&other, OTHERS);
        for number in 0..10 {
            let got = make_and_let_go(&group, &page, 10 * round + number);
            assert_eq!(got, Ok(0), "{number} in round {round}");
        }
    }
}

/// An event that is removed just when the group is found to be full makes room as well.
fn an_idle_event_that_goes_meanwhile_makes_room() {
    let group = Group::with("st_g_small", "events=1");
    let page = Mapping::kept(1);
    for number in 0..4000 {
        assert_eq!(make_and_let_go(&group, &page, number), Ok(0), "{number}");
    }
}

/// Event probes refer to these events, so the work keeps them on its list.
fn idle_events_that_cannot_go_are_not_waited_for() {
    const MANY: u64 = 300;
    let group = Group::with("st_g_probed", &format!("events={MANY}"));
    let page = Mapping::kept(1);
    let data = Data::open_in(&group);
    for number in 0..MANY {
        register(&data, &page, number).unwrap();
        let event = group.event(&format!("st_g_event{number}"));
        dynamic::run(&format!("e:st_g_probes/p{number} {event} a=$a:u32")).unwrap();
        data.unregister_bit(page.address() + 4 * number, 0).unwrap();
    }
    drop(data);
    assert_eq!(group::run("g:st_g_probed events=10"), Err(Errno::EBUSY));
    let text = "st_g_more u32 a";
    let register = || Data::open_in(&group).register_text(text, page.address(), 0);
    assert_eq!(register(), Err(Errno::EMFILE));
    for number in 0..MANY {
        dynamic::run(&format!("-:st_g_probes/p{number}")).unwrap();
    }
    assert!(wait::eventually(
        || group::run("g:st_g_probed events=10").is_ok()
    ));
}

/// Idle events take memory: a program waits when its group has many of them, and can be killed
/// while it waits.
fn idle_events_are_bounded_with_their_group() {
    /// The group's limit, the idle events that may be on the list, and one that has to wait.
    const MAX_WAITING: u32 = 1 + 256 + 1;
    /// A few events may be removed before the work is stalled.
    const MAX_MADE: u32 = MAX_WAITING + 32;
    let group = Group::with("st_g_small", "events=1");
    let (page, made) = (Mapping::kept(1), Mapping::shared(1));
    let work = module::function(&["IdleEvents", "WorkItemPointer", "3run"]);
    stall::retry_round(|| {
        wait::until("all events to go", || group.numbers()[0] == 0);
        made.word(0).store(0, Relaxed);
        let stalled = StalledAt::work(work);
        let child = child::fork(|_| {
            for number in 0.. {
                make_and_let_go(&group, &page, number).unwrap();
                made.word(0).store(number + 1, Relaxed);
            }
        });
        let count = || made.word(0).load(Relaxed);
        // The child waits, or has made too many.
        wait::until("it to wait", || {
            let before = count();
            thread::sleep(Duration::from_millis(300));
            before >= MAX_WAITING && count() == before || before > MAX_MADE
        });
        // The first stall of the work: an event that becomes idle later stalls it again.
        let is_first = || stalled.is_not_over() && stalled.times() == 1;
        let (count, waits) = (count(), is_first());
        child.kill();
        assert!(!waits || count <= MAX_MADE, "{count} events");
        let was_killed_in_time = is_first();
        drop(stalled);
        assert!(wait::eventually(
            || make_and_let_go(&group, &page, 0).is_ok()
        ));
        waits && was_killed_in_time
    });
}

/// In a lengthy run as many events as the kernel has numbers for, else a fortieth.
fn all_events_that_there_may_be_leave_numbers_to_the_host() {
    const PROBES: usize = 2400;
    let part = harness::times(40, 1);
    let [of_first, of_groups] =
        [max_events::DEFAULT, GROUPS_DEFAULT].map(|most| most / part as u32);
    let _limits = (Limit::new(of_first), Limit::of_groups(of_groups));
    let group = Group::with("st_g_all", &format!("events={of_groups}"));
    let fill = |start: &str, most: u32| {
        let numbers: Vec<u32> = (0..most).collect();
        for part in numbers.chunks(1000) {
            let lines: Vec<_> = part
                .iter()
                .map(|number| format!("u:{start}st_g_n{number}"))
                .collect();
            dynamic::run(&lines.join("\n")).unwrap();
        }
        let more = dynamic::run(&format!("u:{start}st_g_more"));
        assert_eq!(more, Err(Errno::EMFILE), "after {most}");
    };
    fill(&format!("{}/", group.system()), of_groups);
    fill("", of_first);
    let more = Group::made("st_g_more", "events=1").map(drop);
    assert_eq!(more, Err(Errno::EMFILE));
    let probes = (0..PROBES / part)
        .map(|number| Probe::new('p', &format!("st_g_host/st_n{number}"), "security_capable"));
    assert_eq!(probes.collect::<Vec<_>>().len(), PROBES / part);
    dynamic::truncate().unwrap();
}
