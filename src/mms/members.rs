// SPDX-License-Identifier: GPL-2.0

//! The mms of an enabler set, in the memory of which its bits are, and the numbers of writes to
//! these bits.
//!
//! Each write that may change a bit, in the memory of any mm, has a number. A child joins the set
//! of its parent, and then compares the number of the set's last write with the number at the time
//! of the fork. So a write either finds the child among the members, or the child finds the write,
//! and checks all of its bits.

use kernel::new_mutex;
use kernel::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNode, //
};
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Release, //
};
use kernel::sync::{
    Arc,
    Mutex,
    MutexGuard, //
};

static BIT_WRITE_SEQ: Atomic<u64> = Atomic::new(0);

/// The number of the last write that may have changed a bit, of any set. Any context.
pub(super) fn bit_write_seq() -> u64 {
    BIT_WRITE_SEQ.load(Acquire)
}

/// The members of an enabler set.
#[pin_data]
pub(super) struct Members<M> {
    /// By [`UserMm::key`](super::UserMm::key).
    #[pin]
    by_key: Mutex<RBTree<usize, Arc<M>>>,
    /// The number of the last write that a child's copy of the memory may lack; 0: none.
    last_write: Atomic<u64>,
    /// How many events have their bits written in some members and not in all.
    pub(super) partly_written: Atomic<usize>,
}

/// A write to bits in the memory of members: `EnablerSet::members` is locked. The drop gives the
/// write its number, if it may have changed a bit.
pub(super) struct BitWriteGuard<'a, M> {
    seq: &'a Atomic<u64>,
    pub(super) by_key: MutexGuard<'a, RBTree<usize, Arc<M>>>,
    /// The write may have changed a bit in the memory of a member.
    pub(super) changed: bool,
}

impl<M> Drop for BitWriteGuard<'_, M> {
    fn drop(&mut self) {
        if self.changed {
            let seq = BIT_WRITE_SEQ.fetch_add(1, Full).wrapping_add(1);
            // In the order of the numbers, as the lock is held.
            self.seq.store(seq, Release);
        }
    }
}

impl<M> Members<M> {
    /// No members.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            by_key <- new_mutex!(RBTree::new(), "EnablerSet::members"),
            last_write: Atomic::new(0),
            partly_written: Atomic::new(0),
        })
    }

    /// Adds an mm. From then on bits are written in its memory, too. May sleep.
    pub(super) fn join(&self, node: RBTreeNode<usize, Arc<M>>) {
        let replaced = self.by_key.lock().insert(node);
        drop(replaced);
    }

    /// Removes an mm. No bit is being written in its memory once this returns. May sleep.
    pub(super) fn leave(&self, key: usize) {
        let node = self.by_key.lock().remove_node(&key);
        drop(node);
    }

    /// Begins a write to bits. May sleep. Inside of the lock of the event.
    pub(super) fn begin_write(&self) -> BitWriteGuard<'_, M> {
        BitWriteGuard {
            seq: &self.last_write,
            by_key: self.by_key.lock(),
            changed: false,
        }
    }

    /// As [`Self::begin_write`], without waiting for the lock.
    pub(super) fn try_begin_write(&self) -> Option<BitWriteGuard<'_, M>> {
        Some(BitWriteGuard {
            seq: &self.last_write,
            by_key: self.by_key.try_lock()?,
            changed: false,
        })
    }

    /// Counts the writes of another set as writes of this one: children that were forked before may
    /// lack them. May sleep.
    pub(super) fn follow(&self, other: &Self) {
        let _locked = self.by_key.lock();
        let seq = other.last_write.load(Acquire);
        if seq > self.last_write.load(Acquire) {
            self.last_write.store(seq, Release);
        }
    }

    /// Whether a bit may have changed since the write with this number. To be called for a member,
    /// after `EnablerSet::wait_for_registration()`. Any context.
    pub(super) fn may_have_changed_since(&self, seq: u64) -> bool {
        // In this order: the write that ends a partial write has a number.
        self.partly_written.load(Acquire) != 0 || self.last_write.load(Acquire) > seq
    }
}
