// SPDX-License-Identifier: GPL-2.0

//! What a process has the kernel allocate by registering is charged to its control group.

use crate::abi::Data;
use crate::cgroup::{Cgroup, SIGN};
use crate::child::{self, Line};
use crate::event::Event;
use crate::follower::toggle;
use crate::harness::tests;
use crate::machine;
use crate::memory::Mapping;
use crate::wait;
use std::collections::BTreeMap;

tests!("cgroup":
    registrations_are_charged.where_there_is(SIGN),
    events_are_charged.where_there_is(SIGN),
    a_set_that_is_copied_is_charged_to_who_changes_it.where_there_is(SIGN),
);

/// Registers as many bits of an event, one after the other, at the start of a mapping.
fn register_bits(data: &Data, text: &str, page: &Mapping, bits: usize) {
    for bit in 0..bits {
        let address = page.address() + 4 * (bit as u64 / 32);
        data.register_text(text, address, (bit % 32) as u8)
            .unwrap_or_else(|errno| panic!("registration {bit}: {errno:?}"));
    }
}

/// Bytes that a registration takes: no less, as it has to be found by two keys, and no more.
const BYTES: std::ops::Range<i64> = 100..700;

/// Objects that are in use beyond those of an earlier count, of general caches whose objects are
/// charged to no group.
fn uncharged_since(before: &BTreeMap<String, i64>) -> Option<(String, i64)> {
    let general = |name: &str| name.starts_with("kmalloc-") && !name.starts_with("kmalloc-cg-");
    machine::slab_objects()
        .into_iter()
        .filter(|(name, _)| general(name))
        .map(|(name, count)| {
            let more = count - before.get(&name).copied().unwrap_or(0);
            (name, more)
        })
        .max_by_key(|(_, more)| *more)
}

fn registrations_are_charged() {
    const BITS: usize = 8000;
    // Not charged to the group: the event is there before.
    let event = Event::new("st_cgroup_bits u32 a");
    let group = Cgroup::new("st_cgroup_bits");
    let mut child = child::fork(|line: &mut Line| {
        group.enter();
        let data = Data::open();
        let page = Mapping::kept(1);
        line.say("entered");
        line.hear("register");
        register_bits(&data, "st_cgroup_bits u32 a", &page, BITS);
        line.say("registered");
        line.hear("unregister");
        for bit in 0..BITS as u64 {
            let address = page.address() + 4 * (bit / 32);
            data.unregister_bit(address, (bit % 32) as u8).unwrap();
        }
        line.say("unregistered");
        line.hear("register");
        register_bits(&data, "st_cgroup_bits u32 a", &page, BITS);
        line.say("registered");
        line.hear("exit");
    });
    child.line.hear("entered");
    let (before, objects) = (group.slab(), machine::slab_objects());
    child.line.say("register");
    child.line.hear("registered");
    // The numbers of a group are summed up now and then only.
    let bits = BITS as i64;
    let grown = || group.slab() - before;
    wait::until("the group to be charged", || grown() >= bits * BYTES.start);
    let most = uncharged_since(&objects);
    println!(
        "  # {} bytes of the group for a registration",
        grown() / bits
    );
    assert!(grown() < bits * BYTES.end, "{} bytes", grown());
    assert!(
        most.as_ref().is_none_or(|(_, more)| *more < bits / 2),
        "objects that nobody is charged for: {most:?}"
    );
    child.line.say("unregister");
    child.line.hear("unregistered");
    wait::until("the charge to be taken back", || grown() < bits * 10);
    child.line.say("register");
    child.line.hear("registered");
    wait::until("the group to be charged", || grown() >= bits * BYTES.start);
    child.line.say("exit");
    child.join();
    wait::until("the charge to go with the process", || grown() < bits * 10);
    toggle(&event, &mut []);
}

fn events_are_charged() {
    const EVENTS: usize = 2000;
    let group = Cgroup::new("st_cgroup_events");
    let mut child = child::fork(|line: &mut Line| {
        group.enter();
        let data = Data::open();
        let page = Mapping::kept(2);
        line.say("entered");
        line.hear("register");
        for event in 0..EVENTS {
            let text = format!("st_cgroup_event{event} u32 a; u64 b");
            let address = page.address() + 4 * event as u64;
            data.register_text(&text, address, 0).unwrap();
        }
        line.say("registered");
        line.hear("exit");
    });
    child.line.hear("entered");
    let before = group.slab();
    child.line.say("register");
    child.line.hear("registered");
    let events = EVENTS as i64;
    let grown = || group.slab() - before;
    wait::until("the group to be charged", || grown() >= events * 1000);
    println!("  # {} bytes of the group for an event", grown() / events);
    assert!(grown() < events * 8000, "{} bytes", grown());
    child.line.say("exit");
    child.join();
    wait::until("the charge to go", || grown() < events * 100);
}

fn a_set_that_is_copied_is_charged_to_who_changes_it() {
    const BITS: usize = 3000;
    let event = Event::new("st_cgroup_copy u32 a");
    let page = Mapping::kept(1);
    register_bits(&event.data, "st_cgroup_copy u32 a", &page, BITS);
    let group = Cgroup::new("st_cgroup_copy");
    let mut child = child::fork(|line: &mut Line| {
        group.enter();
        line.say("entered");
        line.hear("change");
        event.unregister().unwrap();
        line.say("changed");
        line.hear("exit");
    });
    child.line.hear("entered");
    let bits = BITS as i64;
    let before = group.slab();
    child.line.say("change");
    child.line.hear("changed");
    let grown = || group.slab() - before;
    wait::until("the group to be charged", || grown() >= bits * BYTES.start);
    assert!(grown() < bits * BYTES.end, "{} bytes", grown());
    child.line.say("exit");
    child.join();
    wait::until("the charge to go", || grown() < bits * 10);
}
