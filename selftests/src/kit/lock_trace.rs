// SPDX-License-Identifier: GPL-2.0

//! A trace of what a process does while it holds event_mutex.

use crate::kit::dynamic::Probe;
use crate::kit::tracefs::TraceInstance;
use std::fs;

/// The comm of the traced process.
const COMM: &str = "st_lock_trace";

/// The probes of locking, unlocking, and the removal of an event from an instance.
pub const LOCKS: &str = "st_mutex/st_locks";
pub const UNLOCKS: &str = "st_mutex/st_unlocks";
pub const REMOVES: &str = "st_mutex/st_removes";

/// Marks the calling process as the traced one.
pub fn look_at_me() {
    fs::write("/proc/self/comm", COMM).expect("a name for this process");
}

pub struct LockTrace {
    tracer: TraceInstance,
    _probes: [Probe; 3],
}

impl LockTrace {
    /// Starts to record these probes, and other events with further filters, in a new instance.
    pub fn start(instance: &str, others: &[(&str, &str)]) -> LockTrace {
        let symbols = fs::read_to_string("/proc/kallsyms").expect("symbols");
        let symbol = |name: &str| {
            let mut lines = symbols.lines().map(|line| line.split(' '));
            lines.find_map(|mut words| {
                let address = words.next()?;
                (words.nth(1) == Some(name)).then(|| address.to_string())
            })
        };
        let lock = symbol("event_mutex").expect("the lock");
        // With lockdep, mutex_lock() is mutex_lock_nested().
        let mut lockers = ["mutex_lock", "mutex_lock_nested"].into_iter();
        let locker = lockers.find(|name| symbol(name).is_some()).unwrap();
        let probe = |name, what: &str| Probe::new('p', name, what);
        let probes = [
            probe(LOCKS, &format!("{locker} lock=$arg1:x64")),
            probe(UNLOCKS, "mutex_unlock lock=$arg1:x64"),
            // Functions of the trace core cannot be probed. This one is called once for each
            // instance.
            probe(REMOVES, "eventfs_remove_dir"),
        ];
        let tracer = TraceInstance::instance(instance);
        tracer.control("buffer_size_kb", "8192");
        let its_lock = format!("&& lock == 0x{lock}");
        let own = [(LOCKS, &*its_lock), (UNLOCKS, &its_lock), (REMOVES, "")];
        for (event, filter) in own.iter().chain(others) {
            let filter = format!("COMM == \"{COMM}\" {filter}");
            tracer.control(&format!("events/{event}/filter"), &filter);
            tracer.control(&format!("events/{event}/enable"), "1");
        }
        LockTrace {
            tracer,
            _probes: probes,
        }
    }

    /// Ends the trace. Returns the lines of `trace`.
    pub fn end(self) -> Vec<String> {
        self.tracer.control("tracing_on", "0");
        let text = self.tracer.text("trace");
        text.lines().map(String::from).collect()
    }
}

pub fn is_of(line: &str, event: &str) -> bool {
    let name = event.rsplit('/').next().unwrap_or(event);
    line.contains(&format!(" {name}: "))
}
