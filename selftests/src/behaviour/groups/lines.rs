// SPDX-License-Identifier: GPL-2.0

//! Lines of `dynamic_events` about events of groups.

use crate::harness::tests;
use crate::kit::dynamic;
use crate::kit::errno::{fails, Errno};
use crate::kit::event::{stays, Event};
use crate::kit::group::{self, Group};
use crate::kit::tracefs::{self, TraceInstance};

tests!("groups::lines":
    a_line_makes_an_event_of_a_group,
    a_line_that_names_no_group_is_einval,
    a_line_deletes_in_the_group_of_its_system_or_the_first,
    truncating_deletes_what_is_idle_in_all_groups,
);

fn a_line_makes_an_event_of_a_group() {
    let group = Group::new("st_g_line");
    let event = group.event("st_g_event");
    assert_eq!(event, "user_events_st_g_line/st_g_event");
    let line = format!("u:{event} u32 a; char[4] b");
    dynamic::run(&line).unwrap();
    assert_eq!(dynamic::user_lines(), [line.as_str()]);
    assert_eq!(tracefs::events_of_tests(), [event.as_str()]);
    // The event is persistent, as in the first group.
    stays(&event);
    assert_eq!(again(&event, "u64 a"), Err(Errno::EADDRINUSE));
    assert_eq!(dynamic::user_lines(), [line.as_str()]);
    // A program registers the same event with the same description.
    let user = Event::new_in(&group, "st_g_event u32 a; char[4] b");
    let tracer = TraceInstance::instance("st_g_line");
    tracer.enable(&event);
    user.wait_set();
    assert_eq!(user.write(&[1, 0, 0, 0, b'a', b'b', b'c', 0]), Ok(12));
    assert_eq!(tracer.lines(&event), ["st_g_event: a=0x1 (1) b=abc"]);
    tracer.disable(&event);
    user.end();
    stays(&event);
}

/// Runs the line that makes an event with these fields.
fn again(event: &str, fields: &str) -> Result<(), Errno> {
    dynamic::run(&format!("u:{event} {fields}"))
}

fn a_line_that_names_no_group_is_einval() {
    let group = Group::new("st_g_there");
    for system in [
        "user_events_st_g_none",
        "user_events_st_g_ther",
        "user_events_st_g_there_",
        "user_events_",
        "user_events_multi",
        "user_events_st_g_there_multi",
        "user_eventsst_g_there",
        "st_g_there",
        "events",
        "",
    ] {
        let line = format!("u:{system}/st_g_event u32 a");
        fails("system", &line, dynamic::run(&line), Errno::EINVAL);
    }
    let line = format!("u:{}/st_g_event/more u32 a", group.system());
    fails("name", &line, dynamic::run(&line), Errno::EINVAL);
    let line = format!("u:{}/ u32 a", group.system());
    fails("name", &line, dynamic::run(&line), Errno::EINVAL);
    assert_eq!(dynamic::user_lines(), [""; 0]);
    // A removed group no longer exists.
    let line = format!("u:{} u32 a", group.event("st_g_event"));
    assert_eq!(group.remove(), Ok(()));
    fails("removed", &line, dynamic::run(&line), Errno::EINVAL);
}

/// Makes an event of this name in the first group and in two others.
fn three(groups: &[Group; 2]) -> [String; 3] {
    let names = [
        "st_g_event".into(),
        groups[0].event("st_g_event"),
        groups[1].event("st_g_event"),
    ];
    names.iter().for_each(|name| again(name, "u32 a").unwrap());
    names
}

fn a_line_deletes_in_the_group_of_its_system_or_the_first() {
    let groups = [Group::new("st_g_a"), Group::new("st_g_a_b")];
    let in_first = "user_events/st_g_event";
    for first in ["st_g_event", "st_g_event u32 a", in_first] {
        let names = three(&groups);
        let there = || names.each_ref().map(|name| tracefs::event_exists(name));
        for system in ["user_events_st_g", "user_events_st_g_", "other"] {
            let line = format!("-:{system}/st_g_event");
            fails("system", &line, dynamic::run(&line), Errno::ENOENT);
        }
        assert_eq!(there(), [true; 3]);
        for (name, left) in [
            (names[1].as_str(), [true, false, true]),
            (first, [false, false, true]),
        ] {
            assert_eq!(dynamic::run(&format!("-:{name}")), Ok(()), "{name}");
            assert_eq!(there(), left, "{name}");
        }
        for name in [&names[1], "st_g_event", "st_g_event u32 a", in_first] {
            let got = dynamic::run(&format!("-:{name}"));
            fails("not there", name, got, Errno::ENOENT);
        }
        // A used event is not deleted.
        let top = TraceInstance::top();
        top.enable(&names[2]);
        let line = format!("-:{}", names[2]);
        assert_eq!(dynamic::run(&line), Err(Errno::EBUSY));
        top.disable(&names[2]);
        assert_eq!(dynamic::run(&line), Ok(()));
        assert_eq!(there(), [false; 3]);
    }
}

/// All idle events are deleted or none: a used one keeps the others.
fn truncating_deletes_what_is_idle_in_all_groups() {
    let groups = [Group::new("st_g_a"), Group::new("st_g_b")];
    let names = three(&groups);
    let top = TraceInstance::top();
    top.enable(&names[1]);
    assert_eq!(dynamic::truncate(), Err(Errno::EBUSY));
    assert_eq!(dynamic::user_lines().len(), 3);
    top.disable(&names[1]);
    assert_eq!(dynamic::truncate(), Ok(()));
    assert_eq!(dynamic::user_lines(), [""; 0]);
    assert_eq!(tracefs::events_of_tests(), [""; 0]);
    // The groups stay.
    assert_eq!(group::lines().len(), 2);
    groups
        .iter()
        .for_each(|group| assert_eq!(group.numbers(), [0, 0, 0]));
}
