// SPDX-License-Identifier: GPL-2.0

//! Events in tracefs: the trace file, records, buffers. `consumers` has filters and triggers.

use crate::harness::tests;
use crate::kit::abi::{self, PERSIST};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, PAGE, READ};
use crate::kit::os;
use crate::kit::payload::{
    payload,
    Value::{Data, Fixed, Rel},
};
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::wait;
use std::fs::File;
use std::hint;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

tests!("ftrace":
    the_trace_shows_fields_and_strings,
    what_is_written_once_the_bit_is_set_is_there,
    a_filter_on_text_is_for_fields_of_text,
    the_task_that_deletes_an_event_sees_the_fields_of_others,
    a_buffer_that_is_mapped_shows_the_records,
    the_longest_record_of_the_largest_buffer,
    what_ftrace_does_not_want_perf_may_be_unable_to_take,
);

fn the_trace_shows_fields_and_strings() {
    for (text, values, shown) in [
        (
            "st_ft_fields u8 a; s8 b; u16 c; s32 d; u64 e; s64 f",
            &[
                Fixed(&[2, 5]),
                Fixed(&1000u16.to_ne_bytes()),
                Fixed(&(-2i32).to_ne_bytes()),
                Fixed(&1234u64.to_ne_bytes()),
                Fixed(&77i64.to_ne_bytes()),
            ][..],
            Some("a=(2) b=(5) c=0x3e8 (1000) d=0xfffffffe (-2) e=0x4d2 (1234) f=0x4d (77)"),
        ),
        (
            "st_ft_strings __data_loc char[] a; char[8] b; __rel_loc char[] c",
            &[Data(b"one\0"), Fixed(b"middle\0\0"), Rel(b"two!\0")],
            Some("a=one b=middle c=two!"),
        ),
        // The trace core says that there are none, in some way.
        ("st_ft_none", &[], None),
    ] {
        let event = Event::new(text);
        let tracer = TraceInstance::instance(&event.name);
        tracer.enable(&event.name);
        event.write(&payload(values)).unwrap();
        tracer.disable(&event.name);
        // A string is shown up to its NUL; bytes after it that belong to the field are not text.
        let trace = tracer.text("trace").replace('\0', "");
        let start = format!(" {}:", event.name);
        let lines = trace.lines().filter_map(|line| line.split_once(&start));
        let lines: Vec<_> = lines.map(|(_, fields)| fields.trim_start()).collect();
        assert_eq!(lines.len(), 1, "{trace}");
        assert!(shown.is_none_or(|shown| lines == [shown]), "{trace}");
    }
}

/// The instance takes records from before the bit is set.
fn what_is_written_once_the_bit_is_set_is_there() {
    let event = Event::new("st_ft_seen u32 a");
    let tracer = TraceInstance::instance("st_ft_seen");
    for round in 0..50 {
        let payload = [round; 4];
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let start = Instant::now();
                while !event.bit() {
                    assert!(start.elapsed() < wait::limit(), "the bit is not set");
                    hint::spin_loop();
                }
                event.write(&payload)
            });
            tracer.enable(&event.name);
            assert_eq!(writer.join().unwrap(), Ok(8), "{round}");
        });
        assert_eq!(tracer.take_payloads(&event.name, 4), [payload], "{round}");
        tracer.disable(&event.name);
        event.wait_clear();
    }
}

fn a_filter_on_text_is_for_fields_of_text() {
    let event = Event::new(
        "st_ft_text __rel_loc char[] a; __data_loc char[] b; __rel_loc u32[] c; __data_loc u32[] d",
    );
    let tracer = TraceInstance::instance("st_ft_text");
    for (field, takes_text) in [("a", true), ("b", true), ("c", false), ("d", false)] {
        let result = tracer.set(&event.name, "filter", &format!("{field} == \"text\""));
        assert_eq!(result.is_ok(), takes_text, "{field}: {result:?}");
        tracer.set(&event.name, "filter", "0").expect("no filter");
    }
}

fn the_task_that_deletes_an_event_sees_the_fields_of_others() {
    let event = Event::new("st_ft_other u32 a");
    let (data, page) = (abi::Data::open(), Mapping::kept(1));
    let text = "st_ft_deleted u32 b";
    let index = data.register_flags(text, page.address(), 0, PERSIST);
    assert_eq!(index, Ok(0));
    assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
    drop(data);
    assert_eq!(event.data.delete("st_ft_deleted"), Ok(()));
    assert!(tracefs::event_format(&event.name).contains("field:u32 a;"));
    let tracer = TraceInstance::instance("st_ft_other");
    assert_eq!(tracer.set(&event.name, "filter", "a == 1"), Ok(()));
    assert_eq!(tracer.set(&event.name, "filter", "0"), Ok(()));
}

/// A sub-buffer has at most 128 pages of 4096 bytes, with a header of 16 bytes. A record has 8
/// bytes of header and length, and 8 of common fields. Before Linux 7.3 a record must fit in one
/// page all the same.
fn the_longest_record_of_the_largest_buffer() {
    let pages = if tracefs::sub_buffers_set_the_limit() {
        128
    } else {
        1
    };
    let max_payload = pages * 4096 - 16 - 8 - 8;
    let event = Event::new("st_ft_longest u32 a");
    let tracer = TraceInstance::instance("st_ft_longest");
    tracer.control("buffer_subbuf_size_kb", "512");
    tracer.enable(&event.name);
    let mut payload = vec![0; max_payload + 1];
    payload[0] = 7;
    assert_eq!(event.write(&payload[..max_payload]), Ok(max_payload + 4));
    assert_eq!(event.write(&payload), Err(Errno::E2BIG));
    tracer.disable(&event.name);
    assert_eq!(tracer.lines(&event.name), ["st_ft_longest: a=0x7 (7)"]);
}

/// Not E2BIG, as the record is too long for perf only: ftrace, in soft mode, does not want it.
fn what_ftrace_does_not_want_perf_may_be_unable_to_take() {
    let (starter, event) = (
        Event::new("st_ft_starter u32 a"),
        Event::new("st_ft_unwanted u32 a"),
    );
    let tracer = TraceInstance::instance("st_ft_unwanted");
    let trigger = "enable_event:user_events:st_ft_unwanted";
    tracer.set(&starter.name, "trigger", trigger).unwrap();
    let perf = Perf::sample(event.id(), SELF, ANY_CPU, 4);
    let payload = vec![0; 70_000];
    assert_eq!(event.write(&payload), Ok(70_004));
    drop(perf);
    let trigger = format!("!{trigger}");
    tracer.set(&starter.name, "trigger", &trigger).unwrap();
    event.wait_clear();
}

/// `TRACE_MMAP_IOCTL_GET_READER`: passes the next sub-buffer of a mapped buffer to the reader.
const GET_READER: u64 = 0x5220;

/// Offsets of 32-bit words in the meta page of a mapped buffer, `struct trace_buffer_meta`
/// (linux/trace_mmap.h).
const META_PAGE_SIZE: usize = 0;
const SUB_BUFFER_SIZE: usize = 8;
const NUMBER_OF_PARTS: usize = 12;
const READER_ID: usize = 24;

/// Short records, and long ones, which are read from user memory directly into the buffer.
fn a_buffer_that_is_mapped_shows_the_records() {
    for (fields, length) in [
        ("unsigned char[8] a", 8),
        (
            "unsigned char[1000] a; unsigned char[1000] b; unsigned char[1000] c",
            3000,
        ),
    ] {
        let event = Event::new(&format!("st_ft_mapped{length} {fields}"));
        let tracer = TraceInstance::instance(&event.name);
        tracer.enable(&event.name);
        let cpu = os::cpus()[0];
        os::run_on(cpu);
        let file = tracer.path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(file)
            .expect("open a buffer");
        let map = |pages| Mapping::of_file(&file, pages, READ, libc::MAP_SHARED).expect("mmap");
        let word = |mapping: &Mapping, at| mapping.word(at).load(Relaxed) as usize;
        let meta = map(1);
        let (meta_size, size) = (word(&meta, META_PAGE_SIZE), word(&meta, SUB_BUFFER_SIZE));
        let parts = word(&meta, NUMBER_OF_PARTS);
        let all = map((meta_size + parts * size) / PAGE);
        for round in 1..=5u8 {
            let payload = vec![round; length];
            assert_eq!(event.write(&payload), Ok(length + 4));
            // Earlier records are passed over first.
            let found = (0..4).any(|_| {
                assert_eq!(os::ioctl(&file, GET_READER, 0), Ok(0));
                let part = meta_size + word(&all, READER_ID) * size;
                let seen: Vec<u8> = (part..part + size)
                    .step_by(4)
                    .flat_map(|at| all.word(at).load(Relaxed).to_ne_bytes())
                    .collect();
                seen.windows(length).any(|window| window == payload)
            });
            assert!(
                found,
                "record {round} of {length} bytes is not in the buffer"
            );
        }
    }
}
