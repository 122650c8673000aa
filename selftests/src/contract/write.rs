// SPDX-License-Identifier: GPL-2.0

//! "Writing": records, results, and the precedence of errors.

use super::check::{expect, Check, Row, NAME, TEXT};
use super::register::Place;
use super::status::make;
use crate::kit::abi::{location, Data};
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::payload::bytes;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::traced::Traced;
use crate::kit::tracefs::{self, TraceInstance};

const SHORT: Row = Row::new("write", "fewer than 4 bytes → EFAULT");
const INDEX: Row = Row::new("write", "index negative → EINVAL, unknown → ENOENT");
const FIXED: Row = Row::new(
    "write",
    "payload shorter than the fixed part → EINVAL (checked before \"enabled\")",
);
const DETACHED: Row = Row::new("write", "nothing attached → EBADF");
const UNREADABLE: Row = Row::new("write", "unreadable memory → EFAULT and nothing recorded");
const READ_ONLY: Row = Row::new("write", "file not open for writing → EBADF");
const SPLIT: Row = Row::new(
    "write",
    "[u32 write_index][payload], in one buffer or any split of an iovec",
);
const LENGTH: Row = Row::new(
    "write",
    "Return: the whole length. Payload past the fixed part is recorded too",
);
const TOO_LARGE: Row = Row::better_than_c(
    2,
    "write",
    "E2BIG when no attached consumer can take it; each consumer that can gets it; never a WARN",
    "got Ok(*)",
);
const ONE_OF_TWO: Row = Row::new("write", "each consumer that can take a payload gets it");

/// Four fields, 17 bytes.
const FOUR: &str = "st_conform u32 a; u64 b; __rel_loc char[] c; u8 d";

/// Lengths around those that matter to the kernel's memory and to the ring buffers.
const LENGTHS_UP_TO_4000: &[usize] = &[
    4, 5, 7, 8, 100, 104, 255, 256, 257, 511, 512, 513, 1000, 1001, 1004, 1023, 1024, 1025, 1026,
    1031, 1032, 1033, 3000, 3004, 4000,
];

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        SHORT.each(
            "less_than_an_index_is_efault",
            short,
            Err(Errno::EFAULT),
            &[
                (false, 0),
                (false, 1),
                (false, 2),
                (false, 3),
                (true, 1),
                (true, 2),
                (true, 3),
            ],
        ),
        INDEX.table(
            "an_unknown_index_is_enoent_and_a_negative_one_einval",
            index,
            &[
                ((-1, &[0; 4]), Err(Errno::EINVAL)),
                ((-2, &[0; 4]), Err(Errno::EINVAL)),
                ((i32::MIN, &[0; 4]), Err(Errno::EINVAL)),
                ((-1, &[]), Err(Errno::EINVAL)),
                ((1, &[0; 4]), Err(Errno::ENOENT)),
                ((2, &[0; 4]), Err(Errno::ENOENT)),
                ((1000, &[0; 4]), Err(Errno::ENOENT)),
                ((65536, &[0; 4]), Err(Errno::ENOENT)),
                ((i32::MAX, &[0; 4]), Err(Errno::ENOENT)),
                ((7, &[]), Err(Errno::ENOENT)),
                ((0, &[0; 4]), Ok(8)),
            ],
        ),
        INDEX.scenarios(&[
            ("an_index_belongs_to_its_file", index_of_file),
            ("many_events_on_one_file", many_events),
        ]),
        FIXED.cases(
            fixed,
            &[
                ("any_shorter_payload_is_einval", true, Ok(21)),
                (
                    "any_shorter_payload_while_detached_is_einval",
                    false,
                    Err(Errno::EBADF),
                ),
            ],
        ),
        DETACHED.scenarios(&[
            ("perf_gone_is_ebadf", perf_gone),
            ("a_bad_location_while_detached_is_ebadf", bad_location),
            ("an_unregistered_bit_does_not_matter", no_bit),
        ]),
        UNREADABLE.each(
            "unreadable_memory_is_efault",
            unreadable,
            Err(Errno::EFAULT),
            &[&Place::BAD[..], &[Place::Protected]].concat(),
        ),
        UNREADABLE.each(
            "a_record_with_a_readable_start_is_efault",
            cut,
            Err(Errno::EFAULT),
            &[
                (16, 4),
                (16, 8),
                (16, 12),
                (101, 100),
                (205, 204),
                (3005, 3004),
            ],
        ),
        READ_ONLY.scenarios(&[("a_read_only_file_is_ebadf", read_only)]),
        SPLIT.scenarios(&[
            ("any_two_parts", any_two_parts),
            ("any_four_parts", any_four_parts),
        ]),
        LENGTH.scenarios(&[
            ("each_length_up_to_80", || {
                recorded("st_conform u16 a", 2..=80)
            }),
            ("lengths_up_to_4000", || {
                recorded(TEXT, LENGTHS_UP_TO_4000.iter().copied())
            }),
            ("no_fields", || recorded(NAME, [0, 3])),
            ("a_struct_of_2000_bytes", || {
                recorded("st_conform struct p p 2000", [2000])
            }),
            ("many_consumers_get_the_same", many_consumers),
            ("lengths_up_to_8184_for_perf_alone", for_perf_alone),
            ("20000_bytes_for_a_large_sub_buffer", large_sub_buffer),
        ]),
        TOO_LARGE.all(
            too_large,
            Err(Errno::E2BIG),
            &[
                ("4096_bytes_for_ftrace_are_e2big", (true, false, 4096)),
                ("a_megabyte_for_ftrace_is_e2big", (true, false, 1 << 20)),
                ("65536_bytes_for_perf_are_e2big", (false, true, 65536)),
                ("66000_bytes_for_both_are_e2big", (true, true, 66_000)),
            ],
        ),
        ONE_OF_TWO.scenarios(&[("6000_bytes_are_perfs_alone", perfs_alone)]),
    ]
}

fn short((by_writev, length): (bool, usize), want: Result<usize>) {
    let traced = Traced::new(TEXT);
    let address = traced.event.page.address() + 64;
    let file = &traced.event.data.file;
    let got = if by_writev {
        os::writev_from(file, &[(address, length), (address, 0)])
    } else {
        os::write_from(file, address, length)
    };
    expect(got, want);
    traced.only_this_is_recorded(&[1, 2, 3, 4]);
}

fn index((index, payload): (i32, &[u8]), want: Result<usize>) {
    let traced = Traced::new(TEXT);
    expect(traced.event.data.write(index as u32, payload), want);
    if want.is_err() {
        traced.only_this_is_recorded(&[1, 2, 3, 4]);
    }
}

fn index_of_file() {
    let (one, two) = (Traced::new(TEXT), Traced::new("st_other u32 a"));
    let (data, address) = (&two.event.data, two.event.page.address());
    let fresh = Data::open();
    for (event, value) in [(&one.event, 1), (&two.event, 2)] {
        expect(event.write(&[value; 4]), Ok(8));
        expect(event.data.write(1, &[0; 4]), Err(Errno::ENOENT));
        expect(fresh.write(0, &[0; 4]), Err(Errno::ENOENT));
    }
    expect(one.recorded(4), vec![vec![1; 4]]);
    expect(two.recorded(4), vec![vec![2; 4]]);
    // The first event has another index on the second file.
    expect(data.register_text(TEXT, address, 1), Ok(1));
    expect(data.write(1, &[3; 4]), Ok(8));
    expect(one.recorded(4), vec![vec![3; 4]]);
    one.detach();
    expect(one.event.write(&[4; 4]), Err(Errno::EBADF));
    expect(two.event.write(&[4; 4]), Ok(8));
}

fn many_events() {
    let name = |i| format!("st_write{i}");
    let (data, _page) = make(50, name);
    let tracer = TraceInstance::instance(NAME);
    (0..50).step_by(7).for_each(|i| tracer.enable(&name(i)));
    for i in 0..50u32 {
        let want = if i % 7 == 0 { Ok(8) } else { Err(Errno::EBADF) };
        expect(data.write(i, &i.to_ne_bytes()), want);
    }
    for i in (0..50).step_by(7) {
        let want = format!("{}: a={i:#x} ({i})", name(i));
        expect(tracer.lines(&name(i)), vec![want]);
    }
}

fn fixed(attached: bool, want: Result<usize>) {
    let traced = Traced::new(FOUR);
    if !attached {
        traced.tracer.disable(NAME);
    }
    // The string is the NUL at the end of the fixed part: field d.
    let payload = [&[0; 12][..], &location(0, 1), &[0]].concat();
    for length in 0..payload.len() {
        expect(traced.event.write(&payload[..length]), Err(Errno::EINVAL));
    }
    expect(traced.event.write(&payload), want);
    let records = traced.tracer.take_records(traced.event.id());
    expect(records.len(), usize::from(want.is_ok()));
}

fn perf_gone() {
    let event = Event::new(TEXT);
    let perf = Perf::open(event.id(), SELF, ANY_CPU).unwrap();
    expect(event.write(&[0; 4]), Ok(8));
    drop(perf);
    expect(event.write(&[0; 4]), Err(Errno::EBADF));
}

fn bad_location() {
    let event = Event::new("st_conform __rel_loc char[] a");
    let payload = location(9999, 9999);
    expect(event.write(&payload), Err(Errno::EBADF));
}

fn no_bit() {
    let traced = Traced::new(TEXT);
    expect(traced.event.unregister(), Ok(()));
    traced.only_this_is_recorded(&[5; 4]);
}

/// Writes records in an unreadable place: the whole record, its end, its index, and half of this.
fn unreadable(place: Place, want: Result<usize>) {
    let traced = Traced::new("st_conform u32 a; u64 b");
    let event = &traced.event;
    let (file, bad) = (&event.data.file, place.address(&[]));
    let record = [&event.index.to_ne_bytes()[..], &[7; 3836]].concat();
    let readable = record.as_ptr() as u64;
    expect(os::write_from(file, bad, 16), want);
    for parts in [
        &[(readable, 4), (bad, 12)][..],
        &[(readable, 8), (bad, 8)],
        &[(readable, 12), (bad, 4)],
        &[(readable, record.len()), (bad, 64)],
        &[(bad, 4), (readable, 12)],
        &[(readable, 2), (bad, 2), (readable, 12)],
    ] {
        expect(os::writev_from(file, parts), want);
    }
    traced.only_this_is_recorded(&[9; 12]);
}

/// Writes a record of which only the beginning is readable, by either call, in one part and with a
/// separate index.
fn cut((length, readable): (usize, usize), want: Result<usize>) {
    let traced = Traced::new("st_conform u32 a; u64 b");
    let event = &traced.event;
    let index = event.index.to_ne_bytes();
    let record = [&index[..], &vec![7; length - 4]].concat();
    let address = Place::OverTheEdge(readable).address(&record);
    let file = &event.data.file;
    expect(os::write_from(file, address, length), want);
    expect(os::writev_from(file, &[(address, length)]), want);
    // Not shorter than the fixed part.
    let parts = [(index.as_ptr() as u64, 4), (address, readable.max(12) + 1)];
    expect(os::writev_from(file, &parts), want);
    traced.only_this_is_recorded(&[9; 12]);
}

fn read_only() {
    let data = Data::open_read_only();
    let page = Mapping::kept(1);
    expect(data.register_text(TEXT, page.address(), 0), Ok(0));
    let tracer = TraceInstance::instance(NAME);
    tracer.enable(NAME);
    expect(data.write(0, &[0; 4]), Err(Errno::EBADF));
    expect(data.writev(&[&[0; 4], &[0; 4]]), Err(Errno::EBADF));
    expect(tracer.take_records(tracefs::event_id(NAME)).len(), 0);
}

/// A payload with data behind its fields, and the record with it.
fn payload_and_record(event: &Event) -> (Vec<u8>, Vec<u8>) {
    let payload = [&7u32.to_ne_bytes()[..], &location(1, 3), &[9], b"ab\0"].concat();
    let record = [&event.index.to_ne_bytes()[..], &payload].concat();
    (payload, record)
}

const SPLIT_TEXT: &str = "st_conform u32 a; __rel_loc char[] b; u8 c";

/// Writes a record from parts that are not adjacent in memory.
fn write_apart(event: &Event, parts: &[&[u8]]) -> Result<usize> {
    const APART: usize = 64;
    let mut memory = vec![0xff; APART * parts.len()];
    for (place, part) in memory.chunks_mut(APART).zip(parts) {
        place[..part.len()].copy_from_slice(part);
    }
    let places = memory.chunks(APART).zip(parts);
    let apart: Vec<_> = places.map(|(place, part)| &place[..part.len()]).collect();
    event.data.writev(&apart)
}

fn any_two_parts() {
    let traced = Traced::new(SPLIT_TEXT);
    let (payload, record) = payload_and_record(&traced.event);
    for a in 0..=record.len() {
        let parts = [&record[..a], &record[a..]];
        expect(write_apart(&traced.event, &parts), Ok(record.len()));
    }
    expect(
        traced.recorded(payload.len()),
        vec![payload; record.len() + 1],
    );
}

fn any_four_parts() {
    let traced = Traced::new(SPLIT_TEXT);
    let (payload, record) = payload_and_record(&traced.event);
    let mut splits = 0;
    for a in 0..=record.len() {
        for b in a..=record.len() {
            for c in b..=record.len() {
                let parts = [&record[..a], &record[a..b], &record[b..c], &record[c..]];
                expect(write_apart(&traced.event, &parts), Ok(record.len()));
                splits += 1;
            }
        }
    }
    expect(traced.recorded(payload.len()), vec![payload; splits]);
}

fn recorded(text: &str, lengths: impl IntoIterator<Item = usize>) {
    let traced = Traced::new(text);
    let mut perf = Perf::sample(traced.event.id(), SELF, ANY_CPU, 16);
    for length in lengths {
        let payload = bytes(length);
        expect(traced.event.write(&payload), Ok(4 + length));
        expect(traced.recorded(length), vec![payload.clone()]);
        expect(perf.take_payloads(length), vec![payload]);
    }
}

fn many_consumers() {
    let traced = Traced::new(TEXT);
    let second = TraceInstance::instance("st_second");
    second.enable(NAME);
    let mut perfs = [0; 2].map(|_| Perf::sample(traced.event.id(), SELF, ANY_CPU, 4));
    expect(traced.event.write(&[1, 2, 3, 4, 5]), Ok(9));
    expect(traced.recorded(5), vec![vec![1, 2, 3, 4, 5]]);
    expect(second.take_payloads(NAME, 5), vec![vec![1, 2, 3, 4, 5]]);
    for perf in &mut perfs {
        expect(perf.take_payloads(5), vec![vec![1, 2, 3, 4, 5]]);
    }
    // A detached instance gets nothing more, and one that was never attached nothing.
    let third = TraceInstance::instance("st_third");
    second.disable(NAME);
    expect(traced.event.write(&[6; 4]), Ok(8));
    expect(traced.recorded(4), vec![vec![6; 4]]);
    for other in [&second, &third] {
        expect(other.take_payloads(NAME, 4), Vec::<Vec<u8>>::new());
    }
}

fn for_perf_alone() {
    let (event, _, perf) = attached(false, true);
    let mut perf = perf.unwrap();
    for length in [4096, 5001, 8000, 8177, 8184] {
        let payload = bytes(length);
        expect(event.write(&payload), Ok(4 + length));
        expect(perf.take_payloads(length), vec![payload]);
    }
}

fn large_sub_buffer() {
    let event = Event::new(TEXT);
    let tracer = TraceInstance::instance(NAME);
    tracer.control("buffer_subbuf_size_kb", "32");
    tracer.enable(NAME);
    let payload = [&7u32.to_ne_bytes()[..], &[0; 20000]].concat();
    if !tracefs::sub_buffers_set_the_limit() {
        expect(event.write(&payload), Err(Errno::E2BIG));
        return;
    }
    expect(event.write(&payload), Ok(20008));
    expect(tracer.lines(NAME), vec!["st_conform: a=0x7 (7)".into()]);
}

/// An event with a perf ring or an ftrace instance, or both.
fn attached(ftrace: bool, perf: bool) -> (Event, Option<TraceInstance>, Option<Perf>) {
    let event = Event::new(TEXT);
    let tracer = ftrace.then(|| {
        let tracer = TraceInstance::instance(NAME);
        tracer.enable(NAME);
        tracer
    });
    let perf = perf.then(|| Perf::sample(event.id(), SELF, ANY_CPU, 16));
    (event, tracer, perf)
}

fn too_large((ftrace, perf, length): (bool, bool, usize), want: Result<usize>) {
    let (event, tracer, mut perf) = attached(ftrace, perf);
    expect(event.write(&vec![0; length]), want);
    // A smaller record is recorded, and is the only one.
    expect(event.write(&[3; 100]), Ok(104));
    if let Some(tracer) = tracer {
        expect(tracer.take_payloads(NAME, 100), vec![vec![3; 100]]);
    }
    if let Some(perf) = &mut perf {
        expect(perf.take_payloads(100), vec![vec![3; 100]]);
        expect(perf.count(), 1);
    }
}

fn perfs_alone() {
    let (event, tracer, perf) = attached(true, true);
    expect(event.write(&[1; 6000]), Ok(6004));
    expect(perf.unwrap().take_payloads(6000), vec![vec![1; 6000]]);
    expect(tracer.unwrap().take_records(event.id()).len(), 0);
}
