// SPDX-License-Identifier: GPL-2.0

//! Signals that are pending when registrations are made or inherited.

use crate::abi::Data;
use crate::child;
use crate::errno::Errno;
use crate::event::Event;
use crate::harness::tests;
use crate::memory::Mapping;
use crate::os;
use crate::tracefs::Tracer;
use crate::wait;

tests!("signals":
    a_traced_child_that_begins_stopped_has_its_registrations,
    children_that_begin_with_a_signal_have_their_registrations,
    a_signal_does_not_keep_a_process_from_registering,
);

/// Has a process that is traced by this one stopped since the last time?
fn has_stopped(pid: i32) -> bool {
    matches!(os::wait(pid, libc::__WALL | libc::WNOHANG), Ok((found, status))
        if found == pid && libc::WIFSTOPPED(status))
}

/// Asks something of a traced process.
fn ptrace(request: libc::c_uint, pid: i32, data: usize) {
    // SAFETY: The requests used here either write nothing, or one long to where `data` points.
    let ret = unsafe { libc::ptrace(request, pid, 0usize, data) };
    assert_eq!(ret, 0, "ptrace {request}: {:?}", Errno::last());
}

fn a_traced_child_that_begins_stopped_has_its_registrations() {
    let mut parent = child::fork(|line| {
        let event = Event::new("st_sig_traced u32 a");
        line.say("registered");
        line.hear("fork");
        match os::fork().unwrap() {
            0 => {
                line.say("running");
                event.wait_set();
                line.say("set");
                event.wait_clear();
                line.say("clear");
                os::exit_now(0);
            }
            pid => assert_eq!(os::wait(pid, 0), Ok((pid, 0))),
        }
    });
    parent.line.hear("registered");
    let options = libc::PTRACE_O_TRACEFORK as usize;
    ptrace(libc::PTRACE_SEIZE, parent.pid, options);
    parent.line.say("fork");
    wait::until("the parent to stop in its fork", || has_stopped(parent.pid));
    let mut pid = 0usize;
    ptrace(libc::PTRACE_GETEVENTMSG, parent.pid, &raw mut pid as usize);
    let child = i32::try_from(pid).unwrap();
    // It is stopped before its first instruction: that stop waits for it when it begins.
    wait::until("the child to stop", || has_stopped(child));
    ptrace(libc::PTRACE_DETACH, child, 0);
    ptrace(libc::PTRACE_DETACH, parent.pid, 0);
    parent.line.hear("running");
    let top = Tracer::top();
    top.enable("st_sig_traced");
    parent.line.hear("set");
    top.disable("st_sig_traced");
    parent.line.hear("clear");
    parent.join();
}

/// A process that sends SIGUSR1 to this process and all of its group until dropped. It does not
/// kill, and interrupts nothing for long.
fn annoyer() -> child::Child {
    os::own_group();
    os::do_nothing_at(libc::SIGUSR1, libc::SA_RESTART);
    let group = std::process::id() as i32;
    child::fork(move |_| {
        os::own_group();
        while os::kill(-group, libc::SIGUSR1).is_ok() {
            std::thread::yield_now();
        }
    })
}

fn children_that_begin_with_a_signal_have_their_registrations() {
    let _annoyer = annoyer();
    let event = Event::new("st_sig_children u32 a");
    for _ in 0..200 {
        match os::fork().unwrap() {
            0 => {
                let again =
                    event
                        .data
                        .register_text("st_sig_children u32 a", event.page.address(), 0);
                os::exit_now((again != Err(Errno::EADDRINUSE)).into());
            }
            pid => assert_eq!(os::wait(pid, 0), Ok((pid, 0)), "a child's end"),
        }
    }
}

fn a_signal_does_not_keep_a_process_from_registering() {
    let _annoyer = annoyer();
    for _ in 0..100 {
        match os::fork().unwrap() {
            0 => {
                // The first registration of an address space.
                let page = Mapping::kept(1);
                let data = Data::open();
                let index = data.register_text("st_sig_first u32 a", page.address(), 0);
                os::exit_now((index != Ok(0)).into());
            }
            pid => assert_eq!(os::wait(pid, 0), Ok((pid, 0)), "a child's end"),
        }
    }
}
