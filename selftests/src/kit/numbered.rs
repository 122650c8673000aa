// SPDX-License-Identifier: GPL-2.0

//! Records with their writer, their number and a checksum, and threads that write them while the
//! test operates on the buffers.

use crate::kit::abi::location;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::ring::Record;
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait::{self, SetOnDrop};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

const FIELDS: &str = "u32 writer; u32 n; u64 sum; __rel_loc u8[] filling";

/// The checksum of the numbers and the filling.
fn sum(writer: u32, n: u32, filling: &[u8]) -> u64 {
    let filling: u64 = filling.iter().map(|&byte| u64::from(byte)).sum();
    filling + u64::from(n) * 1000 + u64::from(writer)
}

/// The filling, with a content and a length that depend on the numbers.
fn filling(writer: u32, n: u32) -> Vec<u8> {
    let length = (writer * 31 + n.wrapping_mul(7)) % 90;
    (0..length).map(|i| (writer + n + i) as u8).collect()
}

fn payload(writer: u32, n: u32) -> Vec<u8> {
    let filling = filling(writer, n);
    [
        &writer.to_ne_bytes()[..],
        &n.to_ne_bytes(),
        &sum(writer, n, &filling).to_ne_bytes(),
        &location(0, filling.len() as u32),
        &filling,
    ]
    .concat()
}

/// Checks that records are whole, and that those of each writer are in order. Records may be
/// missing.
#[derive(Default)]
pub struct Order {
    /// Time, writer and number of each record.
    seen: Vec<(u64, u32, u32)>,
}

impl Order {
    pub fn count(&self) -> usize {
        self.seen.len()
    }

    /// Adds records. Returns their number.
    #[track_caller]
    pub fn see(&mut self, records: &[(u64, Record)]) -> usize {
        for (time, record) in records {
            let number = |at: usize| {
                let bytes = record.bytes[8 + at..12 + at].try_into();
                u32::from_ne_bytes(bytes.unwrap())
            };
            let (writer, n) = (number(0), number(4));
            let want = payload(writer, n);
            assert_eq!(record.payload(want.len()), want, "a torn record");
            self.seen.push((*time, writer, n));
        }
        records.len()
    }

    /// Adds records in the form of `trace`, each with its time: `NAME: writer=0x1 (1) n=0x5 (5)
    /// ...`. Their order is not checked here: while the buffers are overwritten, the kernel's
    /// iterator, which merges the per-CPU buffers, can return some late. Returns their number.
    #[track_caller]
    pub fn see_lines(&mut self, lines: &[(u64, String)]) -> usize {
        for (time, line) in lines {
            let number = |name: &str| {
                let (_, rest) = line.split_once(&format!(" {name}=0x"))?;
                u64::from_str_radix(rest.split(' ').next()?, 16).ok()
            };
            let field = |name: &str| number(name).unwrap_or_else(|| panic!("{name} in {line:?}"));
            let (writer, n) = (field("writer") as u32, field("n") as u32);
            let want = sum(writer, n, &filling(writer, n));
            assert_eq!(field("sum"), want, "a torn record: {line:?}");
            self.seen.push((*time, writer, n));
        }
        lines.len()
    }

    /// Checks the order of all records.
    #[track_caller]
    pub fn judge(mut self) {
        self.seen.sort_unstable();
        let mut last = BTreeMap::new();
        for (_, writer, n) in self.seen {
            if let Some(last) = last.insert(writer, n) {
                assert!(last < n, "writer {writer}: record {n} after {last}");
            }
        }
    }
}

/// An event with such records, and the next number of each writer.
pub struct Numbered {
    pub event: Event,
    next: Vec<AtomicU32>,
    /// The number of successful writes, and of those refused because the event was not attached.
    taken: AtomicU64,
    refused: AtomicU64,
}

impl Numbered {
    pub fn new(name: &str, writers: usize) -> Numbered {
        Numbered {
            event: Event::new(&format!("{name} {FIELDS}")),
            next: (0..writers).map(|_| AtomicU32::new(0)).collect(),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Makes an instance whose clock is a counter, so that the order of records across CPUs is that
    /// of the writes.
    pub fn instance(&self, name: &str, kilobytes: u32) -> TraceInstance {
        let tracer = TraceInstance::instance(name);
        tracer.control("trace_clock", "counter");
        tracer.control("buffer_size_kb", &kilobytes.to_string());
        tracer
    }

    /// Makes such an instance by the event's name, and attaches it.
    #[track_caller]
    pub fn attached(&self, kilobytes: u32) -> TraceInstance {
        let tracer = self.instance(&self.event.name, kilobytes);
        tracer.enable(&self.event.name);
        self.event.wait_set();
        tracer
    }

    /// Takes an instance's records, at most a few hundred.
    pub fn take(&self, tracer: &TraceInstance) -> Vec<(u64, Record)> {
        const PAGES: usize = 32;
        tracer.take_timed_records(self.event.id(), PAGES)
    }

    /// Writes a writer's next record. Returns whether the event was attached.
    #[track_caller]
    pub fn write(&self, writer: usize) -> bool {
        let n = self.next[writer].fetch_add(1, Ordering::Relaxed);
        let payload = payload(writer as u32, n);
        let written = match n % 2 {
            0 => self.event.write(&payload),
            _ => {
                let index = self.event.index.to_ne_bytes();
                let parts = [&index, &payload[..9], &payload[9..]];
                self.event.data.writev(&parts)
            }
        };
        match written {
            Ok(length) => {
                assert_eq!(length, 4 + payload.len());
                self.taken.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(errno) => {
                assert_eq!(errno, Errno::EBADF);
                self.refused.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    /// The number of records that a writer has begun to write.
    pub fn begun(&self, writer: usize) -> u32 {
        self.next[writer].load(Ordering::Relaxed)
    }

    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Makes all writers write `each` records at once, each in a thread. None may be refused.
    pub fn write_each(&self, each: u32) {
        thread::scope(|scope| {
            for writer in 0..self.next.len() {
                scope.spawn(move || {
                    (0..each).for_each(|_| assert!(self.write(writer), "nothing is attached"));
                });
            }
        });
    }

    /// Runs `run` while all writers write, each in a thread.
    pub fn beside<T>(&self, run: impl FnOnce() -> T) -> T {
        let done = &AtomicBool::new(false);
        thread::scope(|scope| {
            let _stop = SetOnDrop(done);
            for writer in 0..self.next.len() {
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        self.write(writer);
                    }
                });
            }
            run()
        })
    }

    #[track_caller]
    pub fn wait_taken(&self, more: u64) {
        wait_more("records to be taken", &self.taken, more);
    }

    #[track_caller]
    pub fn wait_refused(&self, more: u64) {
        wait_more("records to be refused", &self.refused, more);
    }

    /// Checks that an attached instance records these writes and nothing else. No other writes may
    /// be under way.
    #[track_caller]
    pub fn all_is_recorded(&self, tracer: &TraceInstance) {
        const COUNT: usize = 40;
        tracer.control("trace", "");
        let mut order = Order::default();
        for i in 0..COUNT {
            assert!(self.write(i % self.next.len()), "nothing is attached");
        }
        assert_eq!(order.see(&self.take(tracer)), COUNT, "records lost");
        order.judge();
    }
}

#[track_caller]
fn wait_more(what: &str, counter: &AtomicU64, more: u64) {
    let enough = counter.load(Ordering::Relaxed) + more;
    wait::until(what, || counter.load(Ordering::Relaxed) >= enough);
}
