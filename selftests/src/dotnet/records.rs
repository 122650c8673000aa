// SPDX-License-Identifier: GPL-2.0

//! Parser for the runtime's records in perf's rings.

use crate::kit::perf::Perf;
use crate::kit::ring::Record;
use crate::kit::{dynamic, profile, tracefs, wait};
use std::thread;

/// The fields of the event, as the runtime registers it.
const FIELDS: &str = "u8 version; u16 event_id; __rel_loc u8[] extension; __rel_loc u8[] payload";

/// Room for each processor's samples.
const PAGES: usize = 2048;

/// An event that sessions write to, with perf attached to it.
pub struct Listener {
    pub event: String,
    /// Whether the event is to be deleted in the end.
    is_ours: bool,
    rings: Vec<Perf>,
    /// The records so far, in order per CPU.
    pub told: Vec<Told>,
}

impl Listener {
    /// Makes the event, and attaches perf.
    pub fn new(event: &str) -> Listener {
        dynamic::run(&format!("u:{event} {FIELDS}")).expect("make an event");
        let mut listener = Listener::of(event);
        listener.is_ours = true;
        listener
    }

    /// Attaches perf to an existing event.
    pub fn of(event: &str) -> Listener {
        Listener {
            event: event.into(),
            is_ours: false,
            rings: Perf::sample_everywhere(tracefs::event_id(event), PAGES),
            told: Vec::new(),
        }
    }

    /// Takes the new records. None may be lost.
    pub fn take(&mut self) {
        for ring in &mut self.rings {
            self.told.extend(ring.take().iter().map(Told::of));
            assert_eq!(ring.lost, 0, "samples that perf lost");
        }
        assert_eq!(profile::missed(&self.event), (0, 0), "records missed");
        assert_eq!(profile::refused(&self.event), 0, "writes refused");
    }

    /// Waits until there are `count` records with this id.
    pub fn wait_for(&mut self, id: u16, count: usize) {
        wait::until(&format!("{count} of {id} to {}", self.event), || {
            self.take();
            self.with_id(id).count() >= count
        });
    }

    pub fn with_id(&self, id: u16) -> impl Iterator<Item = &Told> {
        self.told.iter().filter(move |told| told.id == id)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.rings.clear();
        if self.is_ours && !thread::panicking() {
            let delete = || dynamic::run(&format!("-:{}", self.event)).is_ok();
            assert!(wait::eventually(delete), "{} is not deleted", self.event);
        }
    }
}

pub struct Told {
    pub id: u16,
    pub payload: Vec<u8>,
    extension: Vec<u8>,
}

impl Told {
    fn of(record: &Record) -> Told {
        let mut fields = Reader(&record.bytes[8..]);
        assert_eq!(fields.u8(), 1, "the version of the format");
        let id = fields.u16();
        let mut located = || {
            let location = fields.u32() as usize;
            let start = location & 0xffff;
            fields.0[start..start + (location >> 16)].to_vec()
        };
        let extension = located();
        let payload = located();
        Told {
            id,
            payload,
            extension,
        }
    }

    /// The provider, from the metadata that precedes the payload for listeners that do not know
    /// this id.
    pub fn metadata(&self) -> Option<String> {
        let mut fields = Reader(&self.extension);
        if self.extension.is_empty() {
            return None;
        }
        assert_eq!(fields.u8(), 1, "metadata comes first");
        let length = fields.u32() as usize;
        assert_eq!(length, fields.0.len(), "the length of the metadata");
        Some(fields.text())
    }

    pub fn reader(&self) -> Reader {
        Reader(&self.payload)
    }
}

/// Reads the rest of a payload.
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (bytes, rest) = self.0.split_first_chunk().expect("a record is too short");
        self.0 = rest;
        *bytes
    }

    pub fn u8(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// A zero-terminated UTF-16 string.
    pub fn text(&mut self) -> String {
        let units = std::iter::from_fn(|| Some(self.u16()).filter(|unit| *unit != 0));
        String::from_utf16(&units.collect::<Vec<_>>()).expect("a text")
    }
}

/// Ids of records about methods: compilation has begun; compiled and loaded.
pub const COMPILING: u16 = 145;
pub const COMPILED: u16 = 143;

/// A method: its number in the runtime, its class and its name.
pub type Method = (u64, String, String);

pub fn method(told: &Told) -> Method {
    let mut fields = told.reader();
    let (method, _module) = (fields.u64(), fields.u64());
    if told.id == COMPILED {
        let (_start, size, _token, _flags) =
            (fields.u64(), fields.u32(), fields.u32(), fields.u32());
        assert!(size > 0, "code of no size");
    } else {
        let (_token, _size) = (fields.u32(), fields.u32());
    }
    let (class, name, _signature) = (fields.text(), fields.text(), fields.text());
    (method, class, name)
}

/// Ids of the records of a heap dump.
pub const COLLECTED: u16 = 2;
const OBJECTS: u16 = 18;
const REFERENCES: u16 = 19;

/// The objects on the heap and the references of all of them, from a dump.
#[derive(Default)]
pub struct Heap {
    /// The number of references of each object.
    pub objects: Vec<u64>,
    pub references: usize,
}

impl Heap {
    /// Assembles a heap. Each part of a kind has the number of its first element.
    pub fn of(told: &[Told]) -> Heap {
        let mut heap = Heap::default();
        for told in told {
            if ![OBJECTS, REFERENCES].contains(&told.id) {
                continue;
            }
            let mut fields = told.reader();
            let (index, count, _clr) = (fields.u32(), fields.u32(), fields.u16());
            if told.id == OBJECTS {
                assert_eq!(index as usize, heap.objects.len(), "an object is missing");
                for _ in 0..count {
                    let (_address, size, _type) = (fields.u64(), fields.u64(), fields.u64());
                    assert!(size > 0, "an object of no size");
                    heap.objects.push(fields.u64());
                }
            } else {
                assert_eq!(index as usize, heap.references, "a reference is missing");
                for _ in 0..count {
                    let (_to, _field) = (fields.u64(), fields.u32());
                }
                heap.references += count as usize;
            }
            assert!(fields.0.is_empty(), "{} is too long", told.id);
        }
        heap
    }
}
