// SPDX-License-Identifier: GPL-2.0

//! A kernel that is locked down for confidentiality. It stays so until a reboot, so this is tested
//! last.

use crate::harness::tests;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::tracefs::TraceInstance;
use std::fs;

tests!("lockdown":
    programs_go_on_and_ftrace_is_closed.needs_path(LOCKDOWN),
);

const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

fn programs_go_on_and_ftrace_is_closed() {
    let event = Event::new("st_locked_down u32 a");
    let id = event.id();
    let tracer = TraceInstance::instance(&event.name);
    tracer.enable(&event.name);
    event.wait_set();
    assert_eq!(event.write(&[1; 4]), Ok(8));
    fs::write(LOCKDOWN, "confidentiality").expect(LOCKDOWN);

    // Attached consumers go on, and programs register, write and unregister as before.
    assert_eq!(event.write(&[2; 4]), Ok(8));
    let other = Event::new("st_locked_down_2 u32 a");
    assert_eq!(other.write(&[3; 4]), Err(Errno::EBADF));
    other.end();
    // Files of tracefs can no longer be opened, while perf may still open tracepoints.
    let result = tracer.set(&event.name, "enable", "0");
    assert_eq!(result, Err(Errno::EPERM));
    let perf = Perf::open(id, SELF, ANY_CPU).map(drop);
    assert_eq!(perf, Ok(()));
    assert!(event.bit());
    assert_eq!(event.unregister(), Ok(()));
    assert!(!event.bit());
}
