// SPDX-License-Identifier: GPL-2.0

//! `perf report` of records.

use super::perf::{hide_kernel_symbols, record_program};
use crate::harness::tests;
use crate::kit::event::Event;
use crate::kit::tool::{self, Scratch};

tests!("tools::perf_report":
    report_by_a_field,
    report_by_the_whole_record,
);

/// A recording of `a` and `b`: (1, x), (1, x), (1, y), (2, x).
fn recorded_for_report(scratch: &Scratch, name: &str) -> String {
    let description = format!("{name} u32 a; __rel_loc char[] b");
    let _event = Event::new(&description);
    let file = scratch.file("perf.data");
    let payloads = [(1u32, b"x\0"), (1, b"x\0"), (1, b"y\0"), (2, b"x\0")]
        .map(|(a, b)| [&a.to_ne_bytes()[..], &crate::kit::abi::location(0, 2), b].concat());
    let payloads: Vec<_> = payloads.iter().map(|payload| &payload[..]).collect();
    let words = ["-e", &format!("user_events:{name}")];
    record_program(&file, &words, &description, &payloads);
    file
}

/// The lines of a report, sorted, with single spaces between words.
fn report(file: &str, words: &[&str]) -> Vec<String> {
    let first = ["perf", "report", "-q", "--stdio", "-i", file];
    let report = tool::run(&[&first[..], words].concat());
    let lines = report.text.lines().filter(|line| line.contains('%'));
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

fn report_by_a_field() {
    hide_kernel_symbols();
    let scratch = Scratch::new("st_pf_report");
    let file = recorded_for_report(&scratch, "st_pf_report");
    let by_a = report(&file, &["-F", "overhead,sample", "-s", "st_pf_report.a"]);
    assert_eq!(by_a, ["25.00% 1 2", "75.00% 3 1"]);
    let by_b = report(
        &file,
        &["-F", "overhead,sample", "-s", "comm,st_pf_report.b"],
    );
    assert_eq!(by_b, ["25.00% 1 selftests y", "75.00% 3 selftests x"]);
}

fn report_by_the_whole_record() {
    hide_kernel_symbols();
    let scratch = Scratch::new("st_pf_records");
    let file = recorded_for_report(&scratch, "st_pf_records");
    let fields = report(&file, &["-s", "trace_fields"]);
    assert_eq!(fields, ["25.00% 1 y", "25.00% 2 x", "50.00% 1 x"]);
    let records = report(&file, &["-s", "trace"]);
    assert_eq!(
        records,
        ["25.00% a=1 b=y", "25.00% a=2 b=x", "50.00% a=1 b=x"]
    );
}
