// SPDX-License-Identifier: GPL-2.0

//! A second process, forked from a test, that does as told line by line.

use crate::kit::errno::Result;
use crate::kit::os;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// One end of the conversation between a test and its child.
pub struct Line {
    from: BufReader<File>,
    to: File,
    /// Is this the end of the child?
    is_childs: bool,
}

impl Line {
    /// Says a word to the other side.
    #[track_caller]
    pub fn say(&mut self, word: &str) {
        if self.to.write_all(format!("{word}\n").as_bytes()).is_err() {
            self.end_alone();
        }
    }

    /// Waits for the other side to say this word.
    #[track_caller]
    pub fn hear(&mut self, word: &str) {
        assert_eq!(self.listen(), word, "what the other process said");
    }

    /// Has the other side said something that is not listened to yet, within a time?
    pub fn has_said(&self, limit: std::time::Duration) -> bool {
        !self.from.buffer().is_empty() || os::is_readable(self.from.get_ref(), limit)
    }

    /// Waits for what the other side says.
    #[track_caller]
    pub fn listen(&mut self) -> String {
        let mut line = String::new();
        let read = self.from.read_line(&mut line);
        if read.expect("read from the other process") == 0 {
            self.end_alone();
        }
        line.trim_end().into()
    }

    /// The other side has ended. A parent that fails, or is killed, says so itself, and its children have nothing
    /// to add.
    #[track_caller]
    fn end_alone(&self) -> ! {
        if self.is_childs {
            os::exit_now(0);
        }
        panic!("the other process has ended");
    }
}

/// In a child, until it is killed: does each word that it is told, and says the word when it is done. `thread: WORD` has a
/// thread do it, whose number is said at once; `join` waits for these threads. `alone` may do a word in the first
/// thread, say what it likes, and return true.
pub fn serve(
    line: &mut Line,
    obey: impl Fn(&str) + Send + Sync + 'static,
    mut alone: impl FnMut(&str, &mut Line) -> bool,
) -> ! {
    let obey: &'static _ = Box::leak(Box::new(obey));
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let word = line.listen();
        if let Some(word) = word.strip_prefix("thread: ") {
            let (to, from) = mpsc::channel();
            let word = word.to_string();
            threads.push(thread::spawn(move || {
                to.send(os::thread_id()).unwrap();
                obey(&word);
            }));
            line.say(&from.recv().unwrap().to_string());
        } else if !alone(&word, line) {
            match word.as_str() {
                "join" => threads.drain(..).for_each(|thread| thread.join().unwrap()),
                word => obey(word),
            }
            line.say(&word);
        }
    }
}

/// A child process; killed and reaped when dropped, until when it must live.
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
                is_childs: true,
            };
            let result = catch_unwind(AssertUnwindSafe(|| run(&mut line)));
            os::exit_now(if result.is_ok() { 0 } else { 1 });
        }
        pid => Child {
            pid,
            line: Line {
                from: BufReader::new(from_child),
                to: to_child,
                is_childs: false,
            },
            reaped: false,
        },
    }
}

impl Child {
    /// Tells it a word of those that it [serves](serve), and waits until it has done it.
    #[track_caller]
    pub fn tell(&mut self, word: &str) {
        self.line.say(word);
        self.line.hear(word);
    }

    /// Has a thread of it do what the word says, which may wait at that. Returns the thread's number.
    #[track_caller]
    pub fn tell_thread(&mut self, word: &str) -> i32 {
        self.line.say(&format!("thread: {word}"));
        self.line.listen().parse().expect("a thread")
    }

    /// Waits for it to end well.
    #[track_caller]
    pub fn join(mut self) {
        assert_eq!(self.wait(), 0, "wait status of the child");
    }

    /// Waits for it to end. Returns its wait status; its own children may still be on the line.
    #[track_caller]
    pub fn wait(&mut self) -> i32 {
        self.reaped = true;
        let (_, status) = os::wait(self.pid, 0).expect("wait for the child");
        status
    }

    /// Kills it, and waits until it is gone. It must have lived until then: a load that has ended loads nothing.
    #[track_caller]
    pub fn kill(mut self) {
        assert_eq!(self.end(), Some(libc::SIGKILL), "{ENDED_EARLY}");
    }

    /// Kills it where it has not come to its end, which is a good one.
    #[track_caller]
    pub fn kill_under_way(mut self) {
        let status = self.end();
        let well = [Some(0), Some(libc::SIGKILL)];
        assert!(well.contains(&status), "wait status of a child: {status:?}");
    }

    /// Returns its wait status, if it was still to be had.
    fn end(&mut self) -> Option<i32> {
        self.reaped = true;
        let _ = os::kill(self.pid, libc::SIGKILL);
        os::wait(self.pid, 0).ok().map(|(_, status)| status)
    }
}

const ENDED_EARLY: &str = "wait status of a child that was to live until it is killed";

impl Drop for Child {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        let status = self.end();
        // A test that fails already has said why.
        if !thread::panicking() {
            assert_eq!(status, Some(libc::SIGKILL), "{ENDED_EARLY}");
        }
    }
}
