// SPDX-License-Identifier: GPL-2.0

//! Records for perf beyond the trace core's buffer of 8 KB: other parts of a sample, groups of perf
//! events, and eBPF programs that read such a record. The size of a sample has 16 bits, for all
//! that it holds, and the kernel does not check for an overflow.

use crate::harness::{self, options, tests};
use crate::kit::abi::location;
use crate::kit::bpf::{self, Counters, Instruction, Program};
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::memory::READ_WRITE;
use crate::kit::os;
use crate::kit::payload::bytes;
use crate::kit::perf::*;
use crate::kit::profile;
use crate::kit::ring::Record;
use crate::kit::setting::Setting;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::wait::{self, SetOnDrop};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

tests!("large_samples":
    each_size_comes_byte_for_byte,
    what_else_is_in_a_sample_is_left_room_for,
    what_perf_cannot_take_is_a_miss_beside_ftrace.skip_if(tracefs::lacks_long_records),
    the_deepest_stack_fits,
    about_the_size_of_the_trace_cores_buffer,
    listeners_that_come_and_go_get_whole_samples,
    siblings_are_left_room_for,
    a_listener_without_records_limits_nothing,
    a_listener_on_another_processor_limits_all,
    longer_call_chains_are_left_room_for,
    no_room_at_all,
    groups_that_grow_and_shrink_get_whole_samples.limit(14_400),
    each_split_of_a_record,
    a_program_reads_its_end,
    a_program_reads_the_first_8_kilobytes_directly,
    a_program_runs_for_what_no_sample_has_room_for,
    any_number_of_listeners_are_given_one,
    the_limit_is_that_of_those_that_are_open,
    a_listener_to_user_space_limits_nothing,
);

/// Asserts that a payload of this length is recorded.
#[track_caller]
fn assert_taken(event: &Event, perf: &mut Perf, length: usize) {
    let payload = bytes(length);
    assert_eq!(event.write(&payload), Ok(4 + length), "{length}");
    assert_recorded(perf, &payload);
}

/// Asserts that a payload of `longest` bytes is recorded, and one byte more is refused.
#[track_caller]
fn assert_limit(event: &Event, perf: &mut Perf, longest: usize) {
    assert_taken(event, perf, longest);
    assert_eq!(event.write(&bytes(longest + 1)), Err(Errno::E2BIG));
    assert_eq!(perf.take().len(), 0, "{longest}");
}

/// A mask of twelve user or kernel registers that every architecture has.
const REGISTERS: u64 = 0xfff;

/// The record and a call chain of at most so many entries; 0 for the kernel's limit.
fn chains_of(max_stack: u16) -> Sample {
    Sample {
        max_stack,
        ..Sample::CHAINS
    }
}

fn each_size_comes_byte_for_byte() {
    let event = Event::new("st_large u32 a");
    let mut perf = Perf::listen(&event, Sample::PLAIN);
    for length in [9000, 30_000, 32_768, 65_000]
        .into_iter()
        .chain(MAX_PAYLOAD - 20..=MAX_PAYLOAD)
    {
        assert_taken(&event, &mut perf, length);
    }
    for more in [1, 8, 1000, 500_000] {
        let refused = event.write(&bytes(MAX_PAYLOAD + more));
        assert_eq!(refused, Err(Errno::E2BIG), "{more} more");
    }
    assert_eq!(perf.take().len(), 0);
    assert_eq!(profile::missed("st_large"), (0, 0));
}

/// Samples with various contents.
fn samples() -> Vec<Sample> {
    let usual = SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU | SAMPLE_PERIOD;
    let words = [
        SAMPLE_IDENTIFIER,
        SAMPLE_IP,
        SAMPLE_TIME,
        SAMPLE_ADDR,
        SAMPLE_STREAM_ID,
        SAMPLE_WEIGHT,
        SAMPLE_DATA_SRC,
        SAMPLE_TRANSACTION,
        SAMPLE_PHYS_ADDR,
        SAMPLE_DATA_PAGE_SIZE,
        SAMPLE_CODE_PAGE_SIZE,
    ];
    let kinds = [
        0,
        words.iter().fold(0, |kinds, kind| kinds | kind),
        usual,
        usual | SAMPLE_IDENTIFIER,
        SAMPLE_READ,
        usual | SAMPLE_ID,
    ];
    let mut samples: Vec<Sample> = words.into_iter().chain(kinds).map(Sample::of).collect();
    for max_stack in [0, 1, 40, DEFAULT_MAX_STACK] {
        samples.push(Sample {
            kind: usual | SAMPLE_CALLCHAIN,
            ..chains_of(max_stack)
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
    // The kernel does not cut the stack for contents that follow it.
    for (stack_user, behind) in [(8, 0), (8192, 0), (65_528, 0), (8192, SAMPLE_REGS_INTR)] {
        samples.push(Sample {
            kind: registers.kind | SAMPLE_STACK_USER | behind,
            stack_user,
            regs_intr: REGISTERS,
            ..registers
        });
    }
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
        let sample = chains_of(max_stack);
        let mut perf = Perf::listen(&event, sample);
        let payload = bytes(sample.max_payload());
        assert_eq!(write_deeply(&event, &payload), 4 + payload.len() as isize);
        let samples = perf.take_samples();
        assert_eq!(samples.len(), 1);
        let most = match max_stack {
            0 => DEFAULT_MAX_STACK,
            most => most,
        };
        let entries = u64::from_ne_bytes(samples[0][8..16].try_into().unwrap());
        if cfg!(target_arch = "x86_64") {
            assert!(entries >= u64::from(most), "{entries} entries");
        }
        assert!(samples[0].len() <= 65_528 && entries <= u64::from(most) + 8);
        assert_taken(&event, &mut perf, payload.len());
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

/// Interrupts add perf events to a processor's list. No sample overflows its size, whatever the
/// list at the check. Records are about as long as the lasting listener can take.
fn listeners_that_come_and_go_get_whole_samples() {
    let event = Event::new("st_large u32 a");
    let (first, last) = os::first_and_last_cpu();
    os::run_on(first);
    let chains = Sample::CHAINS;
    let longest = chains.max_payload();
    let listen = |sample| Perf::sample_with(event.id(), ALL_PROCESSES, first as i32, PAGES, sample);
    let mut perf = listen(chains);
    event.wait_set();
    let (mut recorded, mut refused) = (0, 0);
    let mut all = samples().into_iter().cycle();
    let come_and_go = || {
        os::run_on(last);
        // Panics unless its samples are whole, too.
        let _: Vec<Record> = listen(all.next().unwrap()).take();
    };
    let came = wait::beside(come_and_go, || {
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
    assert!(came > 1, "{came} others listened");
}

/// A perf event on the first processor, with all counts of its group in each sample.
fn leader(event: &Event) -> (Perf, Sample, i32) {
    let cpu = os::cpus()[0];
    os::run_on(cpu);
    let sample = Sample {
        kind: SAMPLE_READ,
        reads_group: true,
        ..Sample::PLAIN
    };
    let perf = Perf::sample_with(event.id(), ALL_PROCESSES, cpu as i32, PAGES, sample);
    event.wait_set();
    (perf, sample, cpu as i32)
}

fn siblings_are_left_room_for() {
    let event = Event::new("st_ls_siblings u32 a");
    let (mut perf, sample, cpu) = leader(&event);
    let longest = sample.max_payload();
    // Room for the most siblings is left from the beginning.
    assert_limit(&event, &mut perf, longest);
    let sampled = Perf::sibling_with(perf.file(), event.id(), ALL_PROCESSES, cpu, sample);
    let mut sampled = sampled
        .expect("perf_event_open in a group")
        .with_ring(PAGES, READ_WRITE);
    let mut siblings = Vec::new();
    for count in [0, 40, 200] {
        while siblings.len() < count {
            let sibling = Perf::sibling_of(perf.file(), ALL_PROCESSES, cpu);
            siblings.push(sibling.expect("perf_event_open in a group"));
        }
        assert_limit(&event, &mut perf, longest);
        assert_recorded(&mut sampled, &bytes(longest));
    }
}

fn a_listener_without_records_limits_nothing() {
    let event = Event::new("st_ls_without u32 a");
    let sample = Sample {
        kind: SAMPLE_CALLCHAIN | SAMPLE_REGS_INTR | SAMPLE_TIME,
        regs_intr: 0xfff,
        ..Sample::EMPTY
    };
    let without = Perf::open_with(event.id(), SELF, ANY_CPU, sample);
    let without = without.expect("perf_event_open");
    let mut perf = Perf::listen(&event, Sample::PLAIN);
    assert_limit(&event, &mut perf, MAX_PAYLOAD);
    assert_eq!(without.count(), 1);
}

fn a_listener_on_another_processor_limits_all() {
    let (first, last) = os::first_and_last_cpu();
    let event = Event::new("st_ls_other u32 a");
    let id = event.id();
    let mut plain = Perf::sample(id, ALL_PROCESSES, first as i32, PAGES);
    let mut chains = Perf::sample_with(id, ALL_PROCESSES, last as i32, PAGES, Sample::CHAINS);
    event.wait_set();
    let longest = Sample::CHAINS.max_payload();
    os::run_on(first);
    assert_limit(&event, &mut plain, longest);
    os::run_on(last);
    assert_limit(&event, &mut chains, longest);
    assert_eq!((plain.take().len(), chains.take().len()), (0, 0));
    // No perf event is open on this processor: none misses a record that one elsewhere could take.
    drop(chains);
    assert_eq!(event.write(&bytes(MAX_PAYLOAD)), Ok(4 + MAX_PAYLOAD));
    assert_eq!(event.write(&bytes(MAX_PAYLOAD + 1)), Err(Errno::E2BIG));
    let tracer = TraceInstance::instance("st_ls_other");
    if tracefs::sub_buffers_set_the_limit() {
        tracer.control("buffer_subbuf_size_kb", "128");
        tracer.enable("st_ls_other");
        for length in [MAX_PAYLOAD, MAX_PAYLOAD + 1] {
            assert_eq!(event.write(&bytes(length)), Ok(4 + length));
        }
    }
    assert_eq!(profile::missed("st_ls_other"), (0, 0));
    assert_eq!(plain.take().len(), 0);
}

/// System-wide limits of a call chain: its entries, and the marks between them.
const MAX_STACK: &str = "/proc/sys/kernel/perf_event_max_stack";
const MAX_MARKS: &str = "/proc/sys/kernel/perf_event_max_contexts_per_stack";

// The administrator can allow longer call chains.
fn longer_call_chains_are_left_room_for() {
    const LONG: u16 = 4000;
    let event = Event::new("st_ls_longer u32 a");
    let _stack = Setting::new(MAX_STACK, &LONG.to_string());
    let _marks = Setting::new(MAX_MARKS, "1000");
    // With 0 a perf event gets the kernel's limit at that time.
    for max_stack in [LONG, 0] {
        let mut perf = Perf::listen(&event, chains_of(max_stack));
        assert_limit(&event, &mut perf, chains_of(LONG).max_payload());
    }
}

// A sample with the whole stack and registers may be too large without any record. So no record is
// taken that the trace core's buffer does not hold.
fn no_room_at_all() {
    let event = Event::new("st_ls_none u32 a");
    let sample = Sample {
        kind: SAMPLE_REGS_USER | SAMPLE_STACK_USER | SAMPLE_REGS_INTR,
        regs_user: 0xfff,
        regs_intr: 0xfff,
        stack_user: 65_528,
        ..Sample::PLAIN
    };
    let mut perf = Perf::listen(&event, sample);
    for length in [8185, 9000, 30_000, MAX_PAYLOAD, MAX_PAYLOAD + 1] {
        assert_eq!(event.write(&bytes(length)), Err(Errno::E2BIG), "{length}");
    }
    assert_eq!(perf.take().len(), 0);
    assert_eq!(profile::missed("st_ls_none"), (0, 0));
}

// Siblings are added and removed while records are written that just fit beside the most siblings.
fn groups_that_grow_and_shrink_get_whole_samples() {
    const SIBLINGS: u16 = 60;
    let event = Event::new("st_ls_storm u32 a");
    let (mut perf, sample, cpu) = leader(&event);
    let mut plain = Perf::sample(event.id(), ALL_PROCESSES, cpu, PAGES);
    let longest = sample.max_payload();
    let is_over = AtomicBool::new(false);
    // While a perf event of the siblings' kind exists, opening or closing others patches no code.
    let _same = Perf::of_nothing();
    let written = AtomicUsize::new(0);
    let mut sizes = BTreeSet::new();
    thread::scope(|scope| {
        let _over = SetOnDrop(&is_over);
        let group = perf.file().try_clone().expect("duplicate a file");
        let (is_over, written) = (&is_over, &written);
        scope.spawn(move || {
            let cpus = os::cpus();
            os::run_on(cpus[cpus.len() - 1]);
            while !is_over.load(Ordering::Relaxed) {
                // One sibling for each record, as each stops the processor that writes.
                let sibling = |_| {
                    let before = written.load(Ordering::Relaxed);
                    while written.load(Ordering::Relaxed) == before
                        && !is_over.load(Ordering::Relaxed)
                    {
                        thread::yield_now();
                    }
                    Perf::sibling_of(&group, ALL_PROCESSES, cpu)
                };
                let siblings: Vec<_> = (0..SIBLINGS).map(sibling).collect();
                assert!(siblings.iter().all(Result::is_ok));
            }
        });
        for round in 0..harness::times(2000, 1_000_000) {
            if round >= 60 && sizes.len() > 3 && !options().long {
                break;
            }
            // In a long run few records are so long: one takes the emulator as long as a hundred
            // others.
            let payload = match round % 256 {
                1.. if options().long => bytes(100 + round % 8),
                _ => bytes(longest - (round + round / 256) % 8),
            };
            assert_eq!(event.write(&payload), Ok(4 + payload.len()));
            written.store(round, Ordering::Relaxed);
            let samples = perf.take_samples();
            assert_eq!(samples.len(), 1);
            let sample = &samples[0];
            let word = |at: usize| u64::from_ne_bytes(sample[at..at + 8].try_into().unwrap());
            let counts = word(8) as usize;
            assert!(counts <= 1 + usize::from(SIBLINGS), "{counts} counts");
            sizes.insert(counts);
            let raw = 16 + 8 * counts;
            assert_eq!(sample.len(), (raw + 12 + payload.len()).next_multiple_of(8));
            let at = raw + 12;
            assert!(sample[at..at + payload.len()] == payload, "{round}");
            assert_recorded(&mut plain, &payload);
        }
    });
    assert!(sizes.len() > 1, "the group was the same all the time");
}

// A record too long for the stack may come in any number of parts.
fn each_split_of_a_record() {
    let event = Event::new("st_ls_split u32 a");
    let mut perf = Perf::listen(&event, Sample::PLAIN);
    for length in [8185, 30_000, MAX_PAYLOAD] {
        let payload = bytes(length);
        let record = [&event.index.to_ne_bytes()[..], &payload].concat();
        for cuts in [
            &[4, 5][..],
            &[2, 4000, 8188],
            &[4, 4, 8184, length],
            &[length + 3, length + 4],
            &[1, 2, 3, 4, 20_000.min(length)],
        ] {
            let starts = [0].into_iter().chain(cuts.iter().copied());
            let ends = cuts.iter().copied().chain([record.len()]);
            let parts: Vec<_> = starts
                .zip(ends)
                .map(|(from, to)| &record[from..to])
                .collect();
            assert_eq!(event.data.writev(&parts), Ok(record.len()), "{cuts:?}");
            assert_recorded(&mut perf, &payload);
        }
    }
}

/// Lengths of payloads around the size of the trace core's buffer, and the longest.
const LENGTHS: [usize; 9] = [
    8176,
    8184,
    8185,
    8192,
    8193,
    9000,
    30_000,
    65_000,
    MAX_PAYLOAD,
];

/// Instructions that add register 8 to a counter.
fn add(counters: &Counters, counter: i32) -> Vec<Instruction> {
    [vec![bpf::set(7, counter)], counters.add()].concat()
}

/// Asserts by how much a counter has grown.
#[track_caller]
fn assert_more(counters: &Counters, counter: u32, before: u64, more: u64) {
    assert_eq!(counters.get(counter).wrapping_sub(before), more);
}

fn a_program_reads_its_end() {
    let event = Event::new("st_ls_end __rel_loc u8[] a; u32 b");
    let counters = Counters::new(2);
    // The size of the data, and its last eight bytes, which end the record. The data begins 16
    // bytes into the record.
    let program = Program::new(&[
        &[
            bpf::load_u32(8, 6, 8),
            // r8 >>= 16
            (0x77, 8, 0, 0, 16),
        ],
        &add(&counters, 0),
        &[
            bpf::copy(3, 6),
            bpf::add_register(3, 8),
            bpf::add(3, 16 - 8),
            bpf::copy(1, bpf::FRAME),
            bpf::add(1, -16),
            bpf::set(2, 8),
            bpf::call(bpf::PROBE_READ_KERNEL),
            bpf::load_u64(8, bpf::FRAME, -16),
        ],
        &add(&counters, 1),
        &bpf::give(1),
    ]);
    let perf = Perf::open_with(event.id(), SELF, ANY_CPU, Sample::EMPTY).expect("perf_event_open");
    perf.attach(&program).expect("attach a program");
    event.wait_set();
    let located = |length: usize| {
        let mut payload = bytes(length);
        payload[..4].copy_from_slice(&location(4, (length - 8) as u32));
        payload
    };
    for length in LENGTHS {
        let (payload, before) = (located(length), counters.all(2));
        assert_eq!(event.write(&payload), Ok(4 + length));
        assert_more(&counters, 0, before[0], length as u64 - 8);
        let last = payload[length - 8..].try_into().unwrap();
        assert_more(&counters, 1, before[1], u64::from_ne_bytes(last));
    }
    // What no sample could hold no program sees either.
    let before = counters.all(2);
    assert_eq!(event.write(&located(MAX_PAYLOAD + 1)), Err(Errno::E2BIG));
    assert_eq!(counters.all(2), before);
}

/// A program's context has the address of registers in place of the common fields; a sample has
/// not.
fn a_program_reads_the_first_8_kilobytes_directly() {
    // Fields of more than 8 KB.
    let event = Event::new("st_ls_direct struct a b 30000");
    let counters = Counters::new(2);
    let program = Program::new(&[
        &[bpf::load_u64(8, 6, 8)],
        &add(&counters, 0),
        &[bpf::load_u64(8, 6, 8184)],
        &add(&counters, 1),
        &bpf::give(1),
    ]);
    let mut perf = Perf::listen(&event, Sample::PLAIN);
    let mut chains = Perf::listen(&event, Sample::CHAINS);
    perf.attach(&program).expect("attach a program");
    for length in [30_000, 30_001, Sample::CHAINS.max_payload()] {
        let payload = bytes(length);
        let before = counters.all(2);
        assert_eq!(event.write(&payload), Ok(4 + length));
        let word = |at: usize| u64::from_ne_bytes(payload[at..at + 8].try_into().unwrap());
        assert_more(&counters, 0, before[0], word(0));
        assert_more(&counters, 1, before[1], word(8176));
        let records = perf.take();
        assert_eq!(records.len(), 1);
        assert_eq!(u64::from(records[0].kind), event.id());
        assert_eq!(records[0].pid, std::process::id() as i32);
        assert!(records[0].payload(length) == payload, "{length}");
        assert_recorded(&mut chains, &payload);
    }
}

// The program runs for a record too large for a sample; perf has missed the record.
fn a_program_runs_for_what_no_sample_has_room_for() {
    let event = Event::new("st_ls_runs u32 a");
    let counters = Counters::new(1);
    let program = Program::counting(&counters, 1);
    let counter =
        Perf::open_with(event.id(), SELF, ANY_CPU, Sample::EMPTY).expect("perf_event_open");
    counter.attach(&program).expect("attach a program");
    event.wait_set();
    let longest = Sample::CHAINS.max_payload();
    let mut perf = Perf::sample_with(event.id(), SELF, ANY_CPU, PAGES, Sample::CHAINS);
    let mut plain = Perf::sample(event.id(), SELF, ANY_CPU, PAGES);
    for (length, ran, missed) in [(longest, 1, 0), (longest + 1, 2, 1), (MAX_PAYLOAD, 3, 2)] {
        assert_eq!(event.write(&bytes(length)), Ok(4 + length));
        assert_eq!(counters.get(0), ran);
        assert_eq!(profile::missed("st_ls_runs"), (0, missed));
    }
    assert_recorded(&mut perf, &bytes(longest));
    assert_recorded(&mut plain, &bytes(longest));
    assert_eq!(event.write(&bytes(MAX_PAYLOAD + 1)), Err(Errno::E2BIG));
    drop(perf);
    assert_taken(&event, &mut plain, longest + 1);
    assert_eq!(counters.get(0), 4);
    assert_eq!(profile::missed("st_ls_runs"), (0, 2));
}

fn any_number_of_listeners_are_given_one() {
    let event = Event::new("st_ls_many u32 a");
    let mut perfs: Vec<_> = (0..70)
        .map(|_| Perf::sample(event.id(), SELF, ANY_CPU, 32))
        .collect();
    event.wait_set();
    let payload = bytes(MAX_PAYLOAD);
    assert_eq!(event.write(&payload), Ok(4 + MAX_PAYLOAD));
    for perf in &mut perfs {
        assert_recorded(perf, &payload);
    }
}

fn the_limit_is_that_of_those_that_are_open() {
    let event = Event::new("st_ls_open u32 a");
    let mut plain = Perf::listen(&event, Sample::PLAIN);
    let open = |max_stack| {
        let sample = chains_of(max_stack);
        let perf = Perf::sample_with(event.id(), SELF, ANY_CPU, PAGES, sample);
        (perf, sample.max_payload())
    };
    let long = open(100);
    assert_limit(&event, &mut plain, long.1);
    // Neither the first nor the last that comes decides.
    let (twin, short) = (open(100), open(10));
    assert_limit(&event, &mut plain, long.1);
    drop(long.0);
    // Another perf event with the same limit is open.
    assert_limit(&event, &mut plain, twin.1);
    drop(twin.0);
    assert_limit(&event, &mut plain, short.1);
    drop(short.0);
    assert_limit(&event, &mut plain, MAX_PAYLOAD);
}

fn a_listener_to_user_space_limits_nothing() {
    let event = Event::new("st_ls_user u32 a");
    let sample = Sample {
        flags: EXCLUDE_KERNEL,
        ..Sample::CHAINS
    };
    let mut deaf = Perf::sample_with(event.id(), SELF, ANY_CPU, PAGES, sample);
    let mut perf = Perf::listen(&event, Sample::PLAIN);
    assert_limit(&event, &mut perf, MAX_PAYLOAD);
    assert_eq!((deaf.take().len(), deaf.count()), (0, 0));
}
