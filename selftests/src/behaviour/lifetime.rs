// SPDX-License-Identifier: GPL-2.0

//! How long an event lives: as long as a file, a registration or a tracer uses it.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child;
use crate::kit::event::{stays, wait_gone, Event};
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::tracefs::{self, Tracer};

tests!("lifetime":
    goes_with_the_last_file,
    goes_with_the_last_registration,
    goes_with_the_last_tracer,
    goes_with_perf,
    goes_with_an_instance,
    goes_with_the_last_of_two_files,
    a_duplicate_descriptor_keeps_it,
    the_name_is_free_for_other_fields_then,
    ids_are_not_mixed_up_when_events_come_and_go,
    one_event_going_leaves_the_others,
    made_again_while_it_goes,
    made_again_with_other_fields_while_it_goes,
);

fn goes_with_the_last_file() {
    let event = Event::new("st_life_file u32 a");
    event.unregister().unwrap();
    stays("st_life_file");
    drop(event.data);
    wait_gone("st_life_file");
}

fn goes_with_the_last_registration() {
    let Event { data, page, .. } = Event::new("st_life_reg u32 a");
    data.register_text("st_life_reg u32 a", page.address(), 1)
        .unwrap();
    drop(data);
    stays("st_life_reg");
    Data::open().unregister_bit(page.address(), 0).unwrap();
    stays("st_life_reg");
    Data::open().unregister_bit(page.address(), 1).unwrap();
    wait_gone("st_life_reg");
}

fn goes_with_the_last_tracer() {
    let event = Event::new("st_life_tracer u32 a");
    let top = Tracer::top();
    top.enable(&event.name);
    event.unregister().unwrap();
    drop(event.data);
    stays("st_life_tracer");
    top.disable("st_life_tracer");
    wait_gone("st_life_tracer");
}

fn goes_with_perf() {
    let event = Event::new("st_life_perf u32 a");
    let perf = Perf::open(event.id(), SELF, ANY_CPU).unwrap();
    event.unregister().unwrap();
    drop(event.data);
    stays("st_life_perf");
    drop(perf);
    wait_gone("st_life_perf");
}

fn goes_with_an_instance() {
    let event = Event::new("st_life_instance u32 a");
    let tracer = Tracer::instance("st_life_instance");
    tracer.enable(&event.name);
    event.unregister().unwrap();
    drop(event.data);
    stays("st_life_instance");
    drop(tracer);
    wait_gone("st_life_instance");
}

fn goes_with_the_last_of_two_files() {
    let event = Event::new("st_life_files u32 a");
    event.unregister().unwrap();
    let other = Data::open();
    other
        .register_text("st_life_files u32 a", event.page.address(), 0)
        .unwrap();
    other.unregister_bit(event.page.address(), 0).unwrap();
    drop(event.data);
    stays("st_life_files");
    drop(other);
    wait_gone("st_life_files");
}

fn a_duplicate_descriptor_keeps_it() {
    let event = Event::new("st_life_dup u32 a");
    event.unregister().unwrap();
    let duplicate = event.data.file.try_clone().unwrap();
    // A child has the file open too.
    let mut child = child::fork(|line| {
        line.say("forked");
        line.hear("end");
    });
    child.line.hear("forked");
    drop(event.data);
    stays("st_life_dup");
    drop(duplicate);
    stays("st_life_dup");
    child.line.say("end");
    child.join();
    wait_gone("st_life_dup");
}

fn the_name_is_free_for_other_fields_then() {
    for fields in ["u32 a", "u64 a", "", "char[4] b; u8 c", "u32 a"] {
        let event = Event::new(format!("st_life_again {fields}").trim_end());
        event.unregister().unwrap();
        drop(event);
        wait_gone("st_life_again");
    }
}

fn ids_are_not_mixed_up_when_events_come_and_go() {
    let keep = Event::new("st_life_keep u32 a");
    let id = keep.id();
    let tracer = Tracer::instance("st_life_keep");
    tracer.enable(&keep.name);
    for i in 0..20u32 {
        let event = Event::new("st_life_come u32 a");
        assert_ne!(event.id(), id);
        tracer.enable(&event.name);
        event.write(&[0xff; 4]).unwrap();
        keep.write(&i.to_ne_bytes()).unwrap();
        tracer.disable(&event.name);
        event.unregister().unwrap();
        drop(event);
        wait_gone("st_life_come");
    }
    assert_eq!(keep.id(), id);
    // In the order of CPUs, not of time.
    let mut got = tracer.take_payloads(&keep.name, 4);
    got.sort();
    let want: Vec<_> = (0..20u32).map(u32::to_ne_bytes).collect();
    assert_eq!(got, want);
    tracer.disable(&keep.name);
}

fn one_event_going_leaves_the_others() {
    let one = Event::new("st_life_one u32 a");
    let two = Event::new("st_life_two u32 a");
    let top = Tracer::top();
    top.enable(&two.name);
    two.wait_set();
    one.unregister().unwrap();
    drop(one.data);
    wait_gone("st_life_one");
    assert!(tracefs::event_exists("st_life_two"));
    assert!(two.bit());
    assert_eq!(two.write(&[0; 4]), Ok(8));
    top.disable(&two.name);
    two.wait_clear();
}

fn made_again_while_it_goes() {
    // Registered again as fast as possible after its last use ended: it is either the old event
    // or a new one, never an error and never one that goes away under its user.
    let top = Tracer::top();
    for round in 0..50 {
        let event = Event::new("st_life_race u32 a");
        event.unregister().unwrap();
        drop(event);
        let event = Event::new("st_life_race u32 a");
        assert!(tracefs::event_exists("st_life_race"), "round {round}");
        if round % 10 == 0 {
            top.enable("st_life_race");
            event.wait_set();
            assert_eq!(event.write(&[0; 4]), Ok(8), "round {round}");
            top.disable("st_life_race");
        }
        event.unregister().unwrap();
    }
}

fn made_again_with_other_fields_while_it_goes() {
    // The one without a user is not in the way, whether the work queue has come to it or not.
    for _ in 0..50 {
        for fields in ["u32 a", "u64 a"] {
            let event = Event::new(&format!("st_life_fields {fields}"));
            event.unregister().unwrap();
        }
    }
}
