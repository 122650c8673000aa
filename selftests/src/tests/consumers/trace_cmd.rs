// SPDX-License-Identifier: GPL-2.0

//! trace-cmd: record, extract, stream and report.

use crate::event::Event;
use crate::harness::tests;
use crate::tool::{self, Scratch, Tool};
use crate::{wait, writer};
use std::fs;
use std::path::Path;

tests!("consumers::trace_cmd":
    record_and_report,
    record_of_a_program,
);

/// Starts `trace-cmd record -o FILE` with more words, and waits until it records: a recorder for
/// each CPU that sleeps on its buffer. One that is told to end before is lost with its records.
fn record(file: &str, words: &[&str]) -> Tool {
    let tool = Tool::start(&[&["trace-cmd", "record", "-o", file], words].concat());
    let cpus = crate::os::cpus().len();
    wait::until("trace-cmd to record", || {
        let children = tool.children().into_iter();
        children.filter(|&pid| sleeps_on_a_buffer(pid)).count() == cpus
    });
    tool
}

fn sleeps_on_a_buffer(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let mut targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    status.contains("State:\tS") && targets.any(|path| path.ends_with(Path::new("trace_pipe_raw")))
}

fn report(file: &str) -> tool::Output {
    tool::run(&["trace-cmd", "report", "-i", file])
}

fn record_and_report() {
    let event = Event::new("st_tc_record u32 a");
    let scratch = Scratch::new("st_tc_record");
    let file = scratch.file("trace.dat");
    let record = record(&file, &["-e", "st_tc_record"]);
    // Only now recording is on.
    record.wait_printed("Hit Ctrl^C");
    for a in 1..=3u32 {
        event.write(&a.to_ne_bytes()).unwrap();
    }
    record.interrupt();
    event.wait_clear();
    assert_eq!(
        report(&file).after(" st_tc_record: "),
        ["a=1", "a=2", "a=3"]
    );
}

fn record_of_a_program() {
    let description = "st_tc_program u32 a";
    let event = Event::new(description);
    let scratch = Scratch::new("st_tc_program");
    let (file, start) = (scratch.file("trace.dat"), scratch.file("start"));
    let writer = writer::command(&start, description, &[&[7, 0, 0, 0], &[8, 0, 0, 0]]);
    let mut words = vec!["-e", "st_tc_program"];
    words.extend(writer.iter().map(String::as_str));
    let record = record(&file, &words);
    fs::write(&start, "").unwrap();
    record.end_well();
    event.wait_clear();
    assert_eq!(report(&file).after(" st_tc_program: "), ["a=7", "a=8"]);
}
