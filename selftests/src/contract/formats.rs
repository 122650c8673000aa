// SPDX-License-Identifier: GPL-2.0

//! `USER_EVENT_REG_MULTI_FORMAT`: several events that share a name.

use super::check::{described, expect, Check, Row, NAME};
use crate::kit::abi::{Data, MULTI_FORMAT};
use crate::kit::child::{self, Word};
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::{self, count_of_events, formats_of, TraceInstance, GROUP, MULTI_GROUP};
use crate::kit::wait;
use std::fs;

const SEPARATE: Row = Row::new(
    "formats",
    "MULTI_FORMAT: events of one name and with other fields are separate, the same fields are shared. \
     In tracefs they are NAME.HEXID, ID counting",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![SEPARATE.scenarios(&[
        ("of_one_name_are_separate_events", are_separate),
        ("of_the_same_fields_are_shared", same_are_shared),
        (
            "and_a_single_event_share_the_name_only",
            beside_a_single_event,
        ),
        ("go_each_with_its_last_user", go_with_last_user),
        ("have_ids_that_are_not_used_again", ids_are_not_used_again),
    ])]
}

/// A file, and a page with words for the bits of [`NAME`]'s formats.
pub struct Formats {
    pub data: Data,
    page: Mapping,
}

impl Formats {
    /// Opens the file; registers nothing.
    pub fn new() -> Formats {
        Formats {
            data: Data::open(),
            page: Mapping::kept(1),
        }
    }

    pub fn register(&self, word: usize, fields: &str) -> Result<u32> {
        self.register_flags(word, fields, MULTI_FORMAT)
    }

    /// The same, with other flags.
    pub fn register_flags(&self, word: usize, fields: &str, flags: u16) -> Result<u32> {
        let address = self.page.address() + 4 * word as u64;
        self.data
            .register_flags(&described(fields), address, 0, flags)
    }

    /// The first words.
    fn words<const N: usize>(&self) -> [u32; N] {
        std::array::from_fn(|word| self.page.get(4 * word))
    }

    fn unregister(&self, word: usize) {
        let address = self.page.address() + 4 * word as u64;
        expect(self.data.unregister_bit(address, 0), Ok(()));
    }
}

pub fn id_of(event: &str) -> u64 {
    let id = event.rsplit('.').next();
    u64::from_str_radix(id.unwrap_or_default(), 16).expect("the id of a format")
}

#[track_caller]
fn wait_for_formats(count: usize) {
    wait::until(&format!("{count} formats of {NAME}"), || {
        formats_of(NAME).len() == count
    });
}

fn are_separate() {
    const FORMATS: [(&str, usize); 5] = [
        ("u32 a", 4),
        ("u64 a", 8),
        ("u32 b", 4),
        ("u32 a; u32 b", 8),
        ("", 0),
    ];
    let formats = Formats::new();
    for (i, (fields, _)) in FORMATS.into_iter().enumerate() {
        expect(formats.register(i, fields), Ok(i as u32));
    }
    let events = formats_of(NAME);
    expect(events.len(), FORMATS.len());
    assert!(!tracefs::event_exists(NAME));

    // Each format has its own bit, layout and records.
    let tracer = TraceInstance::instance(NAME);
    for (i, (event, (fields, size))) in events.iter().zip(FORMATS).enumerate() {
        tracer.enable(event);
        expect(
            formats.words::<{ FORMATS.len() }>(),
            std::array::from_fn(|j| (i == j).into()),
        );

        let text = tracefs::event_format(event);
        let (_, name) = event.split_once('/').unwrap();
        assert!(text.starts_with(&format!("name: {name}\n")), "{text}");
        for field in fields.split("; ").filter(|field| !field.is_empty()) {
            assert!(text.contains(&format!("\tfield:{field};")), "{text}");
        }

        let payload = vec![i as u8; size];
        expect(formats.data.write(i as u32, &payload), Ok(4 + size));
        if size > 0 {
            let short = formats.data.write(i as u32, &payload[1..]);
            expect(short, Err(Errno::EINVAL));
        }
        expect(tracer.take_payloads(event, size), vec![payload]);
        tracer.disable(event);
    }
}

fn same_are_shared() {
    let (one, two) = (Formats::new(), Formats::new());
    expect(one.register(0, "u32 a; u8 b"), Ok(0));
    // In the same file with other spacing, in another file, and in another process.
    expect(one.register(1, "u32 a;u8 b;"), Ok(0));
    expect(two.register(0, "u32 z"), Ok(0));
    expect(two.register(1, "u32 a; u8 b"), Ok(1));
    let mut child = child::fork(|line| {
        let three = Formats::new();
        expect(three.register(0, "u32 a; u8 b"), Ok(0));
        line.say(Word::Registered);
        line.hear(Word::Enabled);
        wait::until("the bit to be set", || three.words() == [1]);
    });
    child.line.hear(Word::Registered);
    let events = formats_of(NAME);
    expect(events.len(), 2);
    let top = TraceInstance::top();
    top.enable(&events[0]);
    // The page is shared with the child until it is written, which takes a moment.
    wait::until("the bits to be set", || {
        (one.words(), two.words()) == ([1, 1], [0, 1])
    });
    child.line.say(Word::Enabled);
    child.join();
    top.disable(&events[0]);
    wait::until("the bits to be cleared", || {
        (one.words(), two.words()) == ([0, 0], [0, 0])
    });
}

fn beside_a_single_event() {
    let formats = Formats::new();
    expect(formats.register(0, "u32 a"), Ok(0));
    expect(formats.register_flags(1, "u32 a", 0), Ok(1));
    expect(formats.register(2, "u64 a"), Ok(2));
    // Without the flag other fields are refused, regardless of formats.
    let got = formats.register_flags(3, "u64 a", 0);
    expect(got, Err(Errno::EADDRINUSE));
    expect(count_of_events(), 3);
    let events = formats_of(NAME);
    expect(events.len(), 2);
    assert_ne!(tracefs::event_id(NAME), tracefs::event_id(&events[0]));
    // Each kind is enabled by its group.
    for (group, want) in [(MULTI_GROUP, [1, 0, 1]), (GROUP, [0, 1, 0])] {
        let enable = tracefs::group_dir(group).join("enable");
        fs::write(&enable, "1").unwrap();
        expect(formats.words(), want);
        fs::write(&enable, "0").unwrap();
        expect(formats.words(), [0; 3]);
    }
}

fn go_with_last_user() {
    let (one, two) = (Formats::new(), Formats::new());
    expect(one.register(0, "u32 a"), Ok(0));
    expect(two.register(0, "u64 a"), Ok(0));
    let events = formats_of(NAME);
    expect(events.len(), 2);
    // Only the file keeps the first.
    one.unregister(0);
    drop(one.data);
    wait_for_formats(1);
    expect(&formats_of(NAME)[..], &events[1..]);
    // First the bit keeps the second, then a tracer.
    let Formats { data, page } = two;
    drop(data);
    let top = TraceInstance::top();
    top.enable(&events[1]);
    expect(page.get(0), 1);
    expect(Data::open().unregister_bit(page.address(), 0), Ok(()));
    expect(&formats_of(NAME)[..], &events[1..]);
    top.disable(&events[1]);
    wait_for_formats(0);
}

fn ids_are_not_used_again() {
    let kept = Formats::new();
    expect(kept.register(0, "u32 a"), Ok(0));
    let mut last = id_of(&formats_of(NAME)[0]);
    for _ in 0..20 {
        let formats = Formats::new();
        expect(formats.register(0, "u64 a"), Ok(0));
        let id = id_of(&formats_of(NAME)[1]);
        expect(id, last + 1);
        last = id;
        formats.unregister(0);
        drop(formats);
        wait_for_formats(1);
    }
}
