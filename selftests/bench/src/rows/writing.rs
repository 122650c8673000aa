// SPDX-License-Identifier: GPL-2.0

//! Writing records: without a consumer, to each kind of consumer, in several sizes; and other ways
//! to record.

use super::tell;
use crate::attach::{Perf, Probe};
use crate::events::{described, set, Group, Request, Switch, Words, TRACING};
use crate::{count, events, sys};
use std::fs::{self, File};
use std::iter;
use std::sync::atomic::Ordering;
use std::thread;

pub const TIMES: usize = 501;

/// An event to write to, and the record to write.
pub struct Writer {
    /// The event's name in tracefs.
    pub name: String,
    file: File,
    words: Words,
    request: Request,
    record: Vec<u8>,
}

impl Writer {
    fn new(file: File, name: &str, description: &str, payload: &[u8]) -> Writer {
        let words = Words::new(1);
        let request = Request::registered(&file, description, &words, 0);
        Writer {
            name: name.into(),
            record: [&request.index().to_ne_bytes(), payload].concat(),
            file,
            words,
            request,
        }
    }

    /// An event of three numbers, of a group or of the first.
    pub fn of_numbers(group: Option<&Group>) -> Writer {
        const NAME: &str = "bench_numbers";
        let payload = [1u32, 2, 3].map(u32::to_ne_bytes).concat();
        match group {
            None => Writer::new(events::data(), NAME, &described(NAME), &payload),
            Some(group) => {
                Writer::new(group.data(), &group.event(NAME), &described(NAME), &payload)
            }
        }
    }

    /// An event of a string, of so many bytes with its NUL.
    pub fn of_string(length: usize) -> Writer {
        let mut payload = ((length as u32) << 16).to_ne_bytes().to_vec();
        payload.resize(4 + length - 1, b'x');
        payload.push(0);
        let description = "bench_string __rel_loc char[] text";
        Writer::new(events::data(), "bench_string", description, &payload)
    }

    /// An event of three numbers with a record of this length: bytes beyond the fields are part of
    /// a record.
    pub fn of_large(length: usize) -> Writer {
        const NAME: &str = "bench_large";
        Writer::new(events::data(), NAME, &described(NAME), &vec![b'x'; length])
    }

    /// The median cost of testing the bit, in a program that would write if it were set.
    pub fn tested(&self) -> u64 {
        #[cold]
        #[inline(never)]
        fn write_now(writer: &Writer) {
            sys::write(&writer.file, &writer.record);
        }
        let word = self.words.word(0);
        count::median(TIMES, move || {
            if word.load(Ordering::Relaxed) & 1 != 0 {
                write_now(self);
            }
        })
    }

    pub fn file_and_record(&self) -> (&File, &[u8]) {
        (&self.file, &self.record)
    }

    /// The median cost of a write that records nothing.
    pub fn refused(&self) -> u64 {
        count::median(TIMES, || {
            assert_eq!(sys::write(&self.file, &self.record), -1);
        })
    }

    /// The median cost of a write; `after` runs after each, uncounted.
    pub fn write_then(&self, after: impl FnMut()) -> u64 {
        let length = self.record.len() as isize;
        assert!(self.words.is_set(0), "no consumer is attached");
        count::median_then(
            TIMES,
            || assert_eq!(sys::write(&self.file, &self.record), length),
            after,
        )
    }

    pub fn write(&self) -> u64 {
        self.write_then(|| ())
    }

    /// The median cost of a writev of the index and the payload.
    fn writev_then(&self, after: impl FnMut()) -> u64 {
        let length = self.record.len() as isize;
        let (index, payload) = self.record.split_at(4);
        assert!(self.words.is_set(0), "no consumer is attached");
        count::median_then(
            TIMES,
            || assert_eq!(sys::writev(&self.file, index, payload), length),
            after,
        )
    }

    /// The median cost of a writev of so many parts: the index, and about equal parts of the
    /// payload.
    // The count must not depend on the code of the caller.
    #[inline(never)]
    fn written_in(&self, count: usize) -> u64 {
        let length = self.record.len() as isize;
        let (index, payload) = self.record.split_at(4);
        let bound = |number: usize| number * payload.len() / (count - 1);
        let of_payload = (1..count).map(|number| &payload[bound(number - 1)..bound(number)]);
        let parts: Vec<_> = iter::once(index).chain(of_payload).map(sys::part).collect();
        count::median(TIMES, || {
            assert_eq!(sys::writev_parts(&self.file, &parts), length)
        })
    }

    pub fn in_ftrace<T>(&self, measure: impl FnOnce(&Writer) -> T) -> T {
        let ftrace = Switch::new(&self.name);
        ftrace.turn(true);
        let measured = measure(self);
        ftrace.turn(false);
        measured
    }

    /// Unregisters the event, and waits until it is gone.
    pub fn end(self) {
        self.close();
        events::wait_until_none();
    }

    pub fn close(mut self) {
        assert_eq!(self.request.unregister(&self.file), 0, "unregister");
    }
}

/// The cost of the system call and the file layer alone.
pub fn nothing() {
    tell("call", count::median(TIMES, sys::getppid));
    let null = sys::open_to_write("/dev/null");
    tell(
        "null.write",
        count::median(TIMES, || {
            assert_eq!(sys::write(&null, &[0; 16]), 16);
        }),
    );
    tell(
        "null.writev",
        count::median(TIMES, || {
            assert_eq!(sys::writev(&null, &[0; 4], &[0; 12]), 16);
        }),
    );
}

pub fn numbers() {
    let writer = Writer::of_numbers(None);
    let (index, payload) = writer.record.split_at(4);
    tell("disabled.write", writer.refused());
    tell(
        "disabled.writev",
        count::median(TIMES, || {
            assert_eq!(sys::writev(&writer.file, index, payload), -1);
        }),
    );

    let ftrace = Switch::new(&writer.name);
    ftrace.turn(true);
    tell("ftrace.write", writer.write());
    tell("ftrace.writev", writer.writev_then(|| ()));

    set(&writer.name, "filter", "a == 77");
    tell("filter.write", writer.write());
    set(&writer.name, "filter", "0");

    let perf = Perf::sample(&writer.name);
    tell("both.writev", writer.writev_then(|| perf.skip()));
    ftrace.turn(false);
    tell("perf.write", writer.write_then(|| perf.skip()));
    tell("perf.writev", writer.writev_then(|| perf.skip()));
    perf.end();

    let program = Perf::with_program(&writer.name);
    tell("bpf.write", writer.write());
    drop(program);

    set(&writer.name, "trigger", "hist:keys=a");
    tell("hist.write", writer.write());
    set(&writer.name, "trigger", "!hist:keys=a");
    writer.end();
}

/// Records of three numbers by threads of one process, in turns, on one open file. On the one CPU
/// no thread waits for another, and a shared file costs each the same as on many.
pub fn threads() {
    let writer = Writer::of_numbers(None);
    writer.in_ftrace(|writer| {
        for count in [2, 4] {
            let costs = thread::scope(|scope| {
                let threads: Vec<_> = (0..count)
                    .map(|_| scope.spawn(|| writer.write_then(thread::yield_now)))
                    .collect();
                let costs = threads.into_iter().map(|thread| thread.join());
                costs.map(|cost| cost.expect("a thread")).collect()
            });
            tell(&format!("threads.{count}"), count::median_of(costs));
        }
    });
    writer.end();
}

/// Runs of an attached program for 100 records.
pub fn runs_of_programs() {
    let writer = Writer::of_numbers(None);
    let program = Perf::with_program(&writer.name);
    // Set only here, as it makes each run cost more.
    const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";
    fs::write(STATISTICS, "1").expect("have the kernel count the runs of programs");
    let before = program.runs();
    for _ in 0..100 {
        let length = writer.record.len() as isize;
        assert_eq!(sys::write(&writer.file, &writer.record), length);
    }
    tell("bpf.runs", program.runs() - before);
    fs::write(STATISTICS, "0").expect("have the kernel count them no longer");
    drop(program);
    writer.end();
}

/// Sets the size of the sub-buffers of a trace instance, in kilobytes: the longest record is a
/// little shorter.
pub fn set_sub_buffers(directory: &str, kilobytes: &str) {
    fs::write(format!("{directory}/buffer_subbuf_size_kb"), kilobytes)
        .unwrap_or_else(|error| panic!("sub-buffers of {kilobytes} kB in {directory}: {error}"));
}

/// A record of half a megabyte, once, and with a copy for a further instance.
pub fn large() {
    const LENGTH: usize = 500_000;
    const INSTANCE: &str = "/sys/kernel/tracing/instances/bench_large";
    let writer = Writer::of_large(LENGTH);
    set_sub_buffers(TRACING, "512");
    let ftrace = Switch::new(&writer.name);
    ftrace.turn(true);
    tell("large.one", writer.write());

    fs::create_dir(INSTANCE).expect("an instance");
    set_sub_buffers(INSTANCE, "512");
    let further = format!("{INSTANCE}/events/user_events/bench_large/enable");
    fs::write(&further, "1").expect("enable the event in an instance");
    tell("large.two", writer.write());
    for directory in [TRACING, INSTANCE] {
        let per_cpu = format!("{directory}/per_cpu/cpu0/stats");
        let stats = fs::read_to_string(&per_cpu).expect("what the instance holds");
        let dropped = |line: &str| line.starts_with("entries: 0") || line.starts_with("bytes: 0");
        assert!(!stats.lines().any(dropped), "{directory}: {stats}");
    }

    fs::write(&further, "0").expect("disable it there");
    fs::remove_dir(INSTANCE).expect("remove the instance");
    ftrace.turn(false);
    set_sub_buffers(TRACING, "4");
    drop(ftrace);
    writer.end();
}

pub fn strings_of(lengths: &[usize]) {
    for &length in lengths {
        let writer = Writer::of_string(length);
        let ftrace = Switch::new(&writer.name);
        ftrace.turn(true);
        tell(&format!("ftrace.{length}"), writer.write());
        if length == 100 {
            for count in [7, 30] {
                tell(&format!("ftrace.parts{count}"), writer.written_in(count));
            }
        }
        ftrace.turn(false);
        drop(ftrace);
        let perf = Perf::sample(&writer.name);
        tell(&format!("perf.{length}"), writer.write_then(|| perf.skip()));
        perf.end();
        writer.end();
    }
}

/// Long records to perf, which are written with interrupts off: key and text of a row, and number
/// of perf events of the processor.
#[cfg(feature = "preemption")]
pub const LONG_TO_PERF: [(&str, &str, usize); 2] = [
    ("perf.60000", "write of a 60,000-byte string, perf", 1),
    (
        "perf.60000.most",
        "write of a 60,000-byte string, 32 perf events",
        32,
    ),
];

/// Writes the records of [`LONG_TO_PERF`].
#[cfg(feature = "preemption")]
pub fn long_to_perf() {
    let writer = Writer::of_string(60_000);
    for (key, _, listeners) in LONG_TO_PERF {
        let perfs: Vec<Perf> = (0..listeners).map(|_| Perf::sample(&writer.name)).collect();
        tell(key, writer.write_then(|| perfs.iter().for_each(Perf::skip)));
        perfs.into_iter().for_each(Perf::end);
    }
    writer.end();
}

pub fn instead() {
    for name in ["trace_marker", "trace_marker_raw"] {
        let file = sys::open_to_write(&format!("{TRACING}/{name}"));
        tell(
            name,
            count::median(TIMES, || {
                assert_eq!(sys::write(&file, b"\x01\0\0\0 some bytes."), 16);
            }),
        );
    }
    let _probe = Probe::on_function();
    tell("uprobe", count::median(TIMES, Probe::hit));
}
