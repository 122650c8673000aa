// SPDX-License-Identifier: GPL-2.0

//! One open file that several tasks write to: none of them waits for another one.

use crate::harness::tests;
use crate::kit::child::{self, Child, Word};
use crate::kit::event::{values, write, Event};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::TraceInstance;
use crate::kit::transfer::{receive_file, send_file};
use crate::kit::userfault::{self, Guard, Userfault};
use crate::kit::{os, tasks};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;

tests!("shared_file":
    a_page_of_a_userfaultfd_holds_up_one_write.needs_path(userfault::PATH),
);

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
    // One thread writes from a page that does not come, the other one follows orders.
    let mut stuck = child::fork(|line| {
        let page = Mapping::kept(1);
        let faults = Userfault::on(&page, Guard::Missing);
        faults.send(line, &page);
        thread::scope(|scope| {
            scope.spawn(|| os::write_from(&event.data.file, page.address(), 8));
            line.hear(Word::Write);
            write(&event, [2]);
            line.say(Word::Written);
            line.wait_for_kill();
        });
    });
    let (faults, _) = Userfault::of_child(&mut stuck);
    // The page of the index: without a consumer, nothing else of a record is read.
    faults.wait_asked();
    others_write(&event, &mut stuck);
    // A task that waits there can be killed.
    stuck.kill();
}
