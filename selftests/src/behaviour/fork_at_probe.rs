// SPDX-License-Identifier: GPL-2.0

//! Forks that race with other calls: a kprobe stalls one of the two in a chosen function, so that a
//! window of a few instructions lasts long enough for the other.

use super::fork_stalled::setup::{
    clone_right, is_set, stall_thread, with_enabled, RIGHT, WRONG_ERRNO,
};
use crate::harness::tests;
use crate::kit::errno::Errno;
use crate::kit::event::{is_listed, Event};
use crate::kit::memory::Mapping;
use crate::kit::module::nothing_is_left;
use crate::kit::stall::{Waiting, PATH};
use crate::kit::{module, os, wait};
use std::cell::OnceCell;
use std::path::Path;
use std::thread;

tests!("fork_at_probe":
    a_child_waits_for_what_is_being_registered.needs_path(PATH),
    a_child_keeps_what_it_has_when_it_begins.needs_path(PATH),
    the_module_does_not_go_while_it_is_told_of_a_fork.of_loading().needs_path(PATH),
);

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
