// SPDX-License-Identifier: GPL-2.0

//! Opening `dynamic_events` with O_TRUNC, which deletes the dynamic events of all kinds, or none.

use crate::harness::tests;
use crate::kit::child;
use crate::kit::dynamic::{self, kinds_there, make_all_kinds, no_kind_is_left};
use crate::kit::errno::Errno;
use crate::kit::event::{stays, wait_gone, Event};
use crate::kit::os;
use crate::kit::tracefs;
use crate::kit::wait;

tests!("truncate":
    an_event_that_is_referred_to_keeps_the_older_ones,
    persistent_ones_need_the_capability,
    one_that_is_about_to_go_is_not_in_the_way,
    lines_of_each_kind_delete_that_kind_only,
);

const OURS: &str = "st_trunc_ours";

fn an_event_that_is_referred_to_keeps_the_older_ones() {
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

fn persistent_ones_need_the_capability() {
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

fn one_that_is_about_to_go_is_not_in_the_way() {
    for _ in 0..30 {
        Event::new("st_trunc_ours u32 a").end();
        dynamic::truncate().unwrap();
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
