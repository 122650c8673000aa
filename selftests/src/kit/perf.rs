// SPDX-License-Identifier: GPL-2.0

//! perf attached to an event: counting, and sampling into a ring.

use crate::kit::bpf::Program;
use crate::kit::cgroup::Cgroup;
use crate::kit::errno::Result;
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, PAGE, READ, READ_WRITE};
use crate::kit::os;
use crate::kit::ring::Record;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

pub const PERF_TYPE_TRACEPOINT: u32 = 2;
/// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_DUMMY`
const DUMMY: (u32, u64) = (1, 9);
/// Bits of `sample_type`.
pub const SAMPLE_IP: u64 = 1 << 0;
pub const SAMPLE_TID: u64 = 1 << 1;
pub const SAMPLE_TIME: u64 = 1 << 2;
pub const SAMPLE_ADDR: u64 = 1 << 3;
pub const SAMPLE_READ: u64 = 1 << 4;
pub const SAMPLE_CALLCHAIN: u64 = 1 << 5;
pub const SAMPLE_ID: u64 = 1 << 6;
pub const SAMPLE_CPU: u64 = 1 << 7;
pub const SAMPLE_PERIOD: u64 = 1 << 8;
pub const SAMPLE_STREAM_ID: u64 = 1 << 9;
pub const SAMPLE_RAW: u64 = 1 << 10;
pub const SAMPLE_REGS_USER: u64 = 1 << 12;
pub const SAMPLE_STACK_USER: u64 = 1 << 13;
pub const SAMPLE_WEIGHT: u64 = 1 << 14;
pub const SAMPLE_DATA_SRC: u64 = 1 << 15;
pub const SAMPLE_IDENTIFIER: u64 = 1 << 16;
pub const SAMPLE_TRANSACTION: u64 = 1 << 17;
pub const SAMPLE_REGS_INTR: u64 = 1 << 18;
pub const SAMPLE_PHYS_ADDR: u64 = 1 << 19;
pub const SAMPLE_DATA_PAGE_SIZE: u64 = 1 << 22;
pub const SAMPLE_CODE_PAGE_SIZE: u64 = 1 << 23;
/// Those of one word each, in front of the others.
const SAMPLE_WORDS: u64 = SAMPLE_IDENTIFIER
    | SAMPLE_IP
    | SAMPLE_TID
    | SAMPLE_TIME
    | SAMPLE_ADDR
    | SAMPLE_ID
    | SAMPLE_STREAM_ID
    | SAMPLE_CPU
    | SAMPLE_PERIOD;
/// Those of one word each, behind the others.
const SAMPLE_WORDS_BEHIND: u64 = SAMPLE_WEIGHT
    | SAMPLE_DATA_SRC
    | SAMPLE_TRANSACTION
    | SAMPLE_PHYS_ADDR
    | SAMPLE_DATA_PAGE_SIZE
    | SAMPLE_CODE_PAGE_SIZE;
/// Flags of the attributes.
pub const INHERIT: u64 = 1 << 1;
pub const EXCLUDE_KERNEL: u64 = 1 << 5;
pub const WRITE_BACKWARD: u64 = 1 << 27;
pub const REMOVE_ON_EXEC: u64 = 1 << 36;
pub const SIGTRAP: u64 = 1 << 37;
/// `read_format` of [`SAMPLE_READ`]: the number of events in the group, and all their counts.
const PERF_FORMAT_GROUP: u64 = 1 << 3;
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_THROTTLE: u32 = 5;
const PERF_RECORD_UNTHROTTLE: u32 = 6;
const PERF_RECORD_SAMPLE: u32 = 9;

/// `_IOW('$', 8, u32)`
const PERF_EVENT_IOC_SET_BPF: u64 = (1 << 30) | (4 << 16) | (0x24 << 8) | 8;

/// The size of the attributes up to `sig_data`.
const ATTRIBUTES_SIZE: usize = 128;

/// The content of the samples of an event. 0 is none, or the kernel's default.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Bits `SAMPLE_...` but [`SAMPLE_RAW`].
    pub kind: u64,
    /// The record, [`SAMPLE_RAW`].
    pub has_record: bool,
    pub max_stack: u16,
    pub regs_user: u64,
    pub regs_intr: u64,
    pub stack_user: u32,
    /// For [`SAMPLE_READ`]: the counts of the whole group.
    pub reads_group: bool,
    /// Bits such as [`INHERIT`], and [`EXCLUDE_KERNEL`], which excludes records.
    pub flags: u64,
    /// `sig_data`, for [`SIGTRAP`].
    pub signal_data: u64,
}

/// The maximum length of a call chain if [`Sample::max_stack`] is 0.
pub const DEFAULT_MAX_STACK: u16 = 127;

/// The largest payload of a sample with nothing else. A larger one is too large even without perf
/// events.
pub const MAX_PAYLOAD: usize = 65_528 - 8 - 12;

impl Sample {
    pub const PLAIN: Sample = Sample {
        kind: 0,
        has_record: true,
        max_stack: 0,
        regs_user: 0,
        regs_intr: 0,
        stack_user: 0,
        reads_group: false,
        flags: 0,
        signal_data: 0,
    };

    pub const EMPTY: Sample = Sample {
        has_record: false,
        ..Sample::PLAIN
    };

    /// The record and a call chain of the default length.
    pub const CHAINS: Sample = Sample::of(SAMPLE_CALLCHAIN);

    pub const fn of(kind: u64) -> Sample {
        Sample {
            kind,
            ..Sample::PLAIN
        }
    }

    /// `struct perf_event_attr`.
    fn attributes(&self, (kind, id): (u32, u64)) -> [u8; ATTRIBUTES_SIZE] {
        let record = if self.has_record { SAMPLE_RAW } else { 0 };
        let format = if self.reads_group {
            PERF_FORMAT_GROUP
        } else {
            0
        };
        let mut attributes = [0u8; ATTRIBUTES_SIZE];
        let mut put = |at: usize, bytes: &[u8]| {
            attributes[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(0, &kind.to_ne_bytes());
        put(4, &(ATTRIBUTES_SIZE as u32).to_ne_bytes());
        put(8, &id.to_ne_bytes());
        // A sample for each record.
        put(16, &1u64.to_ne_bytes());
        put(24, &(self.kind | record).to_ne_bytes());
        put(32, &format.to_ne_bytes());
        put(40, &self.flags.to_ne_bytes());
        put(80, &self.regs_user.to_ne_bytes());
        put(88, &self.stack_user.to_ne_bytes());
        put(96, &self.regs_intr.to_ne_bytes());
        put(108, &self.max_stack.to_ne_bytes());
        put(120, &self.signal_data.to_ne_bytes());
        attributes
    }

    /// The largest payload of a sample with the most other content possible: the size of a sample
    /// has 16 bits, and is a multiple of 8.
    pub fn max_payload(&self) -> usize {
        let has = |kind| self.kind & kind != 0;
        let single = SAMPLE_WORDS | SAMPLE_WORDS_BEHIND;
        let mut words = 1 + (self.kind & single).count_ones() as usize;
        if has(SAMPLE_READ) {
            // A group can get siblings later: perf limits its counts to 16 KB.
            words += if self.reads_group { 16 * 1024 / 8 } else { 1 };
        }
        if has(SAMPLE_CALLCHAIN) {
            let max_stack = match self.max_stack {
                0 => DEFAULT_MAX_STACK,
                max_stack => max_stack,
            };
            // Also the length of the chain, and eight context markers.
            words += 1 + usize::from(max_stack) + 8;
        }
        if has(SAMPLE_REGS_USER) {
            words += 1 + self.regs_user.count_ones() as usize;
        }
        if has(SAMPLE_REGS_INTR) {
            words += 1 + self.regs_intr.count_ones() as usize;
        }
        if has(SAMPLE_STACK_USER) {
            // The part of the stack that fits may be empty. It is not cut where registers follow.
            words += 3;
            if has(SAMPLE_REGS_INTR) {
                words += self.stack_user as usize / 8;
            }
        }
        // The record's length takes 4 bytes, and its common fields 8.
        (usize::from(u16::MAX) & !7) - 8 * words - 12
    }
}

/// `data_head` and `data_tail` in the ring's first page.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// Pages of a ring with room for several of the largest samples.
pub const PAGES: usize = 128;

/// This process, and its later threads.
pub const SELF: i32 = 0;
pub const ALL_PROCESSES: i32 = -1;
/// All CPUs, which perf allows for one process only.
pub const ANY_CPU: i32 = -1;

/// An open perf event; closed when dropped, which detaches perf from the event.
pub struct Perf {
    file: File,
    ring: Option<Mapping>,
    sample: Sample,
    /// The number of samples for which the ring had no room.
    pub lost: u64,
}

impl Perf {
    /// Attaches to the event with this id, as a counter.
    pub fn open(id: u64, pid: i32, cpu: i32) -> Result<Perf> {
        Perf::open_with(id, pid, cpu, Sample::PLAIN)
    }

    /// The same with other samples.
    pub fn open_with(id: u64, pid: i32, cpu: i32, sample: Sample) -> Result<Perf> {
        Perf::of_event((PERF_TYPE_TRACEPOINT, id), pid, cpu, sample, None)
    }

    /// A dummy event as a sibling in the group of another perf event.
    pub fn sibling_of(leader: &File, pid: i32, cpu: i32) -> Result<Perf> {
        Perf::of_event(DUMMY, pid, cpu, Sample::EMPTY, Some(leader))
    }

    /// A sibling attached to the event with this id.
    pub fn sibling_with(
        leader: &File,
        id: u64,
        pid: i32,
        cpu: i32,
        sample: Sample,
    ) -> Result<Perf> {
        let event = (PERF_TYPE_TRACEPOINT, id);
        Perf::of_event(event, pid, cpu, sample, Some(leader))
    }

    /// A dummy event of this process.
    pub fn of_nothing() -> Perf {
        let dummy = Perf::of_event(DUMMY, SELF, ANY_CPU, Sample::PLAIN, None);
        dummy.expect("perf_event_open")
    }

    /// Maps the first page of the ring over a page.
    pub fn cover(&self, page: &Mapping, protection: i32) {
        page.cover(&self.file, protection);
    }

    fn of_event(
        event: (u32, u64),
        pid: i32,
        cpu: i32,
        sample: Sample,
        leader: Option<&File>,
    ) -> Result<Perf> {
        let leader = leader.map_or(-1, |leader| leader.as_raw_fd());
        let attributes = sample.attributes(event);
        let file = os::perf_event_open(&attributes, pid, cpu, leader, 0)?;
        Ok(Perf::of(file, sample))
    }

    fn of(file: File, sample: Sample) -> Perf {
        Perf {
            file,
            ring: None,
            sample,
            lost: 0,
        }
    }

    /// Attaches with a ring of `pages` pages (a power of two) for samples.
    pub fn sample(id: u64, pid: i32, cpu: i32, pages: usize) -> Perf {
        Perf::sample_with(id, pid, cpu, pages, Sample::PLAIN)
    }

    /// The same with other samples.
    pub fn sample_with(id: u64, pid: i32, cpu: i32, pages: usize, sample: Sample) -> Perf {
        let perf = Perf::open_with(id, pid, cpu, sample).expect("perf_event_open");
        // The kernel overwrites old samples if `data_tail` cannot be written.
        let protection = match sample.flags & WRITE_BACKWARD {
            0 => READ_WRITE,
            _ => READ,
        };
        perf.with_ring(pages, protection)
    }

    /// Attaches to an event in this process, with room for several of the largest samples, and
    /// waits for the bit.
    #[track_caller]
    pub fn listen(event: &Event, sample: Sample) -> Perf {
        let perf = Perf::sample_with(event.id(), SELF, ANY_CPU, PAGES, sample);
        event.wait_set();
        perf
    }

    /// Adds a ring of `pages` pages (a power of two).
    pub fn with_ring(mut self, pages: usize, protection: i32) -> Perf {
        let ring = Mapping::of_file(&self.file, 1 + pages, protection, libc::MAP_SHARED);
        self.ring = Some(ring.expect("mmap of the perf ring"));
        self
    }

    /// Attaches to an event of the tasks in a control group, with one ring for each CPU.
    pub fn sample_in_cgroup(id: u64, cgroup: &Cgroup, pages: usize) -> Vec<Perf> {
        const PERF_FLAG_PID_CGROUP: u64 = 1 << 2;
        let attributes = Sample::PLAIN.attributes((PERF_TYPE_TRACEPOINT, id));
        let (directory, flags) = (cgroup.open(), PERF_FLAG_PID_CGROUP);
        let of_cpu = |cpu| {
            let directory = directory.as_raw_fd();
            let file = os::perf_event_open(&attributes, directory, cpu as i32, -1, flags);
            let perf = Perf::of(file.expect("perf_event_open"), Sample::PLAIN);
            perf.with_ring(pages, READ_WRITE)
        };
        os::cpus().into_iter().map(of_cpu).collect()
    }

    /// Attaches to an event of all processes, with one ring for each CPU.
    pub fn sample_everywhere(id: u64, pages: usize) -> Vec<Perf> {
        let of_cpu = |cpu| Perf::sample(id, ALL_PROCESSES, cpu as i32, pages);
        os::cpus().into_iter().map(of_cpu).collect()
    }

    /// Attaches a program, which stays as long as this perf event.
    pub fn attach(&self, program: &Program) -> Result<()> {
        os::ioctl(&self.file, PERF_EVENT_IOC_SET_BPF, program.number() as u64).map(drop)
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn count(&self) -> u64 {
        // The counts of a group start with their number, then its leader's count.
        let mut bytes = [0; 4096];
        let length = (&self.file).read(&mut bytes).expect("read a perf counter");
        let at = if self.sample.reads_group { 8 } else { 0 };
        assert!(length >= at + 8, "{length} bytes of a perf counter");
        u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    /// Takes the raw data of all samples out of the ring.
    pub fn take(&mut self) -> Vec<Record> {
        let samples = self.take_samples().into_iter();
        samples.map(|sample| self.record_of(&sample)).collect()
    }

    fn record_of(&self, sample: &[u8]) -> Record {
        let raw = &sample[self.raw_at(sample)..];
        let size = u32::from_ne_bytes(raw[..4].try_into().unwrap()) as usize;
        Record::new(&raw[4..4 + size])
    }

    pub fn head(&self) -> u64 {
        let ring = self.ring.as_ref().expect("a ring");
        ring.long(DATA_HEAD).load(Ordering::Acquire)
    }

    fn ring_size(ring: &Mapping) -> usize {
        (ring.end() - ring.address()) as usize - PAGE
    }

    /// Reads `length` bytes of the ring, a multiple of eight as all sizes in a ring.
    fn ring_bytes(ring: &Mapping, from: u64, length: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length as usize);
        for at in (0..length).step_by(8) {
            let at = PAGE + from.wrapping_add(at) as usize % Perf::ring_size(ring);
            bytes.extend(ring.long(at).load(Ordering::Relaxed).to_ne_bytes());
        }
        bytes
    }

    /// The samples left in a ring that is written backward: the raw data of each, the newest first.
    /// No samples may be written meanwhile.
    pub fn newest(&self) -> Vec<Record> {
        let ring = self.ring.as_ref().expect("a ring");
        let head = self.head();
        // The kernel began at 0, and wrote downward.
        let written = head.wrapping_neg().min(Perf::ring_size(ring) as u64);
        let bytes = Perf::ring_bytes(ring, head, written);

        let mut records = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (kind, length) = header(rest);
            assert_eq!(kind, PERF_RECORD_SAMPLE, "what is in a ring");
            // The end of the oldest sample may be overwritten.
            let Some((sample, next)) = rest.split_at_checked(length) else {
                break;
            };
            records.push(self.record_of(sample));
            rest = next;
        }
        records
    }

    /// Takes all samples out of the ring, each with its header.
    pub fn take_samples(&mut self) -> Vec<Vec<u8>> {
        let ring = self.ring.as_ref().expect("a ring");
        let head = self.head();
        let tail = ring.long(DATA_TAIL).load(Ordering::Relaxed);
        let bytes = Perf::ring_bytes(ring, tail, head - tail);
        ring.long(DATA_TAIL).store(head, Ordering::Release);

        let mut records = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (kind, length) = header(rest);
            let (record, next) = rest.split_at_checked(length).expect("a whole entry");
            match kind {
                PERF_RECORD_SAMPLE => records.push(record.to_vec()),
                PERF_RECORD_LOST => {
                    self.lost += u64::from_ne_bytes(record[16..24].try_into().unwrap());
                }
                PERF_RECORD_THROTTLE | PERF_RECORD_UNTHROTTLE => {}
                kind => panic!("a record of kind {kind} in a ring"),
            }
            rest = next;
        }
        records
    }

    /// The offset of the record in a sample.
    fn raw_at(&self, sample: &[u8]) -> usize {
        let word = |at: usize| u64::from_ne_bytes(sample[at..at + 8].try_into().unwrap());
        let kind = self.sample.kind;
        let mut at = 8 + 8 * (kind & SAMPLE_WORDS).count_ones() as usize;
        if kind & SAMPLE_READ != 0 {
            let others = if self.sample.reads_group { word(at) } else { 0 };
            assert!(others < 0x1000, "{others} events in a group");
            at += 8 + 8 * others as usize;
        }
        if kind & SAMPLE_CALLCHAIN != 0 {
            let entries = word(at);
            assert!(entries < 0x1000, "{entries} entries of a call chain");
            at += 8 + 8 * entries as usize;
        }
        at
    }

    /// Takes the samples' payloads, each of `length` bytes.
    #[track_caller]
    pub fn take_payloads(&mut self, length: usize) -> Vec<Vec<u8>> {
        let records = self.take().into_iter();
        records.map(|record| record.payload(length)).collect()
    }
}

/// Type and size from the header of an entry in the ring.
#[track_caller]
fn header(bytes: &[u8]) -> (u32, usize) {
    let kind = u32::from_ne_bytes(bytes[..4].try_into().unwrap());
    let length = u16::from_ne_bytes(bytes[6..8].try_into().unwrap());
    let is_valid = length >= 8 && length % 8 == 0;
    assert!(is_valid, "a length of {length} in a ring");
    (kind, length.into())
}

/// Checks that a payload was recorded, and nothing else, and no sample lost. A wrong size in the
/// sample's header would break the parsing of the ring.
#[track_caller]
pub fn assert_recorded(perf: &mut Perf, payload: &[u8]) {
    let taken = perf.take_payloads(payload.len());
    assert_eq!(taken.len(), 1, "of {} bytes", payload.len());
    assert!(taken[0] == payload, "of {} bytes", payload.len());
    assert_eq!(perf.lost, 0);
}
