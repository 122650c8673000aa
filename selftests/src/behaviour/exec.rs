// SPDX-License-Identifier: GPL-2.0

//! Address spaces that are replaced by exec, or shared by several processes.

use crate::harness::tests;
use crate::kit::child::{self, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::fork_tree::{end, obey, serve, toggle, toggle_of};
use crate::kit::tracefs;
use crate::kit::{os, tasks, wait};
use std::ffi::CStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

tests!("exec":
    exec_by_a_thread_ends_registrations,
    exec_that_fails_keeps_registrations,
    a_spawned_program_keeps_no_event,
    vfork_changes_nothing_for_the_parent,
    a_process_that_shares_the_memory_shares_registrations,
    the_first_thread_may_end_before_the_others,
);

/// A program that runs for longer than any test.
fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("10000").stdin(Stdio::null());
    command
}

fn exec_by_a_thread_ends_registrations() {
    let mut child = child::fork_until(Word::Registered, |line| {
        let event = Event::new("st_exec_thread u32 a");
        drop(event.data);
        line.ask(Word::Registered, Word::Exec);
        thread::spawn(|| panic!("exec: {}", sleeper().exec()));
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    });
    assert!(tracefs::event_exists("st_exec_thread"));
    child.line.say(Word::Exec);
    wait_gone("st_exec_thread");
    // The registrations end before the process runs the new program.
    wait::until("the program to start", || {
        fs::read_to_string(format!("/proc/{}/comm", child.pid)).is_ok_and(|name| name == "sleep\n")
    });
    child.kill();
}

fn exec_that_fails_keeps_registrations() {
    const JUNK: &CStr = c"/tmp/selftests.junk";
    let event = Event::new("st_exec_fails u32 a");
    let path = JUNK.to_str().unwrap();
    fs::write(path, "\u{1}\u{2}\u{3}").unwrap();
    for (program, mode, errno) in [
        (c"/no/such/file", 0o600, Errno::ENOENT),
        (c"/", 0o600, Errno::EACCES),
        (JUNK, 0o600, Errno::EACCES),
        (JUNK, 0o700, Errno(libc::ENOEXEC)),
    ] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        assert_eq!(tasks::execute(program), errno, "{program:?} {mode:o}");
        event.toggle();
    }
    fs::remove_file(path).unwrap();
    let mut too_much = Command::new("/bin/true");
    too_much.args((0..300).map(|_| "x".repeat(100_000)));
    assert_eq!(Errno::from(too_much.exec()), Errno::E2BIG);
    event.toggle();
    // The same in a child that shares the registrations.
    let child = child::fork_until(Word::Failed, |line| {
        assert_eq!(tasks::execute(c"/no/such/file"), Errno::ENOENT);
        line.say(Word::Failed);
        serve(line, &event);
    });
    let mut children = vec![child];
    toggle(&event, &mut children);
    end(children);
}

fn a_spawned_program_keeps_no_event() {
    for by_fork in [false, true] {
        let event = Event::new("st_exec_spawn u32 a");
        let mut command = sleeper();
        if by_fork {
            // With a `pre_exec` hook std forks; otherwise it calls posix_spawn().
            // SAFETY: Does nothing.
            unsafe { command.pre_exec(|| Ok(())) };
        }
        let mut program = command.spawn().unwrap();
        event.toggle();
        event.unregister().unwrap();
        drop(event);
        wait_gone("st_exec_spawn");
        program.kill().unwrap();
        program.wait().unwrap();
    }
}

fn vfork_changes_nothing_for_the_parent() {
    let event = Event::new("st_exec_vfork u32 a");
    let child = |run: fn() -> i32| {
        let pid = tasks::vfork(run).unwrap();
        event.toggle();
        assert_eq!(os::wait(pid, 0), Ok((pid, 0)));
        event.toggle();
    };
    for _ in 0..3 {
        child(|| 0);
        child(|| panic!("exec: {}", Command::new("/bin/true").exec()));
    }
    child(|| {
        let error = Command::new("/no/such/file").exec();
        i32::from(Errno::from(error) != Errno::ENOENT)
    });
}

fn a_process_that_shares_the_memory_shares_registrations() {
    let event = Event::new("st_exec_shares u32 a");
    let (registered, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let other = || {
        let pid = tasks::vfork(|| {
            obey(Word::RegisterSecond, &event);
            registered.store(true, Ordering::Relaxed);
            while !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            0
        });
        let pid = pid.unwrap();
        assert_eq!(os::wait(pid, 0), Ok((pid, 0)));
    };
    let address = event.page.address();
    // Both bits are this process's, too.
    let both_follow = || {
        event.follows(true);
        obey(Word::SecondSet, &event);
        event.follows(false);
        obey(Word::SecondClear, &event);
    };
    thread::scope(|scope| {
        let other = scope.spawn(other);
        wait::until("the other process to register", || {
            registered.load(Ordering::Relaxed)
        });
        both_follow();
        assert_eq!(event.register(address, 1), Err(Errno::EADDRINUSE));
        done.store(true, Ordering::Relaxed);
        other.join().unwrap();
        // The end of the other process does not end the address space.
        both_follow();
        assert_eq!(event.data.unregister_bit(address, 1), Ok(()));
    });
}

fn the_first_thread_may_end_before_the_others() {
    let mut child = child::fork_until(Word::Runs, |line| {
        let event = Event::new("st_exec_leader u32 a");
        thread::scope(|scope| {
            scope.spawn(|| {
                line.say(Word::Runs);
                serve(line, &event);
                os::exit_now(0);
            });
            // Never returns, so variables that the thread borrows stay alive.
            tasks::exit_thread();
        });
    });
    tasks::wait_state(child.pid, child.pid, 'Z');
    for _ in 0..2 {
        toggle_of("st_exec_leader", slice::from_mut(&mut child));
        child.tell(Word::Drop);
    }
    end(vec![child]);
    wait_gone("st_exec_leader");
}
