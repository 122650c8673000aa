// SPDX-License-Identifier: GPL-2.0

//! Records written by tasks that did not open the file: threads of io_uring, processes to which the
//! file was passed, and executed programs. None of them waits for another one.

use super::perf::become_shell;
use crate::harness::tests;
use crate::kit::abi::{location, Data};
use crate::kit::child::{self, Child, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{stays, values, wait_gone, write, Event};
use crate::kit::memory::{Mapping, READ_WRITE};
use crate::kit::traced::Traced;
use crate::kit::tracefs::{event_exists, TraceInstance};
use crate::kit::transfer::{receive_file, send_file, sendfile, splice, vmsplice};
use crate::kit::uring::{By, How, Ring, PATH};
use crate::kit::userfault::{self, Guard, Userfault};
use crate::kit::{module, os, tasks, wait};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;

const HOWS: [How; 3] = [How::Write, How::Writev, How::WriteFixed];

tests!("io_uring":
    writes_by_any_task_have_the_results_of_write.needs_path(PATH),
    a_file_that_a_ring_holds_keeps_its_events.needs_path(PATH),
    splicing_to_the_file_is_einval,
    a_passed_file_keeps_its_indices,
    a_file_that_is_being_passed_keeps_its_events,
    a_file_kept_at_exec_keeps_its_indices,
    a_page_that_comes_late_holds_up_one_write_to_a_file.needs_path(userfault::PATH),
    the_module_stays_while_a_ring_holds_its_file.of_loading().needs_path(PATH),
);

const TEXT: &str = "st_uring u32 a; __rel_loc char[] b";

/// Payloads, short and long.
fn payloads() -> [Vec<u8>; 2] {
    let text = [&[b'x'; 599][..], b"\0"].concat();
    let of = |text: &[u8]| {
        let size = text.len() as u32;
        [&7u32.to_ne_bytes()[..], &location(0, size), text].concat()
    };
    [of(b"ab\0"), of(&text)]
}

/// Each way of writing has the results of `write()`, in any task.
fn writes(by: By, is_held: bool) {
    let ring = Ring::run_by(by);
    let traced = Traced::new(TEXT);
    let event = &traced.event;
    if is_held {
        ring.hold(&event.data.file);
    }
    let write = |how, length| match is_held {
        true => ring.write_held(how, length),
        false => ring.write(&event.data.file, how, length),
    };
    let index = event.index.to_ne_bytes();
    // A location behind the end.
    let beyond = [&index[..], &[0; 4], &location(9, 1), b"\0"].concat();
    for how in HOWS {
        for payload in payloads() {
            let record = [&index[..], &payload].concat();
            ring.page.put(0, &record);
            assert_eq!(write(how, record.len()), Ok(record.len()), "{by:?} {how:?}");
            assert_eq!(traced.recorded(payload.len()), [payload], "{by:?} {how:?}");
        }
        for (record, length, error) in [
            (&index[..], 0, Errno::EFAULT),
            (&index, 3, Errno::EFAULT),
            (&index, 4, Errno::EINVAL),
            (&index, 11, Errno::EINVAL),
            (&1000u32.to_ne_bytes(), 12, Errno::ENOENT),
            (&beyond, beyond.len(), Errno::EFAULT),
        ] {
            ring.page.put(0, record);
            let case = format!("{by:?} {how:?} of {length} bytes");
            assert_eq!(write(how, length), Err(error), "{case}");
        }
    }
    assert!(traced.recorded(11).is_empty(), "{by:?}");
    traced.tracer.disable(&event.name);
    event.wait_clear();
    ring.page.put(0, &index);
    for how in HOWS {
        assert_eq!(write(how, 12), Err(Errno::EBADF), "{by:?} {how:?}");
    }
    // Nothing is recorded of unreadable memory.
    traced.tracer.enable(&event.name);
    ring.page.protect(libc::PROT_NONE);
    assert_eq!(write(How::Write, 15), Err(Errno::EFAULT), "{by:?}");
    ring.page.protect(READ_WRITE);
    // From here on the event is kept by the file alone, and goes with the ring.
    assert_eq!(event.unregister(), Ok(()));
    traced.only_this_is_recorded(&payloads()[0]);
}

fn writes_by_any_task_have_the_results_of_write() {
    for by in [By::Caller, By::Worker, By::Poller] {
        for is_held in [false, true] {
            writes(by, is_held);
            wait_gone("st_uring");
        }
    }
    let data = Data::open();
    assert_eq!(Ring::new().write_no_parts(&data.file), Err(Errno::EFAULT));
}

/// The program has closed the file, and can write to it only by the ring.
fn a_file_that_a_ring_holds_keeps_its_events() {
    const NAME: &str = "st_uring_held";
    let ring = Ring::new();
    let event = Event::new("st_uring_held u32 a");
    ring.hold(&event.data.file);
    ring.page.set(0, event.index);
    ring.page.put(4, &[3; 4]);
    event.end();
    stays(NAME);
    let tracer = TraceInstance::instance(NAME);
    tracer.enable(NAME);
    assert_eq!(ring.write_held(How::Write, 8), Ok(8));
    assert_eq!(tracer.take_payloads(NAME, 4), [[3; 4]]);
    tracer.disable(NAME);
    stays(NAME);
    ring.let_go();
    wait_gone(NAME);
    assert_eq!(ring.write_held(How::Write, 8), Err(Errno::EBADF));
}

fn the_module_stays_while_a_ring_holds_its_file() {
    module::load();
    let ring = Ring::new();
    ring.hold(&Data::open().file);
    for _ in 0..3 {
        assert_eq!(module::unload(), Err(Errno::EAGAIN));
    }
    ring.let_go();
    module::unload_when_idle();
}

/// As for the C implementation, which has no `splice_write`.
fn splicing_to_the_file_is_einval() {
    static RECORD: [u8; 16] = [0; 16];
    let traced = Traced::new(TEXT);
    let file = &traced.event.data.file;
    assert_eq!(traced.event.index, 0);
    let (from, to) = os::pipe().unwrap();
    assert_eq!(vmsplice(&to, &RECORD), Ok(16));
    assert_eq!(splice(&from, file, 16), Err(Errno::EINVAL));
    assert_eq!(splice(file, &to, 16), Err(Errno::EINVAL));
    assert_eq!(vmsplice(file, &RECORD), Err(Errno::EBADF));
    let stored = os::memory_file(4096);
    assert_eq!(sendfile(file, &stored, 16), Err(Errno::EINVAL));
    assert_eq!(sendfile(&stored, file, 16), Err(Errno::EINVAL));
    // From a pipe, too.
    assert_eq!(sendfile(file, &from, 16), Err(Errno::EINVAL));
    traced.only_this_is_recorded(&payloads()[0]);
}

/// An index belongs to the open file, not to a process or a descriptor.
fn a_passed_file_keeps_its_indices() {
    let data = Data::open();
    let page = Mapping::kept(1);
    let register = |data: &Data, name: &str, bit| {
        data.register_text(&format!("{name} u32 a"), page.address(), bit)
    };
    assert_eq!(register(&data, "st_pass_one", 0), Ok(0));
    let (here, there) = UnixStream::pair().unwrap();
    let mut child = child::fork(|line| {
        // By a received descriptor, not by the inherited one.
        line.hear(Word::Take);
        let own = Data::open();
        let passed = Data {
            file: receive_file(&there),
        };
        assert_ne!(passed.file.as_raw_fd(), data.file.as_raw_fd());
        assert_eq!(register(&own, "st_pass_other", 4), Ok(0));
        assert_eq!(passed.write(0, &[1; 4]), Ok(8));
        assert_eq!(passed.write(1, &[1; 4]), Err(Errno::ENOENT));
        assert_eq!(own.write(0, &[9; 4]), Err(Errno::EBADF));
        // An event registered here gets the next index, for all users of the file.
        assert_eq!(register(&passed, "st_pass_two", 1), Ok(1));
        line.ask(Word::Registered, Word::Write);
        assert_eq!(passed.write(1, &[2; 4]), Ok(8));
        assert_eq!(register(&passed, "st_pass_one", 2), Ok(0));
        line.ask(Word::Written, Word::End);
    });
    let tracer = TraceInstance::instance("st_pass");
    tracer.enable("st_pass_one");
    send_file(&here, &data.file);
    child.line.ask(Word::Take, Word::Registered);
    tracer.enable("st_pass_two");
    assert_eq!(data.write(1, &[3; 4]), Ok(8));
    child.line.ask(Word::Write, Word::Written);
    let lines = ["st_pass_one", "st_pass_two"].map(|event| tracer.lines(event));
    let line = |event: &str, a: &str| format!("{event}: a={a}");
    let one = line("st_pass_one", "0x1010101 (16843009)");
    let two = ["0x3030303 (50529027)", "0x2020202 (33686018)"].map(|a| line("st_pass_two", a));
    assert_eq!(lines, [vec![one], two.to_vec()]);
    tracer.disable("st_pass_one");
    // Registrations belong to the process, not to the file.
    assert_eq!(data.unregister_bit(page.address(), 1), Err(Errno::ENOENT));
    assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
    tracer.disable("st_pass_two");
    child.finish();
    // The child's registrations have ended with it; the index of the file has not.
    stays("st_pass_two");
    assert_eq!(data.write(1, &[4; 4]), Err(Errno::EBADF));
    drop(data);
    wait_gone("st_pass_two");
}

/// Receives a file, and writes a record of its first event.
fn write_by_a_received_file(from: &UnixStream, name: &str) -> Data {
    let received = Data {
        file: receive_file(from),
    };
    let tracer = TraceInstance::instance(name);
    tracer.enable(name);
    assert_eq!(received.write(0, &[5; 4]), Ok(8));
    assert_eq!(tracer.take_payloads(name, 4), [[5; 4]]);
    received
}

/// The only reference to the file is in a socket's queue.
fn a_file_that_is_being_passed_keeps_its_events() {
    let (here, there) = UnixStream::pair().unwrap();
    let sender = child::fork(|_| {
        let event = Event::new("st_pass_queue u32 a");
        send_file(&here, &event.data.file);
    });
    sender.join();
    stays("st_pass_queue");
    let received = write_by_a_received_file(&there, "st_pass_queue");
    // Back into the queue, and freed with the sockets.
    send_file(&here, &received.file);
    drop(received);
    stays("st_pass_queue");
    drop((here, there));
    wait_gone("st_pass_queue");
}

/// The executed program has the file, and none of the registrations.
fn a_file_kept_at_exec_keeps_its_indices() {
    let tracer = TraceInstance::instance("st_pass_exec");
    let mut parent = child::fork_until(Word::Registered, |line| {
        let first = Event::new("st_pass_first u32 a");
        let page = Mapping::kept(1);
        let index = first
            .data
            .register_text("st_pass_exec u32 a", page.address(), 0);
        assert_eq!(index, Ok(1));
        line.ask(Word::Registered, Word::Exec);
        become_shell(&first.data, 1, 1);
    });
    tracer.enable("st_pass_exec");
    parent.line.say(Word::Exec);
    wait::until("the program to write its record", || {
        tracer.take_payloads("st_pass_exec", 4) == [[9; 4]]
    });
    tracer.disable("st_pass_exec");
    assert!(event_exists("st_pass_first"));
    parent.kill();
    wait_gone("st_pass_exec");
    wait_gone("st_pass_first");
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

fn a_page_that_comes_late_holds_up_one_write_to_a_file() {
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
