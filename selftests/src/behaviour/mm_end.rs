// SPDX-License-Identifier: GPL-2.0

//! The end of memory that other contexts hold beyond the end of its process: no task tells of it.

use crate::harness::{tests, Test};
use crate::kit::abi::REGISTRATIONS;
use crate::kit::child::{self, Child};
use crate::kit::event::{wait_gone, Event};
use crate::kit::fuse::{self, Request, Server};
use crate::kit::machine::{self, LongSleep};
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::usage::grows_by_nothing;
use crate::kit::userfault::{self, Guard, Userfault};
use crate::kit::{module, tasks, tracefs, wait};
use std::fs::{self, File};
use std::thread;
use std::time::Duration;

tests!("mm_end":
    is_found_though_a_reader_of_the_memory_goes_last
        .where_there_is(userfault::SIGN)
        .unless(tasks::lacks_memory_reads),
    is_found_though_its_threads_are_held_up_in_their_exits.where_there_is(fuse::SIGN),
    that_is_found_leaves_nothing
        .where_there_is(userfault::SIGN)
        .unless(tasks::lacks_memory_reads)
        .limit(300),
);

pub const TESTS_OF_LOADING: &[Test] = &[Test::of_loading(
    "mm_end::the_module_does_not_wait_for_a_reader_of_the_memory",
    the_module_does_not_wait_for_a_reader_of_the_memory,
)
.where_there_is(userfault::SIGN)
.unless(tasks::lacks_memory_reads)];

const EVENT: &str = "st_mm_end";

/// So long that the module has looked for the end more often than it does when tasks tell of it: it looks for the
/// eighth time after 1.3 s. Where it takes longer the tests show less, and do not fail.
const LOOKED_FOR: Duration = Duration::from_secs(3);

/// Reads the memory of a process that has ended: waits for a page there, whose faults are never answered.
struct Reader {
    child: Child,
    _faults: Userfault,
}

impl Reader {
    /// Of a process that has the event registered when it ends.
    fn new() -> Reader {
        Reader::of(|_| ())
    }

    /// Of a process that has registered the event, and done something with it before it ends.
    fn of(done: impl FnOnce(&Event)) -> Reader {
        let mut process = child::fork(|line| {
            let event = Event::new(&format!("{EVENT} u32 a"));
            done(&event);
            let guarded = Mapping::kept(1);
            let faults = Userfault::new();
            faults.guard(&guarded, Guard::Missing);
            line.say(&format!("{} {}", faults.number(), guarded.address()));
            line.hear("never said");
        });
        let (faults, page) = Userfault::of_child(&mut process);
        let pid = process.pid;
        let child = child::fork(|_| panic!("read: {:?}", tasks::read_memory(pid, page)));
        wait::until("the reader to wait for the page", || {
            faults.next_fault().is_some()
        });
        process.kill();
        Reader {
            child,
            _faults: faults,
        }
    }
}

fn is_found_though_a_reader_of_the_memory_goes_last() {
    let reader = Reader::new();
    thread::sleep(LOOKED_FOR);
    assert!(tracefs::event_exists(EVENT), "its memory is still in use");
    // It is of no process any more.
    let listed = fs::read_to_string(REGISTRATIONS).expect("read the listing");
    let line = listed.lines().find(|line| line.starts_with(EVENT));
    let line = line.expect("a line of the event");
    assert!(line.starts_with(&format!("{EVENT} 0 - ")), "{line}");
    reader.child.kill();
    wait_gone(EVENT);
}

fn that_is_found_leaves_nothing() {
    grows_by_nothing(10, machine::rounds(60), |_| {
        Reader::new().child.kill();
        wait_gone(EVENT);
    });
}

/// Each reads the list of its locks when it exits, from a page that does not come.
fn is_found_though_its_threads_are_held_up_in_their_exits() {
    let _long_sleep = LongSleep::allowed();
    let mut server = Server::start(2, PAGE);
    let mut process = child::fork(|line| {
        let _event = Event::new(&format!("{EVENT} u32 a"));
        let pages = [0, 1].map(|number| {
            let file = File::open(fuse::path(number)).expect("open a file");
            Mapping::of_file(&file, 1, libc::PROT_READ, libc::MAP_SHARED).expect("mmap")
        });
        line.say("registered");
        line.hear("exit");
        let [first, second] = pages.map(|page| {
            let address = page.address();
            std::mem::forget(page);
            address
        });
        let exit = |list: u64| -> ! {
            tasks::set_list_of_locks(list);
            tasks::exit_thread()
        };
        thread::spawn(move || exit(second));
        exit(first)
    });
    process.line.hear("registered");
    server.hold(Request::Read);
    process.line.say("exit");
    server.wait_held(2);
    thread::sleep(LOOKED_FOR);
    assert!(tracefs::event_exists(EVENT), "its memory is still in use");
    server.release();
    wait_gone(EVENT);
    process.join();
}

/// What is registered would keep the module.
fn the_module_does_not_wait_for_a_reader_of_the_memory() {
    module::load();
    let reader = Reader::of(|event| event.unregister().expect("unregister"));
    module::unload_when_idle();
    reader.child.kill();
}
