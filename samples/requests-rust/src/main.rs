// SPDX-License-Identifier: GPL-2.0

//! A service in Rust that serves requests, and writes a record of each for its consumers.
//!
//! It writes the same event as `requests.c`, by means of the public crate `tracepoint`. The event
//! is a static: it is registered once, at start, and lives as long as the program. Where the kernel
//! has no user events, the service says so once and serves all the same.

use std::env;
use std::io::Error;
use std::pin::Pin;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use tracepoint::{EventDataDescriptor, TracepointState};

/// The state of the event: the word that the kernel sets while a consumer is attached, and the
/// index.
static REQUESTS: TracepointState = TracepointState::new(0);

/// The event. The widest field comes first, so that each is aligned, which eBPF programs want.
const DESCRIPTION: &std::ffi::CStr = c"requests u64 ns; u32 status; __data_loc char[] path";

/// Bytes of a path that are recorded. A record must fit into a page of a trace buffer.
const PATH_BYTES: usize = 255;

/// Writes a record of a request. Costs a load and a branch while no consumer is attached.
// Neither inlined nor renamed, so that one can look at what it is compiled to.
#[inline(never)]
#[no_mangle]
extern "C" fn request_served(request: &Request) {
    if REQUESTS.enabled() {
        write_record(request);
    }
}

/// What is told about a request.
struct Request {
    path: &'static str,
    status: u32,
    took: Duration,
}

#[cold]
fn write_record(request: &Request) {
    let path = &request.path.as_bytes()[..request.path.len().min(PATH_BYTES)];
    let ns = u64::try_from(request.took.as_nanos()).unwrap_or(u64::MAX);
    // Size and offset: the bytes follow the fields, the 8 bytes of all events and these 16.
    let location = (path.len() as u32 + 1) << 16 | (8 + 16);
    // The crate puts the index into the first part. An error means that the record is lost, which
    // is the consumer's loss and never the service's.
    let _ = REQUESTS.write(&mut [
        EventDataDescriptor::zero(),
        EventDataDescriptor::from_value(&ns),
        EventDataDescriptor::from_value(&request.status),
        EventDataDescriptor::from_value(&location),
        EventDataDescriptor::from_bytes(path),
        EventDataDescriptor::from_bytes(b"\0"),
    ]);
}

/// The work of one request, or what stands for it here.
fn serve(number: u64) -> Request {
    const PATHS: [&str; 4] = ["/", "/index.html", "/about", "/favicon.ico"];
    let start = Instant::now();
    thread::sleep(Duration::from_millis(10));
    Request {
        path: PATHS[(number % 4) as usize],
        status: if number % 5 == 4 { 404 } else { 200 },
        took: start.elapsed(),
    }
}

fn main() -> ExitCode {
    let seconds = match env::args().nth(1).map(|text| text.parse()) {
        Some(Ok(seconds)) => seconds,
        _ => {
            eprintln!("usage: requests-rust SECONDS");
            return ExitCode::from(2);
        }
    };

    // SAFETY: A static is never deallocated.
    let error = unsafe { Pin::static_ref(&REQUESTS).register(DESCRIPTION) };
    if error == 0 {
        println!("requests-rust: registered the event user_events:requests");
    } else {
        let error = Error::from_raw_os_error(error);
        println!("requests-rust: serving untraced: {error}");
        println!("requests-rust: 'user-events doctor' shows the cause");
    }

    let end = Instant::now() + Duration::from_secs(seconds);
    for number in 0.. {
        if Instant::now() >= end {
            break;
        }
        request_served(&serve(number));
    }
    // With the process ends its registration.
    ExitCode::SUCCESS
}
