// SPDX-License-Identifier: GPL-2.0

//! Known records: perf must have each of them, with the values that were written, and no other.

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
use std::process;
use std::thread;
use std::time::Duration;

type Test = (&'static str, fn() -> Result<(), Failure>);

pub const TESTS: &[Test] = &[
    ("records of tracepoint", || known(Tracepoint::open()?)),
    ("records of eventheader", || known(Eventheader::open()?)),
    ("records of eventheader_dynamic", || known(Dynamic::open()?)),
    ("records of opentelemetry-user-events-logs", || {
        known(Logs::open()?)
    }),
    ("records of opentelemetry-user-events-trace", || {
        known(Trace::open()?)
    }),
    ("records of opentelemetry-user-events-metrics", || {
        known(Metrics::open()?)
    }),
];

/// Waits until the bits of all events of a client in this process are set: on a busy machine the
/// kernel may set them a little after perf has attached.
pub fn wait_enabled(client: &dyn Client) -> Result<(), Failure> {
    let pid = process::id().to_string();
    let mut clear = Vec::new();
    for _ in 0..1200 {
        let path = "/sys/kernel/tracing/user_events_registrations";
        let listing = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let set = |event: &&str| {
            listing
                .lines()
                .any(|line| line.starts_with(&format!("{event} {pid} ")) && line.ends_with(" set"))
        };
        clear = client
            .events()
            .into_iter()
            .filter(|event| !set(event))
            .collect();
        if clear.is_empty() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(format!("not enabled for two minutes: {clear:?}"))
}

fn known(mut client: Box<dyn Client>) -> Result<(), Failure> {
    let session = Session::begin(&client.events())?;
    wait_enabled(&*client)?;
    let mut expected = client.write_known()?;
    let mut had = session
        .end()?
        .iter()
        .map(|record| client.text(record))
        .collect::<Result<Vec<String>, Failure>>()?;
    // The order of two metrics is not specified.
    expected.sort_unstable();
    had.sort_unstable();
    if had != expected {
        had.iter()
            .for_each(|record| println!("# had      {record}"));
        expected
            .iter()
            .for_each(|record| println!("# expected {record}"));
        return Err(format!(
            "{} records, and {} were expected, or they differ",
            had.len(),
            expected.len()
        ));
    }
    Ok(())
}
