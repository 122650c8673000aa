// SPDX-License-Identifier: GPL-2.0

//! trace-cmd: record, show, extract and report.

use crate::harness::tests;
use crate::kit::event::Event;
use crate::kit::payload::{
    payload,
    Value::{Data, Fixed, Rel},
};
use crate::kit::tool::{self, Scratch, Tool};
use crate::kit::tracefs::TraceInstance;
use crate::kit::{os, tasks, wait};
use std::fs;
use std::path::Path;

tests!("tools::trace_cmd":
    record_of_two_events_with_filters,
    start_show_and_extract,
    stream_prints_what_comes,
);

/// Starts `trace-cmd record -o FILE` with more words, and waits until a recorder for each CPU
/// sleeps on its buffer. A recorder that is stopped before loses its records.
pub(super) fn record(file: &str, words: &[&str]) -> Tool {
    let tool = Tool::start(&[&["trace-cmd", "record", "-o", file], words].concat());
    wait_for_recorders(&tool);
    tool
}

fn wait_for_recorders(tool: &Tool) {
    let cpus = os::cpus().len();
    wait::until("trace-cmd to record", || {
        let children = tasks::children_of(tool.pid());
        children.filter(|&pid| sleeps_on_a_buffer(pid)).count() == cpus
    });
}

fn sleeps_on_a_buffer(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let mut targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    status.contains("State:\tS") && targets.any(|path| path.ends_with(Path::new("trace_pipe_raw")))
}

pub(super) fn report(file: &str) -> tool::Output {
    tool::run(&["trace-cmd", "report", "-i", file])
}

fn record_of_two_events_with_filters() {
    let event = Event::new("st_tc_filter u32 a; __rel_loc char[] b; __data_loc char[] c");
    let [second, other] = ["st_tc_second u32 a", "st_tc_other u32 a"].map(Event::new);
    let scratch = Scratch::new("st_tc_filter");
    let file = scratch.file("trace.dat");
    // Each event is followed by its filter.
    let filter = r#"a > 1 && b ~ "ye*" && c != "no""#;
    let words = ["-e", "st_tc_filter", "-f", filter];
    let record = record(
        &file,
        &[&words[..], &["-e", "st_tc_second", "-f", "a == 2"]].concat(),
    );
    assert!(!other.bit(), "it was not asked for");
    for (a, b, c) in [
        (1u32, "yes\0", "x\0"),
        (2, "yes\0", "x\0"),
        (3, "not\0", "x\0"),
        (4, "yes\0", "no\0"),
        (5, "yet\0", "\0"),
    ] {
        let a = a.to_ne_bytes();
        let payload = payload(&[Fixed(&a), Rel(b.as_bytes()), Data(c.as_bytes())]);
        assert_eq!(event.write(&payload), Ok(4 + payload.len()));
        assert_eq!(second.write(&a), Ok(8));
    }
    record.interrupt();
    event.wait_clear();
    second.wait_clear();
    let report = report(&file);
    let filtered = report.after(" st_tc_filter: ");
    assert_eq!(filtered, ["a=2 b=yes c=x", "a=5 b=yet c="]);
    assert_eq!(report.after(" st_tc_second: "), ["a=2"]);
}

fn start_show_and_extract() {
    let event = Event::new("st_tc_extract u32 a; char[8] b");
    let scratch = Scratch::new("st_tc_extract");
    let file = scratch.file("trace.dat");
    let write = |a: u32, b: &[u8; 8]| {
        let payload = [&a.to_ne_bytes()[..], b].concat();
        assert_eq!(event.write(&payload), Ok(16));
    };
    tool::run(&["trace-cmd", "start", "-e", "st_tc_extract", "-f", "a < 3"]);
    event.wait_set();
    write(1, b"one\0\0\0\0\0");
    write(2, b"two\0\0\0\0\0");
    write(3, b"three\0\0\0");
    let show = tool::run(&["trace-cmd", "show"]);
    let shown: Vec<_> = show.after(" st_tc_extract: ");
    let shown: Vec<_> = shown.iter().map(|line| line.replace('\0', "")).collect();
    assert_eq!(shown, ["a=0x1 (1) b=one", "a=0x2 (2) b=two"]);
    tool::run(&["trace-cmd", "stop"]);
    write(1, b"late\0\0\0\0");
    // From the buffer to a file.
    tool::run(&["trace-cmd", "extract", "-o", &file]);
    tool::run(&["trace-cmd", "reset"]);
    event.wait_clear();
    let report = report(&file);
    assert_eq!(report.after(" st_tc_extract: "), ["a=1 b=one", "a=2 b=two"]);
    // `reset` leaves the buffer off.
    TraceInstance::top().control("tracing_on", "1");
}

fn stream_prints_what_comes() {
    let event = Event::new("st_tc_stream u32 a");
    let tool = Tool::start(&["trace-cmd", "stream", "-e", "st_tc_stream"]);
    wait_for_recorders(&tool);
    event.wait_set();
    // Each CPU has a stream of its own, and order is kept only within a stream.
    os::run_on(0);
    let shown = || -> Vec<u32> {
        let text = tool.printed();
        let lines = text
            .lines()
            .filter_map(|line| line.split_once(" st_tc_stream: "));
        let numbers =
            lines.filter_map(|(_, fields)| fields.trim().strip_prefix("a=")?.parse().ok());
        numbers.collect()
    };
    // trace-cmd prints in blocks: further records have to be written to see the first.
    let mut written = 0;
    wait::until("a hundred records to be printed", || {
        for _ in 0..20 {
            written += 1u32;
            event.write(&written.to_ne_bytes()).unwrap();
        }
        shown().len() >= 100
    });
    let shown = shown();
    // The last line may be half printed.
    let whole = &shown[..shown.len() - 1];
    assert!(whole.iter().copied().eq(1..shown.len() as u32), "{shown:?}");
    tool.interrupt_until_it_ends();
    event.wait_clear();
}
