// SPDX-License-Identifier: GPL-2.0

//! The processes that are known: found by address space, and one after the other by age.

use crate::mms::mm::UserMm;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation};
use kernel::sync::Arc;

type ByMm = (u64, Arc<UserMm>);

/// UserMms, of which each gets the next number when it is added.
///
/// A number is never given again, so it is a place in the order of all processes that stays where it
/// is when processes come and go.
pub(crate) struct MmTable {
    /// With their numbers.
    by_mm: RBTree<usize, ByMm>,
    by_number: RBTree<u64, Arc<UserMm>>,
    next: u64,
}

/// Memory for one process among those that are known.
pub(crate) struct MmTableReservation {
    by_mm: RBTreeNodeReservation<usize, ByMm>,
    by_number: RBTreeNodeReservation<u64, Arc<UserMm>>,
}

/// A process that is known no more. To be dropped without a lock.
pub(crate) struct Removed {
    _by_mm: Option<RBTreeNode<usize, ByMm>>,
    _by_number: Option<RBTreeNode<u64, Arc<UserMm>>>,
}

impl MmTableReservation {
    /// Gets the memory. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            by_mm: RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?,
            by_number: RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?,
        })
    }
}

impl MmTable {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            by_mm: RBTree::new(),
            by_number: RBTree::new(),
            next: 0,
        }
    }

    /// The process of the address space with this key.
    pub(crate) fn get(&self, key: usize) -> Option<&Arc<UserMm>> {
        self.by_mm.get(&key).map(|(_, user_mm)| user_mm)
    }

    /// The first process with this number or a higher one, and its number.
    pub(crate) fn get_from(&self, number: u64) -> Option<(u64, Arc<UserMm>)> {
        let cursor = self.by_number.cursor_lower_bound(&number)?;
        let (number, user_mm) = cursor.current();
        Some((*number, user_mm.clone()))
    }

    /// The number that the next process gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// Adds a process. None of its address space is known.
    pub(crate) fn insert(&mut self, places: MmTableReservation, user_mm: &Arc<UserMm>) {
        let number = self.next;
        self.next += 1;
        let by_mm = (number, user_mm.clone());
        self.by_mm
            .insert(places.by_mm.into_node(user_mm.key(), by_mm));
        self.by_number
            .insert(places.by_number.into_node(number, user_mm.clone()));
    }

    /// Forgets a process, if it is this one that is known with its address space.
    pub(crate) fn remove(&mut self, user_mm: &UserMm) -> Option<Removed> {
        let key = user_mm.key();
        let (number, known) = self.by_mm.get(&key)?;
        let number = *number;
        if !core::ptr::eq(&**known, user_mm) {
            return None;
        }
        Some(Removed {
            _by_mm: self.by_mm.remove_node(&key),
            _by_number: self.by_number.remove_node(&number),
        })
    }
}
