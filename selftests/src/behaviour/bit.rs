// SPDX-License-Identifier: GPL-2.0

//! The enable bit: when it is set and cleared, and that nothing else is touched.

use crate::harness::tests;
use crate::kit::abi::{Data, Register};
use crate::kit::event::{wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::tracefs::Tracer;
use crate::kit::wait::{self, SetOnDrop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

tests!("bit":
    set_at_register_if_already_enabled,
    follows_ftrace,
    follows_an_instance,
    follows_the_last_of_two_instances,
    follows_perf,
    follows_the_last_of_ftrace_and_perf,
    follows_the_last_of_two_perf_events,
    follows_a_trigger,
    follows_the_switch_of_its_group,
    follows_the_switch_of_all_events,
    follows_set_event,
    other_bits_are_never_touched,
    user_atomics_on_the_same_word_are_never_lost,
    every_bit_of_an_event_follows,
    events_of_one_process_have_separate_bits,
);

fn set_at_register_if_already_enabled() {
    let event = Event::new("st_bit_already u32 a");
    let top = Tracer::top();
    top.enable(&event.name);
    for bit in [1u8, 31] {
        event
            .data
            .register_text("st_bit_already u32 a", event.page.address(), bit)
            .unwrap();
        let word = event.page.word(0).load(Ordering::Relaxed);
        assert!(word & (1 << bit) != 0, "set when register returns");
    }
    top.disable(&event.name);
    event
        .data
        .register_text("st_bit_already u32 a", event.page.address(), 7)
        .unwrap();
    assert_eq!(event.page.word(0).load(Ordering::Relaxed), 0);
}

fn follows_ftrace() {
    let event = Event::new("st_bit_ftrace u32 a");
    let top = Tracer::top();
    assert!(!event.bit());
    for _ in 0..10 {
        top.enable(&event.name);
        event.wait_set();
        // Enabling what is enabled changes nothing.
        top.enable(&event.name);
        assert!(event.bit());
        top.disable(&event.name);
        event.wait_clear();
    }
}

fn follows_an_instance() {
    let event = Event::new("st_bit_instance u32 a");
    {
        let tracer = Tracer::instance("st_bit_instance");
        tracer.enable(&event.name);
        event.wait_set();
        tracer.disable(&event.name);
        event.wait_clear();
        tracer.enable(&event.name);
        event.wait_set();
    }
    // The instance was removed with the event enabled in it.
    event.wait_clear();
}

fn follows_the_last_of_two_instances() {
    let event = Event::new("st_bit_two u32 a");
    let top = Tracer::top();
    let tracer = Tracer::instance("st_bit_two");
    tracer.enable(&event.name);
    event.wait_set();
    top.enable(&event.name);
    tracer.disable(&event.name);
    assert!(event.bit(), "the top tracer still listens");
    tracer.enable(&event.name);
    top.disable(&event.name);
    assert!(event.bit(), "the instance still listens");
    tracer.disable(&event.name);
    event.wait_clear();
}

fn follows_perf() {
    let event = Event::new("st_bit_perf u32 a");
    for _ in 0..5 {
        let perf = Perf::open(event.id(), SELF, ANY_CPU).unwrap();
        event.wait_set();
        drop(perf);
        event.wait_clear();
    }
}

fn follows_the_last_of_ftrace_and_perf() {
    let event = Event::new("st_bit_both u32 a");
    let top = Tracer::top();
    for perf_first in [true, false] {
        top.enable(&event.name);
        let perf = Perf::open(event.id(), SELF, ANY_CPU).unwrap();
        event.wait_set();
        if perf_first {
            drop(perf);
            assert!(event.bit(), "ftrace still listens");
            top.disable(&event.name);
        } else {
            top.disable(&event.name);
            assert!(event.bit(), "perf still listens");
            drop(perf);
        }
        event.wait_clear();
    }
}

fn follows_the_last_of_two_perf_events() {
    let event = Event::new("st_bit_perfs u32 a");
    let one = Perf::open(event.id(), SELF, ANY_CPU).unwrap();
    let two = Perf::open(event.id(), -1, 0).unwrap();
    event.wait_set();
    drop(one);
    assert!(event.bit(), "the second perf event still listens");
    drop(two);
    event.wait_clear();
}

fn follows_a_trigger() {
    let event = Event::new("st_bit_trigger u32 a");
    let top = Tracer::top();
    top.set(&event.name, "trigger", "traceon if a == 99")
        .unwrap();
    event.wait_set();
    top.set(&event.name, "trigger", "!traceon if a == 99")
        .unwrap();
    event.wait_clear();
}

/// Writes to a file of a tracer what enables an event, and another one or not, and what disables it.
fn follows_switch(name: &str, tracer: &Tracer, file: &str, [on, off]: [&str; 2], and_other: bool) {
    let one = Event::new(&format!("{name} u32 a"));
    let other = Event::new(&format!("{name}_other u32 a"));
    for (word, value) in [(on, true), (off, false)] {
        tracer.control(file, word);
        for (event, value) in [(&one, value), (&other, value && and_other)] {
            wait::until("the bit to follow", || event.bit() == value);
            let state = tracer.get(&event.name, "enable");
            assert_eq!(state.starts_with('1'), value, "{word:?} to {file}");
        }
    }
    for event in [one, other] {
        let name = event.name.clone();
        event.unregister().unwrap();
        drop(event);
        wait_gone(&name);
    }
}

fn follows_the_switch_of_its_group() {
    let tracer = Tracer::instance("st_bit_group");
    for tracer in [&tracer, &Tracer::top()] {
        let file = "events/user_events/enable";
        follows_switch("st_bit_group", tracer, file, ["1", "0"], true);
    }
}

fn follows_the_switch_of_all_events() {
    // Of an instance that records nothing: the top one is not the test's alone. Once, as this
    // rewrites code all over the kernel, which an emulated machine should not do often.
    let tracer = Tracer::instance("st_bit_all");
    tracer.control("tracing_on", "0");
    follows_switch("st_bit_all", &tracer, "events/enable", ["1", "0"], true);
}

fn follows_set_event() {
    let tracer = Tracer::instance("st_bit_set");
    let switches = [
        ("user_events:st_bit_set", false),
        ("st_bit_set", false),
        ("user_events:", true),
    ];
    for (on, and_other) in switches {
        follows_switch("st_bit_set", &tracer, "set_event", [on, ""], and_other);
    }
}

/// Registers one bit of an 8-byte or 4-byte word.
fn register(data: &Data, text: &str, address: u64, size: u8, bit: u8) {
    let text = std::ffi::CString::new(text).unwrap();
    let request = Register::new(address, text.as_ptr() as u64);
    let request = Register {
        enable_size: size,
        enable_bit: bit,
        ..request
    };
    data.register(&request)
        .unwrap_or_else(|errno| panic!("size {size} bit {bit}: {errno:?}"));
}

fn other_bits_are_never_touched() {
    let event = Event::new("st_bit_others u32 a");
    let top = Tracer::top();
    // (offset, size of the word, bit), each in 16 bytes of its own, at both ends of a page too.
    let cases = [
        (16, 4, 0),
        (32, 4, 1),
        (48, 4, 15),
        (64, 4, 31),
        (84, 4, 0),
        (100, 4, 31),
        (112, 8, 0),
        (128, 8, 31),
        (144, 8, 32),
        (160, 8, 63),
        (4092, 4, 31),
        (4080, 8, 63),
    ];
    for (offset, size, bit) in cases {
        let address = event.page.address() + offset;
        register(&event.data, "st_bit_others u32 a", address, size, bit);
    }
    let words = || -> Vec<u64> {
        (8..4096)
            .step_by(8)
            .map(|at| event.page.long(at).load(Ordering::Relaxed))
            .collect()
    };
    let bits: Vec<u64> = (8..4096u64)
        .step_by(8)
        .map(|at| {
            let mine = cases.iter().filter(|(offset, ..)| offset & !7 == at);
            mine.map(|(offset, _, bit)| 1u64 << (u64::from(*bit) + (offset & 4) * 8))
                .sum()
        })
        .collect();
    for background in [0, u64::MAX, 0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaaa] {
        for (at, bits) in (8..4096).step_by(8).zip(&bits) {
            event
                .page
                .long(at)
                .store(background & !bits, Ordering::Relaxed);
        }
        let off: Vec<u64> = bits.iter().map(|bits| background & !bits).collect();
        let on: Vec<u64> = bits.iter().map(|bits| background | bits).collect();
        top.enable(&event.name);
        wait::until("exactly the registered bits to be set", || words() == on);
        top.disable(&event.name);
        wait::until("exactly the registered bits to be cleared", || {
            words() == off
        });
    }
}

fn user_atomics_on_the_same_word_are_never_lost() {
    let event = Event::new("st_bit_atomics u32 a");
    let address = event.page.address();
    register(&event.data, "st_bit_atomics u32 a", address + 8, 8, 63);
    let small = event.page.word(0);
    let wide = event.page.long(8);
    let done = AtomicBool::new(false);
    let top = Tracer::top();
    thread::scope(|scope| {
        let stop = SetOnDrop(&done);
        // Counters that have the word but for the kernel's bit.
        let counter = scope.spawn(|| {
            let mut rounds = 0u64;
            while !done.load(Ordering::Relaxed) {
                small.fetch_add(2, Ordering::Relaxed);
                wide.fetch_add(1, Ordering::Relaxed);
                rounds += 1;
            }
            rounds
        });
        for _ in 0..100 {
            top.enable(&event.name);
            event.wait_set();
            top.disable(&event.name);
            event.wait_clear();
        }
        drop(stop);
        let rounds = counter.join().unwrap();
        assert!(rounds > 100, "the counter hardly ran: {rounds}");
        assert_eq!(
            small.load(Ordering::Relaxed),
            (rounds as u32) << 1,
            "32-bit word"
        );
        assert_eq!(wide.load(Ordering::Relaxed), rounds, "64-bit word");
    });
}

fn every_bit_of_an_event_follows() {
    let event = Event::new("st_bit_many u32 a");
    let page = Mapping::new(4);
    let words: Vec<usize> = (0..4 * 4096).step_by(512).collect();
    for &word in &words {
        for bit in [0u8, 17] {
            let address = page.address() + word as u64;
            event
                .data
                .register_text("st_bit_many u32 a", address, bit)
                .unwrap();
        }
    }
    let top = Tracer::top();
    let all = |value| {
        words
            .iter()
            .all(|&at| page.word(at).load(Ordering::Relaxed) == value)
    };
    top.enable(&event.name);
    wait::until("all bits to be set", || all((1 << 17) | 1));
    top.disable(&event.name);
    wait::until("all bits to be cleared", || all(0));
}

fn events_of_one_process_have_separate_bits() {
    const EVENTS: usize = 40;
    let data = Data::open();
    let page = Mapping::new(1);
    let name = |i| format!("st_bit_separate{i}");
    for i in 0..EVENTS {
        let address = page.address() + 4 * i as u64;
        data.register_text(&format!("{} u32 a", name(i)), address, 0)
            .unwrap();
    }
    let state = || -> Vec<u32> {
        (0..EVENTS)
            .map(|i| page.word(4 * i).load(Ordering::Relaxed))
            .collect()
    };
    let top = Tracer::top();
    for chosen in [0, 7, EVENTS - 1] {
        top.enable(&name(chosen));
        let want: Vec<u32> = (0..EVENTS).map(|i| (i == chosen).into()).collect();
        wait::until("the bit of this event alone", || state() == want);
        top.disable(&name(chosen));
        wait::until("all bits to be clear", || state() == [0; EVENTS]);
    }
}
