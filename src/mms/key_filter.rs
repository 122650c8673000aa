// SPDX-License-Identifier: GPL-2.0

//! A filter in front of the table of mms, which takes no lock.

use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};

/// How many mms in the table have each hash of their keys. A fork or an exit of an mm without
/// enablers reads one count.
pub(super) struct KeyFilter(KVVec<Atomic<u32>>);

const HASH_BITS: u32 = 15;

impl KeyFilter {
    /// No mms. May sleep.
    pub(super) fn new() -> Result<Self> {
        let mut counts = KVVec::with_capacity(1 << HASH_BITS, GFP_KERNEL)?;
        for _ in 0..1 << HASH_BITS {
            counts.push(Atomic::new(0), GFP_KERNEL)?;
        }
        Ok(Self(counts))
    }

    fn count(&self, key: usize) -> Option<&Atomic<u32>> {
        // The golden ratio. All bits of the address contribute to the upper bits of the product.
        let hash = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - HASH_BITS);
        self.0.get(hash as usize)
    }

    /// Adds an mm, before it is in the table. Any context.
    pub(super) fn add(&self, key: usize) {
        if let Some(count) = self.count(key) {
            // A full barrier, as in the exit of the last thread of another process with this mm.
            // Either that thread finds the mm here, or the current process later finds the other
            // one without live threads, and the mm ends with the current process.
            count.fetch_add(1, Full);
        }
    }

    /// Removes an mm, after it was in the table. Any context.
    pub(super) fn remove(&self, key: usize) {
        if let Some(count) = self.count(key) {
            count.fetch_sub(1, Full);
        }
    }

    /// Whether the mm may be in the table. Any context.
    pub(super) fn may_have(&self, key: usize) -> bool {
        self.count(key)
            .is_some_and(|count| count.load(Relaxed) != 0)
    }
}
