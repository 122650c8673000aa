// SPDX-License-Identifier: GPL-2.0

//! A service in Rust that measures itself while a consumer is attached, and sleeps otherwise.
//!
//! It writes the same event as `gauges.c`, with nothing but the standard library. A thread of its
//! own waits in `poll()`: the kernel reports `POLLPRI` when the first consumer of the event is
//! attached, or the last one detached.

use std::env;
use std::ffi::{c_int, c_short, c_ulong};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, IoSlice, Write};
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const DATA: &str = "/sys/kernel/tracing/user_events_data";
const PERIOD: Duration = Duration::from_millis(100);

/// The kernel sets bit 0 while a consumer is attached.
static WORD: AtomicU32 = AtomicU32::new(0);

fn is_enabled() -> bool {
    WORD.load(Ordering::Relaxed) & 1 != 0
}

/// `struct user_reg` of linux/user_events.h.
#[repr(C, packed)]
struct UserReg {
    size: u32,
    enable_bit: u8,
    enable_size: u8,
    flags: u16,
    enable_addr: u64,
    name_args: u64,
    write_index: u32,
}

/// `DIAG_IOCSREG`.
const REGISTER: c_ulong = 0xc008_2a00;

/// `struct pollfd`.
#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

const POLLPRI: c_short = 2;

extern "C" {
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut UserReg) -> c_int;
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
}

/// The event: an open file, and the event's write index.
struct Gauges {
    data: File,
    index: u32,
}

impl Gauges {
    fn register(path: &str) -> io::Result<Gauges> {
        let data = OpenOptions::new().write(true).open(path)?;
        let mut reg = UserReg {
            size: size_of::<UserReg>() as u32,
            enable_bit: 0,
            enable_size: size_of_val(&WORD) as u8,
            flags: 0,
            enable_addr: WORD.as_ptr() as u64,
            name_args: c"gauges u64 faults; u64 switches".as_ptr() as u64,
            write_index: 0,
        };
        // SAFETY: The kernel reads and writes one structure, and from then on an atomic that is
        // never freed.
        match unsafe { ioctl(data.as_raw_fd(), REGISTER, &mut reg) } {
            0.. => Ok(Gauges {
                data,
                index: reg.write_index,
            }),
            _ => Err(Error::last_os_error()),
        }
    }

    /// Sleeps until a consumer may have attached or detached. Never returns if the kernel does not
    /// report this, as with the C implementation.
    fn wait(&self) -> io::Result<()> {
        let mut poll_fd = PollFd {
            fd: self.data.as_raw_fd(),
            events: POLLPRI,
            revents: 0,
        };
        // SAFETY: The kernel reads and writes one structure.
        match unsafe { poll(&mut poll_fd, 1, -1) } {
            0.. => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    }

    /// Writes a record. An error only loses the record.
    fn write(&self, values: [u64; 2]) {
        let [faults, switches] = values.map(u64::to_ne_bytes);
        let index = self.index.to_ne_bytes();
        let parts = [&index[..], &faults, &switches].map(IoSlice::new);
        let _ = (&self.data).write_vectored(&parts);
    }
}

/// Returns the page faults of this process and the context switches of its first thread.
fn measure() -> [u64; 2] {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let faults = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split(' ').nth(8));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let switches = status
        .lines()
        .filter(|line| line.contains("ctxt_switches"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    [
        faults.and_then(|faults| faults.parse().ok()).unwrap_or(0),
        switches.sum(),
    ]
}

/// Measures while a consumer is attached, and sleeps otherwise.
fn follow(gauges: &Gauges) -> io::Result<()> {
    let mut was_enabled = false;
    loop {
        // Only the bit counts: it may have changed twice since the report.
        let enabled = is_enabled();
        if enabled != was_enabled {
            println!(
                "gauges-rust: {}",
                if enabled {
                    "a consumer attached"
                } else {
                    "the consumer left"
                }
            );
            was_enabled = enabled;
        }
        if enabled {
            gauges.write(measure());
            thread::sleep(PERIOD);
        } else {
            gauges.wait()?;
        }
    }
}

fn main() -> ExitCode {
    let mut words = env::args().skip(1);
    let seconds = words.next().and_then(|text| text.parse().ok());
    let Some(seconds) = seconds else {
        eprintln!("usage: gauges-rust SECONDS [FILE]");
        return ExitCode::from(2);
    };
    let path = words.next().unwrap_or(DATA.into());
    let (to, failure) = mpsc::channel();
    match Gauges::register(&path) {
        Ok(gauges) => {
            println!("gauges-rust: registered the event user_events:gauges");
            thread::spawn(move || to.send(follow(&gauges)));
        }
        Err(error) => println!("gauges-rust: serving untraced: {error}"),
    }

    // Stands in for the work of the service.
    thread::sleep(Duration::from_secs(seconds));
    match failure.try_recv() {
        Ok(Err(error)) => {
            eprintln!("gauges-rust: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
