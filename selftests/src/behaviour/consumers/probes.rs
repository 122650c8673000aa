// SPDX-License-Identifier: GPL-2.0

//! Event probes: kernel events made of fields of a user event.

use crate::behaviour::retries::Queued;
use crate::harness::tests;
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::payload::{
    payload,
    Value::{Data, Fixed, Rel},
};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{os, tasks, wait};

tests!("consumers::probes":
    a_probe_sets_the_bit_while_it_is_on,
    numbers_keep_their_sign_and_size,
    strings_of_every_kind_with_a_condition,
    a_full_array_of_characters_ends_with_its_record,
    a_probe_keeps_its_event,
    the_pauses_between_looks_at_an_unused_event_grow.limit(240),
);

/// The group of the probes that these tests make.
const GROUP: &str = "st_probes";

/// A probe on an event, with an instance that enables it.
struct Probe {
    name: &'static str,
    tracer: TraceInstance,
}

impl Probe {
    /// `words` follow the event's name in the definition of the probe.
    fn new(name: &'static str, event: &str, words: &str) -> Probe {
        dynamic::run(&format!("e:{GROUP}/{name} user_events/{event} {words}"))
            .expect("make a probe");
        Probe {
            name,
            tracer: TraceInstance::instance(name),
        }
    }

    /// The group and name, as [`TraceInstance`] takes an event.
    fn path(&self) -> String {
        format!("{GROUP}/{}", self.name)
    }

    fn on(&self) {
        self.tracer.enable(&self.path());
    }

    fn off(&self) {
        self.tracer.disable(&self.path());
    }

    /// The recorded values, as the trace shows them behind the names of the two events.
    fn recorded(&self) -> Vec<String> {
        let lines = self.tracer.lines(self.name).into_iter();
        lines
            .map(|line| line.split_once(") ").expect("values").1.to_string())
            .collect()
    }

    fn remove(self) {
        self.off();
        dynamic::run(&format!("-:{GROUP}/{}", self.name)).expect("remove a probe");
    }
}

fn a_probe_sets_the_bit_while_it_is_on() {
    let event = Event::new("st_ep_bit u32 a");
    let probe = Probe::new("st_ep_bit_p", "st_ep_bit", "a=$a");
    assert!(!event.bit(), "it is not on yet");
    probe.on();
    event.wait_set();
    let status = std::fs::read_to_string(crate::kit::abi::STATUS).unwrap();
    assert!(status.contains("st_ep_bit # Used by ftrace\n"), "{status}");
    for a in [5u32, 6] {
        assert_eq!(event.write(&a.to_ne_bytes()), Ok(8));
    }
    probe.off();
    event.wait_clear();
    assert_eq!(event.write(&[0; 4]), Err(Errno::EBADF));
    assert_eq!(probe.recorded(), ["a=0x5", "a=0x6"]);
    probe.remove();
}

/// Checks what a probe with these words records of the payloads of an event.
#[track_caller]
fn assert_recorded(text: &str, words: &str, payloads: &[Vec<u8>], want: &[&str]) {
    let event = Event::new(text);
    let probe = Probe::new("st_ep_values_p", &event.name, words);
    probe.on();
    event.wait_set();
    for payload in payloads {
        assert_eq!(event.write(payload), Ok(4 + payload.len()));
    }
    probe.off();
    assert_eq!(probe.recorded(), want, "{words}");
    probe.remove();
}

fn numbers_keep_their_sign_and_size() {
    let numbers = |sign: i64| {
        payload(&[
            Fixed(&(100 * sign as i8).to_ne_bytes()),
            Fixed(&60000u16.to_ne_bytes()),
            Fixed(&(2_000_000_000 * sign as i32).to_ne_bytes()),
            Fixed(&(0x1234_5678_9abc_def0 * sign).to_ne_bytes()),
            Fixed(&[200]),
            Fixed(&(30000 * sign as i16).to_ne_bytes()),
        ])
    };
    assert_recorded(
        "st_ep_numbers s8 a; u16 b; s32 c; u64 d; unsigned char e; short f",
        "a=$a:s8 b=$b:u16 c=$c:s32 d=$d:x64 e=$e:u8 f=$f:s16 wide=$f:s64",
        &[1, -1].map(numbers),
        &[
            "a=100 b=60000 c=2000000000 d=0x123456789abcdef0 e=200 f=30000 wide=30000",
            "a=-100 b=60000 c=-2000000000 d=0xedcba98765432110 e=200 f=-30000 wide=-30000",
        ],
    );
}

fn strings_of_every_kind_with_a_condition() {
    let strings = |[a, b, c]: [&[u8]; 3]| payload(&[Fixed(a), Data(b), Rel(c)]);
    // Event probes resolve a relative location from the start of its field instead of the end: four
    // bytes too early, for kernel events as well.
    assert_recorded(
        "st_ep_strings char[8] a; __data_loc char[] b; __rel_loc char[] c",
        "a=$a:string b=$b:string c=+4($c):string comm=$comm:string if b != \"none\"",
        &[
            [&b"one\0\0\0\0\0"[..], b"two\0", b"three\0"],
            [b"1234567\0", b"none\0", b"y\0"],
            [&[0; 8], b"\0", b"\0"],
            [b"1234567\0", b"x\0", b"y\0"],
        ]
        .map(strings),
        &[
            r#"a="one" b="two" c="three" comm="selftests""#,
            r#"a="" b="" c="" comm="selftests""#,
            r#"a="1234567" b="x" c="y" comm="selftests""#,
        ],
    );
}

/// For a probe alone, the trace core stages each record in a per-CPU buffer, which still has the
/// bytes of an earlier record behind this one.
fn a_full_array_of_characters_ends_with_its_record() {
    os::run_on(os::cpus()[0]);
    let event = Event::new("st_ep_full char[8] a");
    let probe = Probe::new("st_ep_full_p", &event.name, "a=$a:string");
    probe.on();
    event.wait_set();
    assert_eq!(event.write(&[b'x'; 100]), Ok(104));
    assert_eq!(event.write(b"12345678"), Ok(12));
    probe.off();
    let recorded = probe.recorded();
    assert_eq!(recorded.last().map(String::as_str), Some(r#"a="12345678""#));
    probe.remove();
}

fn a_probe_keeps_its_event() {
    let text = "st_ep_keeps u32 a";
    let event = Event::new(text);
    let probe = Probe::new("st_ep_keeps_p", &event.name, "a=$a:u32");
    probe.on();
    event.unregister().unwrap();
    assert_eq!(event.data.delete("st_ep_keeps"), Err(Errno::EBUSY));
    drop(event);
    assert!(tracefs::event_exists("st_ep_keeps"));
    // The program starts again.
    let event = Event::new(text);
    assert!(event.bit(), "set when registered");
    assert_eq!(event.write(&[9, 0, 0, 0]), Ok(8));
    assert_eq!(probe.recorded(), ["a=9"]);
    probe.off();
    event.unregister().unwrap();
    drop(event);
    crate::kit::event::stays("st_ep_keeps");
    probe.remove();
    wait_gone("st_ep_keeps");
}

/// The longest delay in seconds between two checks whether a probe still refers to an unused event.
const MAX_PAUSE: f64 = 6.4;

/// No worker sleeps during the delays, and they are short again when another event becomes idle.
fn the_pauses_between_looks_at_an_unused_event_grow() {
    let name = "st_ep_looks";
    let event = Event::new(&format!("{name} u32 a"));
    let probe = Probe::new("st_ep_looks_p", name, "a=$a:u32");
    let queued = Queued::new("st_ep_looks_q");
    event.unregister().unwrap();
    drop(event);
    // 100 ms, 200 ms, ... up to 6.4 s. A busy machine can only make them longer.
    let many = |range: std::ops::Range<f64>| {
        let pauses = queued.pauses().into_iter();
        pauses.filter(|pause| range.contains(pause)).count()
    };
    wait::until("the pauses to be the longest", || {
        many(0.9 * MAX_PAUSE..1.9 * MAX_PAUSE) >= 2
    });
    let pauses = queued.pauses();
    assert!(many(0.0..0.5 * MAX_PAUSE) <= 7, "{pauses:?}");
    wait::until("no worker to be asleep meanwhile", || {
        tasks::workers_at("user_events").next().is_none()
    });
    assert!(tracefs::event_exists(name));

    // A check at once, and further checks after short delays. Without the latter, work would be
    // queued only once, for the other event.
    queued.clear();
    let other = Event::new("st_ep_looks_other u32 a");
    other.unregister().unwrap();
    drop(other);
    wait_gone("st_ep_looks_other");
    wait::until("looks soon after each other", || many(0.0..1.0) >= 3);
    probe.remove();
    wait_gone(name);
}
