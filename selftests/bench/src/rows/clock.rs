// SPDX-License-Identifier: GPL-2.0

//! Times of writes on User Mode Linux: in the kernel alone, where the module `clock.c` makes the
//! calls, and of a program, which enters the kernel for each call.

use super::writing::{set_sub_buffers, Writer};
use crate::events::TRACING;
use crate::sys;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const CALLER: &str = "/clock.ko";

/// Any number of an ioctl that the VFS does not handle itself.
const RUN: u64 = 0xbe00;

/// Samples of a row, and calls of a sample: enough calls to hide the cost of the time stamp
/// counter, and few enough to escape most interrupts.
const SAMPLES: usize = 40_000;
const EACH: u32 = 16;

/// The same for long records, and for calls of a program, which take as long.
const FEW_SAMPLES: usize = 3000;

/// The payloads beyond the three numbers: strings, in bytes.
const LENGTHS: &[usize] = &[100, 1000, 4000];
const LARGE: usize = 500_000;

const TIME: Duration = Duration::from_millis(1500);

/// `enum call` of clock.c
#[derive(Clone, Copy, PartialEq)]
enum Call {
    Getppid,
    Write,
    Writev,
}

/// `struct run` of clock.c
#[repr(C)]
struct Run {
    record: u64,
    times: u64,
    samples: u64,
    expected: i64,
    length: u32,
    call: u32,
    each: u32,
    file: i32,
}

struct Calls<'a> {
    caller: &'a File,
    call: Call,
    file: &'a File,
    record: &'a [u8],
    expected: i64,
    each: u32,
}

impl Calls<'_> {
    /// Ticks in the kernel, by sample.
    fn times(&self, samples: usize) -> Vec<u64> {
        let mut times = vec![0u64; samples];
        let mut run = Run {
            record: self.record.as_ptr() as u64,
            times: times.as_mut_ptr() as u64,
            samples: samples as u64,
            expected: self.expected,
            length: self.record.len() as u32,
            call: self.call as u32,
            each: self.each,
            file: self.file.as_raw_fd(),
        };
        let ret = sys::ioctl(self.caller, RUN, &mut run);
        assert_eq!(ret, 0, "{}", io::Error::last_os_error());
        times
    }

    /// Ticks of one call of a program.
    fn time(&self) -> u64 {
        let start = sys::time_stamp();
        let returned = match self.call {
            Call::Getppid => {
                sys::getppid();
                0
            }
            Call::Write => sys::write(self.file, self.record) as i64,
            Call::Writev => sys::writev(self.file, &self.record[..4], &self.record[4..]) as i64,
        };
        let time = sys::time_stamp() - start;
        assert!(self.call == Call::Getppid || returned == self.expected.max(-1));
        time
    }
}

struct Clock {
    caller: File,
    /// Ticks of the time stamp counter in a microsecond.
    ticks: f64,
}

impl Clock {
    fn new() -> Clock {
        let module = File::open(CALLER).expect("the module that makes the calls");
        sys::load_module(&module);
        let (start, ticks) = (Instant::now(), sys::time_stamp());
        while start.elapsed() < Duration::from_millis(300) {}
        let ticks = (sys::time_stamp() - ticks) as f64;
        Clock {
            ticks: ticks / start.elapsed().as_secs_f64() / 1e6,
            caller: File::open("/proc/bench_clock").expect("open /proc/bench_clock"),
        }
    }

    /// Prints the least and the median of the times of `each` calls, in nanoseconds per call.
    fn tell(&self, key: &str, mut times: Vec<u64>, each: u32) {
        times.sort_unstable();
        let of_call = |ticks: u64| ticks as f64 * 1000.0 / self.ticks / f64::from(each);
        let (least, median) = (of_call(times[0]), of_call(times[times.len() / 2]));
        println!("clock {key} {least:.1} {median:.1}");
    }

    /// Prints a row in the kernel alone, and the same row of a program.
    fn row(&self, key: &str, call: Call, file: &File, record: &[u8], expected: i64) {
        let is_large = record.len() > 100_000;
        let (each, samples) = if is_large {
            (1, FEW_SAMPLES)
        } else {
            (EACH, SAMPLES)
        };
        let calls = Calls {
            caller: &self.caller,
            call,
            file,
            record,
            expected,
            each,
        };
        calls.times(samples / 8);
        self.tell(&format!("kernel.{key}"), calls.times(samples), each);
        (0..FEW_SAMPLES / 8).for_each(|_| _ = calls.time());
        let times = (0..FEW_SAMPLES).map(|_| calls.time()).collect();
        self.tell(&format!("program.{key}"), times, 1);
    }

    /// Prints rows of a write, and of a writev of the index and the payload.
    fn writes(&self, key: &str, writer: &Writer, is_recorded: bool) {
        let (file, record) = writer.file_and_record();
        let expected = match is_recorded {
            true => record.len() as i64,
            false => -i64::from(libc::EBADF),
        };
        self.row(&format!("write.{key}"), Call::Write, file, record, expected);
        if matches!(key, "off" | "12") {
            self.row(
                &format!("writev.{key}"),
                Call::Writev,
                file,
                record,
                expected,
            );
        }
    }

    /// Prints the time of a record for each of several threads that write to one file at once.
    fn together(&self, writer: &Writer, threads: usize) {
        let (file, record) = writer.file_and_record();
        let calls = Calls {
            caller: &self.caller,
            call: Call::Write,
            file,
            record,
            expected: record.len() as i64,
            each: EACH,
        };
        let start = Barrier::new(threads);
        let write = || {
            start.wait();
            let begin = Instant::now();
            let mut times = Vec::new();
            while begin.elapsed() < TIME {
                times.extend(calls.times(FEW_SAMPLES));
            }
            times
        };
        let times: Vec<u64> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..threads).map(|_| scope.spawn(write)).collect();
            writers
                .into_iter()
                .flat_map(|writer| writer.join().expect("a writer"))
                .collect()
        });
        self.tell(&format!("threads.{threads}"), times, EACH);
    }
}

/// Measures one writer on a kernel with one processor, and several threads on one with more.
pub fn rows() {
    let clock = Clock::new();
    set_buffer(256);
    let numbers = Writer::of_numbers(None);
    let processors = std::thread::available_parallelism().expect("processors");
    if processors.get() > 1 {
        numbers.in_ftrace(|numbers| [1, 2, 4].map(|threads| clock.together(numbers, threads)));
        return numbers.close();
    }

    let null = sys::open_to_write("/dev/null");
    clock.row("getppid", Call::Getppid, &null, &[0; 16], 0);
    clock.row("write.null", Call::Write, &null, &[0; 16], 16);
    clock.row("writev.null", Call::Writev, &null, &[0; 16], 16);
    clock.writes("off", &numbers, false);
    recorded(&clock, "12", numbers);
    for &length in LENGTHS {
        recorded(&clock, &length.to_string(), Writer::of_string(length));
    }
    set_buffer(2048);
    set_sub_buffers(TRACING, "512");
    recorded(&clock, &LARGE.to_string(), Writer::of_large(LARGE));
}

/// Sets the size of ftrace's buffer of each processor, in kilobytes.
fn set_buffer(kilobytes: u32) {
    fs::write(format!("{TRACING}/buffer_size_kb"), kilobytes.to_string()).expect("set a buffer");
}

/// Prints the writes to an event that ftrace records, and ends the writer.
fn recorded(clock: &Clock, key: &str, writer: Writer) {
    writer.in_ftrace(|writer| clock.writes(key, writer, true));
    writer.end();
}
