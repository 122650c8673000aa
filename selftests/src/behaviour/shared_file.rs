// SPDX-License-Identifier: GPL-2.0

//! One open file that several tasks write to: none of them waits for another one.

use crate::harness::tests;
use crate::kit::child::{self, Child, Line, Word};
use crate::kit::event::{values, write, Event};
use crate::kit::fuse::{self, Request, Server};
use crate::kit::memory::{Mapping, PAGE, READ};
use crate::kit::tracefs::TraceInstance;
use crate::kit::transfer::{receive_file, send_file};
use crate::kit::userfault::{self, Guard, Userfault};
use crate::kit::{os, tasks, wait};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;

tests!("shared_file":
    a_page_of_a_userfaultfd_holds_up_one_write.needs_path(userfault::PATH),
    a_page_of_a_file_system_holds_up_one_write.needs_path(fuse::PATH),
);

/// Returns the second thread of a process, which waits in a write.
fn the_other_thread(pid: i32) -> Option<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut numbers = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    numbers.find(|number| *number != pid)
}

/// Makes a process that shares the event's file: one thread writes from `page`, the other one
/// follows orders.
fn writer_from(
    event: &Event,
    send_first: impl FnOnce(&mut Line, &Mapping),
    page: fn() -> Mapping,
) -> Child {
    child::fork(|line| {
        let page = page();
        send_first(line, &page);
        thread::scope(|scope| {
            scope.spawn(|| os::write_from(&event.data.file, page.address(), 8));
            loop {
                match line.listen() {
                    Word::Write => write(event, [2]),
                    _ => os::exit_now(0),
                }
                line.say(Word::Written);
            }
        });
    })
}

/// Asserts that others can write while a thread of `stuck` waits in a write: its own process, and
/// this one by each way to share a file.
fn others_write(event: &Event, stuck: &mut Child) {
    let tracer = TraceInstance::instance(&event.name);
    tracer.enable(&event.name);
    stuck.line.ask(Word::Write, Word::Written);

    write(event, [3]);
    let copy = event.data.file.try_clone().expect("dup");
    let (to, from) = UnixStream::pair().expect("a pair of sockets");
    send_file(&to, &event.data.file);
    let passed = receive_file(&from);
    let taken = tasks::take_file(stuck.pid, event.data.file.as_raw_fd());
    for (value, file) in [(4_u32, &copy), (5, &passed), (6, &taken)] {
        let record = [event.index.to_ne_bytes(), value.to_ne_bytes()].concat();
        let written = os::write_from(file, record.as_ptr() as u64, record.len());
        assert_eq!(written, Ok(record.len()), "{value}");
    }
    assert_eq!(values(&tracer, event), [2, 3, 4, 5, 6]);
}

fn a_page_of_a_userfaultfd_holds_up_one_write() {
    let event = Event::new("st_shared_fault u32 a");
    let mut stuck = writer_from(
        &event,
        |line, page| {
            let faults = Userfault::new();
            faults.guard(page, Guard::Missing);
            faults.send(line, page);
            std::mem::forget(faults);
        },
        || Mapping::kept(1),
    );
    let (faults, page) = Userfault::of_child(&mut stuck);
    // The page of the index: without a consumer, nothing else of a record is read.
    wait::until("the write to wait for its page", || {
        faults.next_fault() == Some(page)
    });
    others_write(&event, &mut stuck);
    // A task that waits there can be killed.
    stuck.kill();
}

fn a_page_of_a_file_system_holds_up_one_write() {
    let mut server = Server::start(1, PAGE);
    let event = Event::new("st_shared_fuse u32 a");
    server.drop_pages();
    server.hold(Request::Read);
    let mut stuck = writer_from(
        &event,
        |line, _| line.say(Word::Begins),
        || {
            let file = File::open(fuse::path(0)).expect("open a file");
            Mapping::of_file(&file, 1, READ, libc::MAP_SHARED).expect("mmap")
        },
    );
    stuck.line.hear(Word::Begins);
    server.wait_held(1);
    let thread = the_other_thread(stuck.pid).expect("a thread");
    tasks::wait_state(stuck.pid, thread, 'D');
    others_write(&event, &mut stuck);
    server.release();
    stuck.line.say(Word::End);
    stuck.join();
}
