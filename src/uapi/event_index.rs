// SPDX-License-Identifier: GPL-2.0

//! Which write index an event has.
//!
//! An open hash table of indices alone: a slot does not repeat the event's number, which is found
//! at the index. So thousands of events take one piece of memory, and forgetting them takes one
//! step.

use kernel::alloc::flags::__GFP_NOWARN;
use kernel::prelude::*;

/// Slots at first; a power of two, as it always is.
const FIRST_SLOTS: usize = 16;

/// A slot that holds no index.
const EMPTY: u32 = u32::MAX;

/// The indices of events, found by the event's number.
pub(crate) struct EventIndex {
    /// At most half of them are taken, each at or behind the place of its event, with no empty one
    /// in between.
    slots: KVVec<u32>,
    taken: usize,
}

/// Where the search for an event begins. Numbers that follow each other are spread.
fn place(id: u64, slots: usize) -> usize {
    // The golden ratio; the upper half has what all bits of the number make of it.
    let spread = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    spread as usize & slots.wrapping_sub(1)
}

/// Puts an index into a table that has room.
fn put(slots: &mut [u32], id: u64, index: u32) {
    let Some((before, behind)) = slots.split_at_mut_checked(place(id, slots.len())) else {
        return;
    };
    if let Some(slot) = Iterator::chain(behind.iter_mut(), before).find(|slot| **slot == EMPTY) {
        *slot = index;
    }
}

impl EventIndex {
    /// No event has an index.
    pub(crate) const fn new() -> Self {
        Self {
            slots: KVVec::new(),
            taken: 0,
        }
    }

    /// The index of the event with this number. `id_at` tells the number of the event at an index.
    pub(crate) fn get(&self, id: u64, id_at: impl Fn(u32) -> Option<u64>) -> Option<u32> {
        let (before, behind) = self.slots.split_at_checked(place(id, self.slots.len()))?;
        let slots = Iterator::chain(behind.iter(), before);
        let mut taken = slots.copied().take_while(|slot| *slot != EMPTY);
        taken.find(|index| id_at(*index) == Some(id))
    }

    /// Makes room for one more. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reserve(&mut self, id_at: impl Fn(u32) -> Option<u64>) -> Result {
        if self.taken < self.slots.len() / 2 {
            return Ok(());
        }
        let count = (2 * self.slots.len()).max(FIRST_SLOTS);
        // As large as a caller makes it: without memory it gets an error, and the log nothing.
        let mut slots = KVVec::from_elem(EMPTY, count, GFP_KERNEL_ACCOUNT | __GFP_NOWARN)?;
        for index in self.slots.iter().filter(|slot| **slot != EMPTY) {
            if let Some(id) = id_at(*index) {
                put(&mut slots, id, *index);
            }
        }
        self.slots = slots;
        Ok(())
    }

    /// Notes the index of an event that has none. Room was reserved.
    pub(crate) fn insert(&mut self, id: u64, index: u32) {
        put(&mut self.slots, id, index);
        self.taken += 1;
    }
}
