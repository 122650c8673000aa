// SPDX-License-Identifier: GPL-2.0

//! Signals that are pending when registrations are made or inherited.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Child};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::tracefs::TraceInstance;
use crate::kit::userfault::{self, Guard, Userfault};
use crate::kit::wait;
use std::thread;
use std::time::{Duration, Instant};

tests!("signals":
    children_that_begin_with_a_signal_have_their_registrations,
    a_signal_does_not_keep_a_process_from_registering,
    a_signal_while_a_write_waits_for_memory_loses_nothing.needs_path(userfault::PATH),
);

/// How many children of a test must have had a signal, and how many it forks at least.
const INTERRUPTED: usize = 40;
const CHILDREN: usize = 100;

/// Makes a process that sends SIGUSR1 to this process and its group until it is killed. The signal
/// does not kill. Some pauses are longer than a fork, which starts over with each signal, and might
/// never end otherwise.
fn annoyer() -> Child {
    os::own_group();
    os::count_at(libc::SIGUSR1, libc::SA_RESTART);
    let group = std::process::id() as i32;
    let annoyer = child::fork(move |_| {
        os::own_group();
        for pause in (0..8).cycle() {
            os::kill(-group, libc::SIGUSR1).expect("send a signal");
            thread::sleep(Duration::from_micros(pause * 500));
        }
    });
    wait::until("the first signals", || os::counted() > 10);
    annoyer
}

/// Forks children that call `run`, until enough of them had a signal meanwhile. `run` returns
/// whether all is well.
fn among_signals(run: impl Fn() -> bool) {
    const WELL: i32 = 70;
    const INTERRUPTED_AND_WELL: i32 = 71;
    let annoyer = annoyer();
    let before = os::counted();
    let (start, mut children, mut interrupted) = (Instant::now(), 0, 0);
    while children < CHILDREN || interrupted < INTERRUPTED {
        let inherited = os::counted();
        match os::fork().unwrap() {
            0 => {
                let well = run();
                os::exit_now(match (well, os::counted() > inherited) {
                    (true, false) => WELL,
                    (true, true) => INTERRUPTED_AND_WELL,
                    (false, _) => 1,
                });
            }
            pid => {
                let (_, status) = os::wait(pid, 0).unwrap();
                let ends = [WELL, INTERRUPTED_AND_WELL].map(|code| code << 8);
                assert!(ends.contains(&status), "a child's status {status:#x}");
                children += 1;
                interrupted += usize::from(status == ends[1]);
            }
        }
        assert!(
            start.elapsed() < wait::limit(),
            "of {children} children only {interrupted} had a signal"
        );
    }
    let signals = os::counted() - before;
    println!("  # {signals} signals came; {interrupted} of {children} children had one");
    // This process gets signals, too, in its forks and waits.
    assert!(signals as usize >= INTERRUPTED, "{signals} signals");
    annoyer.kill();
}

fn children_that_begin_with_a_signal_have_their_registrations() {
    let event = Event::new("st_sig_children u32 a");
    among_signals(|| event.register(event.page.address(), 0) == Err(Errno::EADDRINUSE));
}

fn a_signal_does_not_keep_a_process_from_registering() {
    among_signals(|| {
        // The first registration of an address space.
        let page = Mapping::kept(1);
        let data = Data::open();
        data.register_text("st_sig_first u32 a", page.address(), 0) == Ok(0)
    });
}

/// The page of the record comes after the signal: the write goes on, or fails without a record.
fn a_signal_while_a_write_waits_for_memory_loses_nothing() {
    let event = Event::new("st_sig_write u32 a");
    let tracer = TraceInstance::instance(&event.name);
    tracer.enable(&event.name);
    os::count_at(libc::SIGUSR1, 0);
    for round in 1..=10 {
        let page = Mapping::kept(1);
        let faults = Userfault::on(&page, Guard::Missing);
        let (said, numbers) = std::sync::mpsc::channel();
        let written = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                said.send(os::thread_id()).unwrap();
                os::write_from(&event.data.file, page.address(), 8)
            });
            let thread = numbers.recv().unwrap();
            faults.wait_asked();
            let before = os::counted();
            os::kill(thread, libc::SIGUSR1).expect("kill");
            faults.fill(page.address(), event.index);
            let written = writer.join().unwrap();
            wait::until("the signal to be handled", || os::counted() > before);
            written
        });
        let recorded = tracer.take_payloads(&event.name, 4).len();
        match written {
            Ok(length) => assert_eq!((length, recorded), (8, 1), "round {round}"),
            Err(errno) => assert_eq!((errno, recorded), (Errno::EINTR, 0), "round {round}"),
        }
    }
}
