// SPDX-License-Identifier: GPL-2.0

//! Groups that are made and removed beside their users.

use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST};
use crate::kit::errno::{allow, Errno};
use crate::kit::group::{self, Group};
use crate::kit::memory::Mapping;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::status::Status;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::usage::grows_by_nothing;
use crate::kit::wait::{self, SetOnDrop};
use crate::kit::{dynamic, machine};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

tests!("groups::stress":
    making_and_removing_them_leaks_nothing.limit(900),
    openers_beside_removal_have_the_group_or_an_error.limit(900),
);

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
    let page = Mapping::kept(1);
    grows_by_nothing(90, machine::rounds(180), |round| {
        make_use_and_remove(round, &page);
    });
    assert_eq!(group::listing(), "");
}

/// The errors of opening a group's file while the group does not exist, is made, or is removed.
const NOT_THERE: [Errno; 3] = [Errno::ENOENT, Errno::ENXIO, Errno::EIO];

/// The number of times that each outcome must occur before a race ends.
const OFTEN: usize = 40;

/// Uses the group once, with a word of its own; returns nothing if the group does not exist.
type Use = fn(&Group, u64) -> Option<()>;

/// The uses of a group beside its removal, and whether each keeps the group while it lasts. The
/// race with consumers is `busy::a_consumer_beside_the_removal_has_all_or_nothing`.
const USES: [(&str, Use, bool); 3] = [
    ("its event is registered on an open file", register, true),
    ("lines make and delete its event", make_by_a_line, false),
    ("it is listed, and its listings are read", list, false),
];

/// A registered event must exist until unregistered, and its group with it.
fn register(group: &Group, address: u64) -> Option<()> {
    let data = allow("open", Data::try_open_in(group), &NOT_THERE)?;
    assert_eq!(data.register_text("st_g_event u32 a", address, 0), Ok(0));
    assert!(tracefs::event_exists(&group.event("st_g_event")));
    assert!(Status::of(&group.status_file()).active > 0);
    assert_eq!(data.write(0, &[0; 4]), Err(Errno::EBADF));
    assert_eq!(data.delete("st_g_event"), Err(Errno::EBUSY));
    assert_eq!(data.unregister_bit(address, 0), Ok(()));
    Some(())
}

fn make_by_a_line(group: &Group, _: u64) -> Option<()> {
    let event = group.event("st_g_line");
    let made = dynamic::run(&format!("u:{event} u32 a"));
    allow("u:", made, &[Errno::EINVAL])?;
    let listed = dynamic::user_lines();
    let line = format!("u:{event} u32 a");
    assert!(listed.iter().all(|listed| *listed == line), "{listed:?}");
    let deleted = dynamic::run(&format!("-:{event}"));
    allow("-:", deleted, &[Errno::ENOENT, Errno::EBUSY]);
    Some(())
}

fn list(group: &Group, _: u64) -> Option<()> {
    let lines = group::lines();
    let is_whole = |line: &String| line.ends_with(" # 0 events, 0 used, 0 open files");
    assert!(lines.len() <= 1 && lines.iter().all(is_whole), "{lines:?}");
    for path in [group.status_file(), group.profile()] {
        let text = fs::read_to_string(path).map_err(Errno::from);
        allow("read", text, &NOT_THERE)?;
    }
    Some(())
}

/// The outcomes of a race.
#[derive(Default)]
struct Race {
    is_over: AtomicBool,
    used: AtomicUsize,
    not_there: AtomicUsize,
    removed: AtomicUsize,
    kept: AtomicUsize,
}

impl Race {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn use_often(&self, once: Use, group: &Group, address: u64) {
        while self.goes_on() {
            let outcome = match once(group, address) {
                Some(()) => &self.used,
                None => &self.not_there,
            };
            outcome.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes the group, and removes it as soon as possible once it was used, again and again.
    fn make_and_remove(&self, group: &Group) {
        while self.goes_on() {
            let made = group::run(&format!("g:{}", group.name));
            assert_eq!(made, Ok(()), "nothing of the last one is left");
            let used = self.used.load(Ordering::Relaxed);
            while self.goes_on() && self.used.load(Ordering::Relaxed) == used {
                thread::yield_now();
            }
            while self.goes_on() {
                if allow("remove", group.remove(), &[Errno::EBUSY]).is_some() {
                    self.removed.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                self.kept.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn openers_beside_removal_have_the_group_or_an_error() {
    let group = Group::of_name("st_g_raced");
    let page = Mapping::kept(1);
    for (what, once, keeps) in USES {
        let race = Race::default();
        thread::scope(|scope| {
            let _over = SetOnDrop(&race.is_over);
            let threads: Vec<_> = (0..2)
                .map(|thread| {
                    let (race, group, address) = (&race, &group, page.address() + 64 * thread);
                    scope.spawn(move || race.use_often(once, group, address))
                })
                .chain([scope.spawn(|| race.make_and_remove(&group))])
                .collect();
            let counts = [&race.used, &race.not_there, &race.removed, &race.kept];
            let counts = &counts[..if keeps { 4 } else { 3 }];
            let often = machine::rounds(OFTEN);
            wait::until(&format!("each outcome often: {what}"), || {
                assert!(!threads.iter().any(|thread| thread.is_finished()), "{what}");
                let mut counts = counts.iter().map(|count| count.load(Ordering::Relaxed));
                counts.all(|count| count >= often)
            });
        });
        wait::until("the last one to be removed", || {
            group::remove_all().is_empty()
        });
        group.is_gone();
        assert_eq!(dynamic::user_lines(), [""; 0], "{what}");
    }
}
