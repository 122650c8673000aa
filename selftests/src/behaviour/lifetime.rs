// SPDX-License-Identifier: GPL-2.0

//! Events that come and go: none is taken for another, and one that goes is not in the way.

use crate::harness::tests;
use crate::kit::event::{wait_gone, Event};
use crate::kit::tracefs::{self, Tracer};

tests!("lifetime":
    ids_are_not_mixed_up_when_events_come_and_go,
    made_again_while_it_goes,
    made_again_with_other_fields_while_it_goes,
);

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
