// SPDX-License-Identifier: GPL-2.0

//! `dynamic_events`: making and deleting events by lines, and opening the file with O_TRUNC, which
//! deletes the dynamic events of all kinds, or none.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child;
use crate::kit::dynamic::{self, kinds_there, make_all_kinds, no_kind_is_left};
use crate::kit::errno::{allow, Errno};
use crate::kit::event::{stays, wait_gone, Event};
use crate::kit::group::Group;
use crate::kit::os;
use crate::kit::status::Status;
use crate::kit::tracefs;
use crate::kit::wait;

tests!("dynamic_events":
    lines_longer_than_511_bytes_are_einval,
    a_line_that_makes_an_event_needs_the_capability,
    what_is_referred_to_is_busy_before_it_is_persistent,
    lines_of_each_kind_delete_that_kind_only,
    truncation_beside_an_event_that_is_referred_to_keeps_the_older_ones,
    truncation_of_persistent_ones_needs_the_capability,
    truncation_goes_on_beside_one_that_is_about_to_go,
);

fn what_is_referred_to_is_busy_before_it_is_persistent() {
    const NAME: &str = "st_dyn_probed";
    dynamic::run("u:st_dyn_probed u32 a").unwrap();
    // The eprobe is not enabled, so not attached to the event, but holds a reference to it.
    dynamic::run("e:st_kinds/st_dyn_eprobe user_events/st_dyn_probed a=$a:u32").unwrap();
    let is_refused = |want| {
        let child = child::fork(|_| {
            os::keep_capabilities(0);
            assert_eq!(Data::open().delete(NAME), Err(want));
        });
        child.join();
        assert!(tracefs::event_exists(NAME));
    };
    is_refused(Errno::EBUSY);
    dynamic::run("-:st_kinds/st_dyn_eprobe").unwrap();
    is_refused(Errno::EPERM);
    Data::open().delete(NAME).unwrap();
}

/// Such an event is persistent, and needs the same capability as one with `USER_EVENT_REG_PERSIST`.
fn a_line_that_makes_an_event_needs_the_capability() {
    let group = Group::new("st_dyn_capable");
    let made = format!("u:{} u32 a", group.event("st_dyn_made"));
    dynamic::run(&made).unwrap();
    let child = child::fork(|_| {
        os::keep_capabilities(0);
        for system in ["", "user_events/", "user_events_st_dyn_capable/"] {
            let line = format!("u:{system}st_dyn_event u32 a");
            assert_eq!(dynamic::run(&line), Err(Errno::EPERM), "{line}");
            // The syntax is checked first.
            let line = format!("u:{system}st_dyn_event u33 a");
            assert_eq!(dynamic::run(&line), Err(Errno::EINVAL), "{line}");
        }
        let deleted = Data::open_in(&group).delete("st_dyn_made");
        assert_eq!(deleted, Err(Errno::EPERM));
    });
    child.join();
    assert_eq!(dynamic::user_lines(), [made]);
}

fn lines_longer_than_511_bytes_are_einval() {
    let fields: Vec<_> = (0..41).map(|i| format!("u8 abcdef{i:02}")).collect();
    let text = |name: &str| format!("{name} {}", fields.join(";"));
    let (longest, longer) = ("st_dyn_long_abcdefg", "st_dyn_long_abcdefgh");
    assert_eq!(text(longest).len(), 511);
    assert_eq!(dynamic::run(&format!("u:{}", text(longest))), Ok(()));
    assert_eq!(Data::open().delete(longest), Ok(()));
    let got = dynamic::run(&format!("u:{}", text(longer)));
    assert_eq!(got, Err(Errno::EINVAL));
    // The space behind a semicolon of a description does not count.
    let spaced = |name: &str| format!("u:{}", text(name).replace(';', "; "));
    assert_eq!(dynamic::run(&spaced(longest)), Ok(()));
    assert_eq!(Data::open().delete(longest), Ok(()));
    assert_eq!(dynamic::run(&spaced(longer)), Err(Errno::EINVAL));
    assert_eq!(Status::now().active, 0);
}

const OURS: &str = "st_trunc_ours";

fn truncation_beside_an_event_that_is_referred_to_keeps_the_older_ones() {
    make_all_kinds();
    let probed = "st_trunc_probed";
    dynamic::run(&format!("u:{probed} u32 a")).unwrap();
    // The probe is not enabled, and so not attached, but the event cannot go before it.
    let probe = format!("e:st_kinds/st_trunc_eprobe user_events/{probed} a=$a:u32");
    dynamic::run(&probe).unwrap();
    let lines = dynamic::lines();
    assert_eq!(lines.len(), 5);
    assert_eq!(dynamic::truncate(), Err(Errno::EBUSY));
    assert_eq!(dynamic::lines(), lines);
    assert_eq!(kinds_there(), [true; 3]);
    dynamic::run("-:st_kinds/st_trunc_eprobe").unwrap();
    dynamic::truncate().unwrap();
    no_kind_is_left();
}

fn truncation_of_persistent_ones_needs_the_capability() {
    dynamic::run("u:st_trunc_ours u32 a").unwrap();
    let child = child::fork(|_| {
        os::keep_capabilities(0);
        assert_eq!(dynamic::truncate(), Err(Errno::EPERM));
        assert!(tracefs::event_exists(OURS));
    });
    child.join();
    stays(OURS);
    dynamic::truncate().unwrap();
    no_kind_is_left();
}

fn truncation_goes_on_beside_one_that_is_about_to_go() {
    for round in 0..30 {
        Event::new("st_trunc_ours u32 a").end();
        match round % 2 {
            0 => dynamic::truncate().unwrap(),
            // It may have gone.
            _ => drop(allow(
                "a line",
                dynamic::run("-:st_trunc_ours"),
                &[Errno::ENOENT],
            )),
        }
        no_kind_is_left();
    }
    // Nor is an event whose process has ended, once the end is noticed.
    let child = child::fork(|_| drop(Event::new("st_trunc_ours u32 a")));
    child.join();
    wait::until("the file to be truncated", || dynamic::truncate().is_ok());
    wait_gone(OURS);
}

fn lines_of_each_kind_delete_that_kind_only() {
    make_all_kinds();
    dynamic::run("-:st_kinds/st_trunc_probe").unwrap();
    assert_eq!(kinds_there(), [false, true, true]);
    dynamic::run("-:synthetic/st_trunc_synthetic").unwrap();
    assert_eq!(kinds_there(), [false, false, true]);
    // The group distinguishes events of one name and different kinds.
    dynamic::run("p:st_kinds/st_trunc_ours vfs_fsync").unwrap();
    dynamic::run("-:user_events/st_trunc_ours").unwrap();
    assert!(!tracefs::event_exists(OURS));
    assert!(tracefs::event_exists("st_kinds/st_trunc_ours"));
    // A line without a group deletes both.
    dynamic::run("u:st_trunc_ours u32 a").unwrap();
    dynamic::run("-:st_trunc_ours").unwrap();
    assert!(!tracefs::event_exists("st_kinds/st_trunc_ours"));
    no_kind_is_left();
}
