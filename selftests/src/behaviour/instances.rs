// SPDX-License-Identifier: GPL-2.0

//! Trace instances that come, go, and have their buffers changed while records are written: each
//! record is whole, each writer's are in order, and the bit shows whether an instance is attached.

use crate::harness::tests;
use crate::kit::event::{values, write, Event};
use crate::kit::numbered::{Numbered, Order};
use crate::kit::stall::{self, Waiting};
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;
use std::fs;
use std::thread;

tests!("instances":
    they_come_and_go_beside_writers,
    twenty_at_once_have_the_same_records,
    their_buffers_are_resized_beside_writers,
    their_sub_buffers_are_resized_beside_writers.needs_path(SUB_BUFFERS),
    their_buffers_are_cleared_beside_writers,
    their_buffers_are_swapped_beside_writers.needs_path(SNAPSHOT),
    the_next_one_is_detached_beside_a_writer.skip_if(stall::lacks_probes),
);

const SNAPSHOT: &str = "/sys/kernel/tracing/snapshot";
const SUB_BUFFERS: &str = "/sys/kernel/tracing/buffer_subbuf_size_kb";

/// The directories of all buffers, and of those of two processors.
const PLACES: [&str; 3] = ["", "per_cpu/cpu0/", "per_cpu/cpu1/"];

/// The number of writing threads.
const WRITERS: usize = 2;

/// Removes an instance that is still attached: the trace core detaches it.
#[track_caller]
fn remove(tracer: TraceInstance) {
    let dir = tracer.path("");
    fs::remove_dir(&dir).unwrap_or_else(|error| panic!("remove an instance: {error}"));
    assert!(!dir.exists());
}

fn they_come_and_go_beside_writers() {
    let numbered = Numbered::new("st_inst_goes", WRITERS);
    let mut order = Order::default();
    numbered.beside(|| {
        for round in 0..12 {
            let tracer = numbered.attached(64);
            numbered.wait_taken(100);
            if round % 2 == 0 {
                let records = numbered.take(&tracer);
                assert!(order.see(&records) > 0, "nothing was recorded");
            }
            remove(tracer);
            numbered.event.wait_clear();
            numbered.wait_refused(20);
        }
    });
    order.judge();
    assert!(!numbered.write(0), "an instance is still attached");
    let tracer = numbered.attached(64);
    numbered.all_is_recorded(&tracer);
    remove(tracer);
    numbered.event.wait_clear();
}

fn twenty_at_once_have_the_same_records() {
    const COUNT: usize = 20;
    const RECORDS: usize = 200;
    let numbered = Numbered::new("st_inst_many", WRITERS);
    let event = &numbered.event;
    let mut tracers: Vec<TraceInstance> = (0..COUNT)
        .map(|i| numbered.instance(&format!("st_inst_many{i}"), 64))
        .collect();
    // Only the first to be attached and the last to be detached change the bit.
    for _ in 0..3 {
        tracers.iter().for_each(|tracer| tracer.enable(&event.name));
        event.wait_set();
        for (i, tracer) in tracers.iter().enumerate() {
            assert!(event.bit(), "cleared with {i} of {COUNT} detached");
            tracer.disable(&event.name);
        }
        event.wait_clear();
    }

    tracers.iter().for_each(|tracer| tracer.enable(&event.name));
    event.wait_set();
    for i in 0..RECORDS {
        assert!(numbered.write(i % WRITERS));
    }
    for tracer in &tracers {
        let mut order = Order::default();
        assert_eq!(order.see(&numbered.take(tracer)), RECORDS, "records lost");
        order.judge();
    }

    // Every second instance is removed while more is written.
    let (mut left, mut places) = (Vec::new(), tracers.drain(..));
    numbered.beside(|| {
        while let (Some(going), Some(staying)) = (places.next(), places.next()) {
            numbered.wait_taken(10);
            remove(going);
            assert!(event.bit(), "cleared while others are attached");
            left.push(staying);
        }
    });
    assert_eq!(left.len(), COUNT / 2);
    for tracer in &left {
        let mut order = Order::default();
        assert!(
            order.see(&numbered.take(tracer)) > 0,
            "nothing was recorded"
        );
        order.judge();
        numbered.all_is_recorded(tracer);
    }
    while let Some(tracer) = left.pop() {
        assert!(event.bit(), "cleared before the last is gone");
        remove(tracer);
    }
    event.wait_clear();
    assert!(!numbered.write(0));
}

/// Calls `change` for an attached instance, beside the writers, again and again.
fn change_beside_writers(name: &str, rounds: usize, mut change: impl FnMut(&TraceInstance, usize)) {
    let numbered = Numbered::new(name, WRITERS);
    let event = &numbered.event;
    let tracer = numbered.attached(64);
    let mut order = Order::default();
    numbered.beside(|| {
        for round in 0..rounds {
            change(&tracer, round);
            numbered.wait_taken(50);
            order.see(&numbered.take(&tracer));
            assert!(event.bit(), "round {round}: the bit is lost");
        }
    });
    order.see(&numbered.take(&tracer));
    let count = order.count();
    assert!(count >= rounds, "only {count} were recorded");
    order.judge();
    tracer.control("buffer_size_kb", "64");
    numbered.all_is_recorded(&tracer);
    tracer.disable(name);
    event.wait_clear();
}

fn their_buffers_are_resized_beside_writers() {
    const SIZES: [&str; 5] = ["8", "512", "16", "1024", "64"];
    change_beside_writers("st_inst_size", 15, |tracer, round| {
        let place = PLACES[round % PLACES.len()];
        tracer.control(
            &format!("{place}buffer_size_kb"),
            SIZES[round % SIZES.len()],
        );
    });
}

/// Resizing sub-buffers empties them, too.
fn their_sub_buffers_are_resized_beside_writers() {
    const SIZES: [&str; 4] = ["8", "4", "16", "4"];
    change_beside_writers("st_inst_sub", 8, |tracer, round| {
        tracer.control("buffer_subbuf_size_kb", SIZES[round % SIZES.len()]);
    });
}

fn their_buffers_are_cleared_beside_writers() {
    change_beside_writers("st_inst_clear", 15, |tracer, round| {
        let place = PLACES[round % PLACES.len()];
        tracer.control(&format!("{place}trace"), "");
    });
}

fn their_buffers_are_swapped_beside_writers() {
    const ROUNDS: usize = 8;
    let numbered = Numbered::new("st_inst_swap", WRITERS);
    let event = &numbered.event;
    let tracer = numbered.attached(16);
    let mut printed = 0;
    numbered.beside(|| {
        for round in 0..ROUNDS {
            match round % 2 {
                0 => tracer.control("snapshot", "1"),
                // The trigger swaps the buffers at the next record, in the task that writes it.
                _ => {
                    let set = |trigger| tracer.set(&event.name, "trigger", trigger);
                    set("snapshot:1").expect("set a trigger");
                    let used = || tracer.get(&event.name, "trigger").contains("count=0");
                    wait::until("the trigger", used);
                    set("!snapshot:1").expect("remove a trigger");
                }
            }
            for file in ["snapshot", "trace"] {
                let lines = tracer.timed_lines_of(file, &event.name);
                let mut order = Order::default();
                printed += order.see_lines(&lines);
                // The kernel may print wrong times for records that are overwritten meanwhile.
                if file == "snapshot" {
                    order.judge();
                }
            }
            assert!(event.bit(), "round {round}: the bit is lost");
            numbered.wait_taken(50);
        }
    });
    assert!(printed > ROUNDS, "only {printed} records were printed");
    // Without writers, the contents of the snapshot are known.
    tracer.control("trace", "");
    for i in 0..10 {
        assert!(numbered.write(i % WRITERS));
    }
    tracer.control("snapshot", "1");
    let lines = tracer.timed_lines_of("snapshot", &event.name);
    assert_eq!(Order::default().see_lines(&lines), 10, "records lost");
    tracer.control("snapshot", "0");
    numbered.all_is_recorded(&tracer);
    tracer.disable(&event.name);
    event.wait_clear();
}

/// A writer is stalled as it stores its record in one instance, and has already found the next one.
fn the_next_one_is_detached_beside_a_writer() {
    let event = Event::new("st_inst_next u32 a");
    stall::retry_round(|| {
        let tracers = ["st_inst_next1", "st_inst_next0"].map(TraceInstance::instance);
        tracers.iter().for_each(|tracer| tracer.enable(&event.name));
        // Functions of the trace core have no probes: this option calls one of the rest of the
        // kernel.
        tracers[1].control("options/userstacktrace", "1");
        event.wait_set();
        let was_in_time = thread::scope(|scope| {
            let writer = Waiting::new(scope, || write(&event, [1]));
            let stalled = writer.stalled_at("stack_trace_save_user", 1);
            // The instance attached last comes first.
            tracers[0].disable(&event.name);
            let was_in_time = stalled.is_not_over();
            writer.thread.join().unwrap();
            was_in_time
        });
        assert_eq!(values(&tracers[1], &event), [1]);
        tracers[1].disable(&event.name);
        event.wait_clear();
        was_in_time
    });
}
