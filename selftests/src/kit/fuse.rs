// SPDX-License-Identifier: GPL-2.0

//! A file system whose server withholds answers on request: `selftests/c/withhold.c`.

use crate::kit::tool::built_program;
use crate::kit::{os, wait};
use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Exists if the kernel has FUSE.
pub const PATH: &str = "/dev/fuse";

/// The mount point, in the mount namespace of the process that started the server.
const PLACE: &CStr = c"/mnt";

/// A kind of request that the server can hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Writing pages back. The pages stay under writeback.
    Write,
    /// Reading pages. The pages stay locked.
    Read,
}

/// The server and its mount. When dropped, the server is killed, and all held requests fail.
pub struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The number of held requests that the server has reported so far.
    held: usize,
}

fn device() -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("read mountinfo");
    let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
    let mut mounts = mounts.lines().map(words);
    let mount = mounts.rfind(|mount| mount[4].as_bytes() == PLACE.to_bytes());
    mount.expect("a mount").swap_remove(2)
}

pub fn path(number: usize) -> String {
    format!("{}/{number}", PLACE.to_string_lossy())
}

#[track_caller]
pub fn open() -> File {
    let file = File::options().read(true).write(true).open(path(0));
    file.expect("open a file")
}

impl Server {
    /// Mounts `files` files of `bytes` bytes each, in a mount namespace of this process's own.
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
            output: BufReader::new(output),
            held: 0,
        };
        assert_eq!(server.listen().as_deref(), Some("mounted"));
        // Otherwise a task that dirties many pages is throttled until they are written back.
        let limits = format!("/sys/class/bdi/{}", device());
        for (limit, value) in [("strict_limit", "0"), ("max_ratio", "100")] {
            fs::write(format!("{limits}/{limit}"), value).expect("a limit of dirty pages");
        }
        server
    }

    /// The next line of the output, or nothing after a timeout.
    fn listen(&mut self) -> Option<String> {
        let has_line = !self.output.buffer().is_empty();
        if !has_line && !os::is_readable(self.output.get_ref(), wait::limit()) {
            return None;
        }
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        let length = read.expect("read from the server");
        assert!(length > 0, "the server is gone");
        Some(line.trim_end().into())
    }

    /// Takes the next line. Returns it unless it reports a held request.
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
        let said = iter::repeat_with(|| self.note()).flatten().next();
        assert_eq!(said.as_deref(), Some("done"), "to {command:?}");
    }

    pub fn hold(&mut self, what: Request) {
        self.command(match what {
            Request::Write => "hold write",
            Request::Read => "hold read",
        });
    }

    /// Answers all held requests, and later ones at once.
    pub fn release(&mut self) {
        self.command("release");
        self.held = 0;
    }

    /// Makes the kernel write back and drop all pages of the files. No request may be held.
    pub fn drop_pages(&mut self) {
        self.command("drop");
    }

    /// From now on drops the pages of each file that a task opens, each page locked until written
    /// back.
    pub fn drop_at_open(&mut self) {
        self.command("drop at open");
    }

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
