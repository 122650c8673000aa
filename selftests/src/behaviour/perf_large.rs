// SPDX-License-Identifier: GPL-2.0

//! Records for perf beyond the trace core's buffer of 8 KB. The size of a sample has 16 bits, for
//! all that it holds, and the kernel does not check for an overflow.

use crate::harness::tests;
use crate::kit::bpf::{Counters, Program};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::os;
use crate::kit::payload::bytes;
use crate::kit::perf::*;
use crate::kit::profile;
use crate::kit::ring::Record;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::wait::SetOnDrop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

tests!("perf_large":
    each_size_comes_byte_for_byte,
    what_else_is_in_a_sample_is_left_room_for,
    what_perf_cannot_take_is_a_miss_beside_ftrace.skip_if(tracefs::lacks_long_records),
    the_listener_that_takes_least_decides,
    the_deepest_stack_fits,
    a_page_less_of_the_stack_is_dumped,
    about_the_size_of_the_trace_cores_buffer,
    a_program_alone_sees_it,
    listeners_that_come_and_go_get_whole_samples,
);

/// A mask of twelve user or kernel registers that every architecture has.
const REGISTERS: u64 = 0xfff;

fn each_size_comes_byte_for_byte() {
    let event = Event::new("st_large u32 a");
    let mut perf = Perf::listen(&event, Sample::PLAIN);
    for length in [9000, 30_000, 32_768, 65_000]
        .into_iter()
        .chain(MAX_PAYLOAD - 20..=MAX_PAYLOAD)
    {
        let payload = bytes(length);
        assert_eq!(event.write(&payload), Ok(4 + length));
        assert_recorded(&mut perf, &payload);
    }
    for length in [
        MAX_PAYLOAD + 1,
        MAX_PAYLOAD + 8,
        65_536,
        66_000,
        100_000,
        500_000,
    ] {
        assert_eq!(event.write(&bytes(length)), Err(Errno::E2BIG), "{length}");
    }
    assert_eq!(perf.take().len(), 0);
    assert_eq!(profile::missed("st_large"), (0, 0));
}

/// Samples with various contents.
fn samples() -> Vec<Sample> {
    let usual = SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU | SAMPLE_PERIOD;
    let kinds = [
        0,
        SAMPLE_IP,
        usual,
        usual | SAMPLE_IDENTIFIER,
        SAMPLE_READ,
        usual | SAMPLE_ID,
    ];
    let mut samples: Vec<Sample> = kinds.map(Sample::of).to_vec();
    for max_stack in [0, 1, 40, DEFAULT_MAX_STACK] {
        samples.push(Sample {
            kind: usual | SAMPLE_CALLCHAIN,
            max_stack,
            ..Sample::PLAIN
        });
    }
    let registers = Sample {
        kind: usual | SAMPLE_REGS_USER,
        regs_user: REGISTERS,
        ..Sample::PLAIN
    };
    samples.push(registers);
    samples.push(Sample {
        kind: SAMPLE_REGS_INTR,
        regs_intr: REGISTERS,
        ..Sample::PLAIN
    });
    for stack_user in [8, 8192, 65_528] {
        let kind = registers.kind | SAMPLE_STACK_USER;
        samples.push(Sample {
            kind,
            stack_user,
            ..registers
        });
    }
    // The kernel does not cut the stack for contents that follow it.
    samples.push(Sample {
        kind: registers.kind | SAMPLE_STACK_USER | SAMPLE_REGS_INTR,
        stack_user: 8192,
        regs_intr: REGISTERS,
        ..registers
    });
    samples
}

fn what_else_is_in_a_sample_is_left_room_for() {
    let event = Event::new("st_large u32 a");
    for sample in samples() {
        let mut perf = Perf::listen(&event, sample);
        let longest = sample.max_payload();
        for length in [8185, 30_000, longest - 1, longest] {
            let payload = bytes(length);
            assert_eq!(
                event.write(&payload),
                Ok(4 + length),
                "{length} for {sample:?}"
            );
            assert_recorded(&mut perf, &payload);
        }
        let refused = event.write(&bytes(longest + 1));
        assert_eq!(refused, Err(Errno::E2BIG), "{longest} for {sample:?}");
        assert_eq!(perf.take().len(), 0);
    }
}

fn what_perf_cannot_take_is_a_miss_beside_ftrace() {
    let event = Event::new("st_large u32 a");
    let tracer = TraceInstance::instance("st_large");
    tracer.control("buffer_subbuf_size_kb", "128");
    tracer.enable("st_large");
    let sample = Sample::CHAINS;
    let mut perf = Perf::sample_with(event.id(), SELF, ANY_CPU, PAGES, sample);
    let longest = sample.max_payload();
    for length in [longest, longest + 1, 65_000, MAX_PAYLOAD + 1] {
        assert_eq!(event.write(&bytes(length)), Ok(4 + length));
    }
    assert_recorded(&mut perf, &bytes(longest));
    assert_eq!(profile::missed("st_large"), (0, 3));
    assert_eq!(tracer.lines("st_large").len(), 4);
}

fn the_listener_that_takes_least_decides() {
    let event = Event::new("st_large u32 a");
    let plain = Sample::PLAIN;
    let chains = Sample::CHAINS;
    for order in [[plain, chains], [chains, plain]] {
        let mut perfs =
            order.map(|sample| Perf::sample_with(event.id(), SELF, ANY_CPU, PAGES, sample));
        event.wait_set();
        let longest = chains.max_payload();
        assert_eq!(event.write(&bytes(longest + 1)), Err(Errno::E2BIG));
        assert_eq!(event.write(&bytes(longest)), Ok(4 + longest));
        for perf in &mut perfs {
            assert_recorded(perf, &bytes(longest));
        }
    }
}

/// Writes with the call chain of very many functions, whose frames are forged.
#[cfg(target_arch = "x86_64")]
fn write_deeply(event: &Event, payload: &[u8]) -> isize {
    use std::os::fd::AsRawFd;

    const DEPTH: usize = 1000;
    let buffer = [&event.index.to_ne_bytes()[..], payload].concat();
    let mut frames = vec![[0u64; 2]; DEPTH];
    let start = frames.as_ptr() as u64;
    for (at, frame) in frames.iter_mut().enumerate() {
        *frame = [start + 16 * (at as u64 + 1), 0x40_0000 + at as u64];
    }
    frames[DEPTH - 1] = [0; 2];
    let mut result: isize;
    // SAFETY: Calls write() with the frame pointer at the forged frames. They and the buffer live
    // until the call returns.
    unsafe {
        std::arch::asm!(
            "push rbp",
            "mov rbp, {frames}",
            "syscall",
            "pop rbp",
            frames = in(reg) start,
            inlateout("rax") libc::SYS_write as isize => result,
            in("rdi") event.data.file.as_raw_fd(),
            in("rsi") buffer.as_ptr(),
            in("rdx") buffer.len(),
            out("rcx") _,
            out("r11") _,
        );
    }
    drop(frames);
    result
}

#[cfg(not(target_arch = "x86_64"))]
fn write_deeply(event: &Event, payload: &[u8]) -> isize {
    event.write(payload).map_or(-1, |written| written as isize)
}

fn the_deepest_stack_fits() {
    let event = Event::new("st_large u32 a");
    for max_stack in [40, 0] {
        let sample = Sample {
            kind: SAMPLE_CALLCHAIN,
            max_stack,
            ..Sample::PLAIN
        };
        let mut perf = Perf::listen(&event, sample);
        let payload = bytes(sample.max_payload());
        assert_eq!(write_deeply(&event, &payload), 4 + payload.len() as isize);
        let samples = perf.take_samples();
        assert_eq!(samples.len(), 1);
        let most = if max_stack == 0 {
            DEFAULT_MAX_STACK
        } else {
            max_stack
        };
        let entries = u64::from_ne_bytes(samples[0][8..16].try_into().unwrap());
        if cfg!(target_arch = "x86_64") {
            assert!(entries >= u64::from(most), "{entries} entries");
        }
        assert!(samples[0].len() <= 65_528 && entries <= u64::from(most) + 8);
        assert_eq!(event.write(&payload), Ok(4 + payload.len()));
        assert_recorded(&mut perf, &payload);
    }
}

// The kernel cuts the dump of the stack to fit.
fn a_page_less_of_the_stack_is_dumped() {
    let event = Event::new("st_large u32 a");
    let sample = Sample {
        kind: SAMPLE_REGS_USER | SAMPLE_STACK_USER,
        regs_user: REGISTERS,
        stack_user: 8192,
        ..Sample::PLAIN
    };
    let mut perf = Perf::listen(&event, sample);
    for (length, is_cut) in [(30_000, false), (60_000, true)] {
        assert_eq!(event.write(&bytes(length)), Ok(4 + length));
        let samples = perf.take_samples();
        assert_eq!(samples.len(), 1);
        let stack = samples[0].len() - (8 + (12 + length).next_multiple_of(8) + 8 * 13 + 16);
        assert_eq!(stack < 8192, is_cut, "{stack}");
        assert!(stack > 0 && samples[0].len() <= 65_528);
    }
}

fn about_the_size_of_the_trace_cores_buffer() {
    let event = Event::new("st_large u32 a");
    let counters = Counters::new(1);
    // Without a program, and with one that keeps or drops the sample.
    for (result, count) in [(None, 0), (Some(1), 31), (Some(0), 62)] {
        let mut perf = Perf::listen(&event, Sample::PLAIN);
        if let Some(result) = result {
            let program = Program::counting(&counters, result);
            perf.attach(&program).expect("attach a program");
        }
        for length in (8170..8200).chain([30_000]) {
            let payload = bytes(length);
            assert_eq!(event.write(&payload), Ok(4 + length));
            match result {
                Some(0) => assert_eq!(perf.take().len(), 0, "{length}"),
                _ => assert_recorded(&mut perf, &payload),
            }
        }
        assert_eq!(
            counters.get(0),
            count,
            "with a program that returns {result:?}"
        );
    }
}

// A program has no samples: no other contents need room.
fn a_program_alone_sees_it() {
    let event = Event::new("st_large u32 a");
    let counters = Counters::new(1);
    let program = Program::counting(&counters, 1);
    let perf = Perf::open_with(event.id(), SELF, ANY_CPU, Sample::EMPTY).expect("perf_event_open");
    perf.attach(&program).expect("attach a program");
    event.wait_set();
    assert_eq!(event.write(&bytes(MAX_PAYLOAD)), Ok(4 + MAX_PAYLOAD));
    assert_eq!(event.write(&bytes(MAX_PAYLOAD + 1)), Err(Errno::E2BIG));
    assert_eq!(counters.get(0), 1);
}

// Interrupts add perf events to a processor's list, and siblings to events. No sample overflows its
// size, whatever the list at the check. Records are about as long as the lasting listener can take.
fn listeners_that_come_and_go_get_whole_samples() {
    let event = Event::new("st_large u32 a");
    let cpu = os::cpus()[0];
    os::run_on(cpu);
    let chains = Sample::CHAINS;
    let longest = chains.max_payload();
    let mut perf = Perf::sample_with(event.id(), ALL_PROCESSES, cpu as i32, PAGES, chains);
    event.wait_set();
    let is_over = AtomicBool::new(false);
    let (mut recorded, mut refused, came) = (0, 0, AtomicUsize::new(0));
    thread::scope(|scope| {
        let _over = SetOnDrop(&is_over);
        scope.spawn(|| {
            let cpus = os::cpus();
            os::run_on(cpus[cpus.len() - 1]);
            let all = samples();
            let mut at = 0;
            while !is_over.load(Ordering::Relaxed) {
                at = (at + 1) % all.len();
                let mut other =
                    Perf::sample_with(event.id(), ALL_PROCESSES, cpu as i32, PAGES, all[at]);
                // Panics unless its samples are whole, too.
                let _: Vec<Record> = other.take();
                came.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 0..150 {
            let payload = bytes(longest - 600 + 4 * round);
            match event.write(&payload) {
                Ok(_) => {
                    recorded += 1;
                    assert_recorded(&mut perf, &payload);
                }
                Err(error) => {
                    assert_eq!(error, Errno::E2BIG);
                    refused += 1;
                    assert_eq!(perf.take().len(), 0);
                }
            }
        }
    });
    assert!(recorded > 0, "{recorded} recorded, {refused} refused");
    let came = came.into_inner();
    assert!(came > 1, "{came} others listened");
}
