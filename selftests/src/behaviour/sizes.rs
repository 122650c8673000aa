// SPDX-License-Identifier: GPL-2.0

//! Payloads from nothing to too large: who gets them, whole.

use crate::harness::tests;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::rows::Rows;
use crate::kit::traced::Traced;
use crate::kit::tracefs::Tracer;

tests!("sizes":
    returns_the_whole_length,
    large_payloads_are_recorded_whole,
    payload_past_the_fixed_part_is_recorded,
    a_larger_sub_buffer_takes_larger_payloads,
    an_event_without_fields,
    better_than_c_2_too_large_for_ftrace_is_e2big,
    better_than_c_2_too_large_for_perf_is_e2big,
    better_than_c_2_what_one_consumer_can_take_it_gets,
);

fn returns_the_whole_length() {
    let traced = Traced::new("st_write_length u32 a");
    for length in [4, 5, 7, 8, 100, 1001] {
        let payload = vec![length as u8; length];
        assert_eq!(traced.event.write(&payload), Ok(4 + length));
        assert_eq!(traced.recorded(length), [payload]);
    }
    traced.tracer.disable(&traced.event.name);
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
