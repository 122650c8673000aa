// SPDX-License-Identifier: GPL-2.0

//! Resources that a user may use up: memory, the table of events, and the time of others.

use crate::kit::abi::{Data, Register, DIAG_IOCSDEL, DIAG_IOCSREG, DIAG_IOCSUNREG};
use crate::kit::abi::{MULTI_FORMAT, PROFILE, REGISTRATIONS};
use crate::kit::child::{self, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::fork_tree::{end, fork, toggle};
use crate::kit::latency::Latencies;
use crate::kit::max_events::Limit;
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::status::Status;
use crate::kit::tracefs::TraceInstance;
use crate::kit::unprivileged::{fork_unprivileged, Access};
use crate::kit::userfault::{Guard, Userfault};
use crate::kit::{dynamic, os, wait};
use std::collections::BTreeSet;
use std::fs;
use std::sync::Barrier;
use std::thread;

pub fn fills_the_table_and_loses_it_with_its_process() {
    const MAX_EVENTS: usize = 300;
    const LAST: u64 = MAX_EVENTS as u64 - 1;
    let _access = Access::given();
    let limit = Limit::new(MAX_EVENTS as u32);
    let event = Event::new("st_evil_roots u32 a");
    let mut others = vec![fork(&event)];
    let mut user = fork_unprivileged(|line| {
        let data = Data::open();
        let page = Mapping::kept(2);
        for number in 0..MAX_EVENTS as u64 {
            let text = format!("st_evil_{number} u32 a");
            let flags = [0, MULTI_FORMAT][number as usize % 2];
            let got = data.register_flags(&text, page.address() + 4 * number, 0, flags);
            // One event is root's.
            let want = match number {
                LAST => Err(Errno::EMFILE),
                _ => Ok(number as u32),
            };
            assert_eq!(got, want);
        }
        line.say(Word::Full);
        line.wait_for_kill();
    });
    user.line.hear(Word::Full);
    // Existing events work on, also for new programs.
    toggle(&event, &mut others);
    drop(Event::new("st_evil_roots u32 a"));
    assert_eq!(dynamic::run("u:st_evil_new u32 a"), Err(Errno::EMFILE));
    // Root finds the process in the listing, and makes room.
    let pid = user.pid.to_string();
    let listing = fs::read_to_string(REGISTRATIONS).unwrap();
    let its = listing
        .lines()
        .filter(|line| line.split(' ').nth(1) == Some(&pid));
    // Including the event that it shares with root.
    assert_eq!(its.count(), MAX_EVENTS);
    limit.set(MAX_EVENTS as u32 + 1);
    assert_eq!(dynamic::run("u:st_evil_new u32 a"), Ok(()));
    user.kill();
    wait::until("its events to go", || Status::now().active == 2);
    assert_eq!(dynamic::run("-:st_evil_new"), Ok(()));
    end(others);
}

/// Calls with an argument on a page of its own that never comes.
const WAITING_CALLS: usize = 7;

/// Makes one of these calls, which does not return.
fn wait_for_ever(call: usize, data: &Data, good: &Mapping, page: u64) {
    let register = Register::new(good.address() + 64, page).bytes();
    let index = good.address() + 128;
    let _ = match call {
        0 => os::ioctl(&data.file, DIAG_IOCSREG, page).map(|_| 0),
        1 => os::ioctl(&data.file, DIAG_IOCSREG, register.as_ptr() as u64).map(|_| 0),
        2 => os::ioctl(&data.file, DIAG_IOCSUNREG, page).map(|_| 0),
        3 => os::ioctl(&data.file, DIAG_IOCSDEL, page).map(|_| 0),
        4 => os::write_from(&data.file, page, 8),
        5 => os::writev_from(&data.file, &[(index, 4), (page, 4)]),
        // The enabled word.
        _ => data
            .register_text("st_evil_waits u32 a", page, 0)
            .map(|_| 0),
    };
}

pub fn arguments_that_never_come_hold_up_no_other() {
    let _access = Access::given();
    let event = Event::new("st_evil_waits u32 a");
    let mut others = vec![fork(&event)];
    let top = TraceInstance::top();
    top.enable(&event.name);
    let mut user = child::fork(|line| {
        let faults = Userfault::new();
        os::become_unprivileged();
        let mine = Event::new("st_evil_waits u32 a");
        let pages = Mapping::kept(WAITING_CALLS);
        faults.guard(&pages, Guard::Missing);
        // A caller that waits for the page of its word holds its process's lock, so all must have
        // registered before.
        let registered = Barrier::new(WAITING_CALLS);
        thread::scope(|scope| {
            for call in 0..WAITING_CALLS {
                let registered = &registered;
                let (mine, page) = (&mine, pages.address() + (call * PAGE) as u64);
                // A file each: a waiting call holds the position of its file.
                scope.spawn(move || {
                    let data = Data::open();
                    let address = mine.page.address() + 8;
                    let text = "st_evil_waits u32 a";
                    data.register_text(text, address, call as u8).unwrap();
                    registered.wait();
                    wait_for_ever(call, &data, &mine.page, page);
                });
            }
            faults.send(line, &pages);
        });
    });
    let (faults, pages) = Userfault::of_child(&mut user);
    let mut waiting = BTreeSet::new();
    wait::until("all calls to wait", || {
        waiting.extend(faults.next_fault().map(|at| (at - pages) / PAGE as u64));
        // Two calls may wait for the same lock of the process.
        waiting.len() >= WAITING_CALLS - 1
    });
    top.disable(&event.name);
    event.wait_clear();
    let mut rounds = Latencies::default();
    for _ in 0..5 {
        rounds.during(|| {
            toggle(&event, &mut others);
            let other = Event::new("st_evil_other u32 a");
            toggle(&other, &mut []);
            other.unregister().unwrap();
            drop(other);
            wait_gone("st_evil_other");
            dynamic::run("u:st_evil_line u32 a").unwrap();
            assert_eq!(Data::open().delete("st_evil_line"), Ok(()));
            assert_eq!(Status::now().names(), [&event.name]);
            fs::read_to_string(REGISTRATIONS).unwrap();
            fs::read_to_string(PROFILE).unwrap();
        });
    }
    rounds.judge("everything else, beside all calls that wait", 300);
    user.kill();
    toggle(&event, &mut others);
    end(others);
}
