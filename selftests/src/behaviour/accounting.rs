// SPDX-License-Identifier: GPL-2.0

//! `user_events_profile`: records that were written and that a consumer could not take. The records
//! that a consumer has and those that it missed add up to the successful writes.

use crate::harness::tests;
use crate::kit::abi::{Data, PROFILE};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::profile::{missed, refused};
use crate::kit::traced::Traced;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::wait::{self, SetOnDrop};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicBool;
use std::thread;

tests!("better_than_c_2_accounting":
    the_profile_is_0440_of_root,
    the_profile_lists_events_oldest_first,
    a_buffer_that_is_off_misses,
    a_buffer_switched_on_and_off_misses_what_is_written_meanwhile,
    each_instance_misses_for_itself,
    what_is_too_large_for_ftrace_alone_is_missed_there,
    a_write_that_fails_is_not_missed,
    what_was_not_asked_for_is_not_missed,
    both_overloaded_have_or_miss_every_record.limit(300).skip_if(tracefs::lacks_long_records),
);

/// How many writers overload a buffer, and how many records each writes.
const WRITERS: u32 = 4;
const RECORDS: u32 = 2000;

/// Writes records of the event from several threads while `meanwhile` is called again and again:
/// `length(i)` bytes, 16 or more, for record `i` of a writer. All writes must succeed. Returns
/// their number.
fn overload(event: &Event, length: fn(u32) -> usize, mut meanwhile: impl FnMut()) -> u64 {
    let left = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    for i in 0..RECORDS {
                        let mut payload = [writer, i, 0, 0].map(u32::to_ne_bytes).concat();
                        payload.resize(length(i), 0);
                        assert_eq!(event.write(&payload), Ok(4 + payload.len()));
                    }
                })
            })
            .collect();
        let _end = SetOnDrop(&left);
        while writers.iter().any(|writer| !writer.is_finished()) {
            meanwhile();
            thread::yield_now();
        }
    });
    u64::from(WRITERS * RECORDS)
}

fn the_profile_is_0440_of_root() {
    let file = fs::metadata(PROFILE).unwrap();
    assert_eq!(format!("{:o}", file.mode() & 0o7777), "440");
    assert_eq!((file.uid(), file.gid()), (0, 0));
}

fn the_profile_lists_events_oldest_first() {
    let long = format!("st_acc_{}", "long".repeat(12));
    let names = ["st_acc_z", "st_acc_a", &long, "st_acc_m"];
    let data = Data::open();
    let page = Mapping::kept(1);
    for (bit, name) in names.iter().enumerate() {
        data.register_text(name, page.address(), bit as u8).unwrap();
    }
    let want: Vec<_> = names
        .iter()
        .map(|name| format!("  {name:<44} {:>15} {:>15} {:>15}", 0, 0, 0))
        .collect();
    let text = fs::read_to_string(PROFILE).unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), want);
}

fn a_buffer_that_is_off_misses() {
    let traced = Traced::new("st_acc_off u32 a");
    let write = |a: u32| assert_eq!(traced.event.write(&a.to_ne_bytes()), Ok(8));
    write(1);
    traced.tracer.control("tracing_on", "0");
    (0..7).for_each(|_| write(2));
    traced.tracer.control("tracing_on", "1");
    write(3);
    assert_eq!(traced.recorded(4), [[1, 0, 0, 0], [3, 0, 0, 0]]);
    assert_eq!(missed("st_acc_off"), (7, 0));
    traced.tracer.disable("st_acc_off");
}

fn a_buffer_switched_on_and_off_misses_what_is_written_meanwhile() {
    let traced = Traced::new("st_acc_switch u32 a; u32 b; u64 c");
    let mut on = true;
    let written = overload(
        &traced.event,
        |_| 16,
        || {
            on = !on;
            traced
                .tracer
                .control("tracing_on", if on { "1" } else { "0" });
        },
    );
    let recorded = traced.recorded(16).len() as u64;
    assert!((1..written).contains(&recorded), "{recorded} of {written}");
    assert_eq!(missed("st_acc_switch"), (written - recorded, 0));
    traced.tracer.disable("st_acc_switch");
}

fn each_instance_misses_for_itself() {
    let traced = Traced::new("st_acc_each u32 a");
    let off = [
        TraceInstance::instance("st_acc_each1"),
        TraceInstance::instance("st_acc_each2"),
    ];
    for tracer in &off {
        tracer.control("tracing_on", "0");
        tracer.enable("st_acc_each");
    }
    for _ in 0..5 {
        assert_eq!(traced.event.write(&[1; 4]), Ok(8));
    }
    assert_eq!(missed("st_acc_each"), (10, 0));
    off[0].disable("st_acc_each");
    assert_eq!(traced.event.write(&[1; 4]), Ok(8));
    assert_eq!(missed("st_acc_each"), (11, 0));
    assert_eq!(traced.recorded(4).len(), 6);
    off[1].disable("st_acc_each");
    traced.tracer.disable("st_acc_each");
}

fn what_is_too_large_for_ftrace_alone_is_missed_there() {
    let traced = Traced::new("st_acc_large u32 a");
    let mut perf = Perf::sample(traced.event.id(), SELF, ANY_CPU, 16);
    for length in [6000, 100, 8000, 4072] {
        assert_eq!(traced.event.write(&vec![1; length]), Ok(4 + length));
    }
    assert_eq!(traced.recorded(100), [[1; 100]]);
    assert_eq!(perf.take().len(), 4);
    assert_eq!(missed("st_acc_large"), (3, 0));
    traced.tracer.disable("st_acc_large");
}

/// The length of a payload that is too large for any perf sample.
const TOO_LARGE: usize = 66_000;

fn a_write_that_fails_is_not_missed() {
    let traced = Traced::new("st_acc_fails u32 a; __rel_loc char[] b");
    let perf = Perf::open(traced.event.id(), SELF, ANY_CPU).unwrap();
    assert_eq!(traced.event.write(&[0; TOO_LARGE]), Err(Errno::E2BIG));
    assert_eq!(traced.event.write(&[0; 7]), Err(Errno::EINVAL));
    assert_eq!(traced.event.write(&[1; 8]), Err(Errno::EFAULT));
    let index = traced.event.index.to_ne_bytes();
    let unreadable = [(index.as_ptr() as u64, 4), (0, 16)];
    let got = os::writev_from(&traced.event.data.file, &unreadable);
    assert_eq!(got, Err(Errno::EFAULT));
    traced.tracer.control("tracing_on", "0");
    assert_eq!(traced.event.write(&[0; TOO_LARGE]), Err(Errno::E2BIG));
    assert_eq!(traced.event.write(&[0; 7]), Err(Errno::EINVAL));
    assert_eq!(perf.count(), 0);
    assert_eq!(missed("st_acc_fails"), (0, 0));
    // A payload shorter than the fields is not counted: no consumer could ever take it.
    assert_eq!(refused("st_acc_fails"), 4);
    assert_eq!(traced.tracer.take_all_records().len(), 0);
    traced.tracer.disable("st_acc_fails");
    drop(perf);
    assert_eq!(traced.event.write(&[0; 8]), Err(Errno::EBADF));
    assert_eq!(missed("st_acc_fails"), (0, 0));
    assert_eq!(refused("st_acc_fails"), 4);
}

fn what_was_not_asked_for_is_not_missed() {
    let traced = Traced::new("st_acc_unasked u32 a");
    let Traced { event, tracer } = &traced;
    let none_missed = |what| assert_eq!(missed(&event.name), (0, 0), "{what}");

    tracer.set(&event.name, "filter", "a == 3").unwrap();
    for a in 1..=5u32 {
        assert_eq!(event.write(&a.to_ne_bytes()), Ok(8));
    }
    assert_eq!(traced.recorded(4), [3u32.to_ne_bytes()]);
    none_missed("a filter");
    tracer.set(&event.name, "filter", "0").unwrap();

    tracer.control("set_event_pid", "1");
    wait::until("a record that is not of the picked process", || {
        thread::yield_now();
        assert_eq!(event.write(&[1; 4]), Ok(8));
        traced.recorded(4).is_empty()
    });
    assert_eq!(event.write(&[1; 9000]), Ok(9004));
    none_missed("a process that is not picked");
    tracer.control("set_event_pid", "");
    tracer.disable(&event.name);

    let start = Event::new("st_acc_start u32 a");
    let trigger = "enable_event:user_events:st_acc_unasked";
    tracer.set(&start.name, "trigger", trigger).unwrap();
    event.wait_set();
    assert_eq!(event.write(&[1; 4]), Ok(8));
    assert!(traced.recorded(4).is_empty());
    none_missed("an event that waits for a trigger");
    tracer
        .set(&start.name, "trigger", &format!("!{trigger}"))
        .unwrap();
    event.wait_clear();
}

/// Takes the samples out of all rings, and counts them.
fn take(perfs: &mut [Perf]) -> u64 {
    perfs.iter_mut().map(|perf| perf.take().len() as u64).sum()
}

/// Writes a small record on each CPU: perf reports lost records once a ring has room again. Returns
/// the number of records.
fn write_on_each_cpu(event: &Event) -> u64 {
    let cpus = os::cpus();
    for &cpu in &cpus {
        os::run_on(cpu);
        assert_eq!(event.write(&[0; 16]), Ok(20));
    }
    cpus.len() as u64
}

fn both_overloaded_have_or_miss_every_record() {
    let event = &Event::new("st_acc_both u32 a; u32 b; u64 c");
    let tracer = TraceInstance::instance(&event.name);
    tracer.control("buffer_subbuf_size_kb", "128");
    tracer.control("options/overwrite", "0");
    tracer.control("buffer_size_kb", "64");
    tracer.enable(&event.name);
    event.wait_set();
    let id = event.id();
    let recorded = || tracer.take_records(id).len() as u64;
    let mut perfs = Perf::sample_everywhere(id, 1);
    // First without a reader, then with an occasional one. Some records are too large for perf.
    let (mut in_ftrace, mut in_perf, mut turn) = (0, 0, 0);
    let length = |i| if i % 50 == 0 { TOO_LARGE } else { 16 };
    let mut written = overload(event, length, || {});
    written += overload(event, length, || {
        turn += 1;
        if turn % 50 == 0 {
            in_ftrace += recorded();
            in_perf += take(&mut perfs);
        }
    });
    in_ftrace += recorded();
    in_perf += take(&mut perfs);
    written += write_on_each_cpu(event);
    in_ftrace += recorded();
    in_perf += take(&mut perfs);
    let lost: u64 = perfs.iter().map(|perf| perf.lost).sum();
    let (ftrace, perf) = missed(&event.name);
    assert!(ftrace > 0 && in_ftrace > 0, "ftrace missed {ftrace}");
    assert!(lost > 0 && in_perf > 0, "perf lost {lost}");
    let passed_over = tracer.passed_over();
    assert!(
        passed_over <= TraceInstance::may_pass_over(in_ftrace),
        "{passed_over} records passed over"
    );
    assert_eq!(in_ftrace + passed_over + ftrace, written);
    assert_eq!(perf, u64::from(2 * WRITERS * RECORDS.div_ceil(50)));
    assert_eq!(in_perf + lost + perf, written);
    drop(perfs);
    tracer.disable(&event.name);
}
