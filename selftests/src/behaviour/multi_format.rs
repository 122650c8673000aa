// SPDX-License-Identifier: GPL-2.0

//! `USER_EVENT_REG_MULTI_FORMAT`: the numbers of formats after loading, and their deletion
//! together.

use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST};
use crate::kit::child;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::group::Group;
use crate::kit::latency::Latencies;
use crate::kit::lock_trace::{self, is_of, LockTrace, REMOVES, UNLOCKS};
use crate::kit::memory::Mapping;
use crate::kit::module;
use crate::kit::os;
use crate::kit::tracefs::{self, formats_of, TraceInstance, MULTI_GROUP};
use crate::kit::wait;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

tests!("multi_format":
    ids_count_from_0_in_hex.of_loading(),
    all_or_none_are_deleted,
    one_in_use_is_told_before_one_that_is_persistent,
    two_threads_leave_out_no_number,
    deleting_many_holds_up_no_toggle.limit(600),
);

fn ids_count_from_0_in_hex() {
    module::load();
    let user = child::fork(|_| {
        let (data, page) = (Data::open(), Mapping::kept(1));
        let register =
            |text: &str, bit| data.register_flags(text, page.address(), bit, MULTI_FORMAT);
        for i in 0..18 {
            // One count for all formats, whatever their names.
            let name = ["st_multi_hex", "st_multi_hex2"][usize::from(i % 2)];
            assert_eq!(register(&format!("{name} u32 a{i}"), i), Ok(i.into()));
        }
        // A registration that fails takes no number.
        assert_eq!(register("st_multi_hex long a", 18), Err(Errno::EINVAL));
        assert_eq!(register("st_multi_hex u32 a18", 18), Ok(18));
        for (name, first, count) in [("st_multi_hex", 0, 10), ("st_multi_hex2", 1, 9)] {
            let ids = (0..count).map(|n| first + 2 * n);
            let want: Vec<_> = ids
                .map(|id| format!("{MULTI_GROUP}/{name}.{id:x}"))
                .collect();
            assert_eq!(formats_of(name), want);
        }
    });
    user.join();
    module::unload_when_idle();
    assert!(!tracefs::group_dir(MULTI_GROUP).exists());
}

/// C deletes the formats that it reaches before one that is in use.
fn all_or_none_are_deleted() {
    let name = "st_multi_delete";
    make_formats(name, ["u32 a", "u64 a", "u8 a; u8 b"].map(String::from));
    let formats = formats_of(name);
    assert_eq!(formats.len(), 3);
    let top = TraceInstance::top();
    for busy in &formats {
        top.enable(busy);
        assert_eq!(Data::open().delete(name), Err(Errno::EBUSY));
        assert_eq!(formats_of(name), formats, "with {busy} in use");
        top.disable(busy);
    }
    wait::until("the formats to be deleted", || {
        Data::open().delete(name) == Ok(())
    });
    assert_eq!(formats_of(name), [""; 0]);
}

/// A thread whose prepared number is taken by another thread uses the next one.
fn two_threads_leave_out_no_number() {
    const EACH: usize = 300;
    let group = Group::of_any_names("st_g_numbers");
    let name = "st_multi_race";
    let user = child::fork(|_| {
        let (data, page) = (Data::open_in(&group), Mapping::kept(1));
        thread::scope(|scope| {
            for thread in 0..2 {
                let (data, page) = (&data, &page);
                scope.spawn(move || {
                    for i in 0..EACH {
                        let text = format!("{name} u32 a{thread}_{i}");
                        let address = page.address() + 4 * (2 * i + thread) as u64;
                        data.register_flags(&text, address, 0, MULTI_FORMAT)
                            .unwrap_or_else(|errno| panic!("{text}: {errno:?}"));
                    }
                });
            }
        });
        let want: Vec<_> = (0..2 * EACH)
            .map(|id| format!("{}/{name}.{id:x}", group.multi_system()))
            .collect();
        assert_eq!(group.formats_of(name), want);
    });
    user.join();
    group.remove_when_idle();
}

/// Makes persistent formats of a name.
fn make_formats(name: &str, formats: impl IntoIterator<Item = String>) {
    let maker = child::fork(|_| {
        let (data, page) = (Data::open(), Mapping::kept(1));
        for fields in formats {
            let text = format!("{name} {fields}");
            data.register_flags(&text, page.address(), 0, PERSIST | MULTI_FORMAT)
                .unwrap_or_else(|errno| panic!("{text}: {errno:?}"));
            data.unregister_bit(page.address(), 0).unwrap();
        }
    });
    maker.join();
}

/// A toggle waits for a few removals at most, however many formats there are. A busy host may delay
/// any toggle, hence the median.
fn deleting_many_holds_up_no_toggle() {
    const FORMATS: usize = 4000;
    let name = "st_multi_many";
    let event = Event::new("st_multi_other u32 a");
    make_formats(name, (0..FORMATS).map(|i| format!("u32 a{i}")));
    let trace = LockTrace::start("st_multi_lock", &[]);
    let shared = Mapping::shared(1);
    let (begun, took) = (shared.long(0), shared.long(8));
    let deleter = child::fork(|_| {
        lock_trace::look_at_me();
        let data = Data::open();
        wait::until("the formats to be deleted", || {
            begun.store(1, Ordering::SeqCst);
            let start = Instant::now();
            let is_deleted = data.delete(name) == Ok(());
            let time = start.elapsed().as_micros() as u64;
            took.store(if is_deleted { time } else { 0 }, Ordering::SeqCst);
            is_deleted
        });
    });
    wait::until("the deletion to begin", || {
        begun.load(Ordering::SeqCst) != 0
    });
    let mut toggles = Latencies::default();
    while took.load(Ordering::SeqCst) == 0 {
        toggles.during(|| event.switch(true));
        toggles.during(|| event.switch(false));
    }
    deleter.join();
    assert_eq!(formats_of(name), [""; 0]);
    let took = Duration::from_micros(took.load(Ordering::SeqCst));
    // Removals in the current hold of the lock, the most in one hold, and all.
    let (mut removed, mut most, mut all) = (0, 0, 0);
    for line in trace.end() {
        if is_of(&line, REMOVES) {
            removed += 1;
        } else if is_of(&line, UNLOCKS) {
            most = most.max(removed);
            all += removed;
            removed = 0;
        }
    }
    assert!(all >= FORMATS, "{all} removals are seen");
    // A format is removed from each trace instance separately.
    let most = most / (all / FORMATS);
    assert!(most <= 21, "{most} are removed at a time");
    let (count, median, longest) = (toggles.count(), toggles.median(), toggles.longest());
    println!(
        "  # {took:?} to delete {FORMATS} formats, {count} toggles beside it: {median:?}, at most {longest:?}"
    );
    assert!(count >= 8, "{count} toggles");
    assert!(median < took / 8, "{median:?} of {took:?}");
}

/// The order in which they were made does not matter.
fn one_in_use_is_told_before_one_that_is_persistent() {
    const NAME: &str = "st_mf_denied";
    let (data, page) = (Data::open(), Mapping::kept(1));
    let used = data.register_flags("st_mf_denied u32 a", page.address(), 0, MULTI_FORMAT);
    assert_eq!(used, Ok(0));
    make_formats(NAME, ["u64 a".into()]);
    let is_told = |want: Errno| {
        child::fork(|_| {
            let data = Data::open();
            os::become_unprivileged();
            // The event may be in use for a moment after the process has ended.
            wait::until("the answer", || data.delete(NAME) == Err(want));
        })
        .join();
    };
    is_told(Errno::EBUSY);
    assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
    drop(data);
    is_told(Errno::EPERM);
    wait::until("it to be deleted", || Data::open().delete(NAME).is_ok());
}
