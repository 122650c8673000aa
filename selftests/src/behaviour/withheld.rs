// SPDX-License-Identifier: GPL-2.0

//! Pages of a FUSE file system whose server does not answer: what waits for them is what uses them.
//!
//! The server withholds the reply to a WRITE, and a page stays under writeback: in a shared mapping it
//! cannot be written then, and the task that tries waits in `fuse_page_mkwrite()` with the mapping locked.
//! Or it withholds the reply to a READ, and a page that was dropped does not come back. A task that waits
//! for its own READ is beyond SIGKILL once the server has the request; one that waits for a page that is
//! being read ahead is not. Where the process guards the mapping with a userfaultfd whose faults the kernel
//! answers itself, it is the same, as the page is the server's still.

use crate::harness::Test;
use crate::kit::abi::{Data, REGISTRATIONS};
use crate::kit::bystanders::Bystanders;
use crate::kit::child::{self, Child, Line};
use crate::kit::crowd::{self, Crowd, Memory, Op};
use crate::kit::errno::Errno;
use crate::kit::event::{is_due, wait_gone};
use crate::kit::fuse::{self, Request, Server, SIGN};
use crate::kit::machine::LongSleep;
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
use crate::kit::tracefs::Tracer;
use crate::kit::userfault::{Guard, Userfault};
use crate::kit::{machine, module, os, tasks, wait};
use std::fs::{self, File};
use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

const fn test(name: &'static str, run: fn()) -> Test {
    Test::new(name, run).where_there_is(SIGN).limit(400)
}

const fn of_loading(name: &'static str, run: fn()) -> Test {
    Test::of_loading(name, run).where_there_is(SIGN).limit(400)
}

/// Makes a test of each kind of pages.
macro_rules! of_kinds {
    ($($test:ident: $($kind:ident)*),* $(,)?) => {
        &[$($(test(
            concat!("withheld::", stringify!($test), "::", stringify!($kind)),
            || $test($kind),
        )),*),*]
    };
}

pub const TESTS: &[Test] = &[
    test(
        "withheld::a_first_registration_beside_a_write_holds_up_itself_only",
        a_first_registration_beside_a_write_holds_up_itself_only,
    ),
    test(
        "withheld::an_address_space_locked_beside_a_write_holds_up_itself_only",
        an_address_space_locked_beside_a_write_holds_up_itself_only,
    ),
    test(
        "withheld::a_guarded_page_is_not_forgotten_while_its_address_space_is_locked",
        a_guarded_page_is_not_forgotten_while_its_address_space_is_locked,
    ),
    test(
        "withheld::a_private_copy_needs_no_reply_to_a_write",
        a_private_copy_needs_no_reply_to_a_write,
    ),
    of_loading(
        "withheld::the_module_unloads_when_the_server_is_gone",
        the_module_unloads_when_the_server_is_gone,
    ),
];

/// The same for each of several kinds of pages.
pub const TESTS_OF_KINDS: &[Test] = of_kinds!(
    a_bit_of_a_sleeping_process_holds_up_nothing:
        WRITE_SHARED READ_SHARED READ_PRIVATE AHEAD_SHARED AHEAD_PRIVATE WRITE_GUARDED READ_GUARDED,
    a_process_that_uses_its_page_waits_alone:
        WRITE_SHARED READ_SHARED READ_PRIVATE AHEAD_SHARED AHEAD_PRIVATE WRITE_GUARDED READ_GUARDED,
    registering_such_a_page_waits_alone:
        WRITE_SHARED READ_SHARED READ_PRIVATE AHEAD_SHARED AHEAD_PRIVATE,
    unregistering_such_a_page_waits_alone:
        WRITE_SHARED READ_SHARED READ_PRIVATE AHEAD_SHARED AHEAD_PRIVATE,
    a_child_forked_meanwhile_holds_up_nothing:
        WRITE_SHARED READ_SHARED READ_PRIVATE AHEAD_SHARED AHEAD_PRIVATE,
    a_kill_ends_a_sleeping_process:
        WRITE_SHARED READ_SHARED READ_PRIVATE AHEAD_SHARED AHEAD_PRIVATE WRITE_GUARDED READ_GUARDED,
    a_kill_ends_a_process_that_waits:
        WRITE_SHARED READ_SHARED READ_PRIVATE AHEAD_SHARED AHEAD_PRIVATE,
    a_process_killed_at_a_bit_leaves_it_to_one_that_shares_its_memory:
        WRITE_SHARED READ_SHARED READ_PRIVATE AHEAD_SHARED AHEAD_PRIVATE,
    a_process_killed_before_a_bit_leaves_it_to_one_that_shares_its_memory:
        READ_SHARED READ_PRIVATE,
    thousands_hold_up_nothing:
        WRITE_SHARED READ_SHARED,
);

const EVENT: &str = "st_held";
const TEXT: &str = "st_held u32 a";

/// An event that one process alone has registered.
const ALONE: &str = "st_held_alone";

/// As much as the kernel reads ahead.
const PAGES: usize = 32;

/// What a page of a process waits for.
#[derive(Clone, Copy)]
struct Kind {
    request: Request,
    /// MAP_SHARED or MAP_PRIVATE.
    sharing: i32,
    /// Are pages read before a task asks for them, so that it can be killed while it waits?
    is_ahead: bool,
    /// Are writes to the pages guarded, and allowed by the kernel?
    is_guarded: bool,
}

const WRITE_SHARED: Kind = Kind {
    request: Request::Write,
    sharing: libc::MAP_SHARED,
    is_ahead: false,
    is_guarded: false,
};
const READ_SHARED: Kind = Kind {
    request: Request::Read,
    ..WRITE_SHARED
};
const READ_PRIVATE: Kind = Kind {
    sharing: libc::MAP_PRIVATE,
    ..READ_SHARED
};
const AHEAD_SHARED: Kind = Kind {
    is_ahead: true,
    ..READ_SHARED
};
const AHEAD_PRIVATE: Kind = Kind {
    is_ahead: true,
    ..READ_PRIVATE
};
const WRITE_GUARDED: Kind = Kind {
    is_guarded: true,
    ..WRITE_SHARED
};
const READ_GUARDED: Kind = Kind {
    is_guarded: true,
    ..READ_SHARED
};

/// In a process of its own: one that uses a page of the file system.
struct User {
    file: File,
    page: Mapping,
    /// Memory of its own.
    own: Mapping,
    data: Data,
}

impl User {
    fn new(kind: Kind) -> User {
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

    fn obey(&self, word: &str) {
        let (page, own) = (&self.page, &self.own);
        let bit = |page: &Mapping| page.word(0).load(Relaxed) & 1 != 0;
        let register = |address| {
            self.data.register_text(TEXT, address, 0).expect("register");
        };
        match word {
            "register" => register(page.address()),
            "register own" => register(own.address()),
            "register alone" => {
                let text = format!("{ALONE} u32 a");
                let result = self.data.register_text(&text, own.address() + 128, 0);
                result.expect("register");
            }
            "unregister" => {
                let result = self.data.unregister_bit(page.address(), 0);
                result.expect("unregister");
            }
            "use" => page.word(64).store(1, Relaxed),
            "write back" => os::start_writeback(&self.file),
            "forget" => page.advise(libc::MADV_DONTNEED).unwrap(),
            "guard" => {
                let faults = Userfault::answered_by_the_kernel();
                faults.guard(page, Guard::Writes);
                // As long as it is open.
                std::mem::forget(faults);
            }
            // Of the mapping, which is locked for that.
            "change" => page.advise(libc::MADV_DONTDUMP).unwrap(),
            "set" => wait::until("the bit to be set", || bit(page)),
            "clear" => wait::until("the bit to be cleared", || !bit(page)),
            "own set" => wait::until("the own bit to be set", || bit(own)),
            "own clear" => wait::until("the own bit to be cleared", || !bit(own)),
            "fork" => {
                let (mut from_parent, to_child) = os::pipe().expect("pipe");
                if os::fork().expect("fork") == 0 {
                    drop(to_child);
                    // Ends with its parent.
                    let _ = from_parent.read(&mut [0]);
                    os::exit_now(0);
                }
                std::mem::forget(to_child);
            }
            word => panic!("told to {word}"),
        }
    }

    /// Has a child that shares this memory, and begins when the fault at a guarded page is answered. It ends
    /// when it has seen the bit set; this process waits for that.
    fn vfork(&self, line: &mut Line) {
        let (faults, pidfd) = (Userfault::new(), Mapping::kept(1));
        faults.guard(&pidfd, Guard::Missing);
        line.say(&format!("{} {}", faults.number(), pidfd.address()));
        let child = tasks::vfork_to(libc::CLONE_PIDFD, pidfd.address(), || {
            line.say(&std::process::id().to_string());
            self.obey("set");
            line.say("seen");
            0
        });
        child.expect("vfork");
    }

    /// Has the handler asked for the page of its own, which goes. Tells who is asked, and where.
    fn guard_own(&self, line: &mut Line) {
        let faults = Userfault::new();
        faults.guard(&self.own, Guard::Missing);
        line.say(&format!("{} {}", faults.number(), self.own.address()));
        // As long as it is open.
        std::mem::forget(faults);
    }

    /// Does as it is told, by itself or by a thread.
    fn run(self, line: &mut Line) {
        let user: &'static User = Box::leak(Box::new(self));
        let alone = |word: &str, line: &mut Line| {
            match word {
                "share" => line.say(&tasks::share_memory().expect("clone").to_string()),
                "guard own" => user.guard_own(line),
                "vfork" => {
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

/// A server, a process that uses its file, and others that do not. Dropped in this order: whatever
/// hangs, the end of the server lets it go.
struct Scene {
    server: Option<Server>,
    user: Child,
    bystanders: Option<Bystanders>,
    kind: Kind,
    _long_sleep: LongSleep,
}

impl Scene {
    fn new(kind: Kind) -> Scene {
        let long_sleep = LongSleep::allowed();
        let server = Server::start(1, PAGES * PAGE);
        let bystanders = Bystanders::new(EVENT);
        let user = child::fork(|line| User::new(kind).run(line));
        Scene {
            server: Some(server),
            user,
            bystanders: Some(bystanders),
            kind,
            _long_sleep: long_sleep,
        }
    }

    fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("a server")
    }

    /// Has the process do something.
    #[track_caller]
    fn tell(&mut self, word: &str) {
        self.user.line.say(word);
        self.user.line.hear(word);
    }

    /// Has the process do what it will wait at.
    #[track_caller]
    fn tell_and_wait(&mut self, word: &str) {
        self.user.line.say(word);
        self.wait_for(self.user.pid);
    }

    /// Has a thread of the process do something, which may wait at that. Returns its number.
    #[track_caller]
    fn tell_thread(&mut self, word: &str) -> i32 {
        self.user.line.say(&format!("thread: {word}"));
        self.user.line.listen().parse().expect("a thread")
    }

    fn state(&self, thread: i32) -> Option<char> {
        tasks::state(self.user.pid, thread)
    }

    /// Waits until a thread of the process waits for the server.
    #[track_caller]
    fn wait_for(&mut self, thread: i32) {
        self.wait_for_task(self.user.pid, thread);
    }

    /// The same for a thread of any process.
    #[track_caller]
    fn wait_for_task(&mut self, pid: i32, thread: i32) {
        // It sleeps as if a signal could end that when it has made the request itself.
        if self.kind.request == Request::Read {
            self.server().wait_held(1);
        }
        if self.kind.request == Request::Write || self.kind.is_ahead {
            wait::until("the task to wait for the server", || {
                tasks::state(pid, thread) == Some('D')
            });
        }
    }

    /// The page of the process is there and was used. From now on it cannot be had or written until
    /// the server answers.
    #[track_caller]
    fn withhold(&mut self) {
        match self.kind.request {
            Request::Write => {
                self.tell("use");
                self.server().hold(Request::Write);
                self.tell("write back");
                self.server().wait_held(1);
            }
            Request::Read => {
                self.tell("forget");
                self.server().drop_pages();
                self.server().hold(Request::Read);
            }
        }
        if self.kind.is_guarded {
            self.tell("guard");
        }
    }

    /// Does something beside the process that waits.
    #[track_caller]
    fn beside(&mut self, op: &str, run: impl FnOnce()) {
        self.bystanders.as_mut().unwrap().ops.has(op, run);
        self.nothing_is_late();
    }

    /// Everything that others do can be done, and no worker of the kernel waits for a page.
    #[track_caller]
    fn others_carry_on(&mut self) {
        self.bystanders.as_mut().unwrap().carry_on();
        self.nothing_is_late();
        self.beside("no worker of the module waits for memory", || {
            wait::until("the end of their waits", || {
                tasks::waiting_workers("user_events").is_empty()
            });
        });
    }

    #[track_caller]
    fn nothing_is_late(&mut self) {
        let ops = &self.bystanders.as_ref().unwrap().ops;
        ops.judge(|| drop(self.server.take()));
    }

    /// The event is switched, which the process's bit cannot follow.
    #[track_caller]
    fn switch_on(&mut self) {
        self.beside("ftrace attaches", || Tracer::top().enable(EVENT));
        let pid = self.user.pid;
        self.beside("the bit is listed as due", || {
            wait::until("the bit to be due", || is_due(pid));
        });
    }

    #[track_caller]
    fn switch_off(&mut self) {
        self.beside("ftrace leaves", || Tracer::top().disable(EVENT));
    }

    /// The server answers.
    fn release(&mut self) {
        self.server().release();
    }

    /// The process's bit follows the event.
    #[track_caller]
    fn follows(&mut self, set: &str, clear: &str) {
        self.beside("ftrace attaches", || Tracer::top().enable(EVENT));
        self.tell(set);
        self.switch_off();
        self.tell(clear);
    }

    /// Ends all, in any order.
    #[track_caller]
    fn end(mut self) {
        self.user.kill();
        let bystanders = self.bystanders.take().unwrap();
        bystanders.end();
        wait_gone(EVENT);
    }

    /// The process has been killed, and goes while the server answers nothing.
    #[track_caller]
    fn is_gone(&mut self) {
        let ended = os::wait_for_end(self.user.pid, wait::limit()).expect("wait for the end");
        if !ended {
            drop(self.server.take());
            panic!("a killed process stayed");
        }
    }

    fn kill(&self) {
        os::kill(self.user.pid, libc::SIGKILL).expect("kill");
    }
}

fn a_first_registration_beside_a_write_holds_up_itself_only() {
    let mut scene = Scene::new(WRITE_SHARED);
    scene.withhold();
    let user = scene.tell_thread("use");
    scene.wait_for(user);
    let registering = scene.tell_thread("register own");
    // It may wait for the other thread, or not.
    wait::until("it to register or to wait", || {
        matches!(scene.state(registering), None | Some('D'))
    });
    scene.others_carry_on();
    scene.release();
    scene.tell("join");
    scene.follows("own set", "own clear");
    scene.end();
}

fn an_address_space_locked_beside_a_write_holds_up_itself_only() {
    let mut scene = Scene::new(WRITE_SHARED);
    scene.tell("register own");
    scene.withhold();
    let user = scene.tell_thread("use");
    scene.wait_for(user);
    let changing = scene.tell_thread("change");
    scene.wait_for(changing);
    scene.switch_on();
    scene.others_carry_on();
    scene.release();
    scene.tell("join");
    scene.follows("own set", "own clear");
    scene.end();
}

fn a_guarded_page_is_not_forgotten_while_its_address_space_is_locked() {
    // The two queues of the module may help each other out.
    for _ in 0..4 {
        is_not_forgotten();
    }
}

fn is_not_forgotten() {
    let mut scene = Scene::new(WRITE_SHARED);
    scene.tell("register own");
    scene.user.line.say("guard own");
    let (faults, own) = Userfault::of_child(&mut scene.user);
    scene.withhold();
    scene.switch_on();
    wait::until("the handler to be asked", || {
        faults.next_fault() == Some(own)
    });
    let user = scene.tell_thread("use");
    scene.wait_for(user);
    let changing = scene.tell_thread("change");
    scene.wait_for(changing);
    // So that the handler was to be asked again meanwhile. Else this would show less, and not fail.
    thread::sleep(Duration::from_secs(1));
    scene.release();
    scene.tell("join");
    faults.fill(own, 0);
    scene.tell("own set");
    scene.switch_off();
    scene.tell("own clear");
    scene.end();
}

fn a_private_copy_needs_no_reply_to_a_write() {
    let mut scene = Scene::new(WRITE_SHARED);
    scene.withhold();
    let mut private = child::fork(|line| {
        User::new(Kind {
            sharing: libc::MAP_PRIVATE,
            ..WRITE_SHARED
        })
        .run(line);
    });
    let mut tell = |word: &str| {
        private.line.say(word);
        private.line.hear(word);
    };
    tell("register");
    for _ in 0..3 {
        // The copy goes, and is made again from the page that is being written.
        tell("forget");
        scene.beside("ftrace attaches", || Tracer::top().enable(EVENT));
        tell("set");
        tell("forget");
        scene.beside("ftrace leaves", || Tracer::top().disable(EVENT));
        tell("clear");
    }
    tell("unregister");
    scene.others_carry_on();
    scene.release();
    private.kill();
    scene.end();
}

fn a_bit_of_a_sleeping_process_holds_up_nothing(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.tell("register");
    scene.withhold();
    scene.switch_on();
    scene.others_carry_on();
    scene.switch_on();
    scene.release();
    scene.tell("set");
    scene.switch_off();
    scene.tell("clear");
    scene.end();
}

fn a_process_that_uses_its_page_waits_alone(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.tell("register");
    scene.withhold();
    scene.switch_on();
    scene.tell_and_wait("use");
    scene.others_carry_on();
    scene.switch_on();
    scene.release();
    scene.user.line.hear("use");
    scene.tell("set");
    scene.switch_off();
    scene.tell("clear");
    scene.end();
}

fn registering_such_a_page_waits_alone(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.withhold();
    let registering = scene.tell_thread("register");
    scene.wait_for(registering);
    scene.others_carry_on();
    scene.release();
    scene.tell("join");
    scene.follows("set", "clear");
    scene.end();
}

fn unregistering_such_a_page_waits_alone(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.tell("register");
    scene.withhold();
    let unregistering = scene.tell_thread("unregister");
    scene.wait_for(unregistering);
    scene.others_carry_on();
    scene.release();
    scene.tell("join");
    scene.tell("register");
    scene.follows("set", "clear");
    scene.end();
}

/// A child begins with its parent's bit on a page that cannot be had.
fn a_child_forked_meanwhile_holds_up_nothing(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.tell("register");
    scene.withhold();
    scene.tell("fork");
    scene.switch_on();
    scene.others_carry_on();
    scene.release();
    scene.follows("set", "clear");
    scene.end();
}

/// It waits for nothing itself. What it has registered goes at once, and so does the process, unless the
/// kernel has it wait at its end for what is being written: then its files are still open, and keep
/// their events.
fn a_kill_ends_a_sleeping_process(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.tell("register");
    scene.tell("register alone");
    scene.withhold();
    scene.switch_on();
    scene.others_carry_on();
    scene.switch_on();
    scene.kill();
    scene.beside("its registration goes", || {
        wait::until("its registration to go", || {
            let listing = fs::read_to_string(REGISTRATIONS).expect("read the listing");
            !listing
                .lines()
                .any(|line| line.split(' ').next() == Some(ALONE))
        });
    });
    if kind.request == Request::Read {
        scene.beside("its event goes", || wait_gone(ALONE));
        scene.is_gone();
    }
    scene.others_carry_on();
    drop(scene.server.take());
    scene.end();
    wait_gone(ALONE);
}

/// It goes at once if the kernel lets it, or else with the server, and keeps nothing then.
fn a_kill_ends_a_process_that_waits(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.tell("register");
    scene.tell("register alone");
    scene.withhold();
    scene.switch_on();
    scene.tell_and_wait("use");
    scene.kill();
    scene.others_carry_on();
    if kind.is_ahead {
        scene.is_gone();
        scene.beside("its event goes", || wait_gone(ALONE));
    }
    drop(scene.server.take());
    scene.end();
    wait_gone(ALONE);
}

/// Two processes with the same memory. One takes on the bit, waits for its page and is killed; the other, which
/// was told of the bit as well, sleeps meanwhile. Nothing switches the event again, so the bit is listed once.
fn a_process_killed_at_a_bit_leaves_it_to_one_that_shares_its_memory(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.tell("register");
    scene.user.line.say("share");
    let sharer = scene.user.line.listen().parse().expect("a process");
    scene.withhold();
    scene.switch_on();
    scene.wait_for_task(sharer, sharer);
    os::kill(sharer, libc::SIGKILL).expect("kill");
    let ends = || {
        wait::until("the killed process to end", || {
            matches!(tasks::state(sharer, sharer), None | Some('Z'))
        });
    };
    if kind.is_ahead {
        ends();
    }
    scene.release();
    ends();
    scene.tell("set");
    scene.switch_off();
    scene.tell("clear");
    scene.end();
}

/// A process was told of the bit while it sleeps in a vfork, and its child, which has the same memory, was not,
/// as it began later. The parent is killed.
fn a_process_killed_before_a_bit_leaves_it_to_one_that_shares_its_memory(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.tell("register");
    scene.withhold();
    scene.user.line.say("vfork");
    let (faults, page) = Userfault::of_child(&mut scene.user);
    wait::until("the vfork to be stalled", || faults.next_fault().is_some());
    scene.switch_on();
    // Time to be told, in which the child is not there yet.
    thread::sleep(Duration::from_millis(500) * machine::slowness());
    scene.release();
    faults.fill(page, 0);
    let child: i32 = scene.user.line.listen().parse().expect("a process");
    scene.kill();
    scene.is_gone();
    scene.user.line.hear("seen");
    assert_eq!(os::wait_for_end(child, wait::limit()), Ok(true));
    scene.switch_off();
    scene.end();
}

fn the_module_unloads_when_the_server_is_gone() {
    for kind in [WRITE_SHARED, READ_SHARED, READ_PRIVATE] {
        for waits in [false, true] {
            module::load();
            let mut scene = Scene::new(kind);
            scene.tell("register");
            scene.withhold();
            scene.switch_on();
            if waits {
                scene.tell_and_wait("use");
            }
            scene.kill();
            scene.beside("unloading is refused", || {
                assert_eq!(module::unload(), Err(Errno::EAGAIN));
            });
            scene.switch_off();
            drop(scene.server.take());
            scene.end();
            module::unload_when_idle();
        }
    }
}

/// Others carry on beside thousands of such processes, while these sleep, wait and are killed.
fn thousands_hold_up_nothing(kind: Kind) {
    let _long_sleep = LongSleep::allowed();
    let count = crowd::thousands();
    let mut server = Server::start(1, count * PAGE);
    let mut bystanders = Bystanders::new(EVENT);
    let start = Instant::now();
    let mut crowd = Crowd::gather(TEXT, Memory::Served(kind.sharing), count);
    println!(
        "  # {count} processes in {} ms",
        start.elapsed().as_millis()
    );
    match kind.request {
        Request::Write => {
            crowd.begin(Op::Use);
            crowd.wait_done();
            server.hold(Request::Write);
            crowd.write_back();
            server.wait_held(1);
        }
        Request::Read => {
            crowd.begin(Op::Forget);
            crowd.wait_done();
            server.drop_pages();
            server.hold(Request::Read);
        }
    }
    // Whatever hangs, the end of the server lets it go.
    let mut server = Some(server);
    let beside = |bystanders: &mut Bystanders, server: &mut Option<Server>| {
        bystanders.carry_on();
        let attach = || Tracer::top().enable(EVENT);
        bystanders.ops.has("ftrace attaches", attach);
        bystanders.ops.judge(|| drop(server.take()));
    };
    beside(&mut bystanders, &mut server);
    beside(&mut bystanders, &mut server);
    crowd.begin(Op::Use);
    match kind.request {
        Request::Write => {
            for pid in crowd.pids() {
                wait::until("all to wait for the server", || {
                    tasks::state(pid, pid) == Some('D')
                });
            }
        }
        Request::Read => server.as_mut().unwrap().wait_held(count),
    }
    beside(&mut bystanders, &mut server);
    crowd.kill();
    beside(&mut bystanders, &mut server);
    Tracer::top().disable(EVENT);
    drop(server.take());
    crowd.reap();
    // The machine has thousands to care for.
    bystanders.end_within(4000);
    wait_gone(EVENT);
    println!("  # all in {} ms", start.elapsed().as_millis());
}
