// SPDX-License-Identifier: GPL-2.0

//! perf: record, script, report, stat and trace.

use crate::harness::tests;
use crate::kit::child::{self, Word};
use crate::kit::event::write;
use crate::kit::event::{wait_gone, Event};
use crate::kit::os;
use crate::kit::tool::{self, Output, Scratch, Tool};
use crate::kit::{tracefs, writer};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc;
use std::thread;

tests!("tools::perf":
    list_shows_the_event,
    record_of_a_program,
    record_of_a_program_and_its_children,
    record_system_wide,
    record_of_a_process,
    record_of_a_thread,
    record_of_a_cpu,
    record_with_a_filter,
    record_of_several_events,
    record_of_a_pattern,
    record_of_every_third,
    record_the_writers_stack,
    overlapping_sessions,
    open_while_the_program_restarts,
    script_prints_what_it_is_asked_for,
);

/// Hides the kernel's symbols and modules from the tools that this test starts. perf copies the
/// symbols to every recording and reads the whole directory of modules, which takes many seconds on
/// an emulated machine; no test here uses a symbol of the kernel.
pub fn hide_kernel_symbols() {
    os::own_mounts();
    os::mount(c"/dev/null", c"/proc/kallsyms", libc::MS_BIND);
    os::mount(
        c"/sys/kernel/tracing/options",
        c"/usr/lib/modules",
        libc::MS_BIND,
    );
}

/// The command to which the other words of `perf record` are added.
const QUIET: [&str; 4] = ["perf", "record", "-q", "-B"];

pub fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Runs `perf record`, with more words, on a program that writes these payloads.
pub fn record_program(file: &str, words: &[&str], description: &str, payloads: &[&[u8]]) {
    let writer = writer::command("/", description, payloads);
    tool::run(&[&QUIET, &["-o", file][..], words, &["--"], &strs(&writer)].concat());
}

/// A running `perf record`.
pub struct Session {
    tool: Tool,
    control: File,
    answers: BufReader<File>,
    file: String,
}

impl Session {
    /// Starts `perf record`, and waits until it records.
    pub fn start(scratch: &Scratch, name: &str, words: &[&str]) -> Session {
        let path = |what: &str| scratch.file(&format!("{name}.{what}"));
        let (control, answers, file) = (path("control"), path("answers"), path("data"));
        let open = |path: &str| {
            os::named_pipe(&CString::new(path).unwrap());
            // Open for both, so that neither side waits for the other to open it.
            let file = OpenOptions::new().read(true).write(true).open(path);
            file.expect("open a named pipe")
        };
        let (to_perf, from_perf) = (open(&control), open(&answers));
        let pipes = format!("--control=fifo:{control},{answers}");
        let first = ["-D", "-1", &pipes, "-o", &file];
        let mut session = Session {
            tool: Tool::start(&[&QUIET, &first[..], words].concat()),
            control: to_perf,
            answers: BufReader::new(from_perf),
            file,
        };
        session.tell("enable");
        session
    }

    /// Sends a command to perf, and waits for its acknowledgement.
    fn tell(&mut self, what: &str) {
        writeln!(self.control, "{what}").expect("write to perf");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("read from perf");
        assert_eq!(answer.trim_matches(['\n', '\0']), "ack");
    }

    /// Stops the recording. Returns the output of `perf script` with more words.
    pub fn stop(self, words: &[&str]) -> Output {
        script(&self.stop_recording(), words)
    }

    /// Stops the recording. Returns the path of its file.
    pub fn stop_recording(self) -> String {
        self.tool.interrupt();
        self.file
    }
}

fn script(file: &str, words: &[&str]) -> Output {
    tool::run(&[&["perf", "script", "-i", file], words].concat())
}

pub fn numbers(count: u32) -> Vec<[u8; 4]> {
    (1..=count).map(u32::to_ne_bytes).collect()
}

pub fn slices(payloads: &[[u8; 4]]) -> Vec<&[u8]> {
    payloads.iter().map(|payload| &payload[..]).collect()
}

fn list_shows_the_event() {
    let _event = Event::new("st_pf_list u32 a");
    let list = tool::run(&["perf", "list", "user_events:*"]);
    let lines = list.lines_with("user_events:st_pf_list");
    assert_eq!(lines.len(), 1);
    assert!(lines[0].ends_with("[Tracepoint event]"), "{}", lines[0]);
}

fn record_of_a_program() {
    hide_kernel_symbols();
    let description = "st_pf_program u32 a; __rel_loc char[] b";
    let event = Event::new(description);
    let scratch = Scratch::new("st_pf_program");
    let file = scratch.file("perf.data");
    let payload = |a: u8| {
        [
            &[a, 0, 0, 0],
            &crate::kit::abi::location(0, 3)[..],
            b"b",
            &[48 + a, 0],
        ]
        .concat()
    };
    let payloads = [payload(1), payload(2)];
    let payloads: Vec<_> = payloads.iter().map(|payload| &payload[..]).collect();
    record_program(
        &file,
        &["-e", "user_events:st_pf_program"],
        description,
        &payloads,
    );
    event.wait_clear();
    let script = script(&file, &[]);
    let records = script.after("user_events:st_pf_program: ");
    assert_eq!(records, ["a=1 b=b1", "a=2 b=b2"]);
}

fn record_of_a_program_and_its_children() {
    hide_kernel_symbols();
    let description = "st_pf_children u32 a";
    let event = Event::new(description);
    let scratch = Scratch::new("st_pf_children");
    let file = scratch.file("perf.data");
    let (one, two) = (numbers(1), numbers(2));
    let one = writer::command("/", description, &slices(&one)).join("' '");
    let two = writer::command("/", description, &slices(&two)).join("' '");
    let line = format!("'{one}' & wait; '{two}'");
    let words = ["-e", "user_events:st_pf_children", "-o", &file, "--"];
    tool::run(&[&QUIET, &words[..], &["sh", "-ec", &line]].concat());
    event.wait_clear();
    let script = script(&file, &["-F", "pid,trace"]);
    let pids: Vec<_> = script.lines_with(" a=");
    let pids: Vec<_> = pids.iter().map(|line| line.split(' ').next()).collect();
    assert_eq!(script.after(" a="), ["1", "1", "2"]);
    assert!(pids[0] != pids[1] && pids[1] == pids[2], "{pids:?}");
}

fn record_system_wide() {
    hide_kernel_symbols();
    let event = Event::new("st_pf_system u32 a");
    let scratch = Scratch::new("st_pf_system");
    let session = Session::start(&scratch, "all", &["-a", "-e", "user_events:st_pf_system"]);
    event.wait_set();
    let cpus = os::cpus();
    for (number, &cpu) in cpus.iter().enumerate() {
        child::fork(|_| {
            os::run_on(cpu);
            write(&Event::new("st_pf_system u32 a"), [number as u32; 2]);
        })
        .join();
    }
    let script = session.stop(&["-F", "cpu,event,trace"]);
    event.wait_clear();
    let want = cpus.iter().enumerate().flat_map(|(number, cpu)| {
        let line = format!("[{cpu:03}] user_events:st_pf_system: a={number}");
        [line.clone(), line]
    });
    let lines = script.lines_with("st_pf_system: ");
    assert_eq!(lines, want.collect::<Vec<_>>());
}

fn record_of_a_process() {
    hide_kernel_symbols();
    let description = "st_pf_process u32 a";
    let event = Event::new(description);
    let mut child = child::fork(|line| {
        let mine = Event::new("st_pf_process u32 a");
        line.say(Word::Registered);
        line.hear(Word::Write);
        write(&mine, [7, 8]);
        line.say(Word::Wrote);
        line.hear(Word::End);
    });
    child.line.hear(Word::Registered);
    let scratch = Scratch::new("st_pf_process");
    let pid = child.pid.to_string();
    let words = ["-p", &pid, "-e", "user_events:st_pf_process"];
    let session = Session::start(&scratch, "one", &words);
    event.wait_set();
    write(&event, [1]);
    child.line.say(Word::Write);
    child.line.hear(Word::Wrote);
    write(&event, [2]);
    let script = session.stop(&["-F", "pid,trace"]);
    child.line.say(Word::End);
    child.join();
    let lines: Vec<String> = script
        .lines_with(" a=")
        .iter()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(lines, [format!("{pid} a=7"), format!("{pid} a=8")]);
}

fn record_of_a_thread() {
    hide_kernel_symbols();
    let event = Event::new("st_pf_thread u32 a");
    let scratch = Scratch::new("st_pf_thread");
    let (say_id, id) = mpsc::channel();
    let (go, told) = mpsc::channel();
    let script = thread::scope(|scope| {
        let event = &event;
        let watched = scope.spawn(move || {
            say_id.send(os::thread_id()).unwrap();
            told.recv().unwrap();
            write(event, [5, 6]);
        });
        let id = id.recv().unwrap().to_string();
        let words = ["-t", &id, "-e", "user_events:st_pf_thread"];
        let session = Session::start(&scratch, "one", &words);
        event.wait_set();
        write(event, [1]);
        go.send(()).unwrap();
        watched.join().unwrap();
        write(event, [2]);
        session.stop(&["-F", "trace"])
    });
    assert_eq!(script.after("a="), ["5", "6"]);
}

fn record_of_a_cpu() {
    hide_kernel_symbols();
    let event = Event::new("st_pf_cpu u32 a");
    let scratch = Scratch::new("st_pf_cpu");
    let cpus = os::cpus();
    let last = cpus[cpus.len() - 1];
    let words = ["-C", &last.to_string(), "-e", "user_events:st_pf_cpu"];
    let session = Session::start(&scratch, "one", &words);
    event.wait_set();
    for cpu in cpus {
        os::run_on(cpu);
        write(&event, [cpu as u32, 100]);
    }
    let script = session.stop(&["-F", "trace"]);
    assert_eq!(script.after("a="), [last.to_string(), "100".into()]);
}

fn record_with_a_filter() {
    hide_kernel_symbols();
    let description = "st_pf_filter u32 a; __rel_loc char[] b";
    let _event = Event::new(description);
    let scratch = Scratch::new("st_pf_filter");
    let file = scratch.file("perf.data");
    let records = [
        (1u32, b"yes\0"),
        (2, b"yes\0"),
        (3, b"not\0"),
        (4, b"yet\0"),
    ];
    let payloads =
        records.map(|(a, b)| [&a.to_ne_bytes()[..], &crate::kit::abi::location(0, 4), b].concat());
    let payloads: Vec<_> = payloads.iter().map(|payload| &payload[..]).collect();
    let filter = r#"a > 1 && b ~ "ye*""#;
    let words = ["-e", "user_events:st_pf_filter", "--filter", filter];
    record_program(&file, &words, description, &payloads);
    let script = script(&file, &["-F", "trace"]);
    assert_eq!(script.after("a="), ["2 b=yes", "4 b=yet"]);
}

fn record_of_several_events() {
    hide_kernel_symbols();
    let (one, two) = (Event::new("st_pf_one u32 a"), Event::new("st_pf_two u32 b"));
    let other = Event::new("st_pf_three u32 c");
    let scratch = Scratch::new("st_pf_several");
    let words = ["-a", "-e", "user_events:st_pf_one,user_events:st_pf_two"];
    let session = Session::start(&scratch, "both", &words);
    one.wait_set();
    two.wait_set();
    assert!(!other.bit());
    for value in 1..=2 {
        write(&one, [value]);
        write(&two, [10 * value]);
    }
    let script = session.stop(&["-F", "event,trace"]);
    assert_eq!(
        script.after("user_events:st_pf_"),
        ["one: a=1", "two: b=10", "one: a=2", "two: b=20"]
    );
    one.wait_clear();
    two.wait_clear();
}

fn record_of_a_pattern() {
    hide_kernel_symbols();
    let events = ["st_pp_one u32 a", "st_pp_two u32 a", "st_pq u32 a"].map(Event::new);
    let scratch = Scratch::new("st_pf_pattern");
    let session = Session::start(&scratch, "some", &["-a", "-e", "user_events:st_pp_*"]);
    events[0].wait_set();
    events[1].wait_set();
    assert!(!events[2].bit());
    write(&events[1], [1]);
    write(&events[0], [2]);
    let script = session.stop(&["-F", "event,trace"]);
    assert_eq!(script.after("user_events:st_pp_"), ["two: a=1", "one: a=2"]);
}

fn record_of_every_third() {
    hide_kernel_symbols();
    let description = "st_pf_third u32 a";
    let _event = Event::new(description);
    let scratch = Scratch::new("st_pf_third");
    let file = scratch.file("perf.data");
    let payloads = numbers(10);
    // perf requests the period in each sample; the kernel then samples every record by itself.
    let words = ["--no-period", "-c", "3", "-e", "user_events:st_pf_third"];
    record_program(&file, &words, description, &slices(&payloads));
    let script = script(&file, &["-F", "trace"]);
    assert_eq!(script.after("a="), ["3", "6", "9"]);
}

fn record_the_writers_stack() {
    hide_kernel_symbols();
    let description = "st_pf_stack u32 a";
    let _event = Event::new(description);
    let scratch = Scratch::new("st_pf_stack");
    let file = scratch.file("perf.data");
    let payloads = numbers(1);
    let words = ["--call-graph", "dwarf", "-e", "user_events:st_pf_stack"];
    record_program(&file, &words, description, &slices(&payloads));
    let script = script(&file, &["-F", "event,trace,ip,sym,dso"]);
    assert_eq!(script.after("user_events:st_pf_stack: "), ["a=1"]);
    let frames = script.lines_with("(");
    let frame = |function: &str, file: &str| {
        frames
            .iter()
            .position(|line| line.contains(function) && line.contains(file))
    };
    // Return addresses are signed on arm64, and perf takes the signature as part of the address.
    if cfg!(target_arch = "aarch64") {
        assert!(frame("", "libc.so").is_some(), "{frames:?}");
        return;
    }
    let write = frame("write", "libc.so").expect("a frame of the C library's write");
    let main = frame("writer::main", "selftests")
        .unwrap_or_else(|| panic!("a frame of the writer's main function: {frames:?}"));
    assert!(write < main, "{frames:?}");
}

fn overlapping_sessions() {
    hide_kernel_symbols();
    let event = Event::new("st_pf_overlap u32 a");
    let scratch = Scratch::new("st_pf_overlap");
    let words = ["-a", "-e", "user_events:st_pf_overlap"];
    let first = Session::start(&scratch, "first", &words);
    event.wait_set();
    write(&event, [1, 2]);
    let second = Session::start(&scratch, "second", &words);
    write(&event, [3]);
    let first = first.stop(&["-F", "trace"]);
    assert!(event.bit(), "the second still listens");
    write(&event, [4]);
    let second = second.stop(&["-F", "trace"]);
    event.wait_clear();
    assert_eq!(first.after("a="), ["1", "2", "3"]);
    assert_eq!(second.after("a="), ["3", "4"]);
}

fn open_while_the_program_restarts() {
    hide_kernel_symbols();
    let description = "st_pf_restart u32 a";
    let event = Event::new(description);
    let scratch = Scratch::new("st_pf_restart");
    let session = Session::start(&scratch, "all", &["-a", "-e", "user_events:st_pf_restart"]);
    event.wait_set();
    event.unregister().unwrap();
    drop(event);
    let run = |value| {
        child::fork(|_| {
            let mine = Event::new("st_pf_restart u32 a");
            assert!(mine.bit(), "set when registered");
            write(&mine, [value]);
        })
        .join();
        assert!(tracefs::event_exists("st_pf_restart"), "perf holds it");
    };
    run(1);
    run(2);
    let script = session.stop(&["-F", "trace"]);
    assert_eq!(script.after("a="), ["1", "2"]);
    wait_gone("st_pf_restart");
}

fn script_prints_what_it_is_asked_for() {
    hide_kernel_symbols();
    let event = Event::new("st_pf_script u32 a");
    let scratch = Scratch::new("st_pf_script");
    let session = Session::start(&scratch, "all", &["-a", "-e", "user_events:st_pf_script"]);
    event.wait_set();
    os::run_on(os::cpus()[0]);
    write(&event, [1, 2]);
    let script = session.stop(&["-F", "comm,pid,tid,cpu,time,period,event,trace"]);
    let (pid, cpu) = (std::process::id(), os::cpus()[0]);
    let mut times = Vec::new();
    for (line, a) in script.lines_with("st_pf_script").iter().zip(1..) {
        let words: Vec<_> = line.split_whitespace().collect();
        let (time, want) = (words[3], format!("{pid}/{pid}"));
        assert_eq!(words[..3], ["selftests", &want, &format!("[{cpu:03}]")]);
        assert_eq!(
            words[4..],
            ["1", "user_events:st_pf_script:", &format!("a={a}")]
        );
        times.push(time.trim_end_matches(':').parse::<f64>().unwrap());
    }
    assert_eq!(times.len(), 2);
    assert!(times[0] <= times[1]);
}
