// SPDX-License-Identifier: GPL-2.0

//! Address spaces that are replaced by exec, or shared by several processes.

use crate::harness::tests;
use crate::kit::child::{self, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::fork_tree::{end, fork, obey, serve, tell, toggle};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{os, tasks, wait};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

tests!("exec":
    exec_by_a_thread_ends_registrations,
    exec_that_fails_keeps_registrations,
    exec_of_a_child_leaves_the_parents_registrations,
    a_spawned_program_keeps_no_event,
    vfork_changes_nothing_for_the_parent,
    a_process_that_shares_the_memory_shares_registrations,
    shared_memory_outlives_the_process_that_registered,
    the_first_thread_may_end_before_the_others,
);

/// A program that runs for longer than any test.
fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("10000").stdin(Stdio::null());
    command
}

fn name_of(pid: i32) -> String {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    comm.trim_end().into()
}

fn exec_by_a_thread_ends_registrations() {
    let mut child = child::fork(|line| {
        let event = Event::new("st_exec_thread u32 a");
        drop(event.data);
        line.say(Word::Registered);
        line.hear(Word::Exec);
        thread::spawn(|| panic!("exec: {}", sleeper().exec()));
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    });
    child.line.hear(Word::Registered);
    assert!(tracefs::event_exists("st_exec_thread"));
    child.line.say(Word::Exec);
    wait_gone("st_exec_thread");
    // The registrations end before the process runs the new program.
    wait::until("the program to start", || name_of(child.pid) == "sleep");
    child.kill();
}

fn exec_that_fails_keeps_registrations() {
    let event = Event::new("st_exec_fails u32 a");
    let junk = c"/tmp/selftests.junk";
    let junk_of_mode = |mode| {
        let path = junk.to_str().unwrap();
        fs::write(path, "\u{1}\u{2}\u{3}").unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    assert_eq!(tasks::execute(c"/no/such/file"), Errno::ENOENT);
    toggle(&event, &mut []);
    assert_eq!(tasks::execute(c"/"), Errno::EACCES);
    junk_of_mode(0o600);
    assert_eq!(tasks::execute(junk), Errno::EACCES);
    toggle(&event, &mut []);
    junk_of_mode(0o700);
    assert_eq!(tasks::execute(junk), Errno(libc::ENOEXEC));
    toggle(&event, &mut []);
    fs::remove_file(junk.to_str().unwrap()).unwrap();
    let mut too_much = Command::new("/bin/true");
    too_much.args((0..300).map(|_| "x".repeat(100_000)));
    assert_eq!(Errno::from(too_much.exec()), Errno::E2BIG);
    toggle(&event, &mut []);
    // The same in a child that shares the registrations.
    let mut child = child::fork(|line| {
        assert_eq!(tasks::execute(c"/no/such/file"), Errno::ENOENT);
        line.say(Word::Failed);
        serve(line, &event);
    });
    child.line.hear(Word::Failed);
    let mut children = vec![child];
    toggle(&event, &mut children);
    end(children);
}

fn exec_of_a_child_leaves_the_parents_registrations() {
    let event = Event::new("st_exec_child u32 a");
    let other = fork(&event);
    let child = child::fork(|_| panic!("exec: {}", sleeper().exec()));
    let mut children = vec![other];
    toggle(&event, &mut children);
    wait::until("the program to start", || name_of(child.pid) == "sleep");
    toggle(&event, &mut children);
    child.kill();
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
        toggle(&event, &mut []);
        event.unregister().unwrap();
        drop(event);
        wait_gone("st_exec_spawn");
        program.kill().unwrap();
        program.wait().unwrap();
    }
}

fn vfork_changes_nothing_for_the_parent() {
    let event = Event::new("st_exec_vfork u32 a");
    for _ in 0..3 {
        let pid = tasks::vfork(|| 0).unwrap();
        assert_eq!(os::wait(pid, 0), Ok((pid, 0)));
        toggle(&event, &mut []);
        let pid = tasks::vfork(|| {
            let error = Command::new("/bin/true").exec();
            panic!("exec: {error}");
        });
        let pid = pid.unwrap();
        toggle(&event, &mut []);
        assert_eq!(os::wait(pid, 0), Ok((pid, 0)));
        toggle(&event, &mut []);
    }
    let pid = tasks::vfork(|| {
        let error = Command::new("/no/such/file").exec();
        i32::from(Errno::from(error) != Errno::ENOENT)
    })
    .unwrap();
    assert_eq!(os::wait(pid, 0), Ok((pid, 0)));
    toggle(&event, &mut []);
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
    thread::scope(|scope| {
        let other = scope.spawn(other);
        wait::until("the other process to register", || {
            registered.load(Ordering::Relaxed)
        });
        // Both bits are this process's, too.
        toggle(&event, &mut []);
        let top = TraceInstance::top();
        top.enable(&event.name);
        obey(Word::SecondSet, &event);
        top.disable(&event.name);
        obey(Word::SecondClear, &event);
        let again = event
            .data
            .register_text("st_exec_shares u32 a", event.page.address(), 1);
        assert_eq!(again, Err(Errno::EADDRINUSE));
        done.store(true, Ordering::Relaxed);
        other.join().unwrap();
        // The end of the other process does not end the address space.
        top.enable(&event.name);
        event.wait_set();
        obey(Word::SecondSet, &event);
        top.disable(&event.name);
        event.wait_clear();
        obey(Word::SecondClear, &event);
        event
            .data
            .unregister_bit(event.page.address(), 1)
            .expect("unregister what the other registered");
    });
}

fn shared_memory_outlives_the_process_that_registered() {
    let mut child = child::fork(|line| {
        let event = Event::new("st_exec_outlives u32 a");
        let _ = tasks::vfork(|| {
            line.say(Word::Shares);
            serve(line, &event);
            0
        });
    });
    child.line.hear(Word::Shares);
    let top = TraceInstance::top();
    let toggle = |child: &mut child::Child| {
        top.enable("st_exec_outlives");
        tell(std::slice::from_mut(child), Word::Set);
        top.disable("st_exec_outlives");
        tell(std::slice::from_mut(child), Word::Clear);
    };
    toggle(&mut child);
    // The parent, which waits in vfork(), is killed; its memory stays.
    os::kill(child.pid, libc::SIGKILL).unwrap();
    assert_eq!(child.wait(), libc::SIGKILL);
    toggle(&mut child);
    tell(std::slice::from_mut(&mut child), Word::Drop);
    toggle(&mut child);
    child.tell(Word::End);
    wait_gone("st_exec_outlives");
}

fn the_first_thread_may_end_before_the_others() {
    let mut child = child::fork(|line| {
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
    child.line.hear(Word::Runs);
    wait::until("the first thread to end", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap();
        stat.contains(") Z ")
    });
    let top = TraceInstance::top();
    let mut children = vec![child];
    for _ in 0..2 {
        top.enable("st_exec_leader");
        tell(&mut children, Word::Set);
        top.disable("st_exec_leader");
        tell(&mut children, Word::Clear);
        tell(&mut children, Word::Drop);
    }
    end(children);
    wait_gone("st_exec_leader");
}
