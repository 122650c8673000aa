// SPDX-License-Identifier: GPL-2.0

//! Pages of a FUSE file system whose server does not answer: only their users wait for them.
//!
//! The server withholds the reply to a WRITE: a page stays under writeback, and a task that writes
//! to it in a shared mapping waits in `fuse_page_mkwrite()` with the mapping locked. Or it
//! withholds the reply to a READ: a dropped page does not come back. A task that waits for its own
//! READ ignores SIGKILL once the server has the request; one that waits for a page that is being
//! read ahead does not. A userfaultfd on the mapping whose faults the kernel resolves itself makes
//! no difference, as the page still comes from the server.

mod setup;

use self::setup::*;
use crate::harness::{tests, Test};
use crate::kit::child::{self, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{is_listed, wait_gone};
use crate::kit::fuse::{Request, PATH};
use crate::kit::tracefs::TraceInstance;
use crate::kit::userfault::Userfault;
use crate::kit::{machine, module, os, tasks, wait};
use std::thread;
use std::time::{Duration, Instant};

/// Makes a test of each kind of pages.
macro_rules! of_kinds {
    ($($test:ident: $($kind:ident)*),* $(,)?) => {
        &[$($(Test::new(
            concat!("fuse_stalled::", stringify!($test), "::", stringify!($kind)),
            || $test($kind),
        )
        .needs_path(PATH)
        .limit(400)),*),*]
    };
}

tests!("fuse_stalled" on PATH:
    a_first_registration_beside_a_write_holds_up_itself_only.limit(400),
    an_address_space_locked_beside_a_write_holds_up_itself_only.limit(400),
    a_guarded_page_is_not_forgotten_while_its_address_space_is_locked.limit(400),
    a_private_copy_needs_no_reply_to_a_write.limit(400),
    the_module_unloads_when_the_server_is_gone.of_loading().limit(400),
);

/// The tests of several kinds of pages.
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
    a_process_that_leaves_its_page_alone_goes_on:
        AHEAD_SHARED AHEAD_PRIVATE,
    a_kill_ends_a_sleeping_process:
        WRITE_SHARED READ_SHARED READ_PRIVATE AHEAD_SHARED AHEAD_PRIVATE WRITE_GUARDED READ_GUARDED,
    a_kill_ends_a_process_that_waits:
        WRITE_SHARED READ_SHARED READ_PRIVATE AHEAD_SHARED AHEAD_PRIVATE,
    a_process_killed_at_a_bit_leaves_it_to_one_that_shares_its_memory:
        WRITE_SHARED READ_SHARED READ_PRIVATE AHEAD_SHARED AHEAD_PRIVATE,
    a_process_killed_before_a_bit_leaves_it_to_one_that_shares_its_memory:
        READ_SHARED READ_PRIVATE,
);

fn a_first_registration_beside_a_write_holds_up_itself_only() {
    let mut setup = set_up(WRITE_SHARED);
    setup.withhold();
    setup.tell_thread_and_wait(Word::Use);
    let registering = setup.user.tell_thread(Word::RegisterOwn);
    // The thread may have to wait for the other one.
    wait::until("it to register or to wait", || {
        matches!(tasks::state(setup.user.pid, registering), None | Some('D'))
    });
    setup.others_carry_on();
    setup.release();
    setup.tell(Word::Join);
    setup.follows(Word::OwnSet, Word::OwnClear);
    setup.end();
}

fn an_address_space_locked_beside_a_write_holds_up_itself_only() {
    let mut setup = set_up(WRITE_SHARED);
    setup.tell(Word::RegisterOwn);
    setup.withhold();
    setup.tell_thread_and_wait(Word::Use);
    setup.tell_thread_and_wait(Word::Change);
    setup.switch_on();
    setup.others_carry_on();
    setup.release();
    setup.tell(Word::Join);
    setup.follows(Word::OwnSet, Word::OwnClear);
    setup.end();
}

fn a_guarded_page_is_not_forgotten_while_its_address_space_is_locked() {
    // Repeated, as the module's two queues may cover for each other.
    for _ in 0..4 {
        let mut setup = set_up(WRITE_SHARED);
        setup.tell(Word::RegisterOwn);
        setup.user.line.say(Word::GuardOwn);
        let (faults, own) = Userfault::of_child(&mut setup.user);
        setup.withhold();
        setup.switch_on();
        wait::until("the handler to be asked", || {
            faults.next_fault() == Some(own)
        });
        setup.tell_thread_and_wait(Word::Use);
        setup.tell_thread_and_wait(Word::Change);
        // Time for the module to fault again. If it does not, the test shows less but does not
        // fail.
        thread::sleep(Duration::from_secs(1));
        setup.release();
        setup.tell(Word::Join);
        faults.fill(own, 0);
        setup.ends_clear(Word::OwnSet, Word::OwnClear);
        setup.end();
    }
}

fn a_private_copy_needs_no_reply_to_a_write() {
    let mut setup = set_up(WRITE_SHARED);
    setup.withhold();
    let mut private = child::fork(|line| {
        User::new(Kind::of(Request::Write, libc::MAP_PRIVATE)).run(line);
    });
    let mut tell = |word| private.tell(word);
    tell(Word::Register);
    for _ in 0..3 {
        // The private copy is dropped, and made again from the page under writeback.
        tell(Word::Forget);
        setup.beside("ftrace attaches", || TraceInstance::top().enable(EVENT));
        tell(Word::Set);
        tell(Word::Forget);
        setup.switch_off();
        tell(Word::Clear);
    }
    tell(Word::Unregister);
    setup.others_carry_on();
    setup.release();
    private.kill();
    setup.end();
}

fn a_bit_of_a_sleeping_process_holds_up_nothing(kind: Kind) {
    let mut setup = registered(kind);
    setup.switch_on();
    setup.others_carry_on();
    setup.switch_on();
    setup.release();
    setup.ends_clear(Word::Set, Word::Clear);
    setup.end();
}

fn a_process_that_uses_its_page_waits_alone(kind: Kind) {
    let mut setup = registered(kind);
    setup.switch_on();
    setup.tell_and_wait(Word::Use);
    setup.others_carry_on();
    setup.switch_on();
    setup.release();
    setup.user.line.hear(Word::Use);
    setup.ends_clear(Word::Set, Word::Clear);
    setup.end();
}

/// The process faults the page in on its return to user space, and continues without it after a
/// short time. The repair stays pending.
fn a_process_that_leaves_its_page_alone_goes_on(kind: Kind) {
    const SHORT: Duration = Duration::from_secs(2);
    const SOON: Duration = Duration::from_secs(5);
    let mut setup = registered(kind);
    for _ in 0..2 {
        setup.switch_on();
        let start = Instant::now();
        setup.tell(Word::Look);
        let time = start.elapsed();
        assert!(time < SHORT * machine::slowness(), "went on after {time:?}");
        // The page was requested.
        setup.server().wait_held(1);
        setup.others_carry_on();
    }
    setup.switch_on();
    setup.release();
    let start = Instant::now();
    setup.tell(Word::Set);
    let time = start.elapsed();
    assert!(time < SOON * machine::slowness(), "set after {time:?}");
    setup.switch_off();
    setup.tell(Word::Clear);
    setup.end();
}

fn registering_such_a_page_waits_alone(kind: Kind) {
    let mut setup = set_up(kind);
    setup.withhold();
    setup.tell_thread_and_wait(Word::Register);
    setup.others_carry_on();
    setup.release();
    setup.tell(Word::Join);
    setup.follows(Word::Set, Word::Clear);
    setup.end();
}

fn unregistering_such_a_page_waits_alone(kind: Kind) {
    let mut setup = registered(kind);
    setup.tell_thread_and_wait(Word::Unregister);
    setup.others_carry_on();
    setup.release();
    setup.tell(Word::Join);
    setup.tell(Word::Register);
    setup.follows(Word::Set, Word::Clear);
    setup.end();
}

/// A child is forked with its parent's bit on a page that cannot be faulted in.
fn a_child_forked_meanwhile_holds_up_nothing(kind: Kind) {
    let mut setup = registered(kind);
    setup.tell(Word::Fork);
    setup.switch_on();
    setup.others_carry_on();
    setup.release();
    setup.follows(Word::Set, Word::Clear);
    setup.end();
}

/// A sleeping process waits for no page. Its registrations end at once, and so does the process,
/// unless its exit waits for writeback: then its open files keep their events.
fn a_kill_ends_a_sleeping_process(kind: Kind) {
    let mut setup = set_up(kind);
    setup.tell(Word::Register);
    setup.tell(Word::RegisterAlone);
    setup.withhold();
    setup.switch_on();
    setup.others_carry_on();
    setup.switch_on();
    setup.kill();
    let pid = setup.user.pid;
    setup.beside("its registrations go", || {
        wait::until("its registrations to go", || !is_listed(pid));
    });
    if kind.request == Request::Read {
        setup.beside("its event goes", || wait_gone(ALONE));
        setup.is_gone();
    }
    setup.others_carry_on();
    setup.let_go();
    setup.end();
    wait_gone(ALONE);
}

/// The process ends at once if its wait can be killed, else with the server. Nothing is left of it.
fn a_kill_ends_a_process_that_waits(kind: Kind) {
    let mut setup = set_up(kind);
    setup.tell(Word::Register);
    setup.tell(Word::RegisterAlone);
    setup.withhold();
    setup.switch_on();
    setup.tell_and_wait(Word::Use);
    setup.kill();
    setup.others_carry_on();
    if kind.is_ahead {
        setup.is_gone();
        setup.beside("its event goes", || wait_gone(ALONE));
    }
    setup.let_go();
    setup.end();
    wait_gone(ALONE);
}

/// Two processes share their memory. One runs its task work, waits for the page and is killed; the
/// other, which has a task work as well, sleeps. No toggle adds the bit to the repair list again.
fn a_process_killed_at_a_bit_leaves_it_to_one_that_shares_its_memory(kind: Kind) {
    let mut setup = set_up(kind);
    setup.tell(Word::Register);
    setup.user.line.say(Word::Share);
    let sharer = setup.user.line.receive();
    setup.withhold();
    setup.switch_on();
    setup.wait_for_task(sharer, sharer);
    os::kill(sharer, libc::SIGKILL).expect("kill");
    let ends = || {
        wait::until("the killed process to end", || {
            matches!(tasks::state(sharer, sharer), None | Some('Z'))
        });
    };
    if kind.is_ahead {
        ends();
    }
    setup.release();
    ends();
    setup.ends_clear(Word::Set, Word::Clear);
    setup.end();
}

/// A process sleeps in a vfork when it gets its task work; its child, which shares the memory,
/// begins later and gets none. The parent is killed.
fn a_process_killed_before_a_bit_leaves_it_to_one_that_shares_its_memory(kind: Kind) {
    let mut setup = registered(kind);
    setup.user.line.say(Word::Vfork);
    let (faults, page) = Userfault::of_child(&mut setup.user);
    faults.wait_asked();
    setup.switch_on();
    // Time to add the task work, before the child exists.
    thread::sleep(Duration::from_millis(500) * machine::slowness());
    setup.release();
    faults.fill(page, 0);
    let child: i32 = setup.user.line.receive();
    setup.kill();
    setup.is_gone();
    setup.user.line.hear(Word::Seen);
    assert_eq!(os::wait_for_end(child, wait::limit()), Ok(true));
    setup.switch_off();
    setup.end();
}

fn the_module_unloads_when_the_server_is_gone() {
    for kind in [WRITE_SHARED, READ_SHARED, READ_PRIVATE] {
        for waits in [false, true] {
            module::load();
            let mut setup = registered(kind);
            setup.switch_on();
            if waits {
                setup.tell_and_wait(Word::Use);
            }
            setup.kill();
            setup.beside("unloading is refused", || {
                assert_eq!(module::unload(), Err(Errno::EAGAIN));
            });
            setup.switch_off();
            setup.let_go();
            setup.end();
            module::unload_when_idle();
        }
    }
}
