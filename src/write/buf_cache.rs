// SPDX-License-Identifier: GPL-2.0

//! Memory for records that are too long for the stack, kept from one write to the next.

use kernel::alloc::flags::__GFP_NOWARN;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::SpinLock;

/// The most words that are kept, 8 KB: beside the copy of a longer record an allocation costs
/// little.
const MAX_CACHED_WORDS: usize = 1024;

/// Memory of an open file that is not in use by a write.
#[pin_data]
pub(crate) struct RecordBufCache {
    #[pin]
    kept: SpinLock<Option<KVVec<u64>>>,
}

impl RecordBufCache {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            kept <- new_spinlock!(None, "RecordBufCache::kept"),
        })
    }

    /// An empty vector with room for so many words: the kept one, or a new one if that is in use or
    /// too small. May sleep.
    pub(super) fn take(&self, words: usize) -> Result<KVVec<u64>> {
        let kept = self.kept.lock().take();
        match kept {
            Some(memory) if memory.capacity() >= words => Ok(memory),
            // User space decides the size, so a failure is not logged.
            _ => Ok(KVVec::with_capacity(
                words,
                GFP_KERNEL_ACCOUNT | __GFP_NOWARN,
            )?),
        }
    }

    /// Keeps the memory of a write, unless it is too large.
    pub(super) fn keep(&self, memory: KVVec<u64>) {
        if memory.capacity() > MAX_CACHED_WORDS {
            return;
        }
        // Memory that another write has left meanwhile is freed without the lock.
        let before = self.kept.lock().replace(memory);
        drop(before);
    }
}
