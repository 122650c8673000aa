// SPDX-License-Identifier: GPL-2.0

//! The usual times of what the manual promises to come soon. The median may be ten times that of an
//! idle machine, which a busy host does not exceed, but a longer pause in the module does.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Word};
use crate::kit::event::{wait_gone, Event};
use crate::kit::group::{self, Group};
use crate::kit::latency::Latencies;
use crate::kit::poll;
use crate::kit::{dynamic, wait};
use std::thread;
use std::time::Duration;

tests!("usual_times":
    a_bit_is_written,
    a_bit_is_written_in_a_page_that_is_brought_in,
    a_change_is_reported,
    an_unused_event_goes,
    an_event_of_a_process_that_is_killed_goes,
    an_event_that_a_probe_has_used_goes,
    a_group_that_is_not_used_any_more_goes,
);

const TRIES: usize = 15;

/// Measures `one` several times. The limit is ten times `usual`, in milliseconds.
#[track_caller]
fn usually(usual: u64, mut one: impl FnMut(&mut Latencies)) {
    let mut times = Latencies::default();
    (0..TRIES).for_each(|_| one(&mut times));
    times.judge("usually", 10 * usual);
}

fn a_bit_is_written() {
    let event = Event::new("st_usual u32 a");
    usually(2, |times| {
        event.switch(true);
        times.during(|| event.wait_set());
        event.switch(false);
        times.during(|| event.wait_clear());
    });
}

fn a_bit_is_written_in_a_page_that_is_brought_in() {
    let event = Event::new("st_usual_page u32 a");
    usually(4, |times| {
        event.page.discard();
        event.switch(true);
        // Without a read of the word, which would fault the page in.
        times.during(|| wait::until("the page", || event.page.resident() == 1));
        event.wait_set();
        event.follows(false);
    });
}

fn a_change_is_reported() {
    let event = Event::new("st_usual_poll u32 a");
    poll::has_changed(&event.data.file);
    usually(2, |times| {
        event.switch(true);
        times.during(|| poll::wait_for_change(&event.data.file));
        event.switch(false);
        times.during(|| poll::wait_for_change(&event.data.file));
    });
}

fn an_unused_event_goes() {
    usually(4, |times| {
        let event = Event::new("st_usual_unused u32 a");
        event.end();
        times.during(|| wait_gone("st_usual_unused"));
    });
}

fn an_event_of_a_process_that_is_killed_goes() {
    usually(4, |times| {
        let process = child::fork_until(Word::Registered, |line| {
            let _event = Event::new("st_usual_killed u32 a");
            line.say(Word::Registered);
            line.wait_for_kill();
        });
        process.kill();
        times.during(|| wait_gone("st_usual_killed"));
    });
}

/// An unused event is checked every 100 ms, and less often after a while.
fn an_event_that_a_probe_has_used_goes() {
    usually(100, |times| {
        let event = Event::new("st_usual_probe u32 a");
        let name = "st_usual/st_usual_p";
        dynamic::run(&format!("e:{name} user_events/st_usual_probe a=$a:u32")).unwrap();
        event.end();
        // The probe uses the event at the first check.
        thread::sleep(Duration::from_millis(10));
        dynamic::run(&format!("-:{name}")).unwrap();
        times.during(|| wait_gone("st_usual_probe"));
    });
}

/// Groups are checked as events are.
fn a_group_that_is_not_used_any_more_goes() {
    usually(100, |times| {
        let group = Group::new("st_usual");
        let data = Data::open_in(&group);
        group::run("-:st_usual when=unused").unwrap();
        drop(data);
        times.during(|| wait::until("the group to go", || group.line().is_none()));
    });
}
