// SPDX-License-Identifier: GPL-2.0

//! A service in Rust that writes a record of each request while a consumer is attached.
//!
//! It writes the same event as `requests.c`, through the public crate `tracepoint`. The event is a
//! static that is registered once, at start. Without user events the service prints the reason once
//! and serves untraced.

use std::env;
use std::io::Error;
use std::pin::Pin;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use tracepoint::{EventDataDescriptor, TracepointState};

/// The state of the event: the word with the kernel's bit, and the write index.
static REQUESTS: TracepointState = TracepointState::new(0);

/// The description. The widest field comes first: eBPF programs read aligned fields only.
const DESCRIPTION: &std::ffi::CStr = c"requests u64 ns; u32 status; __data_loc char[] path";

/// Bytes of a path that are recorded. A record must fit into a page of a trace buffer.
const PATH_BYTES: usize = 255;

/// Writes a record of a request. Costs a load and a branch while no consumer is attached.
// Neither inlined nor renamed, so that samples/check finds its machine code.
#[inline(never)]
#[no_mangle]
extern "C" fn request_served(request: &Request) {
    if REQUESTS.enabled() {
        write_record(request);
    }
}

/// The recorded properties of a request.
struct Request {
    path: &'static str,
    status: u32,
    took: Duration,
}

#[cold]
fn write_record(request: &Request) {
    let path = &request.path.as_bytes()[..request.path.len().min(PATH_BYTES)];
    let ns = u64::try_from(request.took.as_nanos()).unwrap_or(u64::MAX);
    // Size and offset: the bytes follow 8 bytes of common fields and 16 of the event's own.
    let location = (path.len() as u32 + 1) << 16 | (8 + 16);
    // The crate puts the index into the first part. An error loses the record, and must not affect
    // the service.
    let _ = REQUESTS.write(&mut [
        EventDataDescriptor::zero(),
        EventDataDescriptor::from_value(&ns),
        EventDataDescriptor::from_value(&request.status),
        EventDataDescriptor::from_value(&location),
        EventDataDescriptor::from_bytes(path),
        EventDataDescriptor::from_bytes(b"\0"),
    ]);
}

/// Stands in for the work of one request.
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
    // The end of the process ends its registration.
    ExitCode::SUCCESS
}
