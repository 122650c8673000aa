// SPDX-License-Identifier: GPL-2.0

//! The write index of each event of an open file.
//!
//! A hash table with open addressing, of indices alone: a lookup compares the number of the event
//! at an index. So thousands of events take one piece of memory, which is freed in one step.

use kernel::alloc::flags::__GFP_NOWARN;
use kernel::prelude::*;

/// The first number of slots. It is always a power of two.
const FIRST_SLOTS: usize = 16;

/// A slot without an index.
const EMPTY: u32 = u32::MAX;

/// The indices of events, by the event's number.
pub(crate) struct EventIndex {
    /// At most half of the slots are taken. Each index is at its event's place or behind it,
    /// without an empty slot in between.
    slots: KVVec<u32>,
    taken: usize,
}

/// The slot at which the search for an event begins. Consecutive numbers are spread.
fn place(id: u64, slots: usize) -> usize {
    // The golden ratio. All bits of the number contribute to the upper half of the product.
    let spread = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    spread as usize & slots.wrapping_sub(1)
}

/// Puts an index into the slots, which have room.
fn put(slots: &mut [u32], id: u64, index: u32) {
    let Some((before, behind)) = slots.split_at_mut_checked(place(id, slots.len())) else {
        return;
    };
    if let Some(slot) = Iterator::chain(behind.iter_mut(), before).find(|slot| **slot == EMPTY) {
        *slot = index;
    }
}

impl EventIndex {
    pub(crate) const fn new() -> Self {
        Self {
            slots: KVVec::new(),
            taken: 0,
        }
    }

    /// The index of the event with this number. `id_at` returns the number of the event at an
    /// index.
    pub(crate) fn get(&self, id: u64, id_at: impl Fn(u32) -> Option<u64>) -> Option<u32> {
        let (before, behind) = self.slots.split_at_checked(place(id, self.slots.len()))?;
        let slots = Iterator::chain(behind.iter(), before);
        let mut taken = slots.copied().take_while(|slot| *slot != EMPTY);
        taken.find(|index| id_at(*index) == Some(id))
    }

    /// Makes room for one more index. May sleep.
    pub(crate) fn reserve(&mut self, id_at: impl Fn(u32) -> Option<u64>) -> Result {
        if self.taken < self.slots.len() / 2 {
            return Ok(());
        }
        let count = (2 * self.slots.len()).max(FIRST_SLOTS);
        // User space decides the size, so a failure is not logged.
        let mut slots = KVVec::from_elem(EMPTY, count, GFP_KERNEL_ACCOUNT | __GFP_NOWARN)?;
        for index in self.slots.iter().filter(|slot| **slot != EMPTY) {
            if let Some(id) = id_at(*index) {
                put(&mut slots, id, *index);
            }
        }
        self.slots = slots;
        Ok(())
    }

    /// Adds the index of an event that has none. There is room for it.
    pub(crate) fn insert(&mut self, id: u64, index: u32) {
        put(&mut self.slots, id, index);
        self.taken += 1;
    }
}
