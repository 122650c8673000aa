// SPDX-License-Identifier: GPL-2.0

//! A second process, forked from a test, which follows the test's orders.

use crate::kit::os;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::str::FromStr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

macro_rules! words {
    ($($word:ident),* $(,)?) => {
        /// An order to the other process, or its report.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Word { $($word),* }

        const WORDS: &[Word] = &[$(Word::$word),*];
    };
}

words! {
    Again, Allow, Allowed, Begin, Begun, Change, Clear, ClearThenDrop, Cleared, Close,
    Copy, Copying, Crash, Done, Drop, DropAndUnregister, Dropped, Empty, Enabled, End,
    Enter, Entered, Exec, Exit, Extend, Failed, Fill, Filled, Forbid, Forget, Fork,
    ForkClear, ForkSet, Forked, GivenUp, GoOn, Gone, Guard, GuardOwn, Guarded, InThread,
    IsClear, IsSet, Join, Kill, Leave, Lives, Look, Made, Make, Next, On, Open,
    OthersEnded, OwnClear, OwnSet, Poll, Punch, Reading, Ready, Refused, Register,
    RegisterAlone, RegisterAndStore, RegisterOwn, RegisterSecond, Registered, Remove,
    Runs, SecondClear, SecondSet, SeeItClear, SeeItSetAndUnregister, Seen, Set,
    SetThenDrop, Share, Sleeping, Spoiled, Stalled, SwapOut, Sync, Take, TheEnd, Toggle,
    Toggled, Toggling, TouchAndRegister, Truncate, Unmap, Unregister, UnregisterSecond,
    Unregistered, Use, Vfork, Worked, Write, WriteBack, Written, Wrote,
}

/// One end of the connection between a test and its child.
pub struct Line {
    from: BufReader<File>,
    to: File,
    is_childs: bool,
}

impl Line {
    #[track_caller]
    pub fn say(&mut self, word: Word) {
        self.send(format!("{word:?}"));
    }

    /// Sends a value of one line to the other side, which [receives](Self::receive) the value.
    #[track_caller]
    pub fn send(&mut self, value: impl Display) {
        if self.to.write_all(format!("{value}\n").as_bytes()).is_err() {
            self.end_alone();
        }
    }

    /// Waits for the next word, which must be this one.
    #[track_caller]
    pub fn hear(&mut self, word: Word) {
        assert_eq!(self.listen(), word, "the word of the other process");
    }

    /// Waits for a word, follows it by `run`, and sends the word back, as [`Child::tell`] expects.
    #[track_caller]
    pub fn follow<T>(&mut self, word: Word, run: impl FnOnce() -> T) -> T {
        self.hear(word);
        let result = run();
        self.say(word);
        result
    }

    #[track_caller]
    pub fn ask(&mut self, word: Word, answer: Word) {
        self.say(word);
        self.hear(answer);
    }

    /// Waits to be killed, in a child whose part is done.
    #[track_caller]
    pub fn wait_for_kill(&mut self) {
        let word = self.listen();
        panic!("{word:?} for a process that is to be killed");
    }

    /// Returns whether the other side sends something within `limit`.
    pub fn has_said(&self, limit: std::time::Duration) -> bool {
        !self.from.buffer().is_empty() || os::is_readable(self.from.get_ref(), limit)
    }

    #[track_caller]
    pub fn listen(&mut self) -> Word {
        let name: String = self.receive();
        let word = WORDS.iter().find(|word| format!("{word:?}") == name);
        *word.unwrap_or_else(|| panic!("{name:?} is no word"))
    }

    #[track_caller]
    pub fn receive<T: FromStr>(&mut self) -> T {
        let mut line = String::new();
        let read = self.from.read_line(&mut line);
        if read.expect("read from the other process") == 0 {
            self.end_alone();
        }
        let value = line.trim_end();
        let parsed = value.parse();
        parsed.unwrap_or_else(|_| panic!("{value:?} is not the value to receive"))
    }

    /// Ends this process, as the other side has ended. A child exits without an error: a parent
    /// that failed or was killed is reported already.
    #[track_caller]
    fn end_alone(&self) -> ! {
        if self.is_childs {
            os::exit_now(0);
        }
        panic!("the other process has ended");
    }
}

/// Serves in a child until it is killed: follows each order by `obey`, then sends the word back.
/// The order after [`Word::InThread`] is followed in a new thread, whose id is sent at once;
/// [`Word::Join`] waits for these threads. `alone` may instead follow an order in the first thread
/// with reports of its own, and then returns true.
pub fn serve(
    line: &mut Line,
    obey: impl Fn(Word) + Send + Sync + 'static,
    mut alone: impl FnMut(Word, &mut Line) -> bool,
) -> ! {
    let obey: &'static _ = Box::leak(Box::new(obey));
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let word = line.listen();
        if word == Word::InThread {
            let (to, from) = mpsc::channel();
            let word = line.listen();
            threads.push(thread::spawn(move || {
                to.send(os::thread_id()).unwrap();
                obey(word);
            }));
            line.send(from.recv().unwrap());
        } else if !alone(word, line) {
            match word {
                Word::Join => threads.drain(..).for_each(|thread| thread.join().unwrap()),
                word => obey(word),
            }
            line.say(word);
        }
    }
}

/// A child process. Dropping it kills and reaps it, and fails if it has ended before.
pub struct Child {
    pub pid: i32,
    pub line: Line,
    reaped: bool,
}

/// Forks a child that runs `run` and exits, with an error if `run` panics.
///
/// No other thread may hold a lock.
pub fn fork(run: impl FnOnce(&mut Line)) -> Child {
    let (from_parent, to_child) = os::pipe().expect("pipe");
    let (from_child, to_parent) = os::pipe().expect("pipe");
    let line = |from, to, is_childs| Line {
        from: BufReader::new(from),
        to,
        is_childs,
    };
    let pid = os::fork().expect("fork");
    if pid == 0 {
        drop((to_child, from_child));
        let mut line = line(from_parent, to_parent, true);
        os::exit_after(|| run(&mut line));
    }
    Child {
        pid,
        line: line(from_child, to_child, false),
        reaped: false,
    }
}

/// The same, and waits for the first word of the child.
#[track_caller]
pub fn fork_until(word: Word, run: impl FnOnce(&mut Line)) -> Child {
    let mut child = fork(run);
    child.line.hear(word);
    child
}

impl Child {
    /// Gives an order to a child, and waits until the order is [followed](Line::follow), as one
    /// that [serves](serve) follows all.
    #[track_caller]
    pub fn tell(&mut self, word: Word) {
        self.line.ask(word, word);
    }

    /// Gives an order to a new thread of a child that [serves](serve). Returns the thread's id.
    #[track_caller]
    pub fn tell_thread(&mut self, word: Word) -> i32 {
        self.line.say(Word::InThread);
        self.line.say(word);
        self.line.receive()
    }

    /// Orders the child to end, and waits until it has, without an error.
    #[track_caller]
    pub fn finish(mut self) {
        self.line.say(Word::End);
        self.join();
    }

    /// Waits for the child to end without an error.
    #[track_caller]
    pub fn join(mut self) {
        assert_eq!(self.wait(), 0, "wait status of the child");
    }

    /// Waits for the child to end. Returns the wait status. Processes forked by the child may
    /// outlive it and still use the line.
    #[track_caller]
    pub fn wait(&mut self) -> i32 {
        self.reaped = true;
        let (_, status) = os::wait(self.pid, 0).expect("wait for the child");
        status
    }

    /// Kills and reaps the child, which must not have ended before: an early end would leave the
    /// test without its load.
    #[track_caller]
    pub fn kill(mut self) {
        assert_eq!(self.end(), Some(libc::SIGKILL), "{ENDED_EARLY}");
    }

    /// Kills and reaps the child, which may have ended without an error before.
    #[track_caller]
    pub fn kill_under_way(mut self) {
        let status = self.end();
        let well = [Some(0), Some(libc::SIGKILL)];
        assert!(well.contains(&status), "wait status of a child: {status:?}");
    }

    /// Kills and reaps the child. Returns the wait status unless the child was reaped before.
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
        // A panic has reported the failure already.
        if !thread::panicking() {
            assert_eq!(status, Some(libc::SIGKILL), "{ENDED_EARLY}");
        }
    }
}
