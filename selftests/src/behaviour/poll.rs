// SPDX-License-Identifier: GPL-2.0

//! Waiting for a consumer: `poll()`, `select()` and epoll report a change of an event's state once
//! to each file through which the event was registered. In C the file has no `poll`: it always
//! reports [`ALWAYS`], and epoll refuses it.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Child, Line, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{toggler, wait_gone, Event};
use crate::kit::group::Group;
use crate::kit::memory::Mapping;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::poll::{
    close_used, has_changed, poll_for, select, wait_for_change, Epoll, ALWAYS, CHANGED, CLOSED,
    EDGE, IN, ONCE,
};
use crate::kit::random::Random;
use crate::kit::tracefs::TraceInstance;
use crate::kit::uring::{How, Ring};
use crate::kit::userfault::{self, Guard, Userfault};
use crate::kit::wait;
use crate::kit::{module, os, tasks, uring};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

tests!("poll":
    better_than_c_19_a_change_is_reported_once,
    the_file_can_always_be_read_and_written,
    select_reports_a_change_as_exceptional,
    a_level_or_edge_triggered_set_reports_each_change_once,
    a_set_reports_what_changed_before_the_file_was_added,
    a_set_that_comes_to_ask_for_changes_is_told,
    a_set_that_does_not_ask_for_changes_reports_none,
    a_task_that_sleeps_is_woken_with_the_bit_set,
    a_change_is_from_none_to_any_and_back,
    an_event_with_a_consumer_has_not_changed,
    what_changed_since_it_was_registered_is_reported,
    what_changed_before_it_was_registered_is_not,
    an_event_registered_by_a_file_in_a_set_is_waited_for,
    an_event_registered_beside_the_first_poll_is_waited_for.limit(300),
    a_change_while_an_event_is_being_registered_is_waited_for.needs_path(userfault::PATH),
    other_files_are_not_told,
    each_of_many_events_is_waited_for,
    each_of_many_files_is_told.limit(300),
    each_of_many_files_is_told_of_changes_that_overtake_it.limit(300),
    what_is_reported_to_one_descriptor_is_reported_to_all,
    an_unregistered_bit_does_not_end_it,
    a_polled_file_lets_its_events_go,
    a_file_that_is_closed_leaves_its_set,
    a_file_that_is_waited_for_can_be_closed,
    events_of_groups_are_waited_for,
    polls_for_something_else_report_nothing_away,
    writes_by_io_uring_report_nothing_away.needs_path(uring::PATH),
    a_bit_that_is_written_late_is_told_of_again.needs_path(userfault::PATH),
    a_process_is_told_until_its_bit_is_right,
    forks_and_registrations_elsewhere_report_nothing,
    polls_of_io_uring_report_each_change_once.needs_path(uring::PATH),
    polls_of_io_uring_that_stay_report_each_change_once.needs_path(uring::PATH),
    a_set_in_a_set_is_woken,
    no_change_is_missed_in_a_storm.limit(300),
    files_come_and_go_in_a_storm.limit(300),
    the_module_stays_while_its_file_is_waited_for.of_loading(),
    a_set_without_the_file_does_not_keep_the_module.of_loading(),
);

/// Makes an event that has been polled for, and has not changed.
fn polled(text: &str) -> Event {
    let event = Event::new(text);
    assert!(!has_changed(&event.data.file));
    event
}

fn better_than_c_19_a_change_is_reported_once() {
    let event = polled("st_poll u32 a");
    let file = &event.data.file;
    for on in [true, false, true, false] {
        event.switch(on);
        assert!(has_changed(file), "{on}");
        assert_eq!(event.bit(), on);
        assert!(!has_changed(file), "{on}, once more");
    }
    // Two changes between polls are one report.
    event.switch(true);
    event.switch(false);
    wait_for_change(file);
    assert!(!has_changed(file));
}

fn the_file_can_always_be_read_and_written() {
    let event = Event::new("st_poll u32 a");
    let file = &event.data.file;
    let all = 0x3fff & !0x30;
    assert_eq!(poll_for(file, all, wait::limit()), ALWAYS);
    event.switch(true);
    assert_eq!(poll_for(file, all, wait::limit()), ALWAYS | CHANGED);
    let set = Epoll::of(file, ALWAYS | CHANGED);
    let reported = || set.wait(Duration::ZERO);
    assert_eq!(reported(), [(file.as_raw_fd(), ALWAYS)]);
    event.switch(false);
    assert_eq!(reported(), [(file.as_raw_fd(), ALWAYS | CHANGED)]);
    assert_eq!(reported(), [(file.as_raw_fd(), ALWAYS)]);
}

fn select_reports_a_change_as_exceptional() {
    const EXCEPTIONAL: [bool; 3] = [false, false, true];
    let event = polled("st_poll u32 a");
    let file = &event.data.file;
    assert_eq!(select(file, [true; 3], Duration::ZERO), [true, true, false]);
    assert_eq!(select(file, EXCEPTIONAL, Duration::ZERO), [false; 3]);
    event.switch(true);
    assert_eq!(select(file, EXCEPTIONAL, wait::limit()), EXCEPTIONAL);
    assert_eq!(select(file, EXCEPTIONAL, Duration::ZERO), [false; 3]);
    event.switch(false);
    assert_eq!(select(file, [true; 3], wait::limit()), [true; 3]);
}

fn a_level_or_edge_triggered_set_reports_each_change_once() {
    for how in [0, EDGE] {
        let event = Event::new("st_poll u32 a");
        let file = &event.data.file;
        let set = Epoll::of(file, CHANGED | how);
        assert!(!set.has_changed(file), "{how:#x}");
        for on in [true, false, true, false] {
            event.switch(on);
            set.wait_for_change(file);
            assert_eq!(event.bit(), on, "{how:#x}");
            assert!(!set.has_changed(file), "{how:#x}");
        }
        set.remove(file);
        event.switch(true);
        assert!(set.wait(Duration::ZERO).is_empty(), "{how:#x}");
        assert!(has_changed(file), "{how:#x}");
        event.switch(false);
    }
}

/// Adding a file polls it, but reports nothing to the program, so the change is still to be
/// reported.
fn a_set_reports_what_changed_before_the_file_was_added() {
    for how in [0, EDGE] {
        let event = Event::new("st_poll u32 a");
        let file = &event.data.file;
        event.switch(true);
        let set = Epoll::of(file, CHANGED | how);
        assert!(set.has_changed(file));
        assert!(!set.has_changed(file));
        // The same for a file that was polled before.
        event.switch(false);
        set.remove(file);
        set.add(file, CHANGED | how);
        assert!(set.has_changed(file));
        assert!(!set.has_changed(file));
    }
}

/// Reactors add a file once, and set the events to wait for later. A set that reports once is
/// modified after each report.
fn a_set_that_comes_to_ask_for_changes_is_told() {
    for how in [0, EDGE, ONCE] {
        for first in [0, IN, ALWAYS] {
            let event = Event::new("st_poll u32 a");
            let file = &event.data.file;
            let set = Epoll::of(file, first | how);
            for on in [true, false] {
                set.modify(file, CHANGED | how);
                assert!(!set.has_changed(file), "{how:#x} after {first:#x}");
                wake(|| set.wait_for_change(file), || event.switch(on));
            }
        }
    }
}

/// An edge-triggered set may report the constant readiness of the file once more.
fn a_set_that_does_not_ask_for_changes_reports_none() {
    let event = Event::new("st_poll u32 a");
    let file = &event.data.file;
    let [set, told] = [Epoll::new(), Epoll::new()];
    set.add(file, ALWAYS | EDGE);
    told.add(file, CHANGED);
    assert_eq!(set.wait(Duration::ZERO), [(file.as_raw_fd(), ALWAYS)]);
    let reports_no_change = || {
        let found = set.wait(Duration::ZERO);
        assert!(found.iter().all(|found| found.1 == ALWAYS), "{found:?}");
    };
    for on in [true, false] {
        event.switch(on);
        told.wait_for_change(file);
        reports_no_change();
    }
    register_number(&event.data, &event.page, 1);
    assert!(!told.has_changed(file));
    reports_no_change();
}

/// Runs `waiting` in a second thread, and `change` when that sleeps.
fn wake<T: Send>(waiting: impl FnOnce() -> T + Send, change: impl FnOnce()) -> T {
    let (to, from) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let thread = scope.spawn(move || {
            to.send(os::thread_id()).unwrap();
            waiting()
        });
        let thread_id = from.recv().unwrap();
        tasks::wait_state(std::process::id() as i32, thread_id, 'S');
        change();
        thread.join().unwrap()
    })
}

fn a_task_that_sleeps_is_woken_with_the_bit_set() {
    let event = Event::new("st_poll u32 a");
    let file = &event.data.file;
    let mut on = false;
    let mut wakes = |wait: &(dyn Fn() + Sync)| {
        on = !on;
        let waits = || {
            wait();
            event.bit()
        };
        assert_eq!(wake(waits, || event.switch(on)), on);
    };
    for _ in 0..3 {
        wakes(&|| wait_for_change(file));
        wakes(&|| assert!(select(file, [false, false, true], wait::limit())[2]));
        for how in [0, EDGE, ONCE] {
            let set = Epoll::of(file, CHANGED | how);
            wakes(&|| set.wait_for_change(file));
        }
    }
    event.switch(false);
}

fn a_change_is_from_none_to_any_and_back() {
    let event = polled("st_poll u32 a");
    let file = &event.data.file;
    let perf = Perf::open(event.id(), SELF, ANY_CPU).unwrap();
    assert!(has_changed(file), "perf attaches");
    event.switch(true);
    assert!(!has_changed(file), "ftrace attaches beside perf");
    drop(perf);
    assert!(event.bit());
    assert!(!has_changed(file), "perf detaches beside ftrace");
    let other = TraceInstance::instance("st_poll");
    other.enable(&event.name);
    event.switch(false);
    assert!(!has_changed(file), "one instance is left");
    other.disable(&event.name);
    assert!(has_changed(file), "the last one detaches");
    assert!(!has_changed(file));
}

fn an_event_with_a_consumer_has_not_changed() {
    let event = Event::new("st_poll u32 a");
    event.switch(true);
    let again = Event::new("st_poll u32 a");
    assert!(again.bit());
    let file = &again.data.file;
    assert!(!has_changed(file));
    let set = Epoll::of(file, CHANGED);
    assert!(!set.has_changed(file));
    event.switch(false);
    set.wait_for_change(file);
}

fn what_changed_since_it_was_registered_is_reported() {
    let top = TraceInstance::top();
    // The changed event is the only one, or the first, middle or last of several.
    for (count, which) in [(1, 0), (3, 0), (3, 1), (3, 2)] {
        let data = Data::open();
        let page = Mapping::kept(1);
        let changed = format!("st_poll_{which}");
        for number in 0..count {
            register_number(&data, &page, number);
            if number == which {
                top.enable(&changed);
            }
        }
        assert!(has_changed(&data.file), "{which} of {count}");
        assert!(!has_changed(&data.file), "{which} of {count}");
        top.disable(&changed);
        assert!(has_changed(&data.file), "{which} of {count}");
    }
}

/// Registers an event with this number in its name and as its bit.
fn register_number(data: &Data, page: &Mapping, number: u8) {
    let text = format!("st_poll_{number} u32 a");
    data.register_text(&text, page.address(), number).unwrap();
}

fn what_changed_before_it_was_registered_is_not() {
    let top = TraceInstance::top();
    let others = ["st_poll_1 u32 a", "st_poll_2 u32 a", "st_poll_3 u32 a"].map(Event::new);
    let data = Data::open();
    let page = Mapping::kept(1);
    let register = |number| register_number(&data, &page, number);
    register(0);
    top.enable("st_poll_1");
    register(1);
    top.enable("st_poll_2");
    register(2);
    assert!(!has_changed(&data.file));
    // The same once the file is polled.
    top.enable("st_poll_3");
    register(3);
    assert!(!has_changed(&data.file));
    // The registration of a changed event does not hide an earlier event's change.
    let data = Data::open();
    let page = Mapping::kept(1);
    let register = |number| register_number(&data, &page, number);
    register(0);
    top.enable("st_poll_0");
    top.disable("st_poll_1");
    register(1);
    assert!(has_changed(&data.file));
    assert!(!has_changed(&data.file));
    top.disable("st_poll_0");
    assert!(has_changed(&data.file));
    others[1..].iter().for_each(|event| event.switch(false));
    assert!(!has_changed(&data.file));
}

fn an_event_registered_by_a_file_in_a_set_is_waited_for() {
    let top = TraceInstance::top();
    for how in [0, EDGE] {
        let (data, page) = (Data::open(), Mapping::kept(1));
        let set = Epoll::of(&data.file, CHANGED | how);
        wake(
            || set.wait_for_change(&data.file),
            || {
                register_number(&data, &page, 0);
                top.enable("st_poll_0");
            },
        );
        top.disable("st_poll_0");
        set.wait_for_change(&data.file);
    }
}

/// In each round one thread registers the event, and one polls the file for the first time.
fn an_event_registered_beside_the_first_poll_is_waited_for() {
    let event = Event::new("st_poll u32 a");
    let page = Mapping::kept(1);
    let mut random = Random::new(1);
    for round in 0..600 {
        let data = Data::open();
        let set = Epoll::new();
        let start = Barrier::new(2);
        let delays = [random.below(500), random.below(5000)];
        let begin = |delay| {
            start.wait();
            (0..delay).for_each(|_| std::hint::spin_loop());
        };
        let register = || {
            begin(delays[0]);
            data.register_text("st_poll u32 a", page.address(), 0)
                .unwrap();
        };
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                begin(delays[1]);
                match round % 3 {
                    0 => wait_for_change(&data.file),
                    kind => set.add(&data.file, CHANGED | [0, EDGE, 0][kind]),
                }
            });
            register();
            if round % 3 != 0 {
                waits.join().unwrap();
            }
            event.switch(round % 2 == 0);
        });
        if round % 3 != 0 {
            set.wait_for_change(&data.file);
        }
        data.unregister_bit(page.address(), 0).unwrap();
    }
}

/// Registering waits for the page of the bit. A waiter that is woken meanwhile does not find the
/// event in the file.
fn a_change_while_an_event_is_being_registered_is_waited_for() {
    let event = Event::new("st_poll u32 a");
    let data = Data::open();
    let page = Mapping::kept(1);
    let faults = Userfault::on(&page, Guard::Missing);
    thread::scope(|scope| {
        let registered = scope.spawn(|| data.register_text("st_poll u32 a", page.address(), 0));
        faults.wait_asked();
        wake(
            || wait_for_change(&data.file),
            || {
                event.switch(true);
                // The waiter is woken, and sleeps on.
                thread::sleep(Duration::from_millis(100));
                faults.fill(page.address(), 0);
                assert_eq!(registered.join().unwrap(), Ok(0));
            },
        );
    });
    assert!(!has_changed(&data.file));
    event.switch(false);
}

fn other_files_are_not_told() {
    let events = ["st_poll_0 u32 a", "st_poll_1 u32 a"].map(polled);
    events[0].switch(true);
    assert!(!has_changed(&events[1].data.file));
    assert!(has_changed(&events[0].data.file));
    events[1].switch(true);
    assert!(!has_changed(&events[0].data.file));
    assert!(has_changed(&events[1].data.file));
    events.iter().for_each(|event| event.switch(false));
}

/// The events of a file, in several chunks of its table.
const EVENTS: usize = 200;

fn each_of_many_events_is_waited_for() {
    let data = Data::open();
    let pages = Mapping::kept(1);
    let set = Epoll::new();
    for number in 0..EVENTS {
        let text = format!("st_poll_{number} u32 a");
        let address = pages.address() + 4 * number as u64;
        data.register_text(&text, address, 0).unwrap();
        if number == EVENTS / 2 {
            set.add(&data.file, CHANGED);
        }
    }
    assert!(!set.has_changed(&data.file));
    for number in 0..EVENTS {
        let name = format!("st_poll_{number}");
        TraceInstance::top().enable(&name);
        set.wait_for_change(&data.file);
        assert_eq!(pages.get(4 * number), 1);
        TraceInstance::top().disable(&name);
        set.wait_for_change(&data.file);
    }
    assert!(!set.has_changed(&data.file));
}

/// More files than have their bits written, or are reported by epoll, at once.
const FILES: usize = 1100;

/// Makes files in a set, each with a bit of the event. Returns each by its descriptor, with the
/// offset of its word.
fn many_files(set: &Epoll, page: &Mapping) -> BTreeMap<RawFd, (Data, usize)> {
    os::allow_open_files(2 * FILES as u64);
    let file = |number: usize| {
        let data = Data::open();
        let address = page.address() + 4 * number as u64;
        data.register_text("st_poll u32 a", address, 0).unwrap();
        set.add(&data.file, CHANGED);
        (data.file.as_raw_fd(), (data, 4 * number))
    };
    (0..FILES).map(file).collect()
}

fn each_of_many_files_is_told() {
    let event = Event::new("st_poll u32 a");
    let (set, page) = (Epoll::new(), Mapping::kept(2));
    let files = many_files(&set, &page);
    assert!(set.wait(Duration::ZERO).is_empty());
    for on in [true, false] {
        event.switch(on);
        let mut left: BTreeSet<_> = files.keys().collect();
        while !left.is_empty() {
            let found = set.wait(wait::limit());
            assert!(!found.is_empty(), "{on}: {} wait in vain", left.len());
            for (fd, events) in found {
                assert_eq!(events, CHANGED);
                assert!(left.remove(&fd), "{on}: told twice");
            }
        }
        assert!(set.wait(Duration::ZERO).is_empty());
    }
    // A second change before the first is reported to all files.
    event.switch(true);
    event.switch(false);
    wait::until("all files to be told", || {
        while !set.wait(Duration::ZERO).is_empty() {}
        files.values().all(|(data, _)| !has_changed(&data.file))
    });
}

/// The second change comes before or while the first is reported. The bit of a file is read when
/// the file is reported.
fn each_of_many_files_is_told_of_changes_that_overtake_it() {
    let event = Event::new("st_poll u32 a");
    let (set, page) = (Epoll::new(), Mapping::kept(2));
    let files = many_files(&set, &page);
    let mut seen: BTreeMap<RawFd, u32> = files.keys().map(|fd| (*fd, 0)).collect();
    let look = |seen: &mut BTreeMap<RawFd, u32>| {
        let found = set.wait(wait::limit());
        assert!(!found.is_empty(), "files wait in vain");
        for (fd, _) in found {
            seen.insert(fd, page.get(files[&fd].1));
        }
    };
    for round in 0..20 {
        let first = round % 2 == 0;
        event.switch(first);
        // Reports for some of the files only.
        for _ in 0..round / 2 {
            look(&mut seen);
        }
        for on in [!first, first] {
            event.switch(on);
            while seen.values().any(|bit| *bit != u32::from(on)) {
                look(&mut seen);
            }
        }
    }
    event.switch(false);
}

/// A change is reported once for each open file, however many descriptors it has.
fn what_is_reported_to_one_descriptor_is_reported_to_all() {
    let event = polled("st_poll u32 a");
    let second = event.data.file.try_clone().expect("dup");
    event.switch(true);
    assert!(has_changed(&second));
    assert!(!has_changed(&event.data.file));
    event.switch(false);
    let sets = [Epoll::new(), Epoll::new()];
    sets.iter()
        .for_each(|set| set.add(&event.data.file, CHANGED));
    let told = sets.iter().filter(|set| set.has_changed(&event.data.file));
    assert_eq!(told.count(), 1);
}

/// The index stays, and so does the event, as long as the file is open.
fn an_unregistered_bit_does_not_end_it() {
    let event = polled("st_poll u32 a");
    assert_eq!(event.unregister(), Ok(()));
    event.switch(true);
    assert!(has_changed(&event.data.file));
    assert!(!event.bit());
    event.switch(false);
    assert!(has_changed(&event.data.file));
    assert_eq!(event.data.delete("st_poll"), Err(Errno::EBUSY));
}

fn a_polled_file_lets_its_events_go() {
    for _ in 0..20 {
        let event = polled("st_poll u32 a");
        event.switch(true);
        let other = polled("st_poll u32 a");
        event.end();
        other.switch(false);
        assert!(has_changed(&other.data.file));
        other.end();
        wait_gone("st_poll");
    }
}

fn a_file_that_is_closed_leaves_its_set() {
    let set = Epoll::new();
    // One file is closed with a change to report, the other one without.
    for has_changed in [true, false] {
        let event = Event::new("st_poll u32 a");
        let stays = polled("st_poll u32 a");
        set.add(&event.data.file, CHANGED);
        if has_changed {
            event.switch(true);
        }
        event.end();
        assert!(set.wait(Duration::ZERO).is_empty());
        stays.switch(!has_changed);
        stays.switch(false);
        wait_for_change(&stays.data.file);
        assert!(set.wait(Duration::ZERO).is_empty());
    }
}

/// Closes the event's file while a thread waits for it, and calls `change`, which wakes the thread.
/// That holds the open file, but finds no descriptor.
fn close_beside_a_waiter(event: Event, change: impl FnOnce()) {
    // Files that `change` opens get the lower number, which becomes free.
    let file = event.data.file.try_clone().unwrap();
    drop(event.data.file);
    let fd = file.as_raw_fd();
    let start = Instant::now();
    let reported = wake(
        || poll_for(&file, CHANGED, wait::limit()),
        || {
            close_used(fd);
            change();
        },
    );
    assert_eq!(reported, CLOSED);
    assert!(start.elapsed() < wait::limit(), "nothing woke the thread");
    let _ = file.into_raw_fd();
}

fn a_file_that_is_waited_for_can_be_closed() {
    let keeps = Event::new("st_poll u32 a");
    close_beside_a_waiter(Event::new("st_poll u32 a"), || keeps.switch(true));
    keeps.switch(false);
}

fn events_of_groups_are_waited_for() {
    let group = Group::new("st_poll_group");
    let of_group = Event::new_in(&group, "st_poll u32 a");
    let of_first = polled("st_poll u32 a");
    assert!(!has_changed(&of_group.data.file));
    of_group.switch(true);
    assert!(!has_changed(&of_first.data.file));
    assert!(has_changed(&of_group.data.file));
    of_group.switch(false);
    wait_for_change(&of_group.data.file);
    assert_eq!(group.remove(), Err(Errno::EBUSY));
    of_group.end();
    group.remove_when_idle();
}

fn polls_for_something_else_report_nothing_away() {
    let event = polled("st_poll u32 a");
    let file = &event.data.file;
    event.switch(true);
    assert_eq!(poll_for(file, ALWAYS, Duration::ZERO), ALWAYS);
    let set = Epoll::of(file, ALWAYS);
    assert_eq!(set.wait(Duration::ZERO), [(file.as_raw_fd(), ALWAYS)]);
    assert!(has_changed(file));
    event.switch(false);
    // Nor does a set without EPOLLPRI that is added before one with it.
    let [other, asks] = [Epoll::new(), Epoll::new()];
    other.add(file, ALWAYS);
    asks.add(file, CHANGED);
    assert!(asks.has_changed(file));
}

/// io_uring polls a file before it writes to it.
fn writes_by_io_uring_report_nothing_away() {
    let ring = Ring::new();
    let event = polled("st_poll u32 a");
    let file = &event.data.file;
    event.switch(true);
    ring.page.put(0, &[0; 8]);
    assert_eq!(ring.write(file, How::Write, 8), Ok(8));
    assert!(has_changed(file));
    assert_eq!(ring.write(file, How::Write, 8), Ok(8));
    assert!(!has_changed(file));
    event.switch(false);
}

/// A handler of userfaultfd provides the page of the bit late.
fn a_bit_that_is_written_late_is_told_of_again() {
    let event = polled("st_poll u32 a");
    let file = &event.data.file;
    let faults = Userfault::on(&event.page, Guard::Missing);
    let set = Epoll::of(file, CHANGED);
    event.switch(true);
    set.wait_for_change(file);
    assert!(!set.has_changed(file));
    faults.fill(event.page.address(), 0);
    set.wait_for_change(file);
    assert!(event.bit());
    event.switch(false);
}

/// After a fork, a write copies a page, and a registration copies the set of enablers: neither
/// writes a bit that is right.
fn forks_and_registrations_elsewhere_report_nothing() {
    let event = Event::new("st_poll u32 a");
    event.switch(true);
    assert!(has_changed(&event.data.file));
    let mut other = child::fork(|line| {
        let own = Event::new("st_poll u32 a");
        line.ask(Word::Registered, Word::Begin);
        for _ in 0..100 {
            let child = child::fork(|_| own.add_bit(Mapping::kept(1).address(), 0));
            let page = Mapping::kept(1);
            own.add_bit(page.address(), 0);
            own.data.unregister_bit(page.address(), 0).unwrap();
            child.join();
        }
        line.say(Word::Done);
    });
    other.line.hear(Word::Registered);
    let set = Epoll::of(&event.data.file, CHANGED | EDGE);
    assert!(!set.has_changed(&event.data.file));
    other.line.say(Word::Begin);
    let mut reports = 0;
    while !other.line.has_said(Duration::from_millis(50)) {
        reports += usize::from(has_changed(&event.data.file));
    }
    other.line.hear(Word::Done);
    other.join();
    thread::sleep(Duration::from_millis(200));
    reports += usize::from(has_changed(&event.data.file));
    assert_eq!(reports, 0, "reports without a change");
    event.switch(false);
    set.wait_for_change(&event.data.file);
}

/// A poll that ends with its report (`IORING_OP_POLL_ADD`), before a change and after one.
fn polls_of_io_uring_report_each_change_once() {
    const SHORT: Duration = Duration::from_millis(50);
    let ring = Ring::new();
    let event = polled("st_poll u32 a");
    let other = polled("st_poll_other u32 a");
    let file = &event.data.file;
    let begin = || ring.begin_poll(file, CHANGED, false);
    let is_reported = || ring.polled(wait::limit()) == Some(CHANGED);
    for on in [true, false, true, false] {
        begin();
        assert_eq!(ring.polled(SHORT), None);
        event.switch(on);
        assert!(is_reported());
        begin();
        assert_eq!(ring.polled(SHORT), None, "once more");
        event.switch(!on);
        assert!(is_reported());
        event.switch(on);
        begin();
        assert!(is_reported(), "what had changed");
        for multi in [false, true] {
            let ring = Ring::new();
            ring.begin_poll(file, CHANGED, multi);
            other.switch(true);
            assert_eq!(ring.polled(SHORT), None, "another's");
            other.switch(false);
        }
    }
    // The last round leaves the event disabled.
    assert!(!event.bit());
}

/// A poll that goes on after each report (`IORING_POLL_ADD_MULTI`).
fn polls_of_io_uring_that_stay_report_each_change_once() {
    let ring = Ring::new();
    let event = polled("st_poll u32 a");
    ring.begin_poll(&event.data.file, CHANGED, true);
    for round in 0..20 {
        assert_eq!(ring.polled(Duration::from_millis(5)), None, "{round}");
        event.switch(round % 2 == 0);
        assert_eq!(ring.polled(wait::limit()), Some(CHANGED), "{round}");
    }
    assert_eq!(ring.polled(Duration::from_millis(50)), None);
}

/// A task that waits for the outer set is woken. It finds the report in the inner set or, if
/// polling that set has consumed the report, the bit right.
fn a_set_in_a_set_is_woken() {
    for how in [0, EDGE] {
        let event = polled("st_poll u32 a");
        let [inner, outer] = [Epoll::new(), Epoll::new()];
        inner.add(&event.data.file, CHANGED | how);
        outer.add(&inner, IN | how);
        assert!(outer.wait(Duration::ZERO).is_empty());
        for on in [true, false, true, false] {
            wake(|| outer.wait(wait::limit()), || event.switch(on));
            assert_eq!(event.bit(), on);
            let _ = inner.wait(Duration::ZERO);
        }
    }
}

/// A program that looks at its bits only after a report finds them right in the end, however late
/// they are written.
fn a_process_is_told_until_its_bit_is_right() {
    let event = polled("st_poll u32 a");
    let file = &event.data.file;
    for round in 0..40 {
        let on = round % 2 == 0;
        event.page.discard();
        event.switch(on);
        wait_for_change(file);
        while event.bit() != on {
            wait_for_change(file);
        }
        // Further reports: a dropped page reads as zero, so the bit may be right before the write.
        while has_changed(file) {}
    }
}

/// A program that sleeps until a report, and then looks at its bit, sees the last state in the end.
fn no_change_is_missed_in_a_storm() {
    const ROUNDS: usize = 5;
    let event = Event::new("st_poll u32 a");
    let mut tellers = [EDGE, 0, EDGE, 0].map(|how| {
        let event = Event::new("st_poll u32 a");
        child::fork(|line| {
            let set = Epoll::of(&event.data.file, CHANGED | how);
            line.say(Word::Ready);
            // Each round ends with the event enabled, until the test starts the next one.
            for _ in 0..ROUNDS {
                while !event.bit() {
                    set.wait_for_change(&event.data.file);
                }
                line.ask(Word::On, Word::Next);
            }
        })
    });
    let each = |tellers: &mut [Child; 4], run: fn(&mut Line)| {
        tellers.iter_mut().for_each(|teller| run(&mut teller.line));
    };
    each(&mut tellers, |line| line.hear(Word::Ready));
    for _ in 0..ROUNDS {
        for _ in 0..50 {
            event.switch(true);
            event.switch(false);
        }
        event.switch(true);
        each(&mut tellers, |line| line.hear(Word::On));
        event.switch(false);
        each(&mut tellers, |line| line.say(Word::Next));
    }
    tellers.map(|teller| teller.join());
    wait_for_change(&event.data.file);
}

/// Files are polled, added to sets, registered through and closed while their event is switched.
fn files_come_and_go_in_a_storm() {
    let keeps = Event::new("st_poll_0 u32 a");
    let toggler = toggler(&keeps.name);
    let (rounds, shared) = (AtomicUsize::new(0), Epoll::new());
    let come_and_go = |seed| {
        let mut random = Random::new(seed);
        let page = Mapping::kept(1);
        while rounds.fetch_add(1, Ordering::Relaxed) <= 200 {
            let data = Data::open();
            let set = Epoll::new();
            let polls_first = random.below(2) == 0;
            if polls_first {
                set.add(&data.file, CHANGED | [EDGE, 0][random.below(2)]);
                shared.add(&data.file, CHANGED);
            }
            (0..3).for_each(|number| register_number(&data, &page, number));
            if polls_first {
                set.wait_for_change(&data.file);
            }
            wait_for_change(&data.file);
            shared.wait(Duration::ZERO);
            for number in 0..3 {
                data.unregister_bit(page.address(), number).unwrap();
            }
            match random.below(3) {
                0 => drop(data),
                1 => drop((set, data)),
                _ => drop((data, set)),
            }
        }
    };
    thread::scope(|scope| {
        for seed in 0..4 {
            let come_and_go = &come_and_go;
            scope.spawn(move || come_and_go(seed));
        }
    });
    toggler.kill();
    keeps.switch(false);
    keeps.end();
    wait_gone("st_poll_0");
}

fn the_module_stays_while_its_file_is_waited_for() {
    module::load();
    let event = Event::new("st_poll u32 a");
    assert_eq!(event.unregister(), Ok(()));
    let top = TraceInstance::top();
    close_beside_a_waiter(event, || {
        for _ in 0..3 {
            assert_eq!(module::unload(), Err(Errno::EAGAIN));
        }
        top.enable("st_poll");
    });
    top.disable("st_poll");
    module::unload_when_idle();
}

fn a_set_without_the_file_does_not_keep_the_module() {
    let set = Epoll::new();
    for _ in 0..3 {
        module::load();
        let event = Event::new("st_poll u32 a");
        set.add(&event.data.file, CHANGED);
        event.switch(true);
        event.switch(false);
        event.end();
        module::unload_when_idle();
        assert!(set.wait(Duration::ZERO).is_empty());
    }
}
