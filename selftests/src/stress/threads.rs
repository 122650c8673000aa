// SPDX-License-Identifier: GPL-2.0

//! Many threads at once: no record lost or torn, and no thread stuck.

use crate::harness::tests;
use crate::kit::abi::{location, Data};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::perf::Perf;
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait::{self, SetOnDrop};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

tests!("stress":
    no_record_of_many_threads_is_lost_or_torn_in_ftrace,
    no_record_of_many_threads_is_lost_or_torn_in_perf,
    writing_while_toggling,
    writing_through_one_file_while_registering,
    registering_and_unregistering_while_toggling,
    of_many_threads_one_registers_a_bit,
    of_many_threads_one_is_the_first_to_register,
);

const THREADS: u32 = 6;
const FIELDS: &str = "u32 thread; u32 n; u64 sum; __rel_loc u8[] filling";
/// Bytes before the filling.
const FIXED: usize = 20;

/// A payload with a checksum: the filling and its length follow from the numbers, and the sum
/// covers all of it.
fn payload(thread: u32, n: u32) -> Vec<u8> {
    let length = (thread * 31 + n * 7) % 90;
    let filling: Vec<u8> = (0..length)
        .map(|i| (thread * 17 + n * 3 + i) as u8)
        .collect();
    let sum: u64 = filling.iter().map(|&byte| u64::from(byte)).sum::<u64>() + u64::from(n) * 1000;
    let mut bytes = Vec::new();
    bytes.extend(thread.to_ne_bytes());
    bytes.extend(n.to_ne_bytes());
    bytes.extend(sum.to_ne_bytes());
    bytes.extend(location(0, length));
    bytes.extend(filling);
    bytes
}

/// The writer and the number of a record, from its bytes with the common fields; panics if the
/// record is not whole.
#[track_caller]
fn judge(record: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_ne_bytes(record[8 + at..12 + at].try_into().unwrap());
    let (thread, n) = (number(0), number(4));
    let want = payload(thread, n);
    assert!(record[8..].starts_with(&want), "a torn record: {record:?}");
    assert!(
        record.len() < 8 + want.len() + 8,
        "a record with more than was written"
    );
    (thread, n)
}

/// Writes `each` records from each of the threads. Every write must succeed.
fn write_all(event: &Event, each: u32) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for n in 0..each {
                    let payload = payload(thread, n);
                    let index = event.index.to_ne_bytes();
                    let got = if n % 2 == 0 {
                        event.write(&payload)
                    } else {
                        let (fixed, filling) = payload.split_at(FIXED);
                        event.data.writev(&[&index, fixed, filling])
                    };
                    assert_eq!(got, Ok(4 + payload.len()));
                }
            });
        }
    });
}

#[track_caller]
fn all_once(seen: Vec<(u32, u32)>, each: u32) {
    let count = seen.len();
    let set: BTreeSet<_> = seen.into_iter().collect();
    assert_eq!(set.len(), count, "a record came twice");
    assert_eq!(count as u32, THREADS * each, "records lost");
    assert!(set.iter().all(|&(thread, n)| thread < THREADS && n < each));
}

fn no_record_of_many_threads_is_lost_or_torn_in_ftrace() {
    const EACH: u32 = 1500;
    let event = Event::new(&format!("st_stress_ftrace {FIELDS}"));
    let tracer = TraceInstance::instance("st_stress_ftrace");
    tracer.control("buffer_size_kb", "4096");
    tracer.enable(&event.name);
    write_all(&event, EACH);
    let records = tracer.take_records(event.id());
    tracer.disable(&event.name);
    all_once(
        records.iter().map(|record| judge(&record.bytes)).collect(),
        EACH,
    );
}

fn no_record_of_many_threads_is_lost_or_torn_in_perf() {
    const EACH: u32 = 1000;
    let event = Event::new(&format!("st_stress_perf {FIELDS}"));
    let mut perfs = Perf::sample_everywhere(event.id(), 512);
    event.wait_set();
    write_all(&event, EACH);
    let records: Vec<_> = perfs.iter_mut().flat_map(|perf| perf.take()).collect();
    assert_eq!(
        perfs.iter().map(|perf| perf.lost).sum::<u64>(),
        0,
        "the ring was too small"
    );
    assert_eq!(
        perfs.iter().map(|perf| perf.count()).sum::<u64>(),
        u64::from(THREADS * EACH)
    );
    all_once(
        records.iter().map(|record| judge(&record.bytes)).collect(),
        EACH,
    );
}

fn writing_while_toggling() {
    let event = Event::new(&format!("st_stress_toggle {FIELDS}"));
    let tracer = TraceInstance::instance("st_stress_toggle");
    tracer.control("buffer_size_kb", "4096");
    let id = event.id();
    let done = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    let mut seen = Vec::new();
    thread::scope(|scope| {
        let _stop = SetOnDrop(&done);
        for thread in 0..2 {
            let (event, done, written) = (&event, &done, &written);
            scope.spawn(move || {
                for n in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let payload = payload(thread, n);
                    match event.write(&payload) {
                        Ok(length) => {
                            assert_eq!(length, 4 + payload.len());
                            written.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(errno) => assert_eq!(errno, Errno::EBADF),
                    }
                }
            });
        }
        for round in 0..60 {
            if round % 3 == 0 {
                let perf = Perf::open(id, -1, 0).unwrap();
                tracer.enable(&event.name);
                drop(perf);
            } else {
                tracer.enable(&event.name);
            }
            tracer.disable(&event.name);
            // Taken now and then, so that the buffer does not overflow.
            seen.extend(tracer.take_records(id));
        }
    });
    seen.extend(tracer.take_records(id));
    let records: Vec<_> = seen.iter().map(|record| judge(&record.bytes)).collect();
    let count = records.len();
    let set: BTreeSet<_> = records.into_iter().collect();
    assert_eq!(set.len(), count, "a record came twice");
    assert!(
        count as u64 <= written.load(Ordering::Relaxed),
        "more recorded than written"
    );
    assert!(count > 0, "nothing was ever recorded");

    // Everything works afterwards.
    tracer.enable(&event.name);
    let last = payload(9, 9);
    assert_eq!(event.write(&last), Ok(4 + last.len()));
    assert_eq!(tracer.take_payloads(&event.name, last.len()), [last]);
    tracer.disable(&event.name);
}

fn writing_through_one_file_while_registering() {
    // The file's table of events grows while others write.
    const WRITERS: u32 = 2;
    /// The maximum of each writer's records per new event, for which the buffer has room.
    const MAX_AHEAD: u32 = 150;
    let event = Event::new(&format!("st_stress_grow {FIELDS}"));
    let tracer = TraceInstance::instance("st_stress_grow");
    tracer.control("buffer_size_kb", "8192");
    tracer.enable(&event.name);
    let page = Mapping::new(1);
    let done = AtomicBool::new(false);
    let (registered, counts) = (AtomicU32::new(1), [const { AtomicU32::new(0) }; 2]);
    thread::scope(|scope| {
        let _stop = SetOnDrop(&done);
        let (event, done) = (&event, &done);
        for (writer, count) in (0..WRITERS).zip(&counts) {
            let registered = &registered;
            scope.spawn(move || {
                for n in 0.. {
                    while n >= MAX_AHEAD * registered.load(Ordering::Relaxed) {
                        if done.load(Ordering::Relaxed) {
                            return;
                        }
                        thread::yield_now();
                    }
                    let payload = payload(writer, n);
                    assert_eq!(event.write(&payload), Ok(4 + payload.len()));
                    count.store(n + 1, Ordering::Relaxed);
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        // A write to the next index fails until the event is complete.
        let next = &registered;
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let got = event.data.write(next.load(Ordering::Relaxed), &[0; 4]);
                let is_right = matches!(got, Err(Errno::ENOENT | Errno::EBADF));
                assert!(is_right, "of an event that is just registered: {got:?}");
            }
        });
        for i in 0..100 {
            let text = format!("st_stress_grow{i} u32 a");
            let written = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
            let before = written();
            let index = event.data.register_text(&text, page.address() + 4 * i, 0);
            assert_eq!(index, Ok(1 + i as u32));
            assert_eq!(event.data.write(1 + i as u32, &[0; 4]), Err(Errno::EBADF));
            registered.fetch_add(1, Ordering::Relaxed);
            wait::until("both to have written meanwhile", || {
                let now = written();
                (0..2).all(|writer| now[writer] > before[writer])
            });
        }
    });
    tracer.disable(&event.name);
    // All records must be there, whole, and in the order of each thread.
    assert_eq!(tracer.total("overrun"), 0, "the buffer was too small");
    let records = tracer.take_records(event.id());
    let mut next = [0; 2];
    for record in &records {
        let (writer, n) = judge(&record.bytes);
        assert_eq!(n, next[writer as usize], "of writer {writer}");
        next[writer as usize] += 1;
    }
    let written = counts.map(AtomicU32::into_inner);
    println!("  # {written:?} records beside 100 registrations");
    assert_eq!(next, written);
}

fn registering_and_unregistering_while_toggling() {
    let event = Event::new("st_stress_reg u32 a");
    let done = AtomicBool::new(false);
    let page = Mapping::new(2);
    let top = TraceInstance::top();
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
            top.enable(&event.name);
            top.disable(&event.name);
        }
    });
    top.enable(&event.name);
    event.wait_set();
    assert_eq!(page.word(0).load(Ordering::Relaxed), 0);
    top.disable(&event.name);
    event.wait_clear();
}

fn of_many_threads_one_registers_a_bit() {
    let _first = Event::new("st_stress_first u32 a");
    one_registers();
}

fn of_many_threads_one_is_the_first_to_register() {
    // In C, the registrations of threads that were started before the first registration are
    // separate, even though they share memory.
    one_registers();
}

fn one_registers() {
    let page = Mapping::new(1);
    let winners = AtomicU64::new(0);
    for _ in 0..20 {
        thread::scope(|scope| {
            for thread in 0..4 {
                let (page, winners) = (&page, &winners);
                scope.spawn(move || {
                    let data = Data::open();
                    // One bit is shared by all, and one is the thread's own.
                    let address = page.address();
                    match data.register_text("st_stress_same u32 a", address, 0) {
                        Ok(index) => {
                            assert_eq!(index, 0);
                            winners.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(errno) => assert_eq!(errno, Errno::EADDRINUSE),
                    }
                    let own = address + 8 + 8 * thread;
                    data.register_text("st_stress_same u32 a", own, 0).unwrap();
                    data.unregister_bit(own, 0).unwrap();
                });
            }
        });
        let data = Data::open();
        assert_eq!(
            winners.swap(0, Ordering::Relaxed),
            1,
            "one bit, one registration"
        );
        data.unregister_bit(page.address(), 0).unwrap();
    }
}
