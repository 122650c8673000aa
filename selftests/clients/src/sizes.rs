// SPDX-License-Identifier: GPL-2.0

//! Records that are larger than a listener takes: the write fails, however the client library
//! reports that, or succeeds, and the listener's miss is counted in `user_events_profile`.

use crate::known::wait_enabled;
use crate::perf::Record;
use crate::perf::Session;
use crate::pipelines::Logs;
use crate::pipelines::Metrics;
use crate::pipelines::Trace;
use crate::writers::Client;
use crate::writers::Dynamic;
use crate::writers::Eventheader;
use crate::writers::Tracepoint;
use crate::Failure;
use std::fs;

type Test = (&'static str, fn() -> Result<(), Failure>);

/// The largest payload that perf takes with a call chain, in bytes: see "Sizes" in the manual.
const PERF_TAKES: usize = 64_372;

/// With call chains, perf refuses records that the libraries do not.
const WITH_CHAINS: &[&str] = &["-g"];

/// A library adds less than this to a text, so that a text's size decides whether perf takes the
/// record.
const AROUND: usize = 512;

/// Sizes of texts, in bytes: the last are more than perf takes, and more than most of the libraries
/// do.
const SIZES: [usize; 6] = [1000, 9000, 30_000, 60_000, 64_500, 70_000];

/// A text that is too large for ftrace's sub-buffers of a page, and not for perf.
const FOR_PERF_ALONE: usize = 6000;

/// Texts of an error number of the kernel, and of one that the libraries return themselves.
const E2BIG: &str = "Argument list too long (os error 7)";
const ERANGE: &str = "Numerical result out of range (os error 34)";

/// Parts of the library's errors about a record that is too large for all listeners: one that the
/// kernel refuses, and one of more than 64 KB. The library returns or logs them; empty if it
/// reports nothing.
type Tells = (&'static [&'static str], &'static [&'static str]);

pub const TESTS: &[Test] = &[
    ("too large for perf, tracepoint", || {
        sized(
            Tracepoint::open()?,
            "client_tracepoint",
            (&[E2BIG], &[E2BIG]),
        )
    }),
    ("too large for perf, eventheader", || {
        sized(
            Eventheader::open()?,
            "ClientEventheader_L4K1",
            (&[E2BIG], &[E2BIG]),
        )
    }),
    ("too large for perf, eventheader_dynamic", || {
        sized(
            Dynamic::open()?,
            "ClientDynamic_L3K2a",
            (&[E2BIG], &[ERANGE]),
        )
    }),
    ("too large for perf, opentelemetry-user-events-logs", || {
        sized(Logs::open()?, "client_logs_L4K1", (&[], &[]))
    }),
    (
        "too large for perf, opentelemetry-user-events-trace",
        || {
            let tells: Tells = (
                &["DEBUG", "UserEvents.EventWriteFailed", "result=7"],
                &["INFO", "UserEvents.EventWriteFailed", "result=34"],
            );
            sized(Trace::open()?, "client_trace_L4K1", tells)
        },
    ),
    (
        "too large for perf, opentelemetry-user-events-metrics",
        || {
            let tells: Tells = (
                &[
                    "Failed to flush",
                    "DEBUG",
                    "TracepointWriteFailed",
                    "result=7",
                ],
                &["Failed to flush", "DEBUG", "EventSizeExceeded"],
            );
            sized(Metrics::open()?, "otlp_metrics", tells)
        },
    ),
];

/// The longest text of `x` in a record.
fn text_of(client: &dyn Client, record: &Record) -> Result<usize, Failure> {
    let text = client.text(record)?;
    Ok(text
        .split(|letter| letter != 'x')
        .map(str::len)
        .max()
        .unwrap_or(0))
}

/// Returns the number of an event's records that ftrace and perf have missed.
fn missed(event: &str) -> Result<(u64, u64), Failure> {
    let path = "/sys/kernel/tracing/user_events_profile";
    let listing = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let counts = listing.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(event)).then_some(())?;
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    });
    counts.ok_or_else(|| format!("{path} does not have {event}: {listing}"))
}

fn sized(mut client: Box<dyn Client>, event: &str, tells: Tells) -> Result<(), Failure> {
    let session = Session::begin_with(&client.events(), WITH_CHAINS)?;
    wait_enabled(&*client)?;
    let mut expected = Vec::new();
    for size in SIZES {
        let takes = size + AROUND <= PERF_TAKES;
        let wanted = match (takes, size > usize::from(u16::MAX)) {
            (true, _) => &[],
            (false, false) => tells.0,
            (false, true) => tells.1,
        };
        told(size, client.write_sized(size), wanted)?;
        if takes {
            expected.push(size);
        }
    }
    // The failed writes have returned an error, so no miss is counted.
    let before = missed(event)?;
    if before != (0, 0) {
        return Err(format!(
            "misses of writes that failed are counted: {before:?}"
        ));
    }

    // If a second listener takes less, the write succeeds, and the miss is counted. A record that
    // neither takes is an error again.
    let switch = format!("/sys/kernel/tracing/events/user_events/{event}/enable");
    let switch = |to: &str| fs::write(&switch, to).map_err(|error| format!("{switch}: {error}"));
    switch("1")?;
    told(FOR_PERF_ALONE, client.write_sized(FOR_PERF_ALONE), &[])?;
    expected.push(FOR_PERF_ALONE);
    let largest = SIZES[SIZES.len() - 1];
    told(largest, client.write_sized(largest), tells.1)?;
    let after = missed(event)?;
    switch("0")?;
    if after != (1, 0) {
        return Err(format!(
            "ftrace has missed 1, and perf 0, but {after:?} are counted"
        ));
    }

    let had = session
        .end()?
        .iter()
        .map(|record| text_of(&*client, record))
        .collect::<Result<Vec<usize>, Failure>>()?;
    if had != expected {
        return Err(format!(
            "perf has texts of {had:?} bytes instead of {expected:?}"
        ));
    }
    Ok(())
}

/// Checks that a library reported the expected errors.
fn told(size: usize, had: Result<(), String>, wanted: &[&str]) -> Result<(), Failure> {
    println!("# {size} bytes: {had:?}");
    match &had {
        Ok(()) if wanted.is_empty() => Ok(()),
        Err(why) if !wanted.is_empty() && wanted.iter().all(|part| why.contains(part)) => Ok(()),
        _ => Err(format!(
            "of {size} bytes the library tells {had:?} instead of {wanted:?}"
        )),
    }
}
