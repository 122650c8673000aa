// SPDX-License-Identifier: GPL-2.0

//! perf attached: counters and samples.

use crate::harness::tests;
use crate::kit::abi::location;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::os;
use crate::kit::perf::{Perf, ALL_PROCESSES, ANY_CPU, SELF};
use crate::kit::ring::Record;
use crate::kit::tracefs::TraceInstance;

tests!("perf":
    a_sample_is_the_record_byte_for_byte,
    counts_equal_writes,
    samples_of_every_cpu,
    perf_and_ftrace_get_the_same_record,
    a_task_that_is_not_watched_writes_in_vain,
);

fn a_sample_is_the_record_byte_for_byte() {
    let event = Event::new("st_perf_bytes u32 a; __rel_loc char[] b");
    let id = event.id();
    let mut perf = Perf::sample(id, SELF, ANY_CPU, 8);
    event.wait_set();
    for length in 1..60u32 {
        let mut text = vec![b'x'; length as usize];
        *text.last_mut().unwrap() = 0;
        let payload = [&length.to_ne_bytes()[..], &location(0, length), &text].concat();
        assert_eq!(event.write(&payload), Ok(4 + payload.len()));
        let records = perf.take();
        assert_eq!(records.len(), 1, "length {length}");
        assert_eq!(records[0].payload(payload.len()), payload);
        assert_eq!(u64::from(records[0].kind), id);
        assert_eq!(records[0].pid, std::process::id() as i32);
    }
    assert_eq!(perf.lost, 0);
}

fn counts_equal_writes() {
    let event = Event::new("st_perf_count u32 a");
    let perf = Perf::open(event.id(), SELF, ANY_CPU).unwrap();
    event.wait_set();
    for i in 1..=300u32 {
        assert_eq!(event.write(&i.to_ne_bytes()), Ok(8));
    }
    assert_eq!(perf.count(), 300);
    drop(perf);
    event.wait_clear();
    assert_eq!(event.write(&[0; 4]), Err(Errno::EBADF));
}

fn samples_of_every_cpu() {
    let event = Event::new("st_perf_cpus u32 cpu; u32 n");
    let mut perfs = Perf::sample_everywhere(event.id(), 8);
    event.wait_set();
    let cpus = os::cpus();
    for &cpu in &cpus {
        os::run_on(cpu);
        for n in 0..10u32 {
            let payload = [cpu as u32, n].map(u32::to_ne_bytes).concat();
            assert_eq!(event.write(&payload), Ok(12));
        }
    }
    for (perf, cpu) in perfs.iter_mut().zip(cpus) {
        let want: Vec<_> = (0..10u32)
            .map(|n| [cpu as u32, n].map(u32::to_ne_bytes).concat())
            .collect();
        assert_eq!(perf.take_payloads(8), want, "CPU {cpu}");
        assert_eq!(perf.count(), 10, "CPU {cpu}");
    }
    drop(perfs);
    event.wait_clear();
}

fn perf_and_ftrace_get_the_same_record() {
    let event = Event::new("st_perf_same u32 a; u8 b");
    let tracer = TraceInstance::instance("st_perf_same");
    tracer.enable(&event.name);
    let mut perf = Perf::sample(event.id(), SELF, ANY_CPU, 4);
    event.write(&[1, 2, 3, 4, 5, 6, 7]).unwrap();
    let cut = |records: Vec<Record>| -> Vec<_> {
        records
            .into_iter()
            .map(|record| (record.kind, record.pid, record.payload(7)))
            .collect()
    };
    let seen = cut(perf.take());
    assert_eq!(seen.len(), 1);
    assert_eq!(seen, cut(tracer.take_records(event.id())));
    tracer.disable(&event.name);
}

fn a_task_that_is_not_watched_writes_in_vain() {
    // perf watches a CPU on which the writer does not run: the bit is set and the write succeeds,
    // but no consumer takes the record.
    let cpus = os::cpus();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let event = Event::new("st_perf_vain u32 a");
    let mut perf = Perf::sample(event.id(), ALL_PROCESSES, first as i32, 4);
    event.wait_set();
    os::run_on(last);
    assert_eq!(event.write(&[1; 4]), Ok(8));
    if first != last {
        assert!(perf.take().is_empty());
    }
    os::run_on(first);
    assert_eq!(event.write(&[2; 4]), Ok(8));
    assert_eq!(perf.take_payloads(4).last().unwrap(), &[2; 4]);
}
