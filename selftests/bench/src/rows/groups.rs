// SPDX-License-Identifier: GPL-2.0

//! Groups of events, which C lacks: in one, beside many, and with limited records; compared with
//! the first group.

use super::registering::{register_all, requests_for, unregister_all};
use super::tell;
use super::toggling::toggle;
use super::writing::Writer;
use crate::attach::Perf;
use crate::events::{described, numbered, Group, Request, Words};
use crate::{count, events, sys};
use std::fs::File;
use std::io::Read;

const OTHERS: usize = 1000;

const NAME: &str = "bench";

pub fn in_one() {
    let group = Group::new(NAME, "");
    let writer = Writer::of_numbers(Some(&group));
    tell("group.disabled.write", writer.refused());
    tell("group.ftrace.write", writer.in_ftrace(Writer::write));
    let perf = Perf::sample(&writer.name);
    tell("group.perf.write", writer.write_then(|| perf.skip()));
    perf.end();
    writer.end();
    registrations(&group);
    group.remove();
    limited();
}

/// Number of registered events, each with a bit.
const EVENTS: usize = 500;

/// Registers and unregisters events in the first group and in this one, in turn. Takes medians,
/// since a slab may need a page at the same one of the two each time.
fn registrations(group: &Group) {
    let files = [events::data(), group.data()];
    // The groups take turns in being first. The words are used in the order of the calls.
    let in_turn = |at: usize| [at % 2, 1 - at % 2];
    let words = Words::new(2 * EVENTS);
    let mut requests: Vec<[Request; 2]> = (0..EVENTS)
        .map(|at| in_turn(at).map(|turn| Request::new(&numbered(at), &words, 2 * at + turn)))
        .collect();
    for (what, call) in [
        (
            "register",
            Request::register as fn(&mut Request, &File) -> i32,
        ),
        ("unregister", Request::unregister),
    ] {
        let mut counts = [Vec::new(), Vec::new()];
        for (at, requests) in requests.iter_mut().enumerate() {
            for which in in_turn(at) {
                let (count, result) = count::of(|| call(&mut requests[which], &files[which]));
                assert_eq!(result, 0, "{what}");
                counts[which].push(count);
            }
        }
        for (whose, counts) in ["first", "group"].into_iter().zip(counts) {
            tell(&format!("{whose}.{what}"), count::median_of(counts));
        }
    }
    drop(files);
    events::wait_until_none();
}

/// Writes in groups with a limit that is not reached, and with one that each write exceeds.
fn limited() {
    let of_most = format!("bytes_per_second={}", u32::MAX);
    let measure_with = |limits: &str, measure: fn(&Writer) -> u64| {
        let group = Group::new(NAME, limits);
        let writer = Writer::of_numbers(Some(&group));
        let count = writer.in_ftrace(measure);
        writer.close();
        group.remove();
        count
    };
    tell("limit.write", measure_with(&of_most, Writer::write));
    tell(
        "limit.refused",
        measure_with("bytes_per_second=1", Writer::refused),
    );
}

/// Many other groups, and a process that has an event and a bit in each.
struct Others {
    groups: Vec<Group>,
    pid: i32,
    start: File,
    ready: File,
}

impl Others {
    /// Call before opening the measured file: a fork would share it, and writes to a shared file
    /// lock it.
    fn new() -> Others {
        let groups: Vec<Group> = (0..OTHERS)
            .map(|at| Group::new(&format!("other_{at}"), "events=16"))
            .collect();
        let (mut told, start) = sys::pipe();
        let (ready, say_ready) = sys::pipe();
        let pid = sys::fork(|| {
            told.read_exact(&mut [0]).expect("wait for the start");
            let _registered = Others::register(&groups);
            sys::write(&say_ready, &[1]);
            sys::pause();
        });
        Others {
            groups,
            pid,
            start,
            ready,
        }
    }

    /// Makes the process register. The systems of its groups precede the existing ones in the list
    /// of the trace core.
    fn start(&mut self) {
        sys::write(&self.start, &[1]);
        let ready = self.ready.read_exact(&mut [0]);
        ready.expect("registering in other groups");
    }

    /// Registers an event in each group. Returns the words and files of the registrations.
    fn register(groups: &[Group]) -> (Words, Vec<File>) {
        let words = Words::new(groups.len());
        let register = |(at, group): (usize, &Group)| {
            let file = group.data();
            Request::registered(&file, &described("bench_numbers"), &words, at);
            file
        };
        let files = groups.iter().enumerate().map(register).collect();
        (words, files)
    }

    fn end(self) {
        sys::end(self.pid);
        events::wait_until_none();
        self.groups.into_iter().for_each(Group::remove);
    }
}

fn register(group: &Group) -> u64 {
    let file = group.data();
    let words = Words::new(EVENTS);
    let mut requests = requests_for(&words, 0..EVENTS);
    let counts = register_all(&file, &mut requests);
    unregister_all(&file, requests.iter_mut());
    count::median_of(counts)
}

pub fn beside_others() {
    let mut others = Others::new();
    let group = Group::new(NAME, "");
    let writer = Writer::of_numbers(Some(&group));
    others.start();
    tell("others.disabled.write", writer.refused());
    tell("others.ftrace.write", writer.in_ftrace(Writer::write));
    tell("others.register", register(&group));
    writer.close();
    group.remove();
    others.end();
}

pub fn toggle_beside_others() {
    let mut others = Others::new();
    let group = Group::new(NAME, "");
    let words = Words::new(1);
    let file = group.data();
    let mut request = Request::registered(&file, &described("bench_own"), &words, 0);
    others.start();
    tell(
        "others.toggle",
        toggle(&group.event("bench_own"), &words, 0),
    );
    assert_eq!(request.unregister(&file), 0, "unregister");
    drop(file);
    group.remove();
    others.end();
}
