// SPDX-License-Identifier: GPL-2.0

//! perf without a recording: `perf stat` and `perf trace`.

use super::perf::{hide_kernel_symbols, numbers, slices, strs};
use crate::harness::tests;
use crate::kit::event::write;
use crate::kit::event::Event;
use crate::kit::os;
use crate::kit::tool::{self, Output, Scratch, Tool};
use crate::kit::writer;

tests!("tools::perf_stat":
    stat_of_a_program,
    stat_of_every_cpu,
    stat_of_a_group,
    trace_of_a_program,
);

/// The counts of an event in the output of `perf stat -x,`: the text before its name.
fn counts<'a>(output: &'a Output, name: &str) -> Vec<&'a str> {
    let lines = output.text.lines();
    lines
        .filter_map(|line| line.split_once(name).map(|(before, _)| before))
        .collect()
}

fn stat_of_a_program() {
    let description = "st_pf_stat u32 a";
    let event = Event::new(description);
    let payloads = numbers(25);
    let writer = writer::command("/", description, &slices(&payloads));
    let words = ["perf", "stat", "-x,", "-e", "user_events:st_pf_stat", "--"];
    let stat = tool::run(&[&words[..], &strs(&writer)].concat());
    assert_eq!(counts(&stat, "user_events:st_pf_stat"), ["25,,"]);
    event.wait_clear();
}

fn stat_of_every_cpu() {
    let event = Event::new("st_pf_stat_cpus u32 a");
    let scratch = Scratch::new("st_pf_stat_cpus");
    let done = scratch.file("done");
    // A command that ends when the test wants.
    let wait = format!("until [ -e {done} ]; do sleep 0.01; done");
    let words = [
        "perf",
        "stat",
        "-x,",
        "-a",
        "-A",
        "-e",
        "user_events:st_pf_stat_cpus",
    ];
    let ready = scratch.file("ready");
    let line = format!("echo >{ready}; {wait}");
    let stat = Tool::start(&[&words[..], &["--", "sh", "-c", &line]].concat());
    // perf starts the command after it has begun to count.
    crate::kit::wait::until("perf to count", || std::path::Path::new(&ready).exists());
    event.wait_set();
    let mut want = Vec::new();
    for (number, cpu) in os::cpus().into_iter().enumerate() {
        os::run_on(cpu);
        let count = 3 + number as u32;
        write(&event, 0..count);
        want.push(format!("CPU{cpu},{count},,"));
    }
    std::fs::write(done, "").unwrap();
    let stat = stat.end_well();
    assert_eq!(counts(&stat, "user_events:st_pf_stat_cpus"), want);
}

fn stat_of_a_group() {
    let events = ["st_pg_one u32 a", "st_pg_two u32 a"];
    let _events = events.map(Event::new);
    let (three, two) = (numbers(3), numbers(2));
    let one = writer::command("/", events[0], &slices(&three)).join("' '");
    let two = writer::command("/", events[1], &slices(&two)).join("' '");
    let group = "{user_events:st_pg_one,user_events:st_pg_two}";
    let line = format!("'{one}'; '{two}'");
    let stat = tool::run(&["perf", "stat", "-x,", "-e", group, "--", "sh", "-ec", &line]);
    assert_eq!(counts(&stat, "user_events:st_pg_one"), ["3,,"]);
    assert_eq!(counts(&stat, "user_events:st_pg_two"), ["2,,"]);
}

fn trace_of_a_program() {
    hide_kernel_symbols();
    let description = "st_pf_trace u32 a; char[4] b";
    let event = Event::new(description);
    let payloads: [&[u8]; 2] = [b"\x01\0\0\0one\0", b"\x02\0\0\0two\0"];
    let writer = writer::command("/", description, &payloads);
    // perf does not sort the records of several CPUs.
    os::run_on(os::cpus()[0]);
    let words = ["perf", "trace", "-e", "user_events:st_pf_trace", "--"];
    let trace = tool::run(&[&words[..], &strs(&writer)].concat());
    let records = trace.after("user_events:st_pf_trace(");
    assert_eq!(records, [r#"a: 1, b: "one")"#, r#"a: 2, b: "two")"#]);
    event.wait_clear();
}
