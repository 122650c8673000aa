// SPDX-License-Identifier: GPL-2.0

//! What a process does while it holds the lock under which all events of the kernel are made, removed and switched.

use crate::kit::dynamic::Probe;
use crate::kit::tracefs::TraceInstance;
use std::fs;

/// The process, which calls itself so.
const COMM: &str = "st_lock_trace";

/// The events of the lock, and of the removal of an event from an instance.
pub const LOCKS: &str = "st_mutex/st_locks";
pub const UNLOCKS: &str = "st_mutex/st_unlocks";
pub const REMOVES: &str = "st_mutex/st_removes";

/// Makes the calling process the one that is looked at.
pub fn look_at_me() {
    fs::write("/proc/self/comm", COMM).expect("a name for this process");
}

/// Records of that process; each record is a line of `trace`.
pub struct LockTrace {
    tracer: TraceInstance,
    _probes: [Probe; 3],
}

impl LockTrace {
    /// Begins to record them in an instance of this name, and other events, each with an end of its filter.
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
        // A kernel that watches its locks has another one.
        let mut lockers = ["mutex_lock", "mutex_lock_nested"].into_iter();
        let locker = lockers.find(|name| symbol(name).is_some()).unwrap();
        let probe = |name, what: &str| Probe::new('p', name, what);
        let probes = [
            probe(LOCKS, &format!("{locker} lock=$arg1:x64")),
            probe(UNLOCKS, "mutex_unlock lock=$arg1:x64"),
            // Functions of the trace core cannot be probed. This is called once for each instance.
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

    /// The records, in their order.
    pub fn end(self) -> Vec<String> {
        self.tracer.control("tracing_on", "0");
        let text = self.tracer.text("trace");
        text.lines().map(String::from).collect()
    }
}

/// Is the line a record of this event?
pub fn is_of(line: &str, event: &str) -> bool {
    let name = event.rsplit('/').next().unwrap_or(event);
    line.contains(&format!(" {name}: "))
}
