// SPDX-License-Identifier: GPL-2.0

//! "The enable bit".

use super::check::{expect, Check, Row, NAME, TEXT};
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::perf::{Perf, ALL_PROCESSES, ANY_CPU, SELF};
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;
use std::sync::atomic::Ordering;

const REGISTERED: Row = Row::new(
    "bit",
    "on success [of register] the bit already tells the event's current state",
);
const FOLLOWS: Row = Row::new(
    "bit",
    "set while anything (ftrace in any instance, perf, a trigger in soft mode) is attached",
);
const ALONE: Row = Row::new(
    "bit",
    "One bit in the registered 4- or 8-byte word; no other bit is ever touched",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        REGISTERED.table(
            "right_when_it_is_registered",
            at_register,
            &[
                ((4, 0, INSTANCE), true),
                ((4, 31, INSTANCE), true),
                ((8, 63, INSTANCE), true),
                ((4, 0, PERF), true),
                ((4, 0, None), false),
                ((4, 31, None), false),
                ((8, 63, None), false),
            ],
        ),
        FOLLOWS.each(
            "follows_its_consumers",
            follows,
            (),
            &[
                &[Consumer::Top],
                &[Consumer::Instance],
                &[Consumer::RemovedInstance],
                &[Consumer::Perf],
                &[Consumer::PerfOfCpu],
                &[Consumer::Trigger],
                &[Consumer::Histogram],
                &[Consumer::Group],
                &[Consumer::SetEvent],
                &[Consumer::Top, Consumer::Instance],
                &[Consumer::Instance, Consumer::Top],
                &[Consumer::Top, Consumer::Perf],
                &[Consumer::Perf, Consumer::Instance],
                &[Consumer::Perf, Consumer::PerfOfCpu],
                &[Consumer::Trigger, Consumer::Top],
                &[
                    Consumer::Top,
                    Consumer::Perf,
                    Consumer::Instance,
                    Consumer::PerfOfCpu,
                ],
            ],
        ),
        FOLLOWS.each(
            "follows_the_switches_of_many_events",
            follows_switch,
            (),
            &[
                (false, GROUP_SWITCH, ["1", "0"], true),
                (true, GROUP_SWITCH, ["1", "0"], true),
                (true, "events/enable", ["1", "0"], true),
                (true, "set_event", ["user_events:st_conform", ""], false),
                (true, "set_event", ["st_conform", ""], false),
                (true, "set_event", ["user_events:", ""], true),
            ],
        ),
        ALONE.scenarios(&[
            ("two_bits_of_a_word_follow_their_own_events", two_events),
            ("bits_on_several_pages_follow", several_pages),
            ("no_other_bit_of_the_page_changes", whole_page),
        ]),
    ]
}

const INSTANCE: Option<Consumer> = Some(Consumer::Instance);
const PERF: Option<Consumer> = Some(Consumer::Perf);

/// Registering must change the bit to the right value before it returns, and no other bit.
fn at_register((size, bit, consumer): (u8, u8, Option<Consumer>), want: bool) {
    let event = Event::new(TEXT);
    let attached = consumer.map(|consumer| consumer.attach(event.id()));
    let (ones, without) = (u64::MAX, !(1 << bit));
    let word = event.page.long(64);
    word.store(if want { without } else { ones }, Ordering::Relaxed);
    event.add_bit_of(size, event.page.address() + 64, bit);
    expect(
        word.load(Ordering::Relaxed),
        if want { ones } else { without },
    );
    attached.into_iter().for_each(|detach| detach());
}

const GROUP_SWITCH: &str = "events/user_events/enable";

/// A kind of consumer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Consumer {
    Top,
    Instance,
    RemovedInstance,
    Perf,
    PerfOfCpu,
    Trigger,
    Histogram,
    Group,
    SetEvent,
}

/// Detaches a consumer, or ends another use of an event.
pub type Detach = Box<dyn FnOnce()>;

impl Consumer {
    /// Attaches it to [`NAME`], which has this id.
    pub fn attach(self, id: u64) -> Detach {
        let set = |file, value| TraceInstance::top().control(file, value);
        let trigger = |trigger: &'static str| -> Detach {
            let set = |text: &str| TraceInstance::top().set(NAME, "trigger", text).unwrap();
            set(trigger);
            Box::new(move || set(&format!("!{trigger}")))
        };
        let perf = |pid, cpu| -> Detach {
            let perf = Perf::open(id, pid, cpu).unwrap();
            Box::new(move || drop(perf))
        };
        match self {
            Consumer::Top => {
                TraceInstance::top().enable(NAME);
                // Enabling an enabled event has no effect.
                TraceInstance::top().enable(NAME);
                Box::new(|| TraceInstance::top().disable(NAME))
            }
            Consumer::Instance | Consumer::RemovedInstance => {
                let tracer = TraceInstance::instance(NAME);
                tracer.enable(NAME);
                match self {
                    Consumer::Instance => Box::new(move || tracer.disable(NAME)),
                    _ => Box::new(move || drop(tracer)),
                }
            }
            Consumer::Perf => perf(SELF, ANY_CPU),
            Consumer::PerfOfCpu => perf(ALL_PROCESSES, 0),
            Consumer::Trigger => trigger("stacktrace if a == 1"),
            Consumer::Histogram => trigger("hist:keys=a"),
            Consumer::Group => {
                set(GROUP_SWITCH, "1");
                Box::new(move || set(GROUP_SWITCH, "0"))
            }
            Consumer::SetEvent => {
                set("set_event", "user_events:st_conform");
                Box::new(move || set("set_event", "!user_events:st_conform"))
            }
        }
    }
}

/// Attaches the consumers one after the other, then detaches them in the same order.
fn follows(consumers: &[Consumer], (): ()) {
    let event = Event::new(TEXT);
    let id = event.id();
    for _ in 0..3 {
        expect(event.bit(), false);
        let mut attached = Vec::new();
        for consumer in consumers {
            attached.push(consumer.attach(id));
            event.wait_set();
        }
        let last = attached.pop().unwrap();
        for one in attached {
            one();
            assert!(event.bit(), "another one is still attached");
        }
        last();
        event.wait_clear();
    }
}

/// Whether the instance is used, not the top one; a file; the text that enables the event, and the
/// one that disables it; whether another event follows as well.
type Switch = (bool, &'static str, [&'static str; 2], bool);

fn follows_switch((in_instance, file, [on, off], and_other): Switch, (): ()) {
    let (event, other) = (Event::new(TEXT), Event::new("st_other u32 a"));
    let tracer = match in_instance {
        true => TraceInstance::instance(NAME),
        false => TraceInstance::top(),
    };
    if file == "events/enable" {
        // Otherwise all events of the kernel would be recorded.
        tracer.control("tracing_on", "0");
    }
    for (word, value) in [(on, true), (off, false)] {
        tracer.control(file, word);
        for (event, value) in [(&event, value), (&other, value && and_other)] {
            wait::until("the bit to follow", || event.bit() == value);
            let state = tracer.get(&event.name, "enable");
            expect(state.starts_with('1'), value);
        }
    }
}

fn two_events() {
    let event = Event::new(TEXT);
    let address = event.page.address();
    expect(event.data.register_text("st_other", address, 1), Ok(1));
    let word = || event.page.get(0);
    let tracer = TraceInstance::instance(NAME);
    tracer.enable("st_other");
    wait::until("the other event's bit", || word() == 2);
    tracer.enable(NAME);
    wait::until("both bits", || word() == 3);
    tracer.disable("st_other");
    wait::until("the first event's bit", || word() == 1);
}

fn several_pages() {
    let event = Event::new(TEXT);
    let pages = Mapping::kept(4);
    let words: Vec<usize> = (0..4 * PAGE).step_by(512).collect();
    for &word in &words {
        for bit in [0, 17] {
            event.add_bit(pages.address() + word as u64, bit);
        }
    }
    let all = |value| words.iter().all(|&at| pages.get(at) == value);
    event.switch(true);
    wait::until("all bits to be set", || all((1 << 17) | 1));
    event.switch(false);
    wait::until("all bits to be cleared", || all(0));
}

/// Each bit of words of both sizes, each word beside others, and the ends of the page.
fn whole_page() {
    /// Offset, size and bit of words behind the event's own.
    fn words() -> impl Iterator<Item = (usize, u8, u8)> {
        let of_4 = (0..32).map(|bit| (12 + 12 * usize::from(bit), 4, bit));
        let of_8 = (0..64).map(|bit| (1024 + 16 * usize::from(bit), 8, bit));
        of_4.chain(of_8)
            .chain([(PAGE - 4, 4, 31), (PAGE - 16, 8, 63)])
    }
    const LONGS: usize = PAGE / 8 - 1;
    let event = Event::new(TEXT);
    let mut bits = [0u64; LONGS];
    for (offset, size, bit) in words() {
        event.add_bit_of(size, event.page.address() + offset as u64, bit);
        // The first 8 bytes have the event's own bit.
        bits[offset / 8 - 1] |= 1 << (usize::from(bit) + (offset & 4) * 8);
    }
    let long = |i: usize| event.page.long(8 * (i + 1));
    let longs = || -> [u64; LONGS] { std::array::from_fn(|i| long(i).load(Ordering::Relaxed)) };
    for others in [0, u64::MAX, 0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaaa] {
        let (on, off) = (
            bits.map(|bits| others | bits),
            bits.map(|bits| others & !bits),
        );
        for (i, value) in off.into_iter().enumerate() {
            long(i).store(value, Ordering::Relaxed);
        }
        event.switch(true);
        wait::until("exactly the registered bits to be set", || longs() == on);
        event.switch(false);
        wait::until("exactly these to be cleared", || longs() == off);
    }
}
