// SPDX-License-Identifier: GPL-2.0

//! Other consumers: perf, an eBPF program, a uprobe.

use crate::events::{path, TRACING};
use crate::sys;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_SAMPLE_RAW: u64 = 1 << 10;
/// `PERF_ATTR_SIZE_VER0`
const ATTRIBUTES_SIZE: usize = 64;
const PERF_RECORD_LOST: u32 = 2;

/// `_IOW('$', 8, u32)`
const PERF_EVENT_IOC_SET_BPF: u64 = (1 << 30) | (4 << 16) | (0x24 << 8) | 8;

/// Offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const PAGE: usize = 4096;
const RING: usize = 64 * PAGE;

/// A perf event of this process on a trace event.
pub struct Perf {
    file: File,
    program: Option<File>,
    ring: Option<sys::Shared>,
    lost: AtomicU64,
}

impl Perf {
    fn new(name: &str) -> Perf {
        let id = fs::read_to_string(path(name, "id")).expect("the event's id");
        let id: u64 = id.trim().parse().expect("the event's id");
        let mut attributes = [0u8; ATTRIBUTES_SIZE];
        let mut put = |at: usize, bytes: &[u8]| {
            attributes[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(0, &PERF_TYPE_TRACEPOINT.to_ne_bytes());
        put(4, &(ATTRIBUTES_SIZE as u32).to_ne_bytes());
        put(8, &id.to_ne_bytes());
        // `sample_period`: a sample for each record.
        put(16, &1u64.to_ne_bytes());
        put(24, &PERF_SAMPLE_RAW.to_ne_bytes());
        Perf {
            file: sys::perf_event_open(&attributes).expect("perf_event_open"),
            program: None,
            ring: None,
            lost: AtomicU64::new(0),
        }
    }

    /// Opens a perf event with a ring for its samples.
    pub fn sample(name: &str) -> Perf {
        let mut perf = Perf::new(name);
        perf.ring = Some(sys::Shared::of_file(&perf.file, PAGE + RING, 0).expect("the ring"));
        perf
    }

    /// Opens a perf event with an eBPF program that does nothing.
    pub fn with_program(name: &str) -> Perf {
        // r0 = 0; exit
        const PROGRAM: [u64; 2] = [0xb7, 0x95];
        let mut perf = Perf::new(name);
        let program = sys::load_tracepoint_program(&PROGRAM).expect("load a program");
        let attached = sys::ioctl_descriptor(&perf.file, PERF_EVENT_IOC_SET_BPF, &program);
        assert_eq!(attached, 0, "attach a program");
        perf.program = Some(program);
        perf
    }

    /// Returns the runs of the program, which the kernel counts while `bpf_stats_enabled` is set.
    pub fn runs(&self) -> u64 {
        let program = self.program.as_ref().expect("a program");
        let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
        let text = fs::read_to_string(path).expect("what the kernel tells of a program");
        let runs = text.lines().find_map(|line| line.strip_prefix("run_cnt:"));
        let runs = runs.and_then(|runs| runs.trim().parse().ok());
        runs.unwrap_or_else(|| panic!("the kernel does not tell how often a program ran: {text}"))
    }

    /// Consumes all samples, and counts the lost ones.
    pub fn skip(&self) {
        let ring = self.ring.as_ref().expect("a ring");
        let head = ring.long(DATA_HEAD).load(Ordering::Acquire);
        let mut tail = ring.long(DATA_TAIL).load(Ordering::Relaxed);
        assert!(tail < head, "a record did not reach perf");
        while tail < head {
            let header = ring
                .long(PAGE + tail as usize % RING)
                .load(Ordering::Relaxed);
            if header as u32 == PERF_RECORD_LOST {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            // The record's size is in the upper 16 bits.
            tail += header >> 48;
        }
        ring.long(DATA_TAIL).store(head, Ordering::Release);
    }

    /// Closes it, after all samples have been consumed.
    pub fn end(self) {
        assert_eq!(self.lost.into_inner(), 0, "perf lost records");
    }
}

const ENABLE: &str = "/sys/kernel/tracing/events/bench/probe/enable";

/// A function that does nothing with its argument.
#[inline(never)]
extern "C" fn probed(value: u64) {
    std::hint::black_box(value);
}

/// A uprobe in this program, recorded by ftrace.
pub struct Probe(());

impl Probe {
    /// A uprobe with one argument, on the function that [`Probe::hit`] calls.
    pub fn on_function() -> Probe {
        let probe = Probe::new(probed as usize, "value=%di:u64");
        Probe::hit();
        probe.assert_recorded("probe: ");
        probe
    }

    /// A USDT probe. `fields` is the part of its definition with the arguments, `trace` the text of
    /// a record with these arguments.
    pub fn on_place(
        place: sys::ProbePlace,
        fields: &str,
        arguments: [u64; 3],
        trace: &str,
    ) -> Probe {
        let probe = Probe::new(place.address(), fields);
        // The first hit replaces the instruction.
        place.pass(arguments);
        probe.assert_recorded(trace);
        probe
    }

    fn new(address: usize, fields: &str) -> Probe {
        let offset = file_offset(address);
        let line = format!("p:bench/probe /init:{offset:#x} {fields}\n");
        fs::write(format!("{TRACING}/uprobe_events"), line).expect("uprobe_events");
        fs::write(ENABLE, "1").expect("enable the probe");
        Probe(())
    }

    fn assert_recorded(&self, text: &str) {
        let trace = fs::read_to_string(format!("{TRACING}/trace")).expect("the trace");
        assert!(trace.contains(text), "the probe is not hit: {trace}");
    }

    /// Calls the function.
    #[inline]
    pub fn hit() {
        probed(1);
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = fs::write(ENABLE, "0");
        let _ = fs::write(format!("{TRACING}/uprobe_events"), "-:bench/probe\n");
        let _ = fs::write(format!("{TRACING}/trace"), "");
    }
}

/// Whether the kernel has replaced the probe's instruction by a call, in this process.
pub fn has_calls_for_probes() -> bool {
    let maps = fs::read_to_string("/proc/self/maps").expect("/proc/self/maps");
    maps.contains("[uprobes-trampoline]")
}

/// Returns the offset in the program's file of a code address.
fn file_offset(address: usize) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").expect("/proc/self/maps");
    let found = maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        let offset = usize::from_str_radix(words.nth(1)?, 16).ok()?;
        (start..end)
            .contains(&address)
            .then(|| offset + address - start)
    });
    found.expect("the function's place in the file")
}
