// SPDX-License-Identifier: GPL-2.0

//! Groups that are made and removed, repeatedly and beside their users.

use crate::harness::{self, tests};
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST, REGISTRATIONS};
use crate::kit::dynamic;
use crate::kit::errno::{allow, Errno};
use crate::kit::group::{self, Group};
use crate::kit::machine;
use crate::kit::memory::Mapping;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::random::Random;
use crate::kit::status::Status;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::usage::grows_by_nothing;
use crate::kit::wait::{self, SetOnDrop};
use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

tests!("groups::stress":
    making_and_removing_them_leaks_nothing.limit(3600),
    openers_beside_removal_have_the_group_or_an_error.limit(600),
    they_come_and_go_beside_all_that_uses_them.limit(900),
);

/// The number of groups to make and remove, usually and if there is time.
const ROUNDS: usize = 1000;
const ROUNDS_IF_LONG: usize = 10_000;

/// The errors of opening a group's file while the group does not exist, is made, or is removed.
const NOT_THERE: [Errno; 3] = [Errno::ENOENT, Errno::ENXIO, Errno::EIO];

/// Uses a group in ways that differ in the kernel's allocations, and removes it.
fn make_use_and_remove(round: usize, page: &Mapping) {
    let options = [
        "names=any",
        "events=5",
        "names=any bytes_per_second=100",
        "events=9 bytes_per_second=7",
    ][round % 4];
    let group = Group::with("st_g_round", options);
    assert_eq!(group::run("g:st_g_round"), Err(Errno::EEXIST));
    if round % 2 == 0 {
        let data = Data::open_in(&group);
        for (bit, flags) in [0, PERSIST, MULTI_FORMAT, PERSIST | MULTI_FORMAT]
            .into_iter()
            .enumerate()
        {
            let text = format!("st_g_event{} u32 a; u32 b", bit % 2);
            let address = page.address() + 4 * bit as u64;
            let got = data.register_flags(&text, address, 0, flags);
            assert_eq!(got, Ok(bit as u32));
        }
        assert_eq!(group.remove(), Err(Errno::EBUSY));
        assert_eq!(group.status().active, 4);
        for bit in 0..4 {
            data.unregister_bit(page.address() + 4 * bit, 0).unwrap();
        }
    }
    if round % 3 == 0 {
        let event = group.event("st_g_line");
        dynamic::run(&format!("u:{event} u32 a")).unwrap();
        if round % 9 == 0 {
            let top = TraceInstance::top();
            top.enable(&event);
            let perf = Perf::open(tracefs::event_id(&event), SELF, ANY_CPU).unwrap();
            assert_eq!(group.remove(), Err(Errno::EBUSY));
            drop(perf);
            top.disable(&event);
        }
    }
    // An open status file outlives the group.
    let status = (round % 5 == 0).then(|| fs::File::open(group.status_file()).unwrap());
    group.remove_when_idle();
    drop(status);
}

fn making_and_removing_them_leaks_nothing() {
    let rounds = harness::times(machine::rounds(ROUNDS), ROUNDS_IF_LONG);
    let page = Mapping::kept(1);
    // A fifth to warm up, and two halves of two fifths.
    let half = rounds * 2 / 5;
    grows_by_nothing(rounds - 2 * half, half, |round| {
        make_use_and_remove(round, &page);
    });
    assert_eq!(group::listing(), "");
}

/// The number of times that each operation must succeed before the race ends.
const OFTEN: usize = 200;

/// Counters shared by the threads of a race.
#[derive(Default)]
struct Race {
    is_over: AtomicBool,
    opened: AtomicUsize,
    /// The file did not exist, or was removed while being opened.
    not_there: AtomicUsize,
    removed: AtomicUsize,
    kept: AtomicUsize,
}

impl Race {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn count(&self, what: &AtomicUsize) {
        what.fetch_add(1, Ordering::Relaxed);
    }

    /// Opens the group's file repeatedly. While the file is open, the group must stay.
    fn open(&self, group: &Group, address: u64) {
        while self.goes_on() {
            let data = match Data::try_open_in(group) {
                Ok(data) => data,
                Err(errno) if NOT_THERE.contains(&errno) => {
                    self.count(&self.not_there);
                    continue;
                }
                Err(errno) => panic!("open: {errno:?}"),
            };
            assert_eq!(data.register_text("st_g_event u32 a", address, 0), Ok(0));
            assert!(tracefs::event_exists(&group.event("st_g_event")));
            assert!(Status::of(&group.status_file()).active > 0);
            assert_eq!(data.unregister_bit(address, 0), Ok(()));
            drop(data);
            self.count(&self.opened);
        }
    }

    /// Removes the group as soon as possible, and makes it again.
    fn make_and_remove(&self, group: &Group) {
        while self.goes_on() {
            let made = group::run(&format!("g:{}", group.name));
            assert_eq!(made, Ok(()), "nothing of the last one is left");
            while self.goes_on() {
                match group.remove() {
                    Ok(()) => {
                        self.count(&self.removed);
                        break;
                    }
                    Err(Errno::EBUSY) => self.count(&self.kept),
                    Err(errno) => panic!("remove: {errno:?}"),
                }
            }
        }
    }
}

fn openers_beside_removal_have_the_group_or_an_error() {
    let group = Group::of_name("st_g_opened");
    let page = Mapping::kept(1);
    let race = Race::default();
    thread::scope(|scope| {
        let _over = SetOnDrop(&race.is_over);
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let (race, group, address) = (&race, &group, page.address() + 64 * thread);
                scope.spawn(move || race.open(group, address))
            })
            .chain([scope.spawn(|| race.make_and_remove(&group))])
            .collect();
        wait::until("openers and removal to have met often", || {
            assert!(!threads.iter().any(|thread| thread.is_finished()));
            let counts = [&race.opened, &race.not_there, &race.removed, &race.kept];
            let often = machine::rounds(OFTEN);
            counts
                .iter()
                .all(|count| count.load(Ordering::Relaxed) >= often)
        });
    });
    let count = |what: &AtomicUsize| what.load(Ordering::Relaxed);
    println!(
        "  # opened {} times, not there {} times, removed {} times, kept {} times",
        count(&race.opened),
        count(&race.not_there),
        count(&race.removed),
        count(&race.kept)
    );
}

/// The groups of all threads. The events of group N have a field `aN`.
const GROUPS: usize = 4;
const THREADS: usize = 6;
/// Operations of each thread.
const OPERATIONS: usize = 1500;

/// The number of successful operations of each kind.
#[derive(Default)]
struct Done([AtomicUsize; KINDS.len()]);

const KINDS: [&str; 8] = [
    "make a group",
    "remove a group",
    "register and write in a group",
    "read the listing of groups",
    "read a group's listings",
    "make and delete by a line",
    "attach and detach",
    "read the other listings",
];

/// A thread that makes, uses and removes groups.
struct Worker<'a> {
    random: Random,
    groups: &'a [Group],
    address: u64,
    done: &'a Done,
}

impl Worker<'_> {
    /// Does one operation, and counts it if it succeeds.
    fn step(&mut self) {
        // Groups are made and used more often than removed, as otherwise they would hardly ever
        // exist.
        const LOTS: [usize; 14] = [0, 0, 1, 2, 2, 2, 2, 3, 4, 4, 5, 6, 6, 7];
        let kind = LOTS[self.random.below(LOTS.len())];
        let number = self.random.below(GROUPS);
        let group = &self.groups[number];
        let done = match kind {
            0 => self.make(group),
            1 => allow("remove", group.remove(), &[Errno::ENOENT, Errno::EBUSY]),
            2 => self.use_it(group, number),
            3 => list_groups(),
            4 => read_listings(group),
            5 => self.lines(group, number),
            6 => self.attach(group),
            _ => read_the_others(),
        };
        if done.is_some() {
            self.done.0[kind].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn make(&mut self, group: &Group) -> Option<()> {
        let options = ["", "events=100", "bytes_per_second=1000"][self.random.below(3)];
        let line = format!("g:{} {options}", group.name);
        // The group exists with more events than the new limit, or its limits are changed.
        let refused = [Errno::EEXIST, Errno::EBUSY];
        allow("make", group::run(line.trim_end()), &refused)
    }

    /// An event registered on an open file must exist until unregistered, in the file's group.
    fn use_it(&mut self, group: &Group, number: usize) -> Option<()> {
        let data = allow("open", Data::try_open_in(group), &NOT_THERE)?;
        let text = format!("st_g_same u32 a{number}");
        assert_eq!(data.register_text(&text, self.address, 0), Ok(0));
        let format = tracefs::event_format(&group.event("st_g_same"));
        assert!(
            format.contains(&format!("field:u32 a{number};")),
            "{format}"
        );
        assert!(group.line().is_some());
        let refused = [Errno::EBADF, Errno::EDQUOT];
        allow("write", data.write(0, &[number as u8; 4]), &refused);
        let deleted = data.delete("st_g_same");
        assert_eq!(deleted, Err(Errno::EBUSY));
        assert_eq!(group.remove(), Err(Errno::EBUSY));
        assert_eq!(data.unregister_bit(self.address, 0), Ok(()));
        Some(())
    }

    fn lines(&mut self, group: &Group, number: usize) -> Option<()> {
        let event = group.event("st_g_line");
        let line = format!("u:{event} u32 a{number}");
        allow("u:", dynamic::run(&line), &[Errno::EINVAL])?;
        let line = format!("-:{event} u32 a{number}");
        allow("-:", dynamic::run(&line), &[Errno::ENOENT, Errno::EBUSY])
    }

    fn attach(&mut self, group: &Group) -> Option<()> {
        // An event may be gone before its file is opened, or before the write, and nothing attaches
        // to the events of a group that is being removed.
        let gone = [Errno::ENOENT, Errno::ENODEV, Errno::EBUSY];
        let event = group.event(["st_g_same", "st_g_line"][self.random.below(2)]);
        let top = TraceInstance::top();
        if self.random.below(3) == 0 {
            let id = fs::read_to_string(top.file(&event, "id"));
            let id = allow("id", id.map_err(Errno::from), &gone)?;
            let perf = Perf::open(id.trim().parse().unwrap(), SELF, ANY_CPU);
            let gone = [Errno::EINVAL, Errno::ENOENT, Errno::ENODEV, Errno::EBUSY];
            allow("perf", perf, &gone).map(drop)
        } else {
            allow("enable", top.set(&event, "enable", "1"), &gone)?;
            // Another thread may have disabled the event, and it may be gone.
            allow("disable", top.set(&event, "enable", "0"), &gone);
            Some(())
        }
    }
}

/// Lines must be complete, with each group once.
fn list_groups() -> Option<()> {
    let lines = group::lines();
    let names: BTreeSet<_> = lines.iter().map(|line| group::name_in(line)).collect();
    assert_eq!(names.len(), lines.len(), "{lines:?}");
    for line in &lines {
        let (made_by, numbers) = line.split_once(" # ").expect("numbers");
        assert!(made_by.contains(" events="), "{line}");
        let words = numbers.split(", ").map(|part| part.split_once(' '));
        let known = ["events", "used", "open files", "refused"];
        for (word, known) in words.zip(known) {
            let (number, word) = word.expect("a number and a word");
            assert!(number.parse::<u64>().is_ok() && word == known, "{line}");
        }
    }
    Some(())
}

/// The group may exist, or have just been removed.
fn read_listings(group: &Group) -> Option<()> {
    let read = |path| fs::read_to_string(path).map_err(Errno::from);
    let status = allow("status", read(group.status_file()), &NOT_THERE)?;
    let known = ["st_g_same", "st_g_line"];
    // An event may go between its line and the totals.
    for line in status.lines().take_while(|line| !line.is_empty()) {
        let name = line.split(' ').next().unwrap_or("");
        assert!(known.contains(&name), "{status}");
    }
    let profile = allow("profile", read(group.profile()), &NOT_THERE)?;
    for line in profile.lines() {
        let name = line.split_whitespace().next().unwrap_or("");
        assert!(known.contains(&name), "{profile}");
    }
    Some(())
}

/// Each event must be listed with the fields of its group.
fn read_the_others() -> Option<()> {
    for line in dynamic::user_lines() {
        let (system, rest) = line.split_once('/').expect("a group's event");
        let number = system.strip_prefix("u:user_events_st_g_").expect("a group");
        assert!(rest.ends_with(&format!(" u32 a{number}")), "{line}");
    }
    let text = fs::read_to_string(REGISTRATIONS).expect("read the registrations");
    for line in text.lines().skip(1) {
        assert!(line.starts_with("user_events_st_g_"), "{line}");
    }
    Some(())
}

fn they_come_and_go_beside_all_that_uses_them() {
    let groups: Vec<_> = (0..GROUPS)
        .map(|number| Group::of_name(&format!("st_g_{number}")))
        .collect();
    let page = Mapping::kept(1);
    let done = Done::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut worker = Worker {
                random: harness::random(thread as u64),
                groups: &groups,
                address: page.address() + 64 * thread as u64,
                done: &done,
            };
            scope.spawn(move || {
                for _ in 0..machine::rounds(OPERATIONS) {
                    worker.step();
                }
            });
        }
    });
    let done = done.0.map(AtomicUsize::into_inner);
    println!("  # done, by kind: {done:?}");
    for (kind, times) in KINDS.iter().zip(done) {
        assert!(times > 10, "{kind}: {times} times");
    }
    // Everything is unused now.
    wait::until("all groups to be removed", || {
        group::remove_all().is_empty()
    });
    groups.iter().for_each(Group::is_gone);
    assert_eq!(dynamic::user_lines(), [""; 0]);
}
