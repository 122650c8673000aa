// SPDX-License-Identifier: GPL-2.0

//! A process with pages of a file whose server withholds its replies, and other processes beside
//! it.

use crate::kit::abi::Data;
use crate::kit::child::{self, Child, Line, Word};
use crate::kit::event::{wait_due, wait_gone};
use crate::kit::fuse::{self, Request, Server};
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
use crate::kit::other_tasks::OtherTasks;
use crate::kit::setting::{allow_long_sleep, Setting};
use crate::kit::tracefs::TraceInstance;
use crate::kit::userfault::{Guard, Userfault};
use crate::kit::{os, tasks, wait};
use std::fs::File;
use std::io::Read;

pub(super) const EVENT: &str = "st_held";
pub(super) const TEXT: &str = "st_held u32 a";

/// An event that only one process registers.
pub(super) const ALONE: &str = "st_held_alone";

/// The size of a read-ahead.
pub(super) const PAGES: usize = 32;

/// The kind of page, and the request that its process waits for.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) request: Request,
    /// `MAP_SHARED` or `MAP_PRIVATE`.
    pub(super) sharing: i32,
    /// Whether pages are read ahead, so that a task can be killed while it waits.
    pub(super) is_ahead: bool,
    /// Whether writes are guarded by a userfaultfd whose faults the kernel resolves.
    pub(super) is_guarded: bool,
}

pub(super) const WRITE_SHARED: Kind = Kind {
    request: Request::Write,
    sharing: libc::MAP_SHARED,
    is_ahead: false,
    is_guarded: false,
};
pub(super) const READ_SHARED: Kind = Kind {
    request: Request::Read,
    ..WRITE_SHARED
};
pub(super) const READ_PRIVATE: Kind = Kind {
    sharing: libc::MAP_PRIVATE,
    ..READ_SHARED
};
pub(super) const AHEAD_SHARED: Kind = Kind {
    is_ahead: true,
    ..READ_SHARED
};
pub(super) const AHEAD_PRIVATE: Kind = Kind {
    is_ahead: true,
    ..READ_PRIVATE
};
pub(super) const WRITE_GUARDED: Kind = Kind {
    is_guarded: true,
    ..WRITE_SHARED
};
pub(super) const READ_GUARDED: Kind = Kind {
    is_guarded: true,
    ..READ_SHARED
};

/// A user of a page of the file system; runs in a process of its own.
pub(super) struct User {
    file: File,
    page: Mapping,
    /// Anonymous memory.
    own: Mapping,
    data: Data,
}

impl User {
    pub(super) fn new(kind: Kind) -> User {
        let file = File::options().read(true).write(true).open(fuse::path(0));
        let file = file.expect("open a file");
        let page = Mapping::of_file(&file, PAGES, READ_WRITE, kind.sharing).expect("mmap");
        if !kind.is_ahead {
            page.advise(libc::MADV_RANDOM).unwrap();
        }
        let (own, data) = (Mapping::kept(1), Data::open());
        User {
            file,
            page,
            own,
            data,
        }
    }

    fn obey(&self, word: Word) {
        let (page, own) = (&self.page, &self.own);
        let bit = |page: &Mapping| page.get(0) & 1 != 0;
        let register = |address| {
            self.data.register_text(TEXT, address, 0).expect("register");
        };
        match word {
            Word::Register => register(page.address()),
            Word::RegisterOwn => register(own.address()),
            Word::RegisterAlone => {
                let text = format!("{ALONE} u32 a");
                let result = self.data.register_text(&text, own.address() + 128, 0);
                result.expect("register");
            }
            Word::Unregister => {
                let result = self.data.unregister_bit(page.address(), 0);
                result.expect("unregister");
            }
            Word::Use => page.set(64, 1),
            // A visit to user space without a use of the pages.
            Word::Look => (),
            Word::WriteBack => os::start_writeback(&self.file),
            Word::Forget => page.discard(),
            Word::Guard => {
                let faults = Userfault::answered_by_the_kernel();
                faults.guard(page, Guard::Writes);
                // Guarded while the descriptor is open.
                std::mem::forget(faults);
            }
            // A change of the mapping, which takes its lock for writing.
            Word::Change => page.advise(libc::MADV_DONTDUMP).unwrap(),
            Word::Set => wait::until("the bit to be set", || bit(page)),
            Word::Clear => wait::until("the bit to be cleared", || !bit(page)),
            Word::OwnSet => wait::until("the own bit to be set", || bit(own)),
            Word::OwnClear => wait::until("the own bit to be cleared", || !bit(own)),
            Word::Fork => {
                let (mut from_parent, to_child) = os::pipe().expect("pipe");
                if os::fork().expect("fork") == 0 {
                    drop(to_child);
                    // The child ends with its parent.
                    let _ = from_parent.read(&mut [0]);
                    os::exit_now(0);
                }
                std::mem::forget(to_child);
            }
            word => panic!("told to {word:?}"),
        }
    }

    /// Makes a child that shares this memory and begins when a fault on a guarded page is answered.
    /// It ends when it has seen the bit set; this process waits for it.
    fn vfork(&self, line: &mut Line) {
        let (faults, pidfd) = (Userfault::new(), Mapping::kept(1));
        faults.guard(&pidfd, Guard::Missing);
        faults.send(line, &pidfd);
        let child = tasks::vfork_to(libc::CLONE_PIDFD, pidfd.address(), || {
            line.send(std::process::id());
            self.obey(Word::Set);
            line.say(Word::Seen);
            0
        });
        child.expect("vfork");
    }

    /// Guards, and drops, the page of its own. Sends the userfaultfd and the address.
    fn guard_own(&self, line: &mut Line) {
        let faults = Userfault::new();
        faults.guard(&self.own, Guard::Missing);
        faults.send(line, &self.own);
        // Guarded while the descriptor is open.
        std::mem::forget(faults);
    }

    /// Executes orders, itself or in a thread.
    pub(super) fn run(self, line: &mut Line) {
        let user: &'static User = Box::leak(Box::new(self));
        let alone = |word: Word, line: &mut Line| {
            match word {
                Word::Share => line.send(tasks::share_memory().expect("clone")),
                Word::GuardOwn => user.guard_own(line),
                Word::Vfork => {
                    user.vfork(line);
                    line.say(word);
                }
                _ => return false,
            }
            true
        };
        child::serve(line, |word| user.obey(word), alone)
    }
}

/// A server, a process that uses its file, and others that do not. The server is dropped first: its
/// end ends every wait.
pub(super) struct Setup {
    pub(super) server: Option<Server>,
    pub(super) user: Child,
    other_tasks: Option<OtherTasks>,
    kind: Kind,
    _long_sleep: Option<Setting>,
}

impl Setup {
    pub(super) fn new(kind: Kind) -> Setup {
        let long_sleep = allow_long_sleep();
        let server = Server::start(1, PAGES * PAGE);
        let other_tasks = OtherTasks::new(EVENT);
        let user = child::fork(|line| User::new(kind).run(line));
        Setup {
            server: Some(server),
            user,
            other_tasks: Some(other_tasks),
            kind,
            _long_sleep: long_sleep,
        }
    }

    pub(super) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("a server")
    }

    /// Lets the process do something.
    #[track_caller]
    pub(super) fn tell(&mut self, word: Word) {
        self.user.tell(word);
    }

    /// Lets the process do something at which it waits.
    #[track_caller]
    pub(super) fn tell_and_wait(&mut self, word: Word) {
        self.user.line.say(word);
        self.wait_for(self.user.pid);
    }

    /// Lets a thread of the process do something, which may wait. Returns its tid.
    #[track_caller]
    pub(super) fn tell_thread(&mut self, word: Word) -> i32 {
        self.user.tell_thread(word)
    }

    pub(super) fn state(&self, thread: i32) -> Option<char> {
        tasks::state(self.user.pid, thread)
    }

    /// Waits until a thread of the process waits for the server.
    #[track_caller]
    pub(super) fn wait_for(&mut self, thread: i32) {
        self.wait_for_task(self.user.pid, thread);
    }

    /// Like [`Setup::wait_for`] for a thread of any process.
    #[track_caller]
    pub(super) fn wait_for_task(&mut self, pid: i32, thread: i32) {
        // A task that waits for its own READ is in an interruptible sleep.
        if self.kind.request == Request::Read {
            self.server().wait_held(1);
        }
        if self.kind.request == Request::Write || self.kind.is_ahead {
            tasks::wait_state(pid, thread, 'D');
        }
    }

    /// Withholds the page, which is present and was used: it cannot be faulted in or written until
    /// the server answers.
    #[track_caller]
    pub(super) fn withhold(&mut self) {
        match self.kind.request {
            Request::Write => {
                self.tell(Word::Use);
                self.server().hold(Request::Write);
                self.tell(Word::WriteBack);
                self.server().wait_held(1);
            }
            Request::Read => {
                self.tell(Word::Forget);
                self.server().drop_pages();
                self.server().hold(Request::Read);
            }
        }
        if self.kind.is_guarded {
            self.tell(Word::Guard);
        }
    }

    /// Does something while the process waits.
    #[track_caller]
    pub(super) fn beside(&mut self, op: &str, run: impl FnOnce()) {
        self.other_tasks.as_mut().unwrap().ops.has(op, run);
        self.nothing_is_late();
    }

    /// Checks that all operations of other processes succeed, and that no kernel worker waits for a
    /// page.
    #[track_caller]
    pub(super) fn others_carry_on(&mut self) {
        self.other_tasks.as_mut().unwrap().carry_on();
        self.nothing_is_late();
        self.beside("no worker of the module waits for memory", || {
            wait::until("the end of their waits", || {
                tasks::waiting_workers("user_events").is_empty()
            });
        });
    }

    #[track_caller]
    fn nothing_is_late(&mut self) {
        let ops = &self.other_tasks.as_ref().unwrap().ops;
        ops.judge(|| drop(self.server.take()));
    }

    /// Enables the event, which the process's bit cannot follow.
    #[track_caller]
    pub(super) fn switch_on(&mut self) {
        self.beside("ftrace attaches", || TraceInstance::top().enable(EVENT));
        self.is_due();
    }

    /// Waits until the repair of the process's bit is listed as pending.
    #[track_caller]
    pub(super) fn is_due(&mut self) {
        let pid = self.user.pid;
        self.beside("the bit is listed as due", || {
            wait_due(pid);
        });
    }

    #[track_caller]
    pub(super) fn switch_off(&mut self) {
        self.beside("ftrace leaves", || TraceInstance::top().disable(EVENT));
    }

    /// Lets the server answer.
    pub(super) fn release(&mut self) {
        self.server().release();
    }

    /// Checks that the process's bit follows the event.
    #[track_caller]
    pub(super) fn follows(&mut self, set: Word, clear: Word) {
        self.beside("ftrace attaches", || TraceInstance::top().enable(EVENT));
        self.tell(set);
        self.switch_off();
        self.tell(clear);
    }

    /// Ends everything.
    #[track_caller]
    pub(super) fn end(mut self) {
        self.user.kill();
        let other_tasks = self.other_tasks.take().unwrap();
        other_tasks.end();
        wait_gone(EVENT);
    }

    /// Checks that the killed process ends although the server does not answer.
    #[track_caller]
    pub(super) fn is_gone(&mut self) {
        let ended = os::wait_for_end(self.user.pid, wait::limit()).expect("wait for the end");
        if !ended {
            drop(self.server.take());
            panic!("a killed process stayed");
        }
    }

    pub(super) fn kill(&self) {
        os::kill(self.user.pid, libc::SIGKILL).expect("kill");
    }
}
