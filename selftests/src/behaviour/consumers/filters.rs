// SPDX-License-Identifier: GPL-2.0

//! Filters on every type of field and on the common fields, and the errors of refused filters.

use crate::harness::tests;
use crate::kit::event::Event;
use crate::kit::os;
use crate::kit::payload::{
    payload,
    Value::{self, Data, Fixed, Rel},
};
use crate::kit::tracefs::TraceInstance;
use std::fs;

tests!("consumers::filters":
    signed_numbers,
    unsigned_numbers,
    characters_in_a_field,
    strings_of_a_location,
    empty_strings,
    structs_of_a_numbers_size,
    the_common_fields_and_the_writer,
    each_instance_has_its_own_for_an_event_or_for_the_group,
    a_bad_filter_says_why_and_where,
);

/// An event whose first field is the record's number, with an instance that filters it.
struct Filtered {
    event: Event,
    tracer: TraceInstance,
    records: Vec<Vec<u8>>,
}

impl Filtered {
    /// An event with a `u32 n` and these fields.
    fn new(name: &str, fields: &str) -> Filtered {
        Filtered {
            event: Event::new(&format!("{name} u32 n; {fields}")),
            tracer: TraceInstance::instance(name),
            records: Vec::new(),
        }
    }

    /// Adds a record with these values behind its number. The first is number 0.
    fn record(&mut self, values: &[Value]) {
        let number = (self.records.len() as u32).to_ne_bytes();
        self.records
            .push(payload(&[&[Fixed(&number)], values].concat()));
    }

    /// Writes all records. Returns the numbers of those that pass the filter into the trace.
    fn passing(&self, filter: &str) -> Vec<u32> {
        let name = &self.event.name;
        if let Err(errno) = self.tracer.set(name, "filter", filter) {
            panic!("{filter:?}: {errno:?}");
        }
        self.tracer.control("trace", "");
        self.tracer.enable(name);
        for record in &self.records {
            let written = self.event.write(record);
            assert_eq!(written, Ok(4 + record.len()), "filtered out is no error");
        }
        self.tracer.disable(name);
        numbers(&self.tracer, name)
    }

    /// Checks that each filter passes exactly the records with these numbers.
    #[track_caller]
    fn pass(&self, filters: &[(&str, &[u32])]) {
        for (filter, want) in filters {
            assert_eq!(self.passing(filter), want.to_vec(), "passing, {filter}");
        }
    }
}

/// The numbers of the event's records in the trace: `NAME: n=0x1 (1) ...`.
fn numbers(tracer: &TraceInstance, name: &str) -> Vec<u32> {
    let lines = tracer.lines(name).into_iter();
    let number = |line: String| line.split(['(', ')']).nth(1)?.parse().ok();
    lines
        .map(|line| number(line.clone()).unwrap_or_else(|| panic!("no number: {line}")))
        .collect()
}

fn signed_numbers() {
    let mut it = Filtered::new("st_fi_signed", "s8 a; s16 b; s32 c; s64 d");
    for value in [-128i64, -1, 0, 1, 127] {
        let (a, b, c) = (value as i8, value as i16 * 256, value as i32 * 65536);
        it.record(&[
            Fixed(&a.to_ne_bytes()),
            Fixed(&b.to_ne_bytes()),
            Fixed(&c.to_ne_bytes()),
            Fixed(&(value << 56).to_ne_bytes()),
        ]);
    }
    it.pass(&[
        ("a == -1", &[1]),
        ("a < 0", &[0, 1]),
        ("a >= -1 && a != 1", &[1, 2, 4]),
        ("b == -256", &[1]),
        ("b <= 0", &[0, 1, 2]),
        ("b > 0x100", &[4]),
        ("c == -8388608", &[0]),
        ("c > -65536 && c < 65536", &[2]),
        ("d == -9223372036854775808", &[0]),
        ("d < 0", &[0, 1]),
        ("d >= 0x7f00000000000000", &[4]),
    ]);
}

fn unsigned_numbers() {
    let mut it = Filtered::new("st_fi_unsigned", "u8 a; u16 b; u32 c; u64 d");
    for value in [0u64, 1, 127, 128, 255] {
        let all = value * 0x0101_0101_0101_0101;
        it.record(&[
            Fixed(&(all as u8).to_ne_bytes()),
            Fixed(&(all as u16).to_ne_bytes()),
            Fixed(&(all as u32).to_ne_bytes()),
            Fixed(&all.to_ne_bytes()),
        ]);
    }
    it.pass(&[
        ("a == 255", &[4]),
        ("a > 127", &[3, 4]),
        ("b == 0x8080", &[3]),
        ("b >= 257", &[1, 2, 3, 4]),
        ("c > 0x7fffffff", &[3, 4]),
        ("c == 4294967295", &[4]),
        ("d == 18446744073709551615", &[4]),
        ("d < 0x8000000000000000", &[0, 1, 2]),
        ("d != 0", &[1, 2, 3, 4]),
        ("a & 2", &[2, 4]),
        ("d & 0x8000000000000000", &[3, 4]),
        ("!(b & 1)", &[0, 3]),
        // No filter any more.
        ("0", &[0, 1, 2, 3, 4]),
    ]);
}

/// Filters on a string `b` in the four records below.
const ON_STRINGS: &[(&str, &[u32])] = &[
    ("b == \"/index\"", &[0]),
    ("b != \"/index\"", &[1, 2, 3]),
    ("b ~ \"/in*\"", &[0, 1]),
    ("b ~ \"*x\"", &[0, 2]),
    ("b ~ \"*de*\"", &[0, 1]),
    ("b ~ \"/i?dex\"", &[0]),
    ("b ~ \"[/m]a*\"", &[2, 3]),
    ("b == \"/\"", &[]),
];
const STRINGS: [&[u8]; 4] = [b"/index\0", b"/inde\0", b"/ax\0", b"many\0"];

fn characters_in_a_field() {
    for (name, character) in [("st_fi_chars", "char"), ("st_fi_uchars", "unsigned char")] {
        let mut it = Filtered::new(name, &format!("{character}[7] b"));
        for string in STRINGS {
            let mut field = string.to_vec();
            field.resize(7, 0);
            it.record(&[Fixed(&field)]);
        }
        // A field without a NUL is a string, too.
        it.record(&[Fixed(b"/indexe")]);
        // No `*x`: the kernel compares the end of the field, not of the string.
        it.pass(&[
            ("b == \"/index\"", &[0]),
            ("b != \"/index\"", &[1, 2, 3, 4]),
            ("b == \"/indexe\"", &[4]),
            ("b ~ \"/index*\"", &[0, 4]),
            ("b ~ \"*de*\"", &[0, 1, 4]),
            ("b ~ \"[/m]a*\"", &[2, 3]),
            ("b == \"/\"", &[]),
        ]);
    }
}

fn strings_of_a_location() {
    for (number, (location, value)) in [
        ("__data_loc char[]", Data as fn(_) -> _),
        ("__rel_loc char[]", Rel),
        ("__data_loc unsigned char[]", Data),
        ("__rel_loc unsigned char[]", Rel),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("st_fi_location{number}");
        let mut it = Filtered::new(&name, &format!("{location} a; {location} b; u8 c"));
        for string in STRINGS {
            it.record(&[value(b"first\0"), value(string), Fixed(&[1])]);
        }
        println!("  # {location}");
        it.pass(ON_STRINGS);
        it.pass(&[("a == \"first\" && b == \"many\"", &[3])]);
    }
}

fn empty_strings() {
    let fields = "char[4] a; __data_loc char[] b; __rel_loc char[] c";
    let mut it = Filtered::new("st_fi_empty", fields);
    it.record(&[Fixed(b"\0\0\0\0"), Data(b"\0"), Rel(b"\0")]);
    // No bytes at all, not even a NUL.
    it.record(&[Fixed(b"xxxx"), Data(b""), Rel(b"")]);
    it.record(&[Fixed(b"xxxx"), Data(b"x\0"), Rel(b"x\0")]);
    // Filters read a string up to a NUL, so the record ends with one.
    let tracer = TraceInstance::instance("st_fi_empty_bytes");
    tracer.enable(&it.event.name);
    it.event.write(&it.records[1]).expect("write");
    let records = tracer.take_records(it.event.id());
    let end = 8 + it.records[1].len();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].bytes.get(end), Some(&0), "no NUL at the end");
    tracer.disable(&it.event.name);
    it.pass(&[
        ("a == \"\"", &[0]),
        ("b == \"\"", &[0, 1]),
        ("c == \"\"", &[0, 1]),
        ("b != \"\"", &[2]),
        ("c ~ \"*x\"", &[2]),
    ]);
}

fn structs_of_a_numbers_size() {
    let mut it = Filtered::new("st_fi_struct", "struct pair a 8; struct triple b 12");
    for value in [5u64, 6] {
        it.record(&[Fixed(&value.to_ne_bytes()), Fixed(&[value as u8; 12])]);
    }
    it.pass(&[
        ("a == 6", &[1]),
        // The kernel accepts the filter but compares no number of this size.
        ("b == 0x05050505", &[]),
    ]);
}

fn the_common_fields_and_the_writer() {
    let mut it = Filtered::new("st_fi_writer", "u8 a");
    it.record(&[Fixed(&[1])]);
    let (pid, id, cpus) = (std::process::id(), it.event.id(), os::cpus());
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    assert_ne!(first, last, "the machine has several CPUs");
    os::run_on(last);
    fs::write("/proc/self/comm", "st writer").unwrap();
    it.pass(&[
        (&format!("common_pid == {pid}"), &[0]),
        (&format!("common_pid != {pid}"), &[]),
        (&format!("common_type == {id}"), &[0]),
        (&format!("common_type != {id}"), &[]),
        // A write is recorded in task context with preemption enabled.
        ("common_flags & 0x18", &[]),
        ("common_preempt_count & 0xf", &[]),
        ("COMM == \"st writer\"", &[0]),
        ("COMM != \"st writer\"", &[]),
        (&format!("CPU == {last}"), &[0]),
        (&format!("CPU == {first}"), &[]),
    ]);
}

fn each_instance_has_its_own_for_an_event_or_for_the_group() {
    let with = Event::new("st_fi_with u32 n; u32 a");
    let without = Event::new("st_fi_without u32 n");
    let tracers = ["st_fi_each1", "st_fi_each2"].map(TraceInstance::instance);
    for tracer in &tracers {
        [&with, &without].map(|event| tracer.enable(&event.name));
    }
    // The filter of the group applies to the events that have such a field.
    tracers[0].control("events/user_events/filter", "a == 2");
    assert_eq!(tracers[0].get(&with.name, "filter").trim(), "a == 2");
    tracers[1].set(&with.name, "filter", "a > 1").unwrap();
    for a in 1..=3u8 {
        with.write(&[a, 0, 0, 0, a, 0, 0, 0]).unwrap();
        without.write(&[a, 0, 0, 0]).unwrap();
    }
    for (tracer, passing) in tracers.iter().zip([&[2][..], &[2, 3]]) {
        [&with, &without].map(|event| tracer.disable(&event.name));
        assert_eq!(numbers(tracer, &with.name), passing);
        assert_eq!(numbers(tracer, &without.name), [1, 2, 3]);
    }
}

fn a_bad_filter_says_why_and_where() {
    let it = Filtered::new("st_fi_bad", "u32 a; __rel_loc char[] b; char[4] c");
    for (filter, why) in [
        ("d == 1", "Field not found"),
        ("a == \"1\"", "Expecting numeric field"),
        ("b == 1", "Expecting string field"),
        ("c == 1", "Expecting string field"),
        ("b < \"x\"", "Illegal operation for field type"),
        ("a == x", "Invalid value"),
        ("(a == 1", "Too many '('"),
    ] {
        let name = &it.event.name;
        let refused = it.tracer.set(name, "filter", filter).is_err();
        assert!(refused, "refused, {filter}");
        let text = it.tracer.get(name, "filter");
        let told = [filter, "^", why].iter().all(|part| text.contains(part));
        assert!(told, "{filter}: {text}");
    }
}
