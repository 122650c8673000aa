// SPDX-License-Identifier: GPL-2.0

//! Mixed load for an arbitrary time: memory must stay flat, and the records written must be those
//! recorded and those missed.
//!
//! All kinds of use run concurrently, beside writers whose records are counted, with ftrace, perf
//! and eBPF attached. Regularly the load pauses for a check of the kernel's memory.

use crate::harness::{self, options, tests};
use crate::kit::abi::{Data, MULTI_FORMAT};
use crate::kit::bpf::{Counters, Program};
use crate::kit::errno::Errno;
use crate::kit::event::wait_gone;
use crate::kit::memory::Mapping;
use crate::kit::perf::{Perf, ALL_PROCESSES};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::usage::{Usage, AREAS, LARGE, PAGES, PERCPU_KB, SLAB_KB};
use crate::kit::wait::SetOnDrop;
use crate::kit::{dynamic, machine, os, profile, wait};
use crate::stress::stress_users::{self, StressUsers, ALL, COUNT};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

tests!("soak":
    each_kind_of_use_leaves_nothing.lengthy().limit(7200),
    memory_is_flat_and_counters_agree.lengthy().limit(36_000),
);

/// The number of uses of each kind when run alone, twice.
const USES: u64 = 50;
const USES_IF_LONG: u64 = 2400;
/// A kind chooses from up to four operations at random. A leak of one object or page in one of
/// these operations exceeds the tenth part of the uses: with 50 uses, in 998 of 1000 runs.
const PART: u64 = 10;

/// The number of repetitions for a kind whose memory grew twice.
const AGAIN: usize = 6;

/// The kind that takes much longer and always does the same: it is run half as often.
const SLOW: &str = "holds eBPF";

const SECONDS: usize = 7;
const SECONDS_IF_LONG: usize = 3600;
/// The number of parts of the time, unless these get too short.
const PARTS: u64 = 40;
/// Parts that are not compared, in which caches fill and the trace core allocates its buffers.
const WARM_UP: usize = 2;

/// The event whose records are counted: one of several formats, so that it is not in the system
/// that is switched as a whole. Other tracers would have misses of their own.
const NAME: &str = "st_soak";
const DESCRIPTION: &str = "st_soak u32 writer; u32 n; u64 sum";

/// The number of writers whose records are counted.
const WRITERS: u32 = 2;

/// The allowed increase of memory since the warm-up, for any duration.
const BOUNDS: [(&str, i64); 5] = [
    (SLAB_KB, 2048),
    (PERCPU_KB, 256),
    (AREAS, 40),
    (PAGES, 512),
    (LARGE, i64::MAX),
];
/// The bound for objects of a cache is half the number of uses of the least frequent kind, within
/// these.
const MIN_OBJECTS: i64 = 100;
const MAX_OBJECTS: i64 = 1000;

/// The records of one part.
#[derive(Default)]
struct Account {
    written: u64,
    recorded: u64,
    /// Recorded, but not returned by the kernel.
    passed_over: u64,
    /// Missed by ftrace, whose buffer is small, and by perf.
    missed: (u64, u64),
    /// Records counted by perf, of which `lost` had no room.
    counted: u64,
    lost: u64,
    sampled: u64,
    /// The runs of the eBPF program.
    ran: u64,
}

impl Account {
    /// Checks that each consumer has received or missed every record.
    #[track_caller]
    fn agrees(&self) {
        let (ftrace, perf) = self.missed;
        assert!(
            self.passed_over <= TraceInstance::may_pass_over(self.recorded),
            "{} records passed over",
            self.passed_over
        );
        assert_eq!(
            self.recorded + self.passed_over + ftrace,
            self.written,
            "ftrace"
        );
        assert_eq!(self.counted + perf, self.written, "perf");
        assert_eq!(self.sampled + self.lost, self.counted, "perf's samples");
        assert_eq!(self.ran + perf, self.written, "eBPF");
        assert!(self.recorded > 0 && self.sampled > 0 && self.ran > 0);
    }
}

/// Writes records until `done`. Returns their number.
fn write(data: &Data, writer: u32, done: &AtomicBool) -> u64 {
    let mut count = 0;
    while !done.load(SeqCst) {
        let n = count as u32;
        let sum = u64::from(writer) + u64::from(n);
        let head = [writer.to_ne_bytes(), n.to_ne_bytes()].concat();
        let payload = [&head[..], &sum.to_ne_bytes()].concat();
        assert_eq!(data.write(0, &payload), Ok(4 + payload.len()));
        count += 1;
        if count % 64 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    count
}

/// Takes the records of an instance, each of which must be whole. Returns their number.
fn take(tracer: &TraceInstance, id: u64) -> u64 {
    let records = tracer.take_records(id);
    for record in &records {
        let bytes = record.payload(16);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(word(8), word(0).wrapping_add(word(4)), "a torn record");
    }
    records.len() as u64
}

/// Takes perf's samples. Returns their number.
fn sampled(perfs: &mut [Perf]) -> u64 {
    perfs.iter_mut().map(|perf| perf.take().len() as u64).sum()
}

/// Runs one part: a new event, with its consumers, and writers for some time.
fn part(length: Duration) -> Account {
    let data = Data::open();
    let page = Mapping::kept(1);
    data.register_flags(DESCRIPTION, page.address(), 0, MULTI_FORMAT)
        .expect("register");
    let name = tracefs::formats_of(NAME).remove(0);
    let set = || page.word(0).load(SeqCst) == 1;
    let tracer = TraceInstance::instance(NAME);
    // Without room, records are missed, not overwritten.
    tracer.control("options/overwrite", "0");
    tracer.control("buffer_size_kb", "64");
    let id = tracefs::event_id(&name);
    let mut perfs = Perf::sample_everywhere(id, 16);
    let counters = Counters::new(1);
    let program = Program::counting(&counters, 1);
    let watched = Perf::open(id, ALL_PROCESSES, 0).expect("perf_event_open");
    watched.attach(&program).expect("attach a program");
    tracer.enable(&name);
    wait::until("the bit to be set", set);

    let mut account = Account::default();
    let done = AtomicBool::new(false);
    let start = Instant::now();
    thread::scope(|scope| {
        let stop = SetOnDrop(&done);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (data, done) = (&data, &done);
                scope.spawn(move || write(data, writer, done))
            })
            .collect();
        let mut turn = 0;
        while start.elapsed() < length {
            thread::sleep(Duration::from_millis(20));
            account.recorded += take(&tracer, id);
            turn += 1;
            // perf's samples are taken less often, so that some have no room.
            if turn % 8 == 0 {
                account.sampled += sampled(&mut perfs);
            }
        }
        drop(stop);
        let written = writers.into_iter().map(|writer| writer.join().unwrap());
        account.written = written.sum();
    });
    account.recorded += take(&tracer, id);
    account.sampled += sampled(&mut perfs);
    // A CPU's ring reports its losses with the next sample.
    thread::scope(|scope| {
        for cpu in os::cpus() {
            let data = &data;
            scope.spawn(move || {
                os::run_on(cpu);
                assert_eq!(data.write(0, &[0; 16]), Ok(20));
            });
            account.written += 1;
        }
    });
    account.recorded += take(&tracer, id);
    account.passed_over = tracer.passed_over();
    account.sampled += sampled(&mut perfs);
    account.lost = perfs.iter().map(|perf| perf.lost).sum();
    account.counted = perfs.iter().map(|perf| perf.count()).sum();
    account.missed = profile::missed(name.rsplit('/').next().unwrap_or(""));
    account.ran = counters.get(0);
    tracer.disable(&name);
    drop((perfs, watched, program));
    wait::until("the bit to be cleared", || !set());
    data.unregister_bit(page.address(), 0).expect("unregister");
    drop((data, tracer));
    wait_gone(&name);
    account
}

/// Starts the users, with their event.
fn start(tracer: &TraceInstance) -> StressUsers {
    tracer.control("buffer_size_kb", "64");
    let users = StressUsers::new(tracer);
    dynamic::run(&format!("u:{}", stress_users::DESCRIPTION)).unwrap();
    users
}

fn end(users: StressUsers) {
    users.end();
    dynamic::run(&format!("-:{}", stress_users::EVENT)).unwrap();
}

/// Waits until only the initial event is left.
#[track_caller]
fn settle(users: &StressUsers) {
    users.rest();
    // Events that were enabled with their system, or left by an interrupted user.
    let is_deleted = |line: &String| {
        let name = line.trim_start_matches("u:").split(' ').next();
        let name = name.expect("the name of an event");
        name == stress_users::EVENT
            || matches!(
                dynamic::run(&format!("-:{name}")),
                Ok(()) | Err(Errno::ENOENT)
            )
    };
    let deleted = wait::eventually(|| dynamic::user_lines().iter().all(is_deleted));
    assert!(deleted, "stays in use: {:?}", dynamic::user_lines());
    wait::until("no page to be pinned", || machine::pinned_pages() == 0);
}

/// Runs a kind of use alone.
#[track_caller]
fn use_alone(users: &StressUsers, kind: usize, uses: u64) {
    let goal = users.done(kind) + uses;
    users.order(1 << kind);
    let mut last = 0;
    while last < goal {
        // No limit for all together: it is a failure if none completes for a while.
        wait::until("one more use", || users.done(kind) > last);
        last = users.done(kind);
    }
    settle(users);
}

/// A leak of one object, vmalloc area or page per use is detected, as the same count grows each
/// time.
fn each_kind_of_use_leaves_nothing() {
    let uses = match options().long {
        true => USES_IF_LONG,
        false => machine::rounds(USES as usize) as u64,
    };
    let tracer = TraceInstance::instance("st_stress_users");
    let users = start(&tracer);
    (0..COUNT).for_each(|kind| use_alone(&users, kind, uses / 8));
    let least = (uses / PART) as i64;
    let mut grown: [BTreeMap<String, i64>; COUNT] = Default::default();
    let mut before = Usage::least();
    for half in 0..2 {
        for (kind, grown) in grown.iter_mut().enumerate() {
            let start = Instant::now();
            let name = StressUsers::name(kind);
            let uses = if name == SLOW { uses / 2 } else { uses };
            use_alone(&users, kind, uses);
            let ms = start.elapsed().as_millis();
            let mut now = Usage::least();
            let mut by = now.grew(&before, least);
            if half == 0 {
                *grown = by;
            } else {
                // Objects cached by CPUs, up to 240 for each slab cache, and frees after a grace
                // period vary; a leak grows with every use.
                by.retain(|what, _| grown.contains_key(what));
                for _ in 0..AGAIN {
                    if by.is_empty() {
                        break;
                    }
                    let before = now;
                    use_alone(&users, kind, uses);
                    now = Usage::least();
                    let again = now.grew(&before, least);
                    by.retain(|what, _| again.contains_key(what));
                }
                println!("  # the user that {name} did so {uses} times in {ms} ms");
                assert!(
                    by.is_empty(),
                    "grew whenever the user that {name} did so {uses} times: {by:?}"
                );
            }
            before = now;
        }
    }
    end(users);
}

fn memory_is_flat_and_counters_agree() {
    let seconds = harness::times(SECONDS, SECONDS_IF_LONG) as u64;
    let length = Duration::from_secs(seconds);
    let each = Duration::from_millis((seconds * 1000 / PARTS).max(1500));
    let tracer = TraceInstance::instance("st_stress_users");
    let users = start(&tracer);
    println!("  #    time      uses   written  recorded passed over    missed  perf lost   slab kB  per-CPU kB  areas   pages  most grown cache");
    let start = Instant::now();
    let (mut first, mut parts) = (None, 0);
    let mut uses_at_first = [0; COUNT];
    while start.elapsed() < length || parts <= WARM_UP {
        users.order(ALL);
        let account = part(each);
        settle(&users);
        account.agrees();
        parts += 1;
        let usage = Usage::now();
        let least = first.as_ref().unwrap_or(&usage);
        let uses: u64 = users.all_done().iter().sum();
        println!(
            "  # {:>5} s {uses:>9} {:>9} {:>9} {:>11} {:>9} {:>10} {usage}  {}",
            start.elapsed().as_secs(),
            account.written,
            account.recorded,
            account.passed_over,
            account.missed.0,
            account.lost,
            usage.most_grown_since(least),
        );
        if parts == WARM_UP {
            uses_at_first = users.all_done();
            first = Some(usage);
        } else if let Some(first) = &first {
            let uses = users.all_done().into_iter().zip(uses_at_first);
            let half = uses.map(|(now, first)| now - first).min().unwrap_or(0) as i64 / 2;
            let objects = half.clamp(MIN_OBJECTS, MAX_OBJECTS);
            usage.is_within(first, &BOUNDS, objects);
        }
    }
    for (kind, done) in users.all_done().into_iter().enumerate() {
        let name = StressUsers::name(kind);
        println!("  # the user that {name} did so {done} times");
        assert!(done > 0, "no user {name}");
    }
    end(users);
}
