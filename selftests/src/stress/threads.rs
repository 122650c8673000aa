// SPDX-License-Identifier: GPL-2.0

//! Many threads at once: no record lost or torn, and no thread stuck.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::numbered::{Numbered, Order};
use crate::kit::perf::Perf;
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait::{self, SetOnDrop};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

tests!("stress":
    no_record_of_many_threads_is_lost_or_torn_in_ftrace,
    no_record_of_many_threads_is_lost_or_torn_in_perf,
    writing_through_one_file_while_registering,
    registering_and_unregistering_while_toggling,
);

const THREADS: usize = 6;
const EACH: u32 = 1500;

/// Takes an instance's records. Returns their number.
#[track_caller]
fn take(order: &mut Order, numbered: &Numbered, tracer: &TraceInstance) -> usize {
    order.see(&tracer.take_timed_records(numbered.event.id(), usize::MAX))
}

fn no_record_of_many_threads_is_lost_or_torn_in_ftrace() {
    let numbered = Numbered::new("st_stress_ftrace", THREADS);
    let tracer = numbered.instance("st_stress_ftrace", 4096);
    tracer.enable(&numbered.event.name);
    numbered.write_each(EACH);
    let mut order = Order::default();
    let count = take(&mut order, &numbered, &tracer);
    assert_eq!(count, THREADS * EACH as usize, "records lost");
    order.judge();
    tracer.disable(&numbered.event.name);
}

fn no_record_of_many_threads_is_lost_or_torn_in_perf() {
    let numbered = Numbered::new("st_stress_perf", THREADS);
    let mut perfs = Perf::sample_everywhere(numbered.event.id(), 512);
    numbered.event.wait_set();
    numbered.write_each(EACH);
    // All have the same time, as there is no order across rings: each must be there once.
    let records = perfs.iter_mut().flat_map(|perf| perf.take());
    let records: Vec<_> = records.map(|record| (0, record)).collect();
    let lost: u64 = perfs.iter().map(|perf| perf.lost).sum();
    assert_eq!(lost, 0, "the ring was too small");
    let counted: u64 = perfs.iter().map(|perf| perf.count()).sum();
    assert_eq!(counted, numbered.taken());
    let mut order = Order::default();
    assert_eq!(order.see(&records) as u64, counted, "records lost");
    order.judge();
}

/// The file's table of events grows while others write.
fn writing_through_one_file_while_registering() {
    const WRITERS: usize = 2;
    /// The maximum of each writer's records per new event, for which the buffer has room.
    const MAX_AHEAD: u32 = 150;
    let numbered = Numbered::new("st_stress_grow", WRITERS);
    let data = &numbered.event.data;
    let tracer = numbered.instance("st_stress_grow", 8192);
    tracer.enable(&numbered.event.name);
    let page = Mapping::new(1);
    let (done, registered) = (AtomicBool::new(false), AtomicU32::new(1));
    thread::scope(|scope| {
        let _stop = SetOnDrop(&done);
        let (numbered, done, registered) = (&numbered, &done, &registered);
        let goes_on = || !done.load(Ordering::Relaxed);
        for writer in 0..WRITERS {
            scope.spawn(move || {
                while goes_on() {
                    let most = MAX_AHEAD * registered.load(Ordering::Relaxed);
                    match numbered.begun(writer) < most {
                        true => assert!(numbered.write(writer), "nothing is attached"),
                        false => thread::yield_now(),
                    }
                }
            });
        }
        // A write to the next index fails until the event is complete.
        scope.spawn(move || {
            while goes_on() {
                let got = data.write(registered.load(Ordering::Relaxed), &[0; 4]);
                let is_right = matches!(got, Err(Errno::ENOENT | Errno::EBADF));
                assert!(is_right, "of an event that is just registered: {got:?}");
            }
        });
        for i in 0..100 {
            let text = format!("st_stress_grow{i} u32 a");
            let begun = || [0, 1].map(|writer| numbered.begun(writer));
            let before = begun();
            let index = data.register_text(&text, page.address() + 4 * i, 0);
            assert_eq!(index, Ok(1 + i as u32));
            assert_eq!(data.write(1 + i as u32, &[0; 4]), Err(Errno::EBADF));
            registered.fetch_add(1, Ordering::Relaxed);
            wait::until("both to have written meanwhile", || {
                begun()
                    .iter()
                    .zip(before)
                    .all(|(now, before)| *now > before + 1)
            });
        }
    });
    tracer.disable(&numbered.event.name);
    assert_eq!(tracer.total("overrun"), 0, "the buffer was too small");
    let mut order = Order::default();
    let count = take(&mut order, &numbered, &tracer) as u64;
    println!("  # {count} records beside 100 registrations");
    assert_eq!(count, numbered.taken(), "records lost");
    order.judge();
}

fn registering_and_unregistering_while_toggling() {
    let event = Event::new("st_stress_reg u32 a");
    let done = AtomicBool::new(false);
    let page = Mapping::new(2);
    thread::scope(|scope| {
        let _stop = SetOnDrop(&done);
        for thread in 0..3 {
            let (page, done) = (&page, &done);
            scope.spawn(move || {
                let data = Data::open();
                let offset = 128 * thread as usize;
                let word = page.word(offset);
                let address = page.address() + offset as u64;
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) || rounds < 20 {
                    data.register_text("st_stress_reg u32 a", address, 4)
                        .unwrap();
                    assert_eq!(word.load(Ordering::Relaxed) & !(1 << 4), 0);
                    data.unregister_bit(address, 4).unwrap();
                    assert_eq!(word.load(Ordering::Relaxed), 0, "set after unregistering");
                    rounds += 1;
                }
            });
        }
        for _ in 0..60 {
            event.switch(true);
            event.switch(false);
        }
    });
    event.follows(true);
    assert_eq!(page.get(0), 0);
    event.follows(false);
}
