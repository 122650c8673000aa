// SPDX-License-Identifier: GPL-2.0

//! A process with pages of a file whose server withholds its replies, and other processes beside
//! it.

use crate::kit::abi::Data;
use crate::kit::beside::Beside;
use crate::kit::child::{self, Line, Word};
use crate::kit::fuse::{self, Request, Server};
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
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

impl Kind {
    pub(super) const fn of(request: Request, sharing: i32) -> Kind {
        Kind {
            request,
            sharing,
            is_ahead: false,
            is_guarded: false,
        }
    }

    const fn ahead(self) -> Kind {
        Kind {
            is_ahead: true,
            ..self
        }
    }

    const fn guarded(self) -> Kind {
        Kind {
            is_guarded: true,
            ..self
        }
    }
}

pub(super) const WRITE_SHARED: Kind = Kind::of(Request::Write, libc::MAP_SHARED);
pub(super) const READ_SHARED: Kind = Kind::of(Request::Read, libc::MAP_SHARED);
pub(super) const READ_PRIVATE: Kind = Kind::of(Request::Read, libc::MAP_PRIVATE);
pub(super) const AHEAD_SHARED: Kind = READ_SHARED.ahead();
pub(super) const AHEAD_PRIVATE: Kind = READ_PRIVATE.ahead();
pub(super) const WRITE_GUARDED: Kind = WRITE_SHARED.guarded();
pub(super) const READ_GUARDED: Kind = READ_SHARED.guarded();

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
        let file = fuse::open();
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
        let register = |text, address| {
            let index = self.data.register_text(text, address, 0);
            assert!(index.is_ok(), "register {text}: {index:?}");
        };
        match word {
            Word::Register => register(TEXT, page.address()),
            Word::RegisterOwn => register(TEXT, own.address()),
            Word::RegisterAlone => register("st_held_alone u32 a", own.address() + 128),
            Word::Unregister => {
                let unregistered = self.data.unregister_bit(page.address(), 0);
                assert_eq!(unregistered, Ok(()), "unregister");
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
        let faults = Userfault::on(&self.own, Guard::Missing);
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

/// A server that holds up the process by its requests; its end ends every wait.
pub(super) struct Held {
    pub(super) server: Server,
    kind: Kind,
}

pub(super) type Setup = Beside<Held>;

pub(super) fn set_up(kind: Kind) -> Setup {
    let server = Server::start(1, PAGES * PAGE);
    let user = || child::fork(|line| User::new(kind).run(line));
    Beside::new(EVENT, user, |_| Held { server, kind })
}

/// A process whose page is registered and withheld.
#[track_caller]
pub(super) fn registered(kind: Kind) -> Setup {
    let mut setup = set_up(kind);
    setup.tell(Word::Register);
    setup.withhold();
    setup
}

impl Setup {
    fn held(&mut self) -> &mut Held {
        self.hold.as_mut().expect("a server")
    }

    pub(super) fn server(&mut self) -> &mut Server {
        &mut self.held().server
    }

    /// Lets the process do something at which it waits.
    #[track_caller]
    pub(super) fn tell_and_wait(&mut self, word: Word) {
        self.user.line.say(word);
        let pid = self.user.pid;
        self.wait_for_task(pid, pid);
    }

    /// Lets a thread of the process do something, at which it waits.
    #[track_caller]
    pub(super) fn tell_thread_and_wait(&mut self, word: Word) {
        let thread = self.user.tell_thread(word);
        self.wait_for_task(self.user.pid, thread);
    }

    /// Waits until a thread of a process waits for the server.
    #[track_caller]
    pub(super) fn wait_for_task(&mut self, pid: i32, thread: i32) {
        let kind = self.held().kind;
        // A task that waits for its own READ is in an interruptible sleep.
        if kind.request == Request::Read {
            self.server().wait_held(1);
        }
        if kind.request == Request::Write || kind.is_ahead {
            tasks::wait_state(pid, thread, 'D');
        }
    }

    /// Withholds the page, which is present and was used: it cannot be faulted in or written until
    /// the server answers.
    #[track_caller]
    pub(super) fn withhold(&mut self) {
        let kind = self.held().kind;
        match kind.request {
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
        if kind.is_guarded {
            self.tell(Word::Guard);
        }
    }

    /// Lets the server answer.
    pub(super) fn release(&mut self) {
        self.server().release();
    }
}
