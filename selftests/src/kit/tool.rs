// SPDX-License-Identifier: GPL-2.0

//! Tracing tools: running them, and parsing their output.

use crate::kit::{os, tasks, wait};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The path of a C program of the selftests, built beside this binary.
pub fn built_program(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("this program's path");
    let build = program.ancestors().nth(3).expect("a place to build in");
    build.join("c").join(name)
}

pub fn succeeds(command: &str, arguments: &[&str]) -> bool {
    let command = Command::new(command)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    command.is_ok_and(|status| status.success())
}

/// The output of a tool that has ended: standard output and standard error, merged.
pub struct Output {
    pub text: String,
    pub status: ExitStatus,
}

impl Output {
    /// The trimmed lines with this text.
    pub fn lines_with(&self, text: &str) -> Vec<&str> {
        let lines = self.text.lines().filter(|line| line.contains(text));
        lines.map(str::trim).collect()
    }

    /// The rest of each line behind `text`.
    pub fn after(&self, text: &str) -> Vec<&str> {
        let lines = self.text.lines().filter_map(|line| line.split_once(text));
        lines.map(|(_, rest)| rest.trim()).collect()
    }
}

/// A running tool; killed when dropped.
pub struct Tool {
    name: String,
    child: Child,
    // A file, as a pipe would have to be emptied while the tool runs.
    output: File,
}

impl Tool {
    /// Starts `words[0]` with the others as its arguments.
    pub fn start(words: &[&str]) -> Tool {
        let (program, arguments) = words.split_first().expect("a tool's name");
        let output = os::memory_file(0);
        let to_output = || Stdio::from(output.try_clone().expect("duplicate a file"));
        // Line-buffered, so that the output is visible while the tool runs, as on a terminal.
        let child = Command::new("stdbuf")
            .args(["-oL", program])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(to_output())
            .stderr(to_output())
            .spawn()
            .unwrap_or_else(|error| panic!("start {program}: {error}"));
        Tool {
            name: words.join(" "),
            child,
            output,
        }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn printed(&self) -> String {
        let mut bytes = vec![0; self.output.metadata().expect("a file's length").len() as usize];
        // Not `read`, as the tool shares the file position.
        let read = self.output.read_exact_at(&mut bytes, 0);
        read.expect("read what a tool printed");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[track_caller]
    pub fn wait_printed(&self, text: &str) {
        let is_printed = wait::eventually(|| self.printed().contains(text));
        let printed = one_line(&self.printed());
        assert!(is_printed, "{text:?} was waited for in vain: {printed}");
    }

    /// Runs `run` while the tool is stopped. The kernel skips an eBPF program on a CPU where a task
    /// was preempted within a system call on a map, and the tool may be that task: the program
    /// would miss the records.
    pub fn while_stopped<T>(&self, run: impl FnOnce() -> T) -> T {
        tasks::stop(self.pid());
        let result = run();
        os::kill(self.pid(), libc::SIGCONT).expect("let a tool go on");
        result
    }

    /// Interrupts the tool as Ctrl-C does, and waits for its end.
    #[track_caller]
    pub fn interrupt(self) -> Output {
        os::kill(self.pid(), libc::SIGINT).expect("interrupt a tool");
        self.end()
    }

    /// The same with repeated signals, one of which trace-cmd's stream can miss on a busy host.
    #[track_caller]
    pub fn interrupt_until_it_ends(self) -> Output {
        let has_ended = || {
            os::kill(self.pid(), libc::SIGINT).expect("interrupt a tool");
            os::wait_for_end(self.pid(), Duration::from_secs(5)).expect("wait for a tool")
        };
        let _ = (0..8).any(|_| has_ended());
        self.end()
    }

    #[track_caller]
    pub fn end(mut self) -> Output {
        let has_ended = os::wait_for_end(self.pid(), 2 * wait::limit()).expect("wait for a tool");
        let (name, printed) = (&self.name, one_line(&self.printed()));
        assert!(has_ended, "{name} does not end: {printed}");
        Output {
            status: self.child.wait().expect("wait for a tool"),
            text: self.printed(),
        }
    }

    /// Waits for the end, which must be a success.
    #[track_caller]
    pub fn end_well(self) -> Output {
        let name = self.name.clone();
        let output = self.end();
        let text = one_line(&output.text);
        match (output.status.code(), output.status.signal()) {
            (Some(0), _) => output,
            (Some(code), _) => panic!("{name} ended with status {code}: {text}"),
            (None, signal) => panic!("{name} ended by signal {signal:?}: {text}"),
        }
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a tool until its end, which must be a success.
#[track_caller]
pub fn run(words: &[&str]) -> Output {
    Tool::start(words).end_well()
}

fn one_line(text: &str) -> String {
    text.trim().replace('\n', " | ")
}

/// A directory for the files of one test; removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes a directory; `name` is the test's.
    pub fn new(name: &str) -> Scratch {
        let dir = Path::new("/tmp").join(name);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("remove {name}: {error}"),
            _ => fs::create_dir(&dir).expect("make a directory"),
        }
        Scratch(dir)
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> String {
        let path = self.0.join(name).into_os_string().into_string();
        path.expect("names of tests are text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
