// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading while allocations and copies of user memory fail.

use crate::harness::tests;
use crate::kit::abi::{DATA, STATUS};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::faults::{self, walk, walk_by, Fault, PATH};
use crate::kit::group::GROUPS;
use crate::kit::machine::Log;
use crate::kit::{child, module, os, wait};
use std::cell::Cell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

tests!("faults::loading":
    loading.of_loading().needs_path(PATH).limit(3600),
    unloading.of_loading().needs_path(PATH).limit(900),
);

/// Uses the loaded module.
fn use_it() {
    child::fork(|_| drop(Event::new("st_failing_load u32 a"))).join();
}

#[track_caller]
fn nothing_is_left() {
    assert!(!module::is_loaded(), "loaded");
    for file in [DATA, STATUS, GROUPS, "/proc/sys/kernel/user_events_max"] {
        assert!(!Path::new(file).exists(), "{file} is left");
    }
}

fn loading() {
    /// The stride over faults in the kernel's own loading of modules, which is not tested here.
    const STRIDE: u32 = 16;
    // tracefs gives no reason when it creates no file.
    const KNOWN: &[Errno] = &[Errno::ENOMEM, Errno::EFAULT, Errno::ENODEV];
    faults::allow(0);
    // From memory: reading a file of the host would meet faults of its own.
    let copy = os::memory_file(0);
    let mut module = File::open(module::path()).expect("the module's file");
    std::io::copy(&mut module, &mut &copy).expect("copy the module");
    let copy = File::open(format!("/proc/self/fd/{}", copy.as_raw_fd())).expect("open the copy");

    let load = || os::load_module(&copy, c"");
    let mut loaded = 0;
    // The last fault at which the module logged that it cannot be loaded, and the last fault before
    // all of these at which the kernel did not call the module.
    let told: Cell<Option<u32>> = Cell::new(None);
    let not_asked = Cell::new(1);
    let mut log = Log::from_now();
    let mut round = |fault: &mut Fault| {
        log.take();
        if fault.fails(KNOWN, load).is_err() {
            nothing_is_left();
            let said = module::said(log.take());
            if !said.is_empty() {
                assert_eq!(said.len(), 1, "a failing load says one line: {said:?}");
                told.set(Some(fault.number));
            } else if told.get().is_none() {
                not_asked.set(fault.number);
            }
        } else {
            loaded += 1;
            use_it();
            module::unload_when_idle();
            nothing_is_left();
        }
    };
    // The strides may miss all faults of one kind, so any failures are fine.
    let _ = walk_by("load, in strides", |_| STRIDE, &mut round);
    let first = not_asked.get();
    let last = told.get().expect("a load that the module says has failed");
    println!("  # one by one from fault {first} to {}", last + STRIDE);
    let step = |fault: &Fault| match fault.number {
        1 if first > 1 => first - 1,
        number if number < last + STRIDE => 1,
        _ => STRIDE,
    };
    walk_by("load", step, &mut round).include(&[Errno::ENOMEM]);
    println!("  # loaded {loaded} times in spite of a fault, or without");
    load().expect("load");
    use_it();
    module::unload_when_idle();
    nothing_is_left();
}

fn unloading() {
    faults::allow(0);
    walk("unload", |fault| {
        module::load();
        use_it();
        // Work that the user started has ended.
        wait::until("the module to be idle", || module::users() == 0);
        let known = [Errno::ENOMEM, Errno::EFAULT, Errno::EAGAIN];
        if fault.fails(&known, module::unload).is_err() {
            assert!(module::is_loaded());
            use_it();
            module::unload_when_idle();
        }
        nothing_is_left();
    })
    .include(&[Errno::EFAULT]);
}
