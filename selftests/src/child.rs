// SPDX-License-Identifier: GPL-2.0

//! A second process, forked from a test, that does as told line by line.

use crate::errno::Result;
use crate::os;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// One end of the conversation between a test and its child.
pub struct Line {
    from: BufReader<File>,
    to: File,
}

impl Line {
    /// Says a word to the other side.
    pub fn say(&mut self, word: &str) {
        self.to
            .write_all(format!("{word}\n").as_bytes())
            .expect("the other process is gone");
    }

    /// Waits for the other side to say this word.
    #[track_caller]
    pub fn hear(&mut self, word: &str) {
        assert_eq!(self.listen(), word, "what the other process said");
    }

    /// Waits for what the other side says.
    pub fn listen(&mut self) -> String {
        let mut line = String::new();
        self.from
            .read_line(&mut line)
            .expect("read from the other process");
        line.trim_end().into()
    }
}

/// A child process; killed and reaped when dropped.
pub struct Child {
    /// Its process id.
    pub pid: i32,
    /// The line to it.
    pub line: Line,
    reaped: bool,
}

/// Forks a child that runs `run` and ends: well, or badly if `run` panics.
///
/// The test must have one thread only, or all others must hold no lock.
pub fn fork(run: impl FnOnce(&mut Line)) -> Child {
    fork_by(os::fork, run)
}

/// The same, forked by a function of the caller's, with the results of fork.
pub fn fork_by(fork: fn() -> Result<i32>, run: impl FnOnce(&mut Line)) -> Child {
    let (from_parent, to_child) = os::pipe().expect("pipe");
    let (from_child, to_parent) = os::pipe().expect("pipe");
    match fork().expect("fork") {
        0 => {
            drop((to_child, from_child));
            let mut line = Line {
                from: BufReader::new(from_parent),
                to: to_parent,
            };
            let result = catch_unwind(AssertUnwindSafe(|| run(&mut line)));
            os::exit_now(if result.is_ok() { 0 } else { 1 });
        }
        pid => Child {
            pid,
            line: Line {
                from: BufReader::new(from_child),
                to: to_child,
            },
            reaped: false,
        },
    }
}

impl Child {
    /// Waits for it to end well.
    #[track_caller]
    pub fn join(mut self) {
        let (_, status) = os::wait(self.pid, 0).expect("wait for the child");
        self.reaped = true;
        assert_eq!(status, 0, "wait status of the child");
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if !self.reaped {
            self.reaped = true;
            let _ = os::kill(self.pid, libc::SIGKILL);
            let _ = os::wait(self.pid, 0);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}
