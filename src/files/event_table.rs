// SPDX-License-Identifier: GPL-2.0

//! The events of one open file, by write index.

use super::event_index::EventIndex;
use crate::event::Use;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::{Mutex, SetOnce};

/// Slots in the first chunk, as a power of two. Each chunk has twice the slots of the one before.
const FIRST_CHUNK_BITS: u32 = 3;

/// Enough chunks for every index that fits into an `i32`.
const CHUNKS: usize = (i32::BITS - FIRST_CHUNK_BITS) as usize;

/// The highest number of events, so that every index is a valid `i32`.
const MOST: u32 = i32::MAX as u32;

type Chunk = KVVec<SetOnce<Use>>;

/// The events that were registered through one open file.
///
/// Indices count from 0. An entry stays until the file is closed, so entries are read without a
/// lock: they lie in chunks that are never moved.
#[pin_data]
pub(crate) struct EventTable {
    chunks: [SetOnce<Chunk>; CHUNKS],
    #[pin]
    indices: Mutex<Indices>,
}

struct Indices {
    by_event: EventIndex,
    next: u32,
}

/// Where an index lies: the chunk, and the slot in it.
#[inline]
fn place(index: u32) -> (usize, usize) {
    // Counting from the size of the first chunk, the highest bit of the number tells the chunk, and
    // the rest of it the slot.
    let number = u64::from(index) + (1 << FIRST_CHUNK_BITS);
    let bits = number.ilog2();
    (
        (bits - FIRST_CHUNK_BITS) as usize,
        (number ^ (1 << bits)) as usize,
    )
}

impl EventTable {
    /// A table without events.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            chunks: [const { SetOnce::new() }; CHUNKS],
            indices <- new_mutex!(
                Indices { by_event: EventIndex::new(), next: 0 },
                "EventTable::indices"
            ),
        })
    }

    /// The event with this index. Takes no lock.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Use> {
        let (chunk, slot) = place(index);
        self.chunks.get(chunk)?.as_ref()?.get(slot)?.as_ref()
    }

    /// The index of `event`, which is added if it is not there. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EMFILE` when no index is left.
    pub(crate) fn add(&self, event: Use) -> Result<u32> {
        let id = event.id();
        let mut indices = self.indices.lock();
        let id_at = |index| self.get(index).map(|event| event.id());
        if let Some(index) = indices.by_event.get(id, id_at) {
            drop(indices);
            return Ok(index);
        }
        let index = indices.next;
        if index >= MOST {
            return Err(EMFILE);
        }
        indices.by_event.reserve(id_at)?;
        let (chunk, slot) = place(index);
        let place = self.chunks.get(chunk).ok_or(EMFILE)?;
        if place.as_ref().is_none() {
            place.populate(Self::chunk(chunk)?);
        }
        let slot = place
            .as_ref()
            .and_then(|chunk| chunk.get(slot))
            .ok_or(EMFILE)?;
        slot.populate(event);
        indices.by_event.insert(id, index);
        indices.next = index + 1;
        Ok(index)
    }

    /// An empty chunk.
    fn chunk(number: usize) -> Result<Chunk> {
        let slots = 1usize << (number as u32 + FIRST_CHUNK_BITS);
        let mut chunk = Chunk::with_capacity(slots, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..slots {
            chunk.push(SetOnce::new(), GFP_KERNEL_ACCOUNT)?;
        }
        Ok(chunk)
    }
}
