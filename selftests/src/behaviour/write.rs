// SPDX-License-Identifier: GPL-2.0

//! "Writing" in the contract, seen with ftrace attached unless a test says otherwise.

use crate::harness::tests;
use crate::kit::abi::{location, Data};
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::os;
use crate::kit::rows::Rows;
use crate::kit::traced::Traced;
use crate::kit::tracefs::Tracer;
use crate::kit::uring::{self, How, Ring};

tests!("write":
    row_fewer_than_4_bytes_is_efault,
    row_index_negative_is_einval_and_unknown_is_enoent,
    row_shorter_than_the_fixed_part_is_einval_enabled_or_not,
    row_nothing_attached_is_ebadf,
    row_unreadable_memory_is_efault_and_nothing_recorded,
    row_file_not_open_for_writing_is_ebadf,
    any_split_of_an_iovec,
    by_io_uring.where_there_is(uring::SIGN),
    an_index_belongs_to_its_file,
    many_events_on_one_file,
    writing_works_without_a_registered_bit,
);

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
        .take_records(crate::kit::tracefs::event_id("st_write_reader"))
        .is_empty());
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

fn by_io_uring() {
    let ring = Ring::new();
    let traced = Traced::new("st_write_uring u32 a; __rel_loc char[] b");
    let event = &traced.event;
    let file = &event.data.file;
    let short = [&7u32.to_ne_bytes()[..], &location(0, 3), b"ab\0"].concat();
    let text = [&[b'x'; 599][..], b"\0"].concat();
    let long = [&7u32.to_ne_bytes()[..], &location(0, 600), &text].concat();
    for how in [How::Write, How::Writev, How::WriteFixed] {
        for payload in [&short, &long] {
            let length = 4 + payload.len();
            ring.page
                .put(0, &[&event.index.to_ne_bytes()[..], payload].concat());
            assert_eq!(ring.write(file, how, length), Ok(length), "{how:?}");
            let recorded = traced.recorded(payload.len());
            assert_eq!(recorded, [payload.clone()], "{how:?}");
        }
        let too_short = [
            (0, Errno::EFAULT),
            (3, Errno::EFAULT),
            (4, Errno::EINVAL),
            (11, Errno::EINVAL),
        ];
        for (length, error) in too_short {
            let got = ring.write(file, how, length);
            assert_eq!(got, Err(error), "{how:?} of {length} bytes");
        }
        ring.page.put(0, &1000u32.to_ne_bytes());
        assert_eq!(ring.write(file, how, 12), Err(Errno::ENOENT), "{how:?}");
    }
    assert_eq!(ring.write_no_parts(file), Err(Errno::EFAULT));
    traced.tracer.disable(&event.name);
    ring.page.put(0, &event.index.to_ne_bytes());
    for how in [How::Write, How::Writev, How::WriteFixed] {
        assert_eq!(ring.write(file, how, 12), Err(Errno::EBADF), "{how:?}");
    }
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
    let ids = ["st_write_mine1", "st_write_mine2"].map(crate::kit::tracefs::event_id);
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
