// SPDX-License-Identifier: GPL-2.0

//! The programs people trace with: running them, and what they print.

use crate::kit::os;
use crate::kit::tasks;
use crate::kit::wait;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The path of one of our programs in C, which are built beside this one.
pub fn built_program(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("this program's path");
    let build = program.ancestors().nth(3).expect("a place to build in");
    build.join("c").join(name)
}

/// Runs a command; tells whether it went well.
pub fn succeeds(command: &str, arguments: &[&str]) -> bool {
    let command = Command::new(command)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    command.is_ok_and(|status| status.success())
}

/// What a tool that has ended printed: standard output and standard error, in the order they came.
pub struct Output {
    pub text: String,
    pub status: ExitStatus,
}

impl Output {
    /// The lines with this text in them, white space at their ends cut off.
    pub fn lines_with(&self, text: &str) -> Vec<&str> {
        let lines = self.text.lines().filter(|line| line.contains(text));
        lines.map(str::trim).collect()
    }

    /// What follows `text`, in each line that has it.
    pub fn after(&self, text: &str) -> Vec<&str> {
        let lines = self.text.lines();
        lines
            .filter_map(|line| Some(line.split_once(text)?.1.trim()))
            .collect()
    }
}

/// A tool that runs.
pub struct Tool {
    name: String,
    child: Child,
    // Not a pipe, which would have to be emptied while the tool runs.
    output: File,
}

impl Tool {
    /// Starts `words[0]` with the others as its arguments. It is killed when dropped.
    pub fn start(words: &[&str]) -> Tool {
        let (program, arguments) = words.split_first().expect("a tool's name");
        let output = os::memory_file(0);
        let to_output = || Stdio::from(output.try_clone().expect("duplicate a file"));
        // What it prints is seen line by line while it runs, as on a terminal.
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

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The processes it started that still run.
    pub fn children(&self) -> Vec<i32> {
        let parent = format!("PPid:\t{}", self.pid());
        let is_child = |pid: &i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line == parent)
        };
        fs::read_dir("/proc")
            .expect("list the processes")
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(is_child)
            .collect()
    }

    /// What it printed so far.
    pub fn printed(&self) -> String {
        let mut bytes = vec![0; self.output.metadata().expect("a file's length").len() as usize];
        // Not `read`: the tool shares the position in the file.
        self.output
            .read_exact_at(&mut bytes, 0)
            .expect("read what a tool printed");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until it has printed this.
    #[track_caller]
    pub fn wait_printed(&self, text: &str) {
        let printed = wait::eventually(|| self.printed().contains(text));
        assert!(
            printed,
            "{text:?} was waited for in vain: {}",
            one_line(&self.printed())
        );
    }

    /// Does something while it is stopped. The kernel passes over an eBPF program on a CPU on which a task was preempted
    /// within a system call that uses a map: what writes in its place is not seen then, and the tool may be that task.
    pub fn while_stopped<T>(&self, run: impl FnOnce() -> T) -> T {
        tasks::stop(self.pid());
        let result = run();
        os::kill(self.pid(), libc::SIGCONT).expect("let a tool go on");
        result
    }

    /// Has it end as with Ctrl-C.
    #[track_caller]
    pub fn interrupt(self) -> Output {
        os::kill(self.pid(), libc::SIGINT).expect("interrupt a tool");
        self.end()
    }

    /// The same, pressed again where that is overlooked, as trace-cmd's stream does on a busy host.
    #[track_caller]
    pub fn interrupt_until_it_ends(self) -> Output {
        let has_ended = || {
            os::kill(self.pid(), libc::SIGINT).expect("interrupt a tool");
            os::wait_for_end(self.pid(), Duration::from_secs(5)).expect("wait for a tool")
        };
        let _ = (0..8).any(|_| has_ended());
        self.end()
    }

    /// Waits until it ends, however it does.
    #[track_caller]
    pub fn end(mut self) -> Output {
        let pid = self.pid();
        assert!(
            os::wait_for_end(pid, 2 * wait::limit()).expect("wait for a tool"),
            "{} does not end: {}",
            self.name,
            one_line(&self.printed())
        );
        Output {
            status: self.child.wait().expect("wait for a tool"),
            text: self.printed(),
        }
    }

    /// Waits until it ends, which must be well.
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
        // In vain if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a tool to its end, which must be well.
#[track_caller]
pub fn run(words: &[&str]) -> Output {
    Tool::start(words).end_well()
}

/// A panic's text is one line.
fn one_line(text: &str) -> String {
    text.trim().replace('\n', " | ")
}

/// A directory for the files of one test. Removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new one; `name` is the test's.
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
