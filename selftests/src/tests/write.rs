// SPDX-License-Identifier: GPL-2.0

//! "Writing" in the contract, seen with ftrace attached unless a test says otherwise.

use crate::abi::{location, Data};
use crate::errno::{Errno, Result};
use crate::event::Event;
use crate::harness::tests;
use crate::memory::{Mapping, PAGE};
use crate::os;
use crate::perf::{Perf, ANY_CPU, SELF};
use crate::rows::Rows;
use crate::tracefs::Tracer;

tests!("write":
    row_fewer_than_4_bytes_is_efault,
    row_index_negative_is_einval_and_unknown_is_enoent,
    row_shorter_than_the_fixed_part_is_einval_enabled_or_not,
    row_nothing_attached_is_ebadf,
    row_unreadable_memory_is_efault_and_nothing_recorded,
    row_file_not_open_for_writing_is_ebadf,
    row_data_past_the_record_is_efault,
    row_char_data_without_a_final_nul_is_efault,
    better_than_c_9_zero_length_is_empty_wherever_it_points_in_bounds,
    better_than_c_9_data_outside_the_payload_is_efault,
    better_than_c_2_too_large_for_ftrace_is_e2big,
    better_than_c_2_too_large_for_perf_is_e2big,
    better_than_c_2_what_one_consumer_can_take_it_gets,
    returns_the_whole_length,
    any_split_of_an_iovec,
    large_payloads_are_recorded_whole,
    payload_past_the_fixed_part_is_recorded,
    a_larger_sub_buffer_takes_larger_payloads,
    an_event_without_fields,
    good_locations,
    an_index_belongs_to_its_file,
    many_events_on_one_file,
    writing_works_without_a_registered_bit,
);

/// An event with an instance of ftrace attached to it alone.
struct Traced {
    event: Event,
    tracer: Tracer,
}

impl Traced {
    fn new(text: &str) -> Traced {
        let event = Event::new(text);
        let tracer = Tracer::instance(&event.name);
        tracer.enable(&event.name);
        event.wait_set();
        Traced { event, tracer }
    }

    fn recorded(&self, length: usize) -> Vec<Vec<u8>> {
        self.tracer.take_payloads(&self.event.name, length)
    }

    /// Detaches, and shows that of all that was written only this one record came through.
    #[track_caller]
    fn only_this_is_recorded(self, payload: &[u8]) {
        assert_eq!(self.event.write(payload), Ok(4 + payload.len()));
        let records = self.tracer.take_records(self.event.id());
        assert_eq!(records.len(), 1, "records of failed writes: {records:?}");
        assert_eq!(records[0].payload(payload.len()), payload);
        self.tracer.disable(&self.event.name);
    }
}

fn row_fewer_than_4_bytes_is_efault() {
    let traced = Traced::new("st_write_short u32 a");
    let data = &traced.event.data;
    let row = "fewer than 4 bytes → EFAULT";
    let mut rows = Rows::new();
    let address = traced.event.page.address() + 64;
    for length in 0..4 {
        let got = os::write_from(&data.file, address, length);
        rows.fails(row, &format!("write of {length}"), got, Errno::EFAULT);
        let got = os::writev_from(&data.file, &[(address, length), (address, 0)]);
        if length > 0 {
            rows.fails(row, &format!("writev of {length}"), got, Errno::EFAULT);
        }
    }
    rows.finish();
    traced.only_this_is_recorded(&[1, 2, 3, 4]);
}

fn row_index_negative_is_einval_and_unknown_is_enoent() {
    let traced = Traced::new("st_write_index u32 a");
    let payload = [0; 4];
    let mut rows = Rows::new();
    for index in [-1, -2, i32::MIN] {
        let got = traced.event.data.write(index as u32, &payload);
        rows.fails(
            "index negative → EINVAL",
            &format!("{index}"),
            got,
            Errno::EINVAL,
        );
    }
    for index in [1, 2, 1000, i32::MAX] {
        let got = traced.event.data.write(index as u32, &payload);
        rows.fails(
            "index unknown → ENOENT",
            &format!("{index}"),
            got,
            Errno::ENOENT,
        );
    }
    let fresh = Data::open().write(0, &payload);
    rows.fails(
        "index unknown → ENOENT",
        "a file without events",
        fresh,
        Errno::ENOENT,
    );
    // Before anything else about the payload.
    let got = traced.event.data.write(7, &[]);
    rows.fails("index unknown → ENOENT", "no payload", got, Errno::ENOENT);
    rows.finish();
    traced.only_this_is_recorded(&[1, 2, 3, 4]);
}

fn row_shorter_than_the_fixed_part_is_einval_enabled_or_not() {
    let traced = Traced::new("st_write_fixed u32 a; u64 b; __rel_loc char[] c; u8 d");
    let event = &traced.event;
    let full = 4 + 8 + 4 + 1;
    let mut rows = Rows::new();
    for enabled in [true, false] {
        if !enabled {
            traced.tracer.disable(&event.name);
        }
        for length in 0..full {
            let row = "payload shorter than the fixed part → EINVAL (checked before \"enabled\")";
            let case = format!("{length} of {full} bytes, enabled {enabled}");
            rows.fails(row, &case, event.write(&vec![0; length]), Errno::EINVAL);
        }
    }
    rows.finish();
    traced.tracer.enable(&event.name);
    // The string is one NUL after the fixed part: the field's end is one byte before d's.
    let payload = [&[0; 12][..], &location(1, 1), &[7, 0]].concat();
    traced.only_this_is_recorded(&payload);
}

fn row_nothing_attached_is_ebadf() {
    let event = Event::new("st_write_idle u32 a; __rel_loc char[] b");
    let row = "nothing attached → EBADF";
    let mut rows = Rows::new();
    let good = [&[0; 4][..], &location(0, 2), b"x\0"].concat();
    rows.fails(row, "never attached", event.write(&good), Errno::EBADF);
    // Whatever the locations say, and wherever the payload lies.
    let bad = [&[0; 4][..], &location(9999, 9999)].concat();
    rows.fails(row, "bad location", event.write(&bad), Errno::EBADF);
    let tracer = Tracer::instance("st_write_idle");
    tracer.enable(&event.name);
    rows.gives(
        "attached",
        "written",
        event.write(&good),
        Ok(4 + good.len()),
    );
    tracer.disable(&event.name);
    rows.fails(row, "detached again", event.write(&good), Errno::EBADF);
    rows.finish();
    assert_eq!(tracer.take_records(event.id()).len(), 1);
}

fn row_unreadable_memory_is_efault_and_nothing_recorded() {
    let traced = Traced::new("st_write_unreadable u32 a; u64 b");
    let event = &traced.event;
    let file = &event.data.file;
    let row = "unreadable memory → EFAULT and nothing recorded";
    let mut rows = Rows::new();

    let pages = Mapping::new(2);
    let fence = Mapping::of_file(&os::memory_file(PAGE as u64), 1, 0, libc::MAP_SHARED).unwrap();
    pages.put(0, &event.index.to_ne_bytes());
    let mut hole = Mapping::new(1);
    hole.unmap();
    for (case, bad) in [
        ("PROT_NONE", fence.address()),
        ("unmapped", hole.address()),
        ("null", 0),
        ("kernel", 0xffff_ffff_8100_0000),
        ("non-canonical", 1 << 62),
    ] {
        rows.fails(row, case, os::write_from(file, bad, 16), Errno::EFAULT);
        for good in [4, 8, 12] {
            let parts = [(pages.address(), good), (bad, 16 - good)];
            let case = format!("{case} after {good} bytes");
            rows.fails(row, &case, os::writev_from(file, &parts), Errno::EFAULT);
        }
        let parts = [(bad, 4), (pages.address(), 12)];
        rows.fails(
            row,
            &format!("{case} index"),
            os::writev_from(file, &parts),
            Errno::EFAULT,
        );
    }

    // One buffer that runs over the edge of what can be read, at every place in the record.
    let edge = Mapping::new(2);
    for good in [4, 8, 12] {
        edge.put(PAGE - good, &event.index.to_ne_bytes());
    }
    edge.protect_from(PAGE, libc::PROT_NONE);
    let behind = edge.address() + PAGE as u64;
    for good in [4, 8, 12] {
        let case = format!("runs off a page after {good} bytes");
        let got = os::write_from(file, behind - good, 16);
        rows.fails(row, &case, got, Errno::EFAULT);
    }
    // A large one, of which all but the end can be read.
    let parts = [(pages.address(), 4096 - 256), (behind, 64)];
    rows.fails(row, "large", os::writev_from(file, &parts), Errno::EFAULT);
    rows.finish();
    traced.only_this_is_recorded(&[9; 12]);
}

fn row_file_not_open_for_writing_is_ebadf() {
    let data = Data::open_read_only();
    let page = Mapping::new(1);
    let index = data
        .register_text("st_write_reader u32 a", page.address(), 0)
        .unwrap();
    let tracer = Tracer::instance("st_write_reader");
    tracer.enable("st_write_reader");
    let mut rows = Rows::new();
    let row = "file not open for writing → EBADF";
    rows.fails(row, "write", data.write(index, &[0; 4]), Errno::EBADF);
    rows.fails(
        row,
        "writev",
        data.writev(&[&[0; 4], &[0; 4]]),
        Errno::EBADF,
    );
    rows.finish();
    tracer.disable("st_write_reader");
    assert!(tracer
        .take_records(crate::tracefs::event_id("st_write_reader"))
        .is_empty());
}

/// An event, named after its kind, with one location field after a u32.
///
/// The payload is the u32, the location and 8 bytes of data: the data are at 16 from the record's
/// start, at 0 from the field's end.
fn locations(name: &str, kind: &str, element: &str) -> Traced {
    let name = format!("{name}_{kind}_{element}").replace(' ', "_");
    Traced::new(&format!("{name} u32 a; {kind} {element}[] b"))
}

fn with_location(offset: u32, size: u32, data: &[u8]) -> Vec<u8> {
    [&[0xaa; 4][..], &location(offset, size), data].concat()
}

fn row_data_past_the_record_is_efault() {
    let row = "data reaching past the record → EFAULT, nothing recorded";
    let data = [0; 8];
    let mut rows = Rows::new();
    for (kind, element, start) in [
        ("__data_loc", "char", 16),
        ("__data_loc", "u8", 16),
        ("__rel_loc", "char", 0),
        ("__rel_loc", "u64", 0),
    ] {
        let traced = locations("st_write_past", kind, element);
        for (offset, size) in [
            (start, 9),
            (start + 1, 8),
            (start + 8, 1),
            (start + 9, 1),
            (start, 0xffff),
            (0xffff, 1),
            (0xffff, 0xffff),
            (start + 4, 5),
        ] {
            let payload = with_location(offset, size, &data);
            let case = format!("{kind} {element} {size} bytes at {offset}");
            rows.fails(row, &case, traced.event.write(&payload), Errno::EFAULT);
        }
        traced.only_this_is_recorded(&with_location(start, 8, &data));
    }
    rows.finish();
}

fn row_char_data_without_a_final_nul_is_efault() {
    let row = "a char type whose last byte is not NUL → EFAULT, nothing recorded";
    let mut rows = Rows::new();
    for (kind, start) in [("__data_loc", 16), ("__rel_loc", 0)] {
        for element in ["char", "unsigned char"] {
            let traced = locations("st_write_nul", kind, element);
            for (offset, size) in [(0, 3), (0, 1), (0, 7), (1, 1), (5, 2)] {
                let payload = with_location(start + offset, size, b"abc\0def\0");
                let case = format!("{kind} {element} {size} bytes at {offset}");
                rows.fails(row, &case, traced.event.write(&payload), Errno::EFAULT);
            }
            traced.only_this_is_recorded(&with_location(start, 4, b"abc\0def\0"));
        }
        // What is not text needs no NUL.
        let traced = locations("st_write_nul", kind, "u8");
        traced.only_this_is_recorded(&with_location(start, 3, b"abcdefgh"));
    }
    rows.finish();
}

fn better_than_c_9_zero_length_is_empty_wherever_it_points_in_bounds() {
    let mut rows = Rows::new();
    for (kind, start) in [("__data_loc", 16), ("__rel_loc", 0)] {
        for element in ["char", "u32"] {
            let traced = locations("st_write_zero", kind, element);
            let mut written = 0;
            // The bytes before are not NUL: none of them may be looked at.
            for offset in [start, start + 3, start + 8] {
                let payload = with_location(offset, 0, &[0xff; 8]);
                let got = traced.event.write(&payload);
                let case = format!("{kind} {element} at {offset}");
                rows.gives("zero length is an empty value", &case, got, Ok(20));
                written += 1;
            }
            for offset in [start + 9, 0xffff] {
                let payload = with_location(offset, 0, &[0xff; 8]);
                let case = format!("{kind} {element} at {offset}");
                let got = traced.event.write(&payload);
                rows.fails("checked for bounds", &case, got, Errno::EFAULT);
            }
            let records = traced.recorded(16).len();
            rows.gives("recorded", &format!("{kind} {element}"), records, written);
            traced.tracer.disable(&traced.event.name);
        }
    }
    rows.finish();
}

fn better_than_c_9_data_outside_the_payload_is_efault() {
    let mut rows = Rows::new();
    for element in ["char", "u8"] {
        let traced = locations("st_write_header", "__data_loc", element);
        for (offset, size) in [(0, 1), (0, 8), (4, 4), (7, 1), (7, 2), (1, 12)] {
            let payload = with_location(offset, size, &[0; 8]);
            let case = format!("{element} {size} bytes at {offset}");
            let got = traced.event.write(&payload);
            rows.fails(
                "non-empty data lies wholly inside the payload",
                &case,
                got,
                Errno::EFAULT,
            );
        }
        traced.only_this_is_recorded(&with_location(8, 0, &[0; 8]));
    }
    rows.finish();
}

fn better_than_c_2_too_large_for_ftrace_is_e2big() {
    let traced = Traced::new("st_write_huge u32 a");
    let mut rows = Rows::new();
    let row = "E2BIG when no attached consumer can take it";
    for length in [4096, 5000, 8192, 65536, 1 << 20] {
        let got = traced.event.write(&vec![0; length]);
        rows.fails(row, &format!("{length} bytes"), got, Errno::E2BIG);
    }
    rows.finish();
    traced.only_this_is_recorded(&[1; 100]);
}

fn better_than_c_2_too_large_for_perf_is_e2big() {
    let event = Event::new("st_write_perf u32 a");
    let mut perf = Perf::sample(event.id(), SELF, ANY_CPU, 16);
    let mut rows = Rows::new();
    let row = "E2BIG when no attached consumer can take it";
    for length in [8193, 8200, 10000, 65536, 1 << 20] {
        let got = event.write(&vec![0; length]);
        rows.fails(row, &format!("{length} bytes"), got, Errno::E2BIG);
    }
    rows.finish();
    assert!(perf.take().is_empty());
    assert_eq!(perf.count(), 0);
    assert_eq!(event.write(&[3; 8000]), Ok(8004));
    assert_eq!(perf.take_payloads(8000), [[3; 8000]]);
}

fn better_than_c_2_what_one_consumer_can_take_it_gets() {
    let traced = Traced::new("st_write_one u32 a");
    let event = &traced.event;
    let mut perf = Perf::sample(event.id(), SELF, ANY_CPU, 16);
    // Too large for ftrace; perf has it.
    assert_eq!(event.write(&[1; 6000]), Ok(6004));
    assert_eq!(perf.take_payloads(6000), [[1; 6000]]);
    assert!(traced.tracer.take_records(event.id()).is_empty());
    // Too large for both.
    assert_eq!(event.write(&[2; 9000]), Err(Errno::E2BIG));
    assert!(perf.take().is_empty());
    // Both.
    assert_eq!(event.write(&[3; 2000]), Ok(2004));
    assert_eq!(perf.take_payloads(2000), [[3; 2000]]);
    assert_eq!(traced.recorded(2000), [[3; 2000]]);
    traced.tracer.disable(&event.name);
}

fn returns_the_whole_length() {
    let traced = Traced::new("st_write_length u32 a");
    for length in [4, 5, 7, 8, 100, 1001] {
        let payload = vec![length as u8; length];
        assert_eq!(traced.event.write(&payload), Ok(4 + length));
        assert_eq!(traced.recorded(length), [payload]);
    }
    traced.tracer.disable(&traced.event.name);
}

/// Writes `record` in all splits into up to four parts, and tells how many there were.
fn every_split(data: &Data, record: &[u8], mut each: impl FnMut(Result<usize>)) -> usize {
    let mut splits = 0;
    for a in 0..=record.len() {
        for b in a..=record.len() {
            for c in b..=record.len() {
                let parts = [&record[..a], &record[a..b], &record[b..c], &record[c..]];
                each(data.writev(&parts));
                splits += 1;
            }
        }
    }
    splits
}

fn any_split_of_an_iovec() {
    let traced = Traced::new("st_write_split u32 a; __rel_loc char[] b; u8 c");
    let event = &traced.event;
    let payload = [&7u32.to_ne_bytes()[..], &location(1, 3), &[9], b"ab\0"].concat();
    let record = [&event.index.to_ne_bytes()[..], &payload].concat();
    let splits = every_split(&event.data, &record, |got| {
        assert_eq!(got, Ok(record.len()))
    });
    let recorded = traced.recorded(payload.len());
    assert_eq!(recorded.len(), splits);
    assert!(
        recorded.iter().all(|got| *got == payload),
        "a split changed the payload"
    );
    traced.tracer.disable(&event.name);
}

fn large_payloads_are_recorded_whole() {
    let traced = Traced::new("st_write_large u32 a");
    let event = &traced.event;
    let mut perf = Perf::sample(event.id(), SELF, ANY_CPU, 16);
    for length in [
        100, 255, 256, 257, 511, 512, 513, 1000, 1023, 1024, 3000, 4000,
    ] {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
        assert_eq!(event.write(&payload), Ok(4 + length), "{length} bytes");
        assert_eq!(
            traced.recorded(length),
            [payload.clone()],
            "{length} bytes in ftrace"
        );
        assert_eq!(
            perf.take_payloads(length),
            [payload],
            "{length} bytes in perf"
        );
    }
    // What perf alone can hold.
    traced.tracer.disable(&event.name);
    for length in [4096, 5001, 8000] {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
        assert_eq!(event.write(&payload), Ok(4 + length), "{length} bytes");
        assert_eq!(
            perf.take_payloads(length),
            [payload],
            "{length} bytes in perf"
        );
    }
}

fn payload_past_the_fixed_part_is_recorded() {
    let traced = Traced::new("st_write_longer u16 a");
    for extra in 0..20u8 {
        let payload: Vec<u8> = (0..2 + extra).collect();
        assert_eq!(traced.event.write(&payload), Ok(4 + payload.len()));
        assert_eq!(traced.recorded(payload.len()), [payload]);
    }
    traced.tracer.disable(&traced.event.name);
}

fn a_larger_sub_buffer_takes_larger_payloads() {
    let event = Event::new("st_write_subbuf u32 a");
    let tracer = Tracer::instance("st_write_subbuf");
    tracer.control("buffer_subbuf_size_kb", "32");
    tracer.enable(&event.name);
    let payload = [&7u32.to_ne_bytes()[..], &[0; 20000]].concat();
    assert_eq!(event.write(&payload), Ok(20008));
    tracer.disable(&event.name);
    assert_eq!(tracer.lines(&event.name), ["st_write_subbuf: a=0x7 (7)"]);
}

fn an_event_without_fields() {
    let traced = Traced::new("st_write_nothing");
    let event = &traced.event;
    let mut perf = Perf::sample(event.id(), SELF, ANY_CPU, 2);
    assert_eq!(event.write(&[]), Ok(4));
    assert_eq!(traced.recorded(0), [[]; 1]);
    assert_eq!(perf.take_payloads(0), [[]; 1]);
    assert_eq!(event.write(&[1, 2, 3]), Ok(7));
    assert_eq!(traced.recorded(3), [[1, 2, 3]]);
    assert_eq!(perf.take_payloads(3), [[1, 2, 3]]);
    traced.tracer.disable(&event.name);
}

fn good_locations() {
    let mut rows = Rows::new();
    for (kind, start) in [("__data_loc", 16), ("__rel_loc", 0)] {
        let traced = locations("st_write_good", kind, "char");
        let mut written = Vec::new();
        // The whole, the beginning, the middle, the end.
        for (offset, size) in [(0, 8), (0, 4), (2, 2), (4, 4), (7, 1)] {
            let payload = with_location(start + offset, size, b"abc\0def\0");
            let got = traced.event.write(&payload);
            rows.gives(
                "good data",
                &format!("{kind} {size} at {offset}"),
                got,
                Ok(20),
            );
            written.push(payload);
        }
        rows.gives("recorded", kind, traced.recorded(16), written);
        traced.tracer.disable(&traced.event.name);
    }
    // __data_loc counts from the start of the record, of which 8 is the first byte of the payload:
    // it may point at the fixed part.
    let traced = locations("st_write_good", "__data_loc", "u8");
    traced.only_this_is_recorded(&with_location(8, 16, &[1; 8]));
    rows.finish();
}

fn an_index_belongs_to_its_file() {
    let page = Mapping::new(1);
    let (one, two) = (Data::open(), Data::open());
    let register = |data: &Data, text, bit| data.register_text(text, page.address(), bit).unwrap();
    register(&one, "st_write_mine1 u32 a", 0);
    register(&two, "st_write_mine2 u32 a", 1);
    let tracer = Tracer::instance("st_write_mine");
    tracer.enable("st_write_mine1");
    tracer.enable("st_write_mine2");
    assert_eq!(one.write(0, &[1; 4]), Ok(8));
    assert_eq!(two.write(0, &[2; 4]), Ok(8));
    let ids = ["st_write_mine1", "st_write_mine2"].map(crate::tracefs::event_id);
    tracer.disable("st_write_mine1");
    assert_eq!(one.write(0, &[3; 4]), Err(Errno::EBADF));
    tracer.disable("st_write_mine2");
    let lines = (
        tracer.lines("st_write_mine1"),
        tracer.lines("st_write_mine2"),
    );
    assert_eq!(lines.0, ["st_write_mine1: a=0x1010101 (16843009)"]);
    assert_eq!(lines.1, ["st_write_mine2: a=0x2020202 (33686018)"]);
    assert_ne!(ids[0], ids[1]);
}

fn many_events_on_one_file() {
    const EVENTS: u32 = 50;
    let page = Mapping::new(1);
    let data = Data::open();
    let tracer = Tracer::instance("st_write_fifty");
    let name = |i| format!("st_write_fifty{i}");
    for i in 0..EVENTS {
        let text = format!("{} u32 a", name(i));
        let address = page.address() + 4 * u64::from(i);
        assert_eq!(data.register_text(&text, address, 0), Ok(i));
    }
    for i in (0..EVENTS).step_by(7) {
        tracer.enable(&name(i));
    }
    for i in 0..EVENTS {
        let want = if i % 7 == 0 { Ok(8) } else { Err(Errno::EBADF) };
        assert_eq!(data.write(i, &i.to_ne_bytes()), want, "event {i}");
    }
    for i in (0..EVENTS).step_by(7) {
        assert_eq!(
            tracer.lines(&name(i)),
            [format!("{}: a={i:#x} ({i})", name(i))]
        );
        tracer.disable(&name(i));
    }
}

fn writing_works_without_a_registered_bit() {
    let traced = Traced::new("st_write_nobit u32 a");
    traced.event.unregister().unwrap();
    traced.only_this_is_recorded(&[5; 4]);
}
