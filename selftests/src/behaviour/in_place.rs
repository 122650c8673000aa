// SPDX-License-Identifier: GPL-2.0

//! Long records, which are read directly into the buffer of a trace instance if that is the only
//! consumer.

use crate::harness::tests;
use crate::kit::abi::location;
use crate::kit::child;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::traced::Traced;
use crate::kit::tracefs::TraceInstance;
use crate::kit::userfault::{self, Guard, Userfault};
use crate::kit::wait;
use crate::kit::{os, profile};

tests!("in_place":
    all_lengths_are_stored_as_they_are,
    a_wrong_location_leaves_nothing,
    memory_that_cannot_be_read_leaves_nothing,
    more_than_a_call_takes_is_too_large,
    memory_that_was_never_touched_is_read,
    memory_that_comes_late_holds_up_one_write.needs_path(userfault::PATH),
    a_full_array_of_characters_ends,
    a_string_that_needs_a_nul_gets_one,
    filters_triggers_and_processes_are_obeyed,
    several_consumers_get_the_same,
    wrong_records_beside_changing_filters,
);

/// A payload: a number, and bytes that depend on the number.
fn payload(number: u32, length: usize) -> Vec<u8> {
    let mut payload = number.to_ne_bytes().to_vec();
    payload.extend((4..length).map(|at| (at as u32 * 7 + number) as u8));
    payload
}

fn all_lengths_are_stored_as_they_are() {
    let traced = Traced::new("st_ip_lengths u32 a");
    let event = &traced.event;
    let lengths = (510..516).chain(1020..1040);
    for length in lengths.chain([2000, 2001, 3000, 4000, 4003]) {
        let sent = payload(7, length);
        assert_eq!(event.write(&sent), Ok(4 + length));
        assert_eq!(traced.recorded(length), [sent]);
        let one = [&event.index.to_ne_bytes()[..], &payload(8, length)].concat();
        let written = os::write_from(&event.data.file, one.as_ptr() as u64, one.len());
        assert_eq!(written, Ok(one.len()), "in one part");
        assert_eq!(traced.recorded(length), [&one[4..]]);
    }
    assert_eq!(profile::missed(&event.name), (0, 0));
    assert_eq!(profile::refused(&event.name), 0);
}

/// A payload with a location of `size` bytes, which begin `offset` bytes behind the location.
fn located(offset: u32, size: u32, length: usize) -> Vec<u8> {
    let mut bytes = payload(0, length);
    bytes[..4].copy_from_slice(&location(offset, size));
    bytes
}

fn a_wrong_location_leaves_nothing() {
    const LENGTH: usize = 2004;
    let traced = Traced::new("st_ip_location __rel_loc u8[] a");
    let event = &traced.event;
    let good = located(0, 2000, LENGTH);
    assert_eq!(event.write(&good), Ok(4 + LENGTH));
    for (count, (offset, size)) in [(0, 2001), (1, 2000), (2001, 1), (0, 0xffff)]
        .into_iter()
        .enumerate()
    {
        let bad = located(offset, size, LENGTH);
        assert_eq!(event.write(&bad), Err(Errno::EFAULT), "{offset} {size}");
        assert_eq!(profile::refused(&event.name), 1 + count as u64);
        assert_eq!(event.write(&good), Ok(4 + LENGTH));
    }
    assert_eq!(traced.recorded(LENGTH), [(); 5].map(|()| good.clone()));
    assert_eq!(profile::missed(&event.name), (0, 0));
}

fn memory_that_cannot_be_read_leaves_nothing() {
    let traced = Traced::new("st_ip_unreadable u32 a");
    let event = &traced.event;
    let pages = Mapping::new(2);
    pages.put(PAGE - 2000, &event.index.to_ne_bytes());
    pages.protect_from(PAGE, libc::PROT_NONE);
    let from = pages.address() + PAGE as u64 - 2000;
    assert_eq!(os::write_from(&event.data.file, from, 2000), Ok(2000));
    for length in [2001, 4000, 6000] {
        let written = os::write_from(&event.data.file, from, length);
        assert_eq!(written, Err(Errno::EFAULT), "{length}");
    }
    assert_eq!(traced.recorded(1996).len(), 1);
    assert_eq!(profile::refused(&event.name), 3);
}

/// The kernel cuts a longer write to 2 GB less a page.
fn more_than_a_call_takes_is_too_large() {
    let traced = Traced::new("st_ip_longest u32 a");
    let event = &traced.event;
    let page = Mapping::kept(1);
    page.set(0, event.index);
    let (file, address, most) = (&event.data.file, page.address(), 0x7fff_f000);
    for length in [most, most + 1, 3 << 30] {
        let written = os::write_from(file, address, length);
        assert_eq!(written, Err(Errno::E2BIG), "{length}");
        let written = os::writev_from(file, &[(address, 4), (address, length)]);
        assert_eq!(written, Err(Errno::E2BIG), "{length} in parts");
    }
    traced.only_this_is_recorded(&[1, 2, 3, 4]);
}

fn memory_that_was_never_touched_is_read() {
    let traced = Traced::new("st_ip_untouched u32 a");
    let event = &traced.event;
    for _ in 0..50 {
        let pages = Mapping::new(2);
        pages.put(PAGE - 8, &event.index.to_ne_bytes());
        pages.put(PAGE - 4, &7_u32.to_ne_bytes());
        // The second page is faulted in when the kernel reads it.
        let from = pages.address() + PAGE as u64 - 8;
        assert_eq!(os::write_from(&event.data.file, from, 3008), Ok(3008));
        let stored = traced.recorded(3004);
        assert_eq!(stored, [[&7_u32.to_ne_bytes()[..], &[0; 3000]].concat()]);
    }
    assert_eq!(profile::missed(&event.name), (0, 0));
    assert_eq!(profile::refused(&event.name), 0);
}

/// While one write waits for a page, the event is toggled, and records of it are stored.
fn memory_that_comes_late_holds_up_one_write() {
    let traced = Traced::new("st_ip_late u32 a");
    let event = &traced.event;
    let mut stuck = child::fork(|line| {
        let page = Mapping::kept(1);
        let faults = Userfault::on(&page, Guard::Missing);
        faults.send(line, &page);
        let parts = [(&raw const event.index as u64, 4), (page.address(), 2000)];
        assert_eq!(os::writev_from(&event.data.file, &parts), Ok(2004));
        std::mem::forget(faults);
    });
    let (faults, page) = Userfault::of_child(&mut stuck);
    faults.wait_asked();
    for number in 0..3 {
        let payload = payload(number, 2000);
        assert_eq!(event.write(&payload), Ok(2004));
        assert_eq!(traced.recorded(2000), [payload]);
        traced.detach();
        traced.tracer.enable(&event.name);
        event.wait_set();
    }
    faults.fill(page, 9);
    stuck.join();
    assert_eq!(traced.recorded(2000)[0][..4], 9_u32.to_ne_bytes());
}

fn a_full_array_of_characters_ends() {
    const LENGTH: usize = 2000;
    let traced = Traced::new("st_ip_chars char[1000] a; char[1000] b");
    let event = &traced.event;
    let sent = [b'x'; LENGTH];
    assert_eq!(event.write(&sent), Ok(4 + LENGTH));
    let lines = traced.tracer.lines(&event.name);
    let text = "x".repeat(1000);
    assert_eq!(lines, [format!("st_ip_chars: a={text} b={text}")]);
    let stored = traced.recorded(LENGTH + 1);
    assert_eq!(stored, [[&sent[..], &[0]].concat()]);
}

fn a_string_that_needs_a_nul_gets_one() {
    const LENGTH: usize = 2004;
    let traced = Traced::new("st_ip_nul __rel_loc char[] a");
    let event = &traced.event;
    // An empty string at the end of the record.
    let bytes = located(2000, 0, LENGTH);
    assert_eq!(event.write(&bytes), Ok(4 + LENGTH));
    let stored = traced.recorded(LENGTH + 1);
    assert_eq!(stored, [[&bytes[..], &[0]].concat()]);
}

fn filters_triggers_and_processes_are_obeyed() {
    let traced = Traced::new("st_ip_filter u32 a");
    let (event, tracer) = (&traced.event, &traced.tracer);
    // Writes four records. Returns the numbers of those that are stored.
    let stored = || -> Vec<u8> {
        for number in 0..4 {
            assert_eq!(event.write(&payload(number, 2000)), Ok(2004));
        }
        let payloads = traced.recorded(2000);
        payloads.iter().map(|payload| payload[0]).collect()
    };
    let set = |file, value: &str| tracer.set(&event.name, file, value).unwrap();
    set("filter", "a > 1");
    assert_eq!(stored(), [2, 3]);
    set("filter", "0");
    assert_eq!(stored(), [0, 1, 2, 3]);
    set("trigger", "hist:keys=a if a == 3");
    assert_eq!(stored(), [0, 1, 2, 3]);
    let hist = tracer.get(&event.name, "hist");
    assert!(hist.contains("Hits: 1"), "{hist}");
    set("trigger", "!hist:keys=a if a == 3");
    // A trigger that does not read the record.
    let other = Event::new("st_ip_other u32 a");
    set("trigger", "enable_event:user_events:st_ip_other");
    assert_eq!(stored(), [0, 1, 2, 3]);
    assert_eq!(other.write(&[7; 4]), Ok(8));
    assert_eq!(tracer.take_payloads(&other.name, 4), [[7; 4]]);
    set("trigger", "!enable_event:user_events:st_ip_other");
    tracer.disable(&other.name);
    tracer.control("set_event_pid", "1");
    assert_eq!(stored(), [0; 0]);
    tracer.control("set_event_pid", "");
    tracer.control("tracing_on", "0");
    assert_eq!(stored(), [0; 0]);
    assert_eq!(profile::missed(&event.name), (4, 0), "while it is off");
}

fn several_consumers_get_the_same() {
    let event = Event::new("st_ip_several u32 a; __rel_loc u8[] b");
    let tracers = ["st_ip_several1", "st_ip_several2"].map(TraceInstance::instance);
    tracers.iter().for_each(|tracer| tracer.enable(&event.name));
    let mut sent = payload(5, 3000);
    let mut located = |size| {
        sent[4..8].copy_from_slice(&location(0, size));
        sent.clone()
    };
    assert_eq!(event.write(&located(2993)), Err(Errno::EFAULT));
    let sent = located(2992);
    let write = || assert_eq!(event.write(&sent), Ok(3004));
    let all_have_it = |tracers: &[TraceInstance]| {
        for tracer in tracers {
            assert_eq!(tracer.take_payloads(&event.name, 3000), [&sent[..]]);
        }
    };
    write();
    all_have_it(&tracers);
    for (tracer, missed) in tracers.iter().zip([1, 2]) {
        tracer.control("tracing_on", "0");
        write();
        assert_eq!(profile::missed(&event.name), (missed, 0));
        tracer.control("tracing_on", "1");
    }
    all_have_it(&tracers);
    let mut perf = Perf::sample(event.id(), SELF, ANY_CPU, 4);
    write();
    all_have_it(&tracers);
    let taken = perf.take();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].payload(3000), sent);
    tracers[1].disable(&event.name);
    write();
    assert_eq!(perf.take().len(), 1, "perf and one instance");
    all_have_it(&tracers[..1]);
}

/// While a filter is set, the trace core collects a record in a separate buffer: a discarded record
/// has to be discarded from the buffer where it was begun.
fn wrong_records_beside_changing_filters() {
    const ROUNDS: usize = 300;
    let traced = Traced::new("st_ip_storm __rel_loc u8[] a; u32 b");
    let event = &traced.event;
    let filter = |filter| traced.tracer.set(&event.name, "filter", filter).unwrap();
    let write = |size| {
        let mut bytes = located(4, size, 1208);
        bytes[4..8].copy_from_slice(&1_u32.to_ne_bytes());
        event.write(&bytes)
    };
    let change = || {
        filter("b == 1");
        filter("0");
    };
    wait::beside(change, || {
        for _ in 0..ROUNDS {
            assert_eq!(write(1200), Ok(1212));
            assert_eq!(write(1201), Err(Errno::EFAULT));
        }
    });
    assert_eq!(traced.recorded(1208).len(), ROUNDS);
    assert_eq!(profile::refused(&event.name), ROUNDS as u64);
    // The separate buffer is free again: a record that a filter drops leaves no trace.
    filter("b == 2");
    for _ in 0..100 {
        assert_eq!(write(1200), Ok(1212));
    }
    assert!(traced.recorded(1208).is_empty());
}
