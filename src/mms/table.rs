// SPDX-License-Identifier: GPL-2.0

//! The table of mms with enablers: found by mm, and one after the other by age.

use super::mm::UserMm;
use kernel::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNode,
    RBTreeNodeReservation, //
};
use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};
use kernel::sync::Arc;

type ByKey = (u64, Arc<UserMm>);

/// Mms, of which each gets the next number when it is added.
///
/// A number is never given again, so it is a place in the order of all mms that stays where it is when mms
/// come and go.
pub(super) struct MmTable {
    /// By [`UserMm::key`], with their numbers.
    by_key: RBTree<usize, ByKey>,
    by_number: RBTree<u64, Arc<UserMm>>,
    next: u64,
}

/// Memory for one mm in the table.
pub(super) struct MmTableReservation {
    by_key: RBTreeNodeReservation<usize, ByKey>,
    by_number: RBTreeNodeReservation<u64, Arc<UserMm>>,
}

/// An mm that is in the table no more. To be dropped without a lock.
pub(super) struct Removed {
    _by_key: Option<RBTreeNode<usize, ByKey>>,
    _by_number: Option<RBTreeNode<u64, Arc<UserMm>>>,
}

impl MmTableReservation {
    /// Gets the memory. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            by_key: RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?,
            by_number: RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?,
        })
    }
}

impl MmTable {
    /// No mms.
    pub(super) fn new() -> Self {
        Self {
            by_key: RBTree::new(),
            by_number: RBTree::new(),
            next: 0,
        }
    }

    /// The mm with this key.
    pub(super) fn get(&self, key: usize) -> Option<&Arc<UserMm>> {
        self.by_key.get(&key).map(|(_, user_mm)| user_mm)
    }

    /// The first mm with this number or a higher one, and its number.
    pub(super) fn get_from(&self, number: u64) -> Option<(u64, Arc<UserMm>)> {
        let cursor = self.by_number.cursor_lower_bound(&number)?;
        let (number, user_mm) = cursor.current();
        Some((*number, user_mm.clone()))
    }

    /// The number that the next mm gets.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    /// Adds an mm, whose key is not in the table.
    pub(super) fn insert(&mut self, reservation: MmTableReservation, user_mm: &Arc<UserMm>) {
        let number = self.next;
        self.next += 1;
        let by_key = (number, user_mm.clone());
        self.by_key
            .insert(reservation.by_key.into_node(user_mm.key(), by_key));
        self.by_number
            .insert(reservation.by_number.into_node(number, user_mm.clone()));
    }

    /// Takes an mm out, if it is this one that has its key in the table.
    pub(super) fn remove(&mut self, user_mm: &UserMm) -> Option<Removed> {
        let key = user_mm.key();
        let (number, listed) = self.by_key.get(&key)?;
        let number = *number;
        if !core::ptr::eq(&**listed, user_mm) {
            return None;
        }
        Some(Removed {
            _by_key: self.by_key.remove_node(&key),
            _by_number: self.by_number.remove_node(&number),
        })
    }
}

/// How many mms in the table have each hash of their keys: so a fork or an exit of an mm without enablers
/// takes one look, and no lock.
pub(super) struct KeyFilter(KVVec<Atomic<u32>>);

/// The bits of a hash.
const HASH_BITS: u32 = 12;

impl KeyFilter {
    /// No mms. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        let mut counts = KVVec::with_capacity(1 << HASH_BITS, GFP_KERNEL)?;
        for _ in 0..1 << HASH_BITS {
            counts.push(Atomic::new(0), GFP_KERNEL)?;
        }
        Ok(Self(counts))
    }

    fn count(&self, key: usize) -> Option<&Atomic<u32>> {
        // The golden ratio; the upper bits have what all bits of the address make of it.
        let hash = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - HASH_BITS);
        self.0.get(hash as usize)
    }

    /// An mm is about to be in the table. Any context.
    pub(super) fn add(&self, key: usize) {
        if let Some(count) = self.count(key) {
            // A full barrier, as the last thread of a process has when it exits: that thread finds this, or the poll
            // that is the last finds no live thread (`Documentation/litmus/exit-filter.litmus`).
            count.fetch_add(1, Full);
        }
    }

    /// An mm has been taken out. Any context.
    pub(super) fn remove(&self, key: usize) {
        if let Some(count) = self.count(key) {
            count.fetch_sub(1, Full);
        }
    }

    /// May the mm be in the table? Any context.
    pub(super) fn may_have(&self, key: usize) -> bool {
        self.count(key)
            .is_some_and(|count| count.load(Relaxed) != 0)
    }
}
