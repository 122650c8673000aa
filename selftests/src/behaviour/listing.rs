// SPDX-License-Identifier: GPL-2.0

//! `user_events_status` with thousands of events, while others come and go.

use super::long_listings::read_by;
use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT, PROFILE, REGISTRATIONS, STATUS};
use crate::kit::child::{self, Line, Word};
use crate::kit::dynamic;
use crate::kit::machine;
use crate::kit::memory::Mapping;
use crate::kit::status::Status;
use crate::kit::tracefs::TraceInstance;
use crate::kit::usage::grows_by_nothing;
use crate::kit::wait::{self, SetOnDrop};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

tests!("listing":
    each_stable_event_once_while_others_come_and_go.limit(300),
    what_goes_between_two_reads_tears_nothing,
    a_reader_leaves_nothing.limit(300),
);

/// Far more than ten pages of text.
const STABLE: u64 = 3000;

/// Registers events, which stay until the process ends.
fn keep(count: u64, name: impl Fn(u64) -> String) -> (Data, Mapping) {
    let data = Data::open();
    let page = Mapping::kept((4 * count).div_ceil(4096) as usize);
    for i in 0..count {
        let address = page.address() + 4 * i;
        let index = data.register_text(&format!("{} u32 a", name(i)), address, 0);
        assert_eq!(index, Ok(i as u32));
    }
    (data, page)
}

/// In a child: registers and unregisters events of both naming schemes until told to end.
fn come_and_go(line: &mut Line, which: u64) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = SetOnDrop(&done);
        let done = &done;
        scope.spawn(move || {
            let page = Mapping::kept(1);
            let mut kept = VecDeque::new();
            for round in 0u64.. {
                let data = Data::open();
                let numbers = 8 * (round % 128)..8 * (round % 128 + 1);
                for number in numbers.clone() {
                    let flags = if number % 4 == 3 { MULTI_FORMAT } else { 0 };
                    let text = format!("st_list_come{which}_{number} u32 a");
                    data.register_flags(&text, page.address() + 4 * number, 0, flags)
                        .unwrap();
                }
                kept.push_back((data, numbers));
                // A listing shows events that exist both when it begins and when it reaches them.
                // So these stay for longer than a listing takes.
                if kept.len() > 100 {
                    let (data, numbers) = kept.pop_front().unwrap();
                    for number in numbers {
                        let address = page.address() + 4 * number;
                        data.unregister_bit(address, 0).unwrap();
                    }
                }
                if done.load(Ordering::Relaxed) && round > 20 {
                    break;
                }
            }
        });
        line.say(Word::Going);
        line.hear(Word::End);
    });
}

fn each_stable_event_once_while_others_come_and_go() {
    // Half of the stable events are made before the others, half after, so that the others are all
    // over the text.
    let name = |i: u64| format!("st_list_stable{i:04}");
    let _first = keep(STABLE / 2, name);
    let mut others: Vec<_> = (0..2)
        .map(|which| child::fork(|line| come_and_go(line, which)))
        .collect();
    others
        .iter_mut()
        .for_each(|other| other.line.hear(Word::Going));
    let _second = keep(STABLE / 2, |i| name(STABLE / 2 + i));
    let tracer = TraceInstance::instance("st_list_stable");
    for i in [0, STABLE / 2, STABLE - 1] {
        tracer.enable(&name(i));
    }

    let want: Vec<_> = (0..STABLE).map(name).collect();
    let mut lengths = Vec::new();
    for round in 0..9 {
        let text = match round % 3 {
            0 => fs::read_to_string(STATUS).unwrap(),
            1 => read_in_pieces(STATUS, 509),
            _ => read_in_pieces(STATUS, 4096),
        };
        // Well-formed, and its totals match.
        let status = Status::parse(&text);
        let (stable, mut coming): (Vec<_>, Vec<_>) = status
            .names()
            .into_iter()
            .partition(|name| name.starts_with("st_list_stable"));
        assert!(stable == want, "an event is missing, twice, or in disorder");
        assert_eq!(status.busy, 3);
        lengths.push(coming.len());
        let count = coming.len();
        coming.sort();
        coming.dedup();
        assert_eq!(coming.len(), count, "an event twice");

        // The profile lists the same events.
        let text = read_in_pieces(PROFILE, [65536, 100, 4096][round % 3]);
        let names = text.lines().map(|line| line.split_whitespace().next());
        let stable: Vec<_> = names
            .map(Option::unwrap)
            .filter(|name| name.starts_with("st_list_stable"))
            .collect();
        assert!(stable == want, "the profile lacks or repeats an event");
    }
    assert!(
        lengths.iter().any(|length| length != &lengths[0]),
        "nothing came or went: {lengths:?}"
    );

    // dynamic_events is read a page at a time, with changes in between; but the oldest are stable.
    let lines = dynamic::user_lines();
    let stable = |i: u64| format!("u:{} u32 a", name(i));
    let half: Vec<_> = (0..STABLE / 2).map(stable).collect();
    assert!(lines[..half.len()] == half, "dynamic_events lacks an event");

    others
        .iter_mut()
        .for_each(|other| other.line.say(Word::End));
    others.into_iter().for_each(|other| other.join());
    wait::until("only the stable ones to be left", || {
        Status::now().names() == want
    });
    for i in [0, STABLE / 2, STABLE - 1] {
        tracer.disable(&name(i));
    }
}

/// The whole text, by reads of this size on one open file.
fn read_in_pieces(path: &str, size: usize) -> String {
    String::from_utf8(read_by(File::open(path).unwrap(), size)).unwrap()
}

/// Unregisters the events of [`keep`].
fn let_go((data, page): (Data, Mapping), count: u64) {
    for i in 0..count {
        data.unregister_bit(page.address() + 4 * i, 0).unwrap();
    }
}

fn what_goes_between_two_reads_tears_nothing() {
    // A listing is no snapshot, but events that stay are listed once, and lines are whole.
    let odd = |i: u64| format!("st_list_odd{i:0>200}");
    let even = |i: u64| format!("st_list_even{i:0>200}");
    let top = TraceInstance::top();
    for size in [1, 7, 300, 4096] {
        let first = keep(1, |_| "st_list_first".into());
        let goes = keep(30, odd);
        let stays = keep(30, even);
        let mut file = File::open(STATUS).unwrap();
        let mut text = Vec::new();
        let mut piece = vec![0; size];
        for i in 0..10 {
            let length = file.read(&mut piece).unwrap();
            text.extend(&piece[..length]);
            top.enable(&even(i));
        }
        (0..10).for_each(|i| top.disable(&even(i)));
        let_go(goes, 30);
        wait::until("the events to go", || Status::now().active == 31);
        let comes = keep(5, |i| format!("st_list_comes{i}"));
        file.read_to_end(&mut text).unwrap();

        let status = Status::parse(std::str::from_utf8(&text).unwrap());
        let names = status.names();
        let is = |start| move |name: &&str| name.starts_with(start);
        assert!(names[0] == "st_list_first" && !names[1..].contains(&names[0]));
        let stayed: Vec<_> = names.iter().copied().filter(is("st_list_even")).collect();
        assert_eq!(stayed, (0..30).map(even).collect::<Vec<_>>(), "by {size}");
        let gone: Vec<_> = names.iter().copied().filter(is("st_list_odd")).collect();
        assert_eq!(gone, (0..gone.len() as u64).map(odd).collect::<Vec<_>>());
        // Events made since the listing was begun are left to the next.
        assert_eq!(names.len(), 1 + stayed.len() + gone.len(), "by {size}");
        for (kept, count) in [(first, 1), (stays, 30), (comes, 5)] {
            let_go(kept, count);
        }
        wait::until("all events to go", || Status::now().active == 0);
    }
}

/// Whether the file was read to the end, in part, or not at all.
fn a_reader_leaves_nothing() {
    let _events = keep(100, |i| format!("st_list_left{i}"));
    grows_by_nothing(10, machine::rounds(100), |round| {
        for path in [STATUS, PROFILE, REGISTRATIONS] {
            let mut file = File::open(path).expect(path);
            let length = [0, 100, 1 << 20][round % 3];
            let mut text = vec![0; length];
            let read = file.read(&mut text).expect(path);
            assert_eq!(read == 0, length == 0, "{path}");
        }
    });
}
