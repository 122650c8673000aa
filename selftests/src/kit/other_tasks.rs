// SPDX-License-Identifier: GPL-2.0

//! Operations of other processes while one waits for its memory: none of them may be blocked.
//!
//! Each op runs in a task of its own. An op that hangs in the kernel may not react to SIGKILL; it
//! is left behind, and ends when the memory becomes available.

use crate::kit::abi::{Data, PROFILE, REGISTRATIONS};
use crate::kit::child::{self, Child, Word};
use crate::kit::event::{wait_gone, Event};
use crate::kit::fork_tree::{end, serving, tell, toggle, toggle_of};
use crate::kit::latency::Latencies;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::status::Status;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{dynamic, machine, os};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// The limit of an op, a thousand times the usual.
fn limit() -> Duration {
    Duration::from_secs(10) * machine::slowness()
}

/// The limit of the median of all ops in milliseconds, beside a few processes that wait for their
/// memory.
const MAX_OP_MS: u64 = 700;

/// The limit of the median of each kind of op, as a multiple of that.
const MAX_OF_A_KIND: u64 = 4;

/// The ops that hung, and the times of the others.
#[derive(Default)]
pub struct Ops {
    late: Vec<String>,
    /// By op.
    times: BTreeMap<String, Latencies>,
}

impl Ops {
    /// Runs `run` in a new task, and waits for its end until the limit.
    pub fn has(&mut self, op: &str, run: impl FnOnce()) {
        let start = Instant::now();
        let pid = os::fork().expect("fork");
        if pid == 0 {
            os::exit_after(run);
        }
        if !os::wait_for_end(pid, limit()).expect("wait for another task") {
            self.late.push(op.into());
            let _ = os::kill(pid, libc::SIGKILL);
            return;
        }
        let times = self.times.entry(op.into()).or_default();
        times.add(start.elapsed());
        let (_, status) = os::wait(pid, 0).expect("wait for another task");
        if status != 0 {
            self.late.push(format!("{op} (status {status})"));
        }
    }

    /// Prints the times, and panics if the median of all ops, or of one kind, exceeds its limit.
    #[track_caller]
    fn judge_times(&self) {
        let mut all = Latencies::default();
        self.times.values().for_each(|times| all.add_all(times));
        let longest = self.times.iter().max_by_key(|(_, times)| times.longest());
        let longest = longest.map(|(op, _)| op.as_str()).unwrap_or_default();
        let what = format!("{} ops beside it, the longest: {longest}", all.count());
        all.judge(&what, MAX_OP_MS);
        // An op that exceeds its own limit has no time, so the limit of the median must be below.
        let most = Duration::from_millis(MAX_OP_MS * MAX_OF_A_KIND) * machine::slowness();
        let most = most.min(limit() / 2);
        for (op, times) in &self.times {
            times.judge_median(op, most);
        }
    }

    /// Panics if an op hung or failed, once `let_go` has removed the cause.
    #[track_caller]
    pub fn judge(&self, let_go: impl FnOnce()) {
        if !self.late.is_empty() {
            let_go();
            panic!("held up: {}", self.late.join("; "));
        }
    }
}

/// Processes that registered before others begin to wait.
pub struct OtherTasks {
    /// The event that they share with the processes that wait.
    event: String,
    children: Vec<Child>,
    /// One more process with that event, to be forked. A fork that hangs blocks the process.
    parent: Child,
    /// A process with another event only.
    other: Vec<Child>,
    /// Processes with one event each, which end in the first round. They are reaped with the
    /// others, as one may hang in its end.
    leaving: [Child; 3],
    have_left: bool,
    pub ops: Ops,
}

const OTHER: &str = "st_by_other";
const LEAVING: [&str; 3] = ["exit", "exec", "killed"];

/// Forks a process that registers an event, and then ends as ordered.
fn leaving(how: &str) -> Child {
    child::fork_until(Word::Registered, |line| {
        let _event = Event::new(&format!("st_by_{how} u32 a"));
        line.say(Word::Registered);
        match line.listen() {
            Word::Exit => {}
            Word::Exec => panic!("exec: {}", Command::new("sleep").arg("10000").exec()),
            word => panic!("told to {word:?}"),
        }
    })
}

impl OtherTasks {
    /// For processes that wait for their memory and have registered `event`.
    ///
    /// The caller must have no registrations, and no mapping of the memory that is waited for, as
    /// its children run the ops.
    pub fn new(event: &str) -> OtherTasks {
        OtherTasks {
            event: event.into(),
            children: vec![serving(event), serving(event)],
            parent: serving(event),
            other: vec![serving(OTHER)],
            leaving: LEAVING.map(leaving),
            have_left: false,
            ops: Ops::default(),
        }
    }

    /// Runs all ops, and leaves the event disabled. [`Ops::judge`] checks the result.
    pub fn carry_on(&mut self) {
        let OtherTasks {
            event,
            children,
            parent,
            other,
            leaving: [exiting, executing, killed],
            have_left,
            ops,
        } = self;
        let (event, parent) = (event.as_str(), std::slice::from_mut(parent));
        let top = TraceInstance::top();

        for (event, children) in [(event, &mut *children), (OTHER, other)] {
            ops.has(&format!("ftrace attaches to {event}"), || top.enable(event));
            ops.has(&format!("bits of {event} are set"), || {
                tell(children, Word::Set)
            });
            ops.has(&format!("ftrace leaves {event}"), || top.disable(event));
            ops.has(&format!("bits of {event} are cleared"), || {
                tell(children, Word::Clear);
            });
            ops.has(&format!("perf attaches to {event} and leaves"), || {
                let perf = Perf::open(tracefs::event_id(event), SELF, ANY_CPU).unwrap();
                tell(children, Word::Set);
                drop(perf);
                tell(children, Word::Clear);
            });
            ops.has(&format!("dropped pages get their bits of {event}"), || {
                tell(children, Word::Drop);
                toggle_of(event, children);
            });
            ops.has(&format!("{event} is unregistered and registered"), || {
                tell(children, Word::Unregister);
                tell(children, Word::Register);
                tell(children, Word::RegisterSecond);
            });
            ops.has(&format!("new bits follow {event}"), || {
                top.enable(event);
                tell(children, Word::SecondSet);
                top.disable(event);
                tell(children, Word::SecondClear);
                tell(children, Word::UnregisterSecond);
            });
        }

        ops.has("a process registers for the first time", || {
            let first = Event::new("st_by_first u32 a");
            toggle(&first, &mut []);
            assert_eq!(first.unregister(), Ok(()));
            assert!(Command::new("true").status().expect("spawn").success());
        });
        ops.has("its event goes", || wait_gone("st_by_first"));
        ops.has("a process registers this event for the first time", || {
            toggle(&Event::new(&format!("{event} u32 a")), &mut []);
        });

        if !std::mem::replace(have_left, true) {
            ops.has("a registered process exits", || {
                exiting.line.say(Word::Exit);
                wait_gone("st_by_exit");
            });
            ops.has("a registered process executes a program", || {
                executing.line.say(Word::Exec);
                wait_gone("st_by_exec");
            });
            ops.has("a registered process is killed", || {
                os::kill(killed.pid, libc::SIGKILL).expect("kill");
                wait_gone("st_by_killed");
            });
        }

        ops.has("events are made and deleted", || {
            dynamic::run("u:st_by_line u32 a").expect("make an event");
            assert_eq!(Data::open().delete("st_by_line"), Ok(()));
            dynamic::run("u:st_by_line u32 b").expect("make an event");
            assert_eq!(dynamic::run("-:st_by_line"), Ok(()));
        });
        ops.has("the lists of events are read", || {
            assert!(Status::now().names().contains(&event));
            assert!(!dynamic::user_lines().is_empty());
            fs::read_to_string(PROFILE).expect("read the profile");
        });
        ops.has("the list of registrations is read", || {
            let text = fs::read_to_string(REGISTRATIONS).expect("read the listing");
            assert!(text.contains(event), "{text}");
        });

        // Last, as a fork that hangs blocks the parent for all later orders.
        ops.has("a registered process is forked", || {
            tell(parent, Word::Fork)
        });
        ops.has("its child's bits follow", || toggle_of(event, parent));
    }

    /// Prints the times, and ends all processes. No process may be waiting for its memory any more.
    #[track_caller]
    pub fn end(self) {
        self.ops.judge_times();
        let children = self.children.into_iter().chain([self.parent]);
        end(children.chain(self.other).collect());
        if self.have_left {
            let [exited, executing, killed] = self.leaving;
            exited.join();
            // Still runs, as another program.
            executing.kill();
            killed.kill();
        }
    }
}
