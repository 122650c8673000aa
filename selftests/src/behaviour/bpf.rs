// SPDX-License-Identifier: GPL-2.0

//! eBPF programs on perf events: when they run, their context, their return value, and their end.

use crate::harness::tests;
use crate::kit::abi::location;
use crate::kit::bpf::{self, Counters, Link, Program};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::os;
use crate::kit::perf::{Perf, ALL_PROCESSES, ANY_CPU, SELF};
use crate::kit::traced::Traced;

tests!("bpf":
    it_runs_on_every_cpu_though_attached_on_one,
    its_context_is_the_record,
    it_follows_a_location,
    it_decides_record_by_record,
    ftrace_gets_what_it_drops,
    a_link_runs_it_with_its_cookie,
    a_link_and_a_descriptor_tell_the_events_name,
    reading_past_the_fields_is_refused,
);

/// A perf event on one CPU, to attach programs to.
fn on_first_cpu(event: &Event) -> Perf {
    Perf::open(event.id(), ALL_PROCESSES, os::cpus()[0] as i32).expect("perf_event_open")
}

/// An event, and a program attached to it by the first CPU's perf event.
fn attached(text: &str, program: &Program) -> (Event, Perf) {
    let event = Event::new(text);
    let perf = on_first_cpu(&event);
    perf.attach(program).unwrap();
    event.wait_set();
    (event, perf)
}

fn it_runs_on_every_cpu_though_attached_on_one() {
    let cpus = os::cpus();
    let count = *cpus.last().unwrap() as u32 + 1;
    let counters = Counters::new(count);
    let program = Program::new(&[
        &[
            bpf::call(bpf::GET_SMP_PROCESSOR_ID),
            bpf::copy(7, 0),
            bpf::set(8, 1),
        ],
        &counters.add(),
        &bpf::give(1),
    ]);
    let (event, perf) = attached("st_bpf_cpus u32 a", &program);
    let mut want = vec![0; count as usize];
    for (n, &cpu) in cpus.iter().enumerate() {
        os::run_on(cpu);
        for _ in 0..10 + n {
            assert_eq!(event.write(&[0; 4]), Ok(8));
        }
        want[cpu] = 10 + n as u64;
    }
    assert_eq!(counters.all(count), want);
    // The perf event itself counts records on its own CPU only.
    assert_eq!(perf.count(), want[cpus[0]]);
}

fn its_context_is_the_record() {
    let counters = Counters::new(4);
    let add = |counter, load: &[bpf::Instruction]| {
        [&[bpf::set(7, counter)], load, &counters.add()].concat()
    };
    let program = Program::new(&[
        &add(0, &[bpf::load_u32(8, 6, 8)]),
        // Fields have no padding, and context reads must be aligned: `b` is read in two halves.
        &add(1, &[bpf::load_u32(8, 6, 12)]),
        &add(2, &[bpf::load_u32(8, 6, 16)]),
        &add(3, &[bpf::load_u32(8, 6, 28)]),
        &bpf::give(1),
    ]);
    let text = "st_bpf_context u32 a; u64 b; char[8] c; s32 d";
    let (event, _perf) = attached(text, &program);
    let b = (5u64 << 32) | 3;
    for a in [7u32, 100_000] {
        let payload = [
            &a.to_ne_bytes()[..],
            &b.to_ne_bytes(),
            b"12345678",
            &9i32.to_ne_bytes(),
        ];
        assert_eq!(event.write(&payload.concat()), Ok(28));
    }
    assert_eq!(counters.all(4), [100_007, 6, 10, 18]);
}

fn it_follows_a_location() {
    for (text, offset) in [
        ("st_bpf_data_loc __data_loc char[] b; u32 a", 16),
        ("st_bpf_rel_loc __rel_loc char[] b; u32 a", 4),
    ] {
        let counters = Counters::new(1);
        let from = if offset == 4 { 12 } else { 0 };
        let program = Program::new(&[
            &[
                bpf::load_u32(2, 6, 8),
                bpf::and(2, 0xffff),
                bpf::add(2, from),
                // Eight bytes of the context, from there, are copied to the stack.
                bpf::copy(3, 6),
                bpf::add_register(3, 2),
                bpf::copy(1, bpf::FRAME),
                bpf::add(1, -16),
                bpf::set(2, 8),
                bpf::call(bpf::PROBE_READ_KERNEL),
                bpf::load_u64(8, bpf::FRAME, -16),
                bpf::set(7, 0),
            ],
            &counters.add(),
            &bpf::give(1),
        ]);
        let (event, perf) = attached(text, &program);
        let payload = [&location(offset, 8)[..], &[0; 4], b"located\0"].concat();
        assert_eq!(event.write(&payload), Ok(20));
        assert_eq!(counters.get(0), u64::from_ne_bytes(*b"located\0"), "{text}");
        drop(perf);
        event.wait_clear();
    }
}

/// A program that returns whether the first field is above 2.
const ABOVE_2: [bpf::Instruction; 5] = [
    bpf::load_u32(1, 6, 8),
    bpf::set(0, 1),
    bpf::skip_if_greater(1, 2, 1),
    bpf::set(0, 0),
    bpf::EXIT,
];

fn it_decides_record_by_record() {
    let event = Event::new("st_bpf_decides u32 a");
    let mut perf = Perf::sample(event.id(), SELF, ANY_CPU, 4);
    event.wait_set();
    perf.attach(&Program::new(&[&ABOVE_2])).unwrap();
    for a in [1u32, 3, 2, 4, 0, u32::MAX] {
        assert_eq!(event.write(&a.to_ne_bytes()), Ok(8));
    }
    let want: Vec<_> = [3, 4, u32::MAX].map(u32::to_ne_bytes).to_vec();
    assert_eq!(perf.take_payloads(4), want);
    assert_eq!(perf.count(), 3);
}

fn ftrace_gets_what_it_drops() {
    let traced = Traced::new("st_bpf_ftrace u32 a");
    let counters = Counters::new(1);
    let perf = on_first_cpu(&traced.event);
    perf.attach(&Program::counting(&counters, 0)).unwrap();
    for a in 0..5u8 {
        assert_eq!(traced.event.write(&[a; 4]), Ok(8));
    }
    assert_eq!(counters.get(0), 5);
    assert_eq!(traced.recorded(4), [[0; 4], [1; 4], [2; 4], [3; 4], [4; 4]]);
    drop(perf);
    assert!(traced.event.bit(), "ftrace still listens");
    traced.only_this_is_recorded(&[5; 4]);
}

fn a_link_runs_it_with_its_cookie() {
    let event = Event::new("st_bpf_link u32 a");
    let counters = Counters::new(1);
    let program = Program::new(&[
        &[
            bpf::copy(1, 6),
            bpf::call(bpf::GET_ATTACH_COOKIE),
            bpf::copy(8, 0),
            bpf::set(7, 0),
        ],
        &counters.add(),
        &bpf::give(1),
    ]);
    let perf = on_first_cpu(&event);
    let link = Link::new(&program, perf.file(), 1_000_003).unwrap();
    // The link holds a reference to both.
    drop((perf, program));
    event.wait_set();
    let cpus = os::cpus();
    for &cpu in &cpus {
        os::run_on(cpu);
        assert_eq!(event.write(&[0; 4]), Ok(8));
    }
    assert_eq!(counters.get(0), cpus.len() as u64 * 1_000_003);
    drop(link);
    event.wait_clear();
}

fn a_link_and_a_descriptor_tell_the_events_name() {
    let program = Program::new(&[&bpf::give(1)]);
    let (event, perf) = attached("st_bpf_name u32 a", &program);
    assert_eq!(bpf::tracepoint_of(perf.file()), "st_bpf_name");
    drop(perf);
    let link = Link::new(&program, on_first_cpu(&event).file(), 0).unwrap();
    assert_eq!(link.tracepoint(), "st_bpf_name");
}

fn reading_past_the_fields_is_refused() {
    for (text, offset, result) in [
        ("st_bpf_past u32 a; __rel_loc char[] b; u32 c", 16, Ok(())),
        (
            "st_bpf_past u32 a; __rel_loc char[] b; u32 c",
            20,
            Err(Errno::EACCES),
        ),
        ("st_bpf_empty", 8, Err(Errno::EACCES)),
    ] {
        let program = Program::new(&[&[bpf::load_u32(0, 6, offset), bpf::EXIT]]);
        let attached = on_first_cpu(&Event::new(text)).attach(&program);
        assert_eq!(attached, result, "{offset} of {text}");
    }
    let counters = Counters::new(1);
    let (event, _perf) = attached("st_bpf_empty", &Program::counting(&counters, 1));
    assert_eq!(event.write(&[]), Ok(4));
    assert_eq!(counters.get(0), 1);
}
