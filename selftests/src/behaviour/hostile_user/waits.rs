// SPDX-License-Identifier: GPL-2.0

//! The time of others, which a user may use up.

use crate::kit::abi::{Data, Register, DIAG_IOCSDEL, DIAG_IOCSREG, DIAG_IOCSUNREG};
use crate::kit::abi::{PROFILE, REGISTRATIONS};
use crate::kit::child;
use crate::kit::event::{wait_gone, Event};
use crate::kit::fork_tree::{end, fork, toggle};
use crate::kit::latency::Latencies;
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::status::Status;
use crate::kit::tracefs::TraceInstance;
use crate::kit::unprivileged::Access;
use crate::kit::userfault::{Guard, Userfault};
use crate::kit::{dynamic, os, wait};
use std::collections::BTreeSet;
use std::fs;
use std::sync::Barrier;
use std::thread;

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
