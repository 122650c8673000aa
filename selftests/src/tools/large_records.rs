// SPDX-License-Identifier: GPL-2.0

//! Records of up to 64 KB in perf and other tools.

use super::perf::{record_program, run_on_writer, to_be_recorded, Session};
use crate::harness::{begin_case, tests};
use crate::kit::abi::location;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::tool::{self, Scratch, Tool};
use crate::kit::tracefs;
use std::fs;

tests!("tools::large_records":
    perf_records_them.limit(300),
    perf_switches_files_between_them,
    perf_takes_what_the_manual_says.limit(300),
    trace_cmd_records_them,
    a_libbpf_program_gets_them_whole,
);

/// The lengths of payloads.
const LENGTHS: [usize; 3] = [9000, 30_000, 65_000];

/// A payload of `length` bytes: its length as a number, a location, and a string that fills the
/// rest.
fn payload(length: usize) -> Vec<u8> {
    let text = text(length);
    let number = (length as u32).to_ne_bytes();
    let location = location(0, text.len() as u32 + 1);
    [&number[..], &location, text.as_bytes(), &[0]].concat()
}

fn text(length: usize) -> String {
    let letters = (b'A'..=b'Z').map(char::from).cycle();
    letters.skip(length % 26).take(length - 9).collect()
}

fn description(name: &str) -> String {
    format!("{name} u32 a; __rel_loc char[] b")
}

fn assert_printed(output: &tool::Output, want: &[usize]) {
    let printed = output.after(" a=");
    let lengths: Vec<_> = printed.iter().map(|line| line.len()).collect();
    assert_eq!(printed.len(), want.len(), "lines of {lengths:?} bytes");
    for (printed, length) in printed.iter().zip(want) {
        let (printed, want) = (*printed, format!("{length} b={}", text(*length)));
        assert!(
            printed == want,
            "{length}: {} bytes are printed",
            printed.len()
        );
    }
}

/// Records all with each of these options for an event, and checks that those of some lengths are
/// printed.
fn perf_records_them() {
    let (all, two) = (&LENGTHS[..], &LENGTHS[..2]);
    let filter = r#"a > 9000 && b ~ "*XYZ*""#;
    // The largest record leaves room for fewer calls than perf requests by default.
    type Case<'a> = (&'a str, &'a [&'a str], &'a [usize], &'a [usize]);
    let cases: [Case; 5] = [
        ("", &[], all, all),
        ("", &["--filter", filter], all, &LENGTHS[1..]),
        ("", &["-g"], two, two),
        ("/max-stack=40/", &["-g"], all, all),
        ("", &["--call-graph", "dwarf"], two, two),
    ];
    for (of_event, options, lengths, want) in cases {
        begin_case((of_event, options));
        let (event, _scratch, file) = to_be_recorded(&description("st_lr_perf"));
        let payloads: Vec<_> = lengths.iter().map(|length| payload(*length)).collect();
        let event_words = ["-e", &format!("user_events:st_lr_perf{of_event}")];
        let words = [&event_words[..], options].concat();
        record_program(&file, &words, &event, &payloads);
        event.wait_clear();
        assert_printed(
            &tool::run(&["perf", "script", "-i", &file, "-F", "event,trace"]),
            want,
        );
    }
}

fn perf_switches_files_between_them() {
    let (event, scratch, file) = to_be_recorded(&description("st_lr_switch"));
    let lengths = [LENGTHS[2]; 4];
    let words = [
        "-e",
        "user_events:st_lr_switch",
        "-m",
        "32",
        "--switch-output=100K",
    ];
    record_program(&file, &words, &event, &lengths.map(payload));
    event.wait_clear();
    let directory = fs::read_dir(scratch.file("")).expect("the files");
    let mut files: Vec<String> = directory
        .map(|entry| entry.expect("a file").path().display().to_string())
        .filter(|path| path.contains("perf.data."))
        .collect();
    files.sort();
    assert!(files.len() > 1, "{files:?}");
    let script = |file: &String| tool::run(&["perf", "script", "-i", file, "-F", "event,trace"]);
    let counts: Vec<_> = files
        .iter()
        .map(|file| {
            let output = script(file);
            let count = output.after(" a=").len();
            assert_printed(&output, &lengths[..count]);
            count
        })
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), lengths.len(), "{counts:?}");
}

fn perf_takes_what_the_manual_says() {
    let (event, scratch, _) = to_be_recorded(&description("st_lr_most"));
    let (plain, short) = (
        "user_events:st_lr_most",
        "user_events:st_lr_most/max-stack=40/",
    );
    let cases: [(&str, &[&str], usize); 4] = [
        ("plain", &["-e", plain], 65_460),
        ("chain", &["-g", "-e", plain], 64_372),
        ("short", &["-g", "-e", short], 65_068),
        ("dwarf", &["--call-graph", "dwarf", "-e", plain], 64_180),
    ];
    let found = cases.map(|(name, words, most)| {
        let session = Session::start(&scratch, name, &[&["-a"], words].concat());
        event.wait_set();
        let found = [most, most + 1].map(|size| event.write(&payload(size)));
        session.stop(&["-F", "event"]);
        event.wait_clear();
        found
    });
    let want = cases.map(|(.., most)| [Ok(4 + most), Err(Errno::E2BIG)]);
    // Other architectures have other registers.
    let compared = if cfg!(target_arch = "x86_64") { 4 } else { 3 };
    assert_eq!(found[..compared], want[..compared]);
}

fn trace_cmd_records_them() {
    if !tracefs::sub_buffers_set_the_limit() {
        return;
    }
    let name = "st_lr_cmd";
    let event = Event::new(&description(name));
    let scratch = Scratch::new(name);
    let file = scratch.file("trace.dat");
    let words = [
        "trace-cmd",
        "record",
        "-q",
        "-o",
        &file,
        "--subbuf-size",
        "128",
    ];
    let words = [&words[..], &["-e", "user_events:st_lr_cmd"]].concat();
    run_on_writer(&words, &event, &LENGTHS.map(payload));
    event.wait_clear();
    // trace-cmd does not restore the size of the sub-buffers.
    let size = "/sys/kernel/tracing/buffer_subbuf_size_kb";
    fs::write(size, "4").expect("sub-buffers as they were");
    let output = tool::run(&["trace-cmd", "report", "-i", &file]);
    assert_eq!(output.lines_with("st_lr_cmd:").len(), LENGTHS.len());
}

/// The program's ring buffer takes records of any length; the program reads what is beyond the
/// first 8 KB with a helper.
fn a_libbpf_program_gets_them_whole() {
    let event = Event::new(&description("st_lr_libbpf"));
    let [program, object] = ["records", "records.bpf.o"].map(tool::built_program);
    let [program, object] = [&program, &object].map(|path| path.to_str().expect("UTF-8"));
    let reader = Tool::start(&[program, object, &LENGTHS.len().to_string()]);
    reader.wait_printed("attached");
    event.wait_set();
    for length in LENGTHS {
        assert_eq!(event.write(&payload(length)), Ok(4 + length));
    }
    assert_printed(&reader.end_well(), &LENGTHS);
    event.wait_clear();
}
