// SPDX-License-Identifier: GPL-2.0

//! perf attached to an event: counting, and sampling into a ring of our own.

use crate::kit::bpf::Program;
use crate::kit::errno::Result;
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
use crate::kit::os;
use crate::kit::ring::Record;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::Ordering;

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_COUNT_SW_DUMMY: u64 = 9;
const PERF_SAMPLE_RAW: u64 = 1 << 10;
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SAMPLE: u32 = 9;

/// `_IOW('$', 8, u32)`
const PERF_EVENT_IOC_SET_BPF: u64 = (1 << 30) | (4 << 16) | (0x24 << 8) | 8;

/// The first version of the attributes that the kernel takes.
const ATTRIBUTES_SIZE: usize = 64;

/// Where the ring's first page keeps how far the kernel wrote, and how far we read.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// This process and its threads to come.
pub const SELF: i32 = 0;
/// Every process.
pub const ALL_PROCESSES: i32 = -1;
/// Every CPU. perf allows it for one process only.
pub const ANY_CPU: i32 = -1;

/// An open perf event; perf leaves the event when it is dropped.
pub struct Perf {
    file: File,
    ring: Option<Mapping>,
    /// How many samples the kernel had no room for.
    pub lost: u64,
}

impl Perf {
    /// Attaches to the event with this id, to count it.
    pub fn open(id: u64, pid: i32, cpu: i32) -> Result<Perf> {
        Perf::open_kind(PERF_TYPE_TRACEPOINT, id, pid, cpu)
    }

    /// One of this process, of what never happens.
    pub fn of_nothing() -> Perf {
        let perf = Perf::open_kind(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, SELF, ANY_CPU);
        perf.expect("perf_event_open")
    }

    /// Maps the page that the kernel keeps for it over a page.
    pub fn cover(&self, page: &Mapping, protection: i32) {
        page.cover(&self.file, protection);
    }

    fn open_kind(kind: u32, id: u64, pid: i32, cpu: i32) -> Result<Perf> {
        let mut attributes = [0u8; ATTRIBUTES_SIZE];
        let mut put = |at: usize, bytes: &[u8]| {
            attributes[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(0, &kind.to_ne_bytes());
        put(4, &(ATTRIBUTES_SIZE as u32).to_ne_bytes());
        put(8, &id.to_ne_bytes());
        // A sample for each record.
        put(16, &1u64.to_ne_bytes());
        put(24, &PERF_SAMPLE_RAW.to_ne_bytes());
        let file = os::perf_event_open(&attributes, pid, cpu)?;
        Ok(Perf {
            file,
            ring: None,
            lost: 0,
        })
    }

    /// Attaches, and gives the kernel a ring of so many pages (a power of two) for samples.
    pub fn sample(id: u64, pid: i32, cpu: i32, pages: usize) -> Perf {
        let mut perf = Perf::open(id, pid, cpu).expect("perf_event_open");
        let ring = Mapping::of_file(&perf.file, 1 + pages, READ_WRITE, libc::MAP_SHARED);
        perf.ring = Some(ring.expect("mmap of the perf ring"));
        perf
    }

    /// Attaches to an event of all processes: one ring for each CPU.
    pub fn sample_everywhere(id: u64, pages: usize) -> Vec<Perf> {
        let cpus = os::cpus().into_iter();
        cpus.map(|cpu| Perf::sample(id, ALL_PROCESSES, cpu as i32, pages))
            .collect()
    }

    /// Attaches a program to it, which stays as long as this perf event.
    pub fn attach(&self, program: &Program) -> Result<()> {
        os::ioctl(&self.file, PERF_EVENT_IOC_SET_BPF, program.number() as u64).map(drop)
    }

    /// Its file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// How often the event happened.
    pub fn count(&self) -> u64 {
        let mut bytes = [0; 8];
        (&self.file)
            .read_exact(&mut bytes)
            .expect("read a perf counter");
        u64::from_ne_bytes(bytes)
    }

    /// Takes all samples out of the ring: the raw data of each.
    pub fn take(&mut self) -> Vec<Record> {
        let ring = self.ring.as_ref().expect("a ring");
        let size = (ring.end() - ring.address()) as usize - PAGE;
        let head = ring.long(DATA_HEAD).load(Ordering::Acquire);
        let tail = ring.long(DATA_TAIL).load(Ordering::Relaxed);

        // Everything in the ring is in multiples of eight bytes.
        let bytes: Vec<u8> = (tail..head)
            .step_by(8)
            .map(|at| PAGE + at as usize % size)
            .flat_map(|at| ring.long(at).load(Ordering::Relaxed).to_ne_bytes())
            .collect();
        ring.long(DATA_TAIL).store(head, Ordering::Release);

        let mut records = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let kind = u32::from_ne_bytes(rest[..4].try_into().unwrap());
            let length = u16::from_ne_bytes(rest[6..8].try_into().unwrap()) as usize;
            let (record, next) = rest.split_at(length);
            match kind {
                PERF_RECORD_SAMPLE => {
                    let raw = u32::from_ne_bytes(record[8..12].try_into().unwrap()) as usize;
                    records.push(Record::new(&record[12..12 + raw]));
                }
                PERF_RECORD_LOST => {
                    self.lost += u64::from_ne_bytes(record[16..24].try_into().unwrap());
                }
                _ => {}
            }
            rest = next;
        }
        records
    }

    /// Takes the samples' payloads, each of `length` bytes.
    #[track_caller]
    pub fn take_payloads(&mut self, length: usize) -> Vec<Vec<u8>> {
        self.take()
            .iter()
            .map(|record| record.payload(length))
            .collect()
    }
}
