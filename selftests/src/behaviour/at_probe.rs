// SPDX-License-Identifier: GPL-2.0

//! Windows of a few instructions, which a kprobe holds open: what another task does meanwhile waits
//! for the end of the window, or is found after it.

use super::fork_stalled::setup::{
    clone_right, is_set, stall_thread, with_enabled, RIGHT, WRONG_ERRNO,
};
use super::retries::Queued;
use super::userfaultfd::Guarded;
use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{is_listed, repair_pending, wait_gone, Event};
use crate::kit::fuse::{self, Server};
use crate::kit::group::Group;
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
use crate::kit::module::nothing_is_left;
use crate::kit::payload::bytes;
use crate::kit::perf::{assert_recorded, Perf, Sample, ALL_PROCESSES, MAX_PAYLOAD};
use crate::kit::stall::{self, StalledAt, Waiting, PATH};
use crate::kit::tracefs::TraceInstance;
use crate::kit::userfault::{self, Guard};
use crate::kit::wait::{self, SetOnDrop};
use crate::kit::{module, os, tasks};
use std::cell::OnceCell;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

tests!("at_probe" on PATH:
    an_event_that_is_used_again_is_not_looked_at,
    a_group_goes_after_a_task_that_is_opening_its_file,
    a_listener_comes_after_the_records_under_way,
    a_task_that_is_killed_waits_for_no_page,
    a_worker_that_was_held_up_asks_again.skip_if(|| lacks(userfault::PATH)),
    the_module_does_not_go_before_work_of_a_task_has_returned
        .of_loading()
        .skip_if(|| lacks(fuse::PATH)),
    a_child_waits_for_what_is_being_registered,
    a_child_keeps_what_it_has_when_it_begins,
    the_module_does_not_go_while_it_is_told_of_a_fork.of_loading(),
);

fn lacks(path: &str) -> Option<String> {
    (!Path::new(path).exists()).then(|| format!("there is no {path}"))
}

/// The work that removes an unused event finds the event in use again, and leaves it alone.
fn an_event_that_is_used_again_is_not_looked_at() {
    const NAME: &str = "st_probe_again";
    let work = module::function(&["IdleEvents", "WorkItemPointer", "3run"]);
    let register = || Event::new(&format!("{NAME} u32 a"));
    stall::retry_round(|| {
        let queued = Queued::new(NAME);
        let stalled = StalledAt::work(work);
        register().end();
        wait::until("the work to begin", || stalled.times() >= 1);
        let event = register();
        let was_in_time = stalled.is_not_over();
        wait::until("the work to go on", || !stalled.is_now());
        drop(stalled);
        // The next look would come a tenth of a second later, and more after longer pauses.
        sleep(Duration::from_millis(50));
        queued.clear();
        sleep(Duration::from_secs(2));
        assert_eq!(queued.count(), 0, "looked at again");
        event.end();
        wait_gone(NAME);
        was_in_time
    });
}

/// Until it has opened the file, the task uses what is behind it.
fn a_group_goes_after_a_task_that_is_opening_its_file() {
    let group = Group::new("st_g_probe");
    let path = group.status_file();
    thread::scope(|scope| {
        let opening = Waiting::new(scope, || drop(File::open(&path)));
        let stalled = opening.stalled_at("seq_open", 1);
        assert_eq!(group.remove(), Ok(()));
        assert!(
            !stalled.is_now(),
            "it has gone beside a task that opens its file"
        );
        opening.thread.join().unwrap();
    });
    group.is_gone();
}

/// A record that is too long for a listener may be under way when that comes.
fn a_listener_comes_after_the_records_under_way() {
    let (first, last) = os::first_and_last_cpu();
    os::run_on(last);
    let event = Event::new("st_probe_records u32 a");
    let open = |sample| Perf::sample_with(event.id(), ALL_PROCESSES, first as i32, 128, sample);
    let mut plain = open(Sample::PLAIN);
    event.wait_set();
    let payload = bytes(MAX_PAYLOAD);
    thread::scope(|scope| {
        let writing = Waiting::new(scope, || {
            os::run_on(first);
            assert_eq!(event.write(&payload), Ok(4 + MAX_PAYLOAD));
        });
        let stalled = writing.stalled_at("user_events:user_events_perf_submit", 1);
        let mut chains = open(Sample::CHAINS);
        assert!(
            !stalled.is_now(),
            "it came beside a record that is too long for it"
        );
        writing.thread.join().unwrap();
        assert_eq!(chains.take().len(), 0);
    });
    assert_recorded(&mut plain, &payload);
}

/// A task that is killed gets no page, and would wait ten seconds for one.
fn a_task_that_is_killed_waits_for_no_page() {
    stall::retry_round(|| {
        let mut user = child::fork(|line| {
            let (data, page) = (Data::open(), Mapping::kept(1));
            line.say(Word::Ready);
            line.hear(Word::Register);
            let _ = data.register_text("st_probe_killed u32 a", page.address(), 0);
            line.wait_for_kill();
        });
        user.line.hear(Word::Ready);
        let stalled = StalledAt::at("pin_user_pages_remote", user.pid);
        user.line.say(Word::Register);
        wait::until("the page to be asked for", || stalled.times() >= 1);
        os::kill(user.pid, libc::SIGKILL).expect("kill it");
        let was_in_time = stalled.is_not_over();
        wait::until("the task to go on", || !stalled.is_now());
        drop(stalled);
        let start = Instant::now();
        user.kill();
        let time = start.elapsed();
        assert!(time < Duration::from_secs(5), "it waited for {time:?}");
        was_in_time
    });
}

/// A worker waits for the handler of a page for a short time, at the end of which a timer wakes it.
/// If it does not sleep yet then, it is woken again.
fn a_worker_that_was_held_up_asks_again() {
    const NAME: &str = "st_probe_handler";
    let top = TraceInstance::top();
    stall::retry_round(|| {
        let guarded = Guarded::new(NAME, Guard::Missing);
        top.enable(NAME);
        let mut worker = None;
        wait::until("a worker to wait for the handler", || {
            worker = tasks::workers_at("user_events_userfaultfd").next();
            worker.is_some()
        });
        // The next time may be another worker's.
        let stalled = StalledAt::at("handle_mm_fault", worker.expect("a worker"));
        let was_held_up = wait::eventually(|| stalled.times() >= 1);
        // Whether it goes on cannot be seen: it may have come by while the programs were attached.
        drop(stalled);
        // After a change the pauses are short. One request may be from before.
        top.disable(NAME);
        top.enable(NAME);
        for _ in 0..3 {
            guarded.wait_for_fault();
        }
        guarded.child.kill();
        top.disable(NAME);
        wait_gone(NAME);
        was_held_up
    });
}

/// A task that gives up the module at the end of a work returns to the module's code once more.
fn the_module_does_not_go_before_work_of_a_task_has_returned() {
    const NAME: &str = "st_probe_work";
    module::load();
    let _server = Server::start(1, PAGE);
    let file = File::options().read(true).write(true).open(fuse::path(0));
    let page = Mapping::of_file(&file.expect("open a file"), 1, READ_WRITE, libc::MAP_SHARED);
    let page = page.expect("mmap");
    let data = Data::open();
    let index = data.register_text(&format!("{NAME} u32 a"), page.address(), 0);
    assert_eq!(index, Ok(0));
    let top = TraceInstance::top();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = SetOnDrop(&is_over);
        let working = Waiting::new(scope, || {
            while !is_over.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(1));
            }
        });
        // The other thread sleeps by then, and does its work when it is started.
        sleep(Duration::from_millis(50));
        page.advise(libc::MADV_DONTNEED).expect("MADV_DONTNEED");
        top.enable(NAME);
        let pid = std::process::id() as i32;
        wait::until("the bit to be written", || !repair_pending(pid));
        let stalled = working.stalled_at_return("module_put", 1);
        top.disable(NAME);
        assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
        drop(data);
        module::unload_when_idle();
        assert!(!stalled.is_now(), "it has gone beside work that ends");
    });
}

/// A registration is listed, and inherited by a child, before its bit is written.
fn a_child_waits_for_what_is_being_registered() {
    with_enabled("st_stalled_register", |event| {
        let page = Mapping::kept(1);
        let is_right = |event: &Event| {
            let is_set = page.get(0) & 1 != 0;
            match event.data.unregister_bit(page.address(), 0) {
                Ok(()) if is_set => RIGHT,
                Err(Errno::ENOENT) if !is_set => RIGHT,
                _ => WRONG_ERRNO,
            }
        };
        let stalled = OnceCell::new();
        thread::scope(|scope| {
            let registering = Waiting::new(scope, || {
                event.add_bit(page.address(), 0);
            });
            // A child checks its bits only if one was written since the previous fork of this
            // thread. Without previous forks it would check them in any case.
            let forks = |address| {
                for _ in 0..2 {
                    let pid = clone_right(0, 0, is_set, event);
                    wait::until("the child's registrations to go", || !is_listed(pid));
                }
                clone_right(libc::CLONE_PIDFD, address, is_right, event);
            };
            let meanwhile = || {
                // The first pin fails, as copy-on-write shares the page with the child.
                let at_the_bit = registering.stalled_at("pin_user_pages_remote", 2);
                assert!(stalled.set(at_the_bit).is_ok());
            };
            stall_thread(forks, meanwhile);
        });
    });
}

/// Unregistering takes some locks. Whichever of them it waits for when another thread forks, the
/// child has the registration from its start on, or never.
fn a_child_keeps_what_it_has_when_it_begins() {
    const LOCKS: u64 = 3;
    let lock = match Path::new("/proc/lockdep_stats").exists() {
        true => "mutex_lock_nested",
        false => "mutex_lock",
    };
    for times in 1..=LOCKS {
        with_enabled("st_stalled_unregister", |event| {
            let is_unregistered = Mapping::shared(1);
            let is_right = |event: &Event| {
                let had_it = is_listed(std::process::id() as i32);
                wait::until("the parent to have unregistered", || {
                    is_unregistered.get(0) != 0
                });
                match event.unregister() {
                    Ok(()) if had_it && !event.bit() => RIGHT,
                    Err(Errno::ENOENT) if !had_it => RIGHT,
                    _ => WRONG_ERRNO,
                }
            };
            let stalled = OnceCell::new();
            thread::scope(|scope| {
                let unregistering = Waiting::new(scope, || {
                    assert_eq!(event.unregister(), Ok(()));
                    is_unregistered.set(0, 1);
                });
                let fork = |address| {
                    clone_right(libc::CLONE_PIDFD, address, is_right, event);
                };
                let meanwhile = || {
                    let at_the_lock = unregistering.stalled_shortly_at(lock, times);
                    assert!(stalled.set(at_the_lock).is_ok());
                };
                stall_thread(fork, meanwhile);
            });
        });
    }
}

/// A probe that still ran would use freed memory, which a debug kernel reports.
fn the_module_does_not_go_while_it_is_told_of_a_fork() {
    module::load();
    thread::scope(|scope| {
        let forking = Waiting::new(scope, || match os::fork().unwrap() {
            0 => os::exit_now(0),
            pid => assert_eq!(os::wait(pid, 0), Ok((pid, 0))),
        });
        let stalled = forking.stalled_at("user_events:user_events_on_fork", 1);
        module::unload_when_idle();
        assert!(!stalled.is_now(), "it has gone beside a fork");
        forking.thread.join().unwrap();
    });
    nothing_is_left();
}
