// SPDX-License-Identifier: GPL-2.0

//! perf: record, script and report. `perf stat` is in `names`.

use crate::harness::tests;
use crate::kit::child::{self, Word};
use crate::kit::event::{write, Event};
use crate::kit::os;
use crate::kit::payload::{
    payload,
    Value::{Fixed, Rel},
};
use crate::kit::tool::{self, Output, Scratch, Tool};
use crate::kit::writer;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc;
use std::thread;

tests!("tools::perf":
    record_of_a_program_and_its_children,
    record_of_all_or_of_one.limit(240),
    record_the_writers_stack,
    report_by_the_whole_record,
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

/// An event, and a file for perf's records of it in a directory of its own.
pub fn to_be_recorded(description: &str) -> (Event, Scratch, String) {
    hide_kernel_symbols();
    let event = Event::new(description);
    let scratch = Scratch::new(&event.name);
    let file = scratch.file("perf.data");
    (event, scratch, file)
}

/// Runs a tool on a program that writes these payloads to the event.
pub fn run_on_writer(words: &[&str], event: &Event, payloads: &[impl AsRef<[u8]>]) -> Output {
    let payloads: Vec<_> = payloads.iter().map(AsRef::as_ref).collect();
    let writer = writer::command("/", &event.text, &payloads);
    let writer: Vec<_> = writer.iter().map(String::as_str).collect();
    tool::run(&[words, &writer].concat())
}

/// Runs `perf record`, with more words, on a program that writes these payloads to the event.
pub fn record_program(file: &str, words: &[&str], event: &Event, payloads: &[impl AsRef<[u8]>]) {
    let words = [&QUIET, &["-o", file][..], words, &["--"]].concat();
    run_on_writer(&words, event, payloads);
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

fn record_of_a_program_and_its_children() {
    let (event, _scratch, file) = to_be_recorded("st_pf_children u32 a");
    let writer = |payloads: &[&[u8]]| writer::command("/", &event.text, payloads).join("' '");
    let one = writer(&[&1u32.to_ne_bytes()]);
    let two = writer(&[&1u32.to_ne_bytes(), &2u32.to_ne_bytes()]);
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

/// Sessions at once, each with the records that it is to have.
fn record_of_all_or_of_one() {
    const TEXT: &str = "st_pf_one u32 a";
    let (event, scratch, _) = to_be_recorded(TEXT);
    let cpus = os::cpus();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let mut child = child::fork(|line| {
        let mine = Event::new(TEXT);
        line.say(Word::Registered);
        line.hear(Word::Write);
        os::run_on(first);
        write(&mine, [7, 8]);
        line.say(Word::Wrote);
        line.hear(Word::End);
    });
    child.line.hear(Word::Registered);
    thread::scope(|scope| {
        let event = &event;
        let (say_id, id) = mpsc::channel();
        let (go, told) = mpsc::channel();
        let thread = scope.spawn(move || {
            say_id.send(os::thread_id()).unwrap();
            told.recv().unwrap();
            os::run_on(first);
            write(event, [5, 6]);
        });
        let of_cpu = |&cpu: &usize| 100 + cpu as u32;
        let all = [5, 6, 7, 8].into_iter().chain(cpus.iter().map(of_cpu));
        let thread_id = id.recv().unwrap().to_string();
        let sessions = [
            ("all", vec!["-a"], all.collect::<Vec<_>>()),
            ("process", vec!["-p", &child.pid.to_string()], vec![7, 8]),
            ("thread", vec!["-t", &thread_id], vec![5, 6]),
            ("cpu", vec!["-C", &last.to_string()], vec![of_cpu(&last)]),
        ]
        .map(|(name, words, want)| {
            let words = [&words[..], &["-e", "user_events:st_pf_one"]].concat();
            (name, Session::start(&scratch, name, &words), want)
        });
        event.wait_set();
        child.line.say(Word::Write);
        child.line.hear(Word::Wrote);
        go.send(()).unwrap();
        thread.join().unwrap();
        for cpu in &cpus {
            os::run_on(*cpu);
            write(event, [of_cpu(cpu)]);
        }
        for (name, session, want) in sessions {
            assert!(event.bit(), "the session of {name} still listens");
            let script = session.stop(&["-F", "trace"]);
            let values = script.after("a=").into_iter();
            let mut values: Vec<u32> = values.map(|value| value.parse().unwrap()).collect();
            values.sort();
            assert_eq!(values, want, "{name}");
        }
        event.wait_clear();
    });
    child.line.say(Word::End);
    child.join();
}

fn record_the_writers_stack() {
    let (event, _scratch, file) = to_be_recorded("st_pf_stack u32 a");
    let words = ["--call-graph", "dwarf", "-e", "user_events:st_pf_stack"];
    record_program(&file, &words, &event, &[1u32.to_ne_bytes()]);
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

fn report_by_the_whole_record() {
    let (event, _scratch, file) = to_be_recorded("st_pf_records u32 a; __rel_loc char[] b");
    let payloads = [(1u32, b"x\0"), (1, b"x\0"), (1, b"y\0"), (2, b"x\0")]
        .map(|(a, b)| payload(&[Fixed(&a.to_ne_bytes()), Rel(b)]));
    let words = ["-e", "user_events:st_pf_records"];
    record_program(&file, &words, &event, &payloads);
    // The lines, sorted, with single spaces between words.
    let report = |by| {
        let words = ["perf", "report", "-q", "--stdio", "-i", &file, "-s", by];
        let report = tool::run(&words);
        let lines = report.text.lines().filter(|line| line.contains('%'));
        let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        let mut lines: Vec<_> = lines.collect();
        lines.sort();
        lines
    };
    let fields = ["25.00% 1 y", "25.00% 2 x", "50.00% 1 x"];
    assert_eq!(report("trace_fields"), fields);
    let records = ["25.00% a=1 b=y", "25.00% a=2 b=x", "50.00% a=1 b=x"];
    assert_eq!(report("trace"), records);
}
