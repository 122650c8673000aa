// SPDX-License-Identifier: GPL-2.0

//! A file system whose server answers when it is told to: `selftests/c/withhold.c`.

use crate::kit::tool::built_program;
use crate::kit::{os, wait};
use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// There where the kernel has FUSE.
pub const PATH: &str = "/dev/fuse";

/// Where it is mounted, for the process that started it and its children only.
const PLACE: &CStr = c"/mnt";

/// What the server can leave unanswered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Writing pages back. The pages stay under writeback.
    Write,
    /// Reading pages. The pages stay locked.
    Read,
}

/// The server and its mount. When dropped it is killed, and all that it has left unanswered fails.
pub struct Server {
    process: Child,
    input: ChildStdin,
    output: File,
    /// The start of a line of the output.
    line: Vec<u8>,
    /// How many requests are held, by what the server has said so far.
    held: usize,
}

/// The number of what is mounted.
fn device() -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("read mountinfo");
    let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
    let mut mounts = mounts.lines().map(words);
    let mount = mounts.rfind(|mount| mount[4].as_bytes() == PLACE.to_bytes());
    mount.expect("a mount").swap_remove(2)
}

/// The path of a file.
pub fn path(number: usize) -> String {
    format!("{}/{number}", PLACE.to_string_lossy())
}

impl Server {
    /// Mounts `files` files of `bytes` bytes each. This process gets mounts of its own for that.
    pub fn start(files: usize, bytes: usize) -> Server {
        os::own_mounts();
        let program = built_program("withhold");
        let mut process = Command::new(&program)
            .arg(OsStr::from_bytes(PLACE.to_bytes()))
            .args([files.to_string(), bytes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", program.display()));
        let input = process.stdin.take().expect("its input");
        let output = process.stdout.take().expect("its output");
        let mut server = Server {
            process,
            input,
            output: File::from(OwnedFd::from(output)),
            line: Vec::new(),
            held: 0,
        };
        assert_eq!(server.listen().as_deref(), Some("mounted"));
        // Else a task that makes many pages dirty has to wait until they are written back.
        let limits = format!("/sys/class/bdi/{}", device());
        for (limit, value) in [("strict_limit", "0"), ("max_ratio", "100")] {
            fs::write(format!("{limits}/{limit}"), value).expect("a limit of dirty pages");
        }
        server
    }

    /// The next line of its output, if there is one in time.
    fn listen(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
                let rest = self.line.split_off(end + 1);
                let line = std::mem::replace(&mut self.line, rest);
                return Some(String::from_utf8_lossy(&line).trim_end().into());
            }
            if !os::is_readable(&self.output, wait::limit()) {
                return None;
            }
            let mut bytes = [0; 4096];
            let length = self.output.read(&mut bytes).expect("read from the server");
            assert!(length > 0, "the server is gone");
            self.line.extend(&bytes[..length]);
        }
    }

    /// Takes the next line if it tells of a held request.
    fn note(&mut self) -> Option<String> {
        let line = self.listen().expect("a word of the server");
        let held = line.split_once(' ').and_then(|(_, held)| held.parse().ok());
        self.held = held.unwrap_or(self.held);
        held.is_none().then_some(line)
    }

    #[track_caller]
    fn command(&mut self, command: &str) {
        let result = self.input.write_all(format!("{command}\n").as_bytes());
        result.expect("tell the server");
        let said = loop {
            if let Some(line) = self.note() {
                break line;
            }
        };
        assert_eq!(said, "done", "what the server said to {command:?}");
    }

    /// From now on requests of this kind are held.
    pub fn hold(&mut self, what: Request) {
        self.command(match what {
            Request::Write => "hold write",
            Request::Read => "hold read",
        });
    }

    /// Answers all that is held, and what comes.
    pub fn release(&mut self) {
        self.command("release");
        self.held = 0;
    }

    /// Has the kernel forget all pages of the files; what is dirty is written back first. Nothing
    /// must be held.
    pub fn drop_pages(&mut self) {
        self.command("drop");
    }

    /// Has each task that opens a file from now on forget its pages first, with each of them locked until it is written
    /// back.
    pub fn drop_at_open(&mut self) {
        self.command("drop at open");
    }

    /// Waits until so many requests are held.
    #[track_caller]
    pub fn wait_held(&mut self, count: usize) {
        while self.held < count {
            assert_eq!(self.note(), None, "{} requests are held", self.held);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = os::unmount(PLACE);
    }
}
