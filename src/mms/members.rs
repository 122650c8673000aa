// SPDX-License-Identifier: GPL-2.0

//! The mms of an enabler set, in whose memory its bits are, and the changes of these bits.
//!
//! Each change of a bit, in the memory of any mm, has a number. A child joins the set of its parent, and then
//! compares the number of the last change there with the one at the time of its fork. So a change either finds
//! the child among the members, or the child finds that there was a change, and looks at all of its bits.

use super::budget::{
    Budget,
    MAX_IN_SET,
    PIN_COST,
    SET_COST,
    WAIT_COST, //
};
use super::enabler::Enabler;
use super::enabler_set::EnablerSet;
use super::mm::UserMm;
use crate::sys::user_bit::Written;
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

/// Counts the changes of bits in the memory of mms: each gets the next number.
static CHANGES: Atomic<u64> = Atomic::new(0);

/// The number of the last change of any bit. Any context.
pub(super) fn last_change() -> u64 {
    CHANGES.load(Acquire)
}

/// The members of an enabler set.
#[pin_data]
pub(super) struct Members {
    /// By [`UserMm::key`].
    #[pin]
    by_key: Mutex<RBTree<usize, Arc<UserMm>>>,
    /// The number of the last change of a bit that a child may have an older copy of; 0: none.
    last_change: Atomic<u64>,
    /// How many events have their bits written in some members and not in all.
    partly_written: Atomic<usize>,
}

/// Where writing the bits of enablers of one page in the memory of the members of a set has stopped.
pub(crate) struct Stopped {
    /// The key of the first mm that is still to be written to.
    pub(crate) mm_key: usize,
    /// If others have been written to before: an mm that joins the set before the writing goes on may be
    /// passed over.
    pub(crate) partly: Option<PartlyWritten>,
}

/// A set in which bits have been written in the memory of some mms and not of all. Mms that join look at all
/// of their bits while this exists.
pub(crate) struct PartlyWritten(Arc<EnablerSet>);

impl PartlyWritten {
    pub(super) fn new(set: &Arc<EnablerSet>) -> Self {
        set.members.partly_written.fetch_add(1, Full);
        Self(set.clone())
    }
}

impl Drop for PartlyWritten {
    fn drop(&mut self) {
        self.0.members.partly_written.fetch_sub(1, Full);
    }
}

/// A change of bits in the memory of members: `EnablerSet::members` is locked. When this is
/// dropped, the change gets its number, unless all bits were right.
pub(super) struct Change<'a> {
    members: &'a Members,
    by_key: MutexGuard<'a, RBTree<usize, Arc<UserMm>>>,
    /// Was a bit not right in the memory of a member, or may it not have been?
    pub(super) is_made: bool,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if self.is_made {
            let number = CHANGES.fetch_add(1, Full).wrapping_add(1);
            // In the order of the numbers, as the lock is held.
            self.members.last_change.store(number, Release);
        }
    }
}

impl Members {
    /// None.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            by_key <- new_mutex!(RBTree::new(), "EnablerSet::members"),
            last_change: Atomic::new(0),
            partly_written: Atomic::new(0),
        })
    }

    /// Lets the bits be written in the memory of an mm, too. May sleep.
    pub(super) fn join(&self, node: RBTreeNode<usize, Arc<UserMm>>) {
        let replaced = self.by_key.lock().insert(node);
        drop(replaced);
    }

    /// Stops writing bits in the memory of an mm. None is being written once this returns. May sleep.
    pub(super) fn leave(&self, user_mm: &UserMm) {
        let node = self.by_key.lock().remove_node(&user_mm.key());
        drop(node);
    }

    /// Begins a change of bits. May sleep. Inside of the lock of the event.
    pub(super) fn change(&self) -> Change<'_> {
        Change {
            members: self,
            by_key: self.by_key.lock(),
            is_made: false,
        }
    }

    /// Has those who forked before take what was changed by way of another set for changed by way
    /// of this one. May sleep.
    pub(super) fn follow(&self, other: &Self) {
        let _locked = self.by_key.lock();
        let number = other.last_change.load(Acquire);
        if number > self.last_change.load(Acquire) {
            self.last_change.store(number, Release);
        }
    }

    /// As [`Self::change`], if that takes no waiting.
    fn try_change(&self) -> Option<Change<'_>> {
        Some(Change {
            members: self,
            by_key: self.by_key.try_lock()?,
            is_made: false,
        })
    }

    /// May a bit have changed since the change with this number? Asked by a member, after
    /// [`EnablerSet::wait_for_changes`]. Any context.
    pub(super) fn may_have_changed_since(&self, number: u64) -> bool {
        // In this order: the change that ended a partial write has a number.
        self.partly_written.load(Acquire) != 0 || self.last_change.load(Acquire) > number
    }
}

impl EnablerSet {
    /// Writes the bits of enablers, all of one page, in the memory of all mms with this key or a higher one.
    /// Those that cannot be written now are repaired later. The caller holds the lock of the event.
    ///
    /// # Errors
    ///
    /// Where it stopped, since the budget did not suffice.
    pub(crate) fn write(
        self: &Arc<Self>,
        enablers: &[Arc<Enabler>],
        value: bool,
        mut from: usize,
        budget: &mut Budget,
    ) -> Result<(), Stopped> {
        let bits = u32::try_from(enablers.len()).unwrap_or(u32::MAX);
        let mut partly = None;
        while !budget.is_spent() {
            let Some(mut change) = self.members.try_change().or_else(|| {
                budget.spend(WAIT_COST);
                (!budget.is_spent()).then(|| self.members.change())
            }) else {
                break;
            };
            let mut cursor = change.by_key.cursor_lower_bound_mut(&from);
            // Of a set without members there may be one that has not joined yet.
            let mut is_made = cursor.is_none();
            if cursor.is_none() {
                budget.spend(SET_COST);
            }
            let mut spent = 0;
            let stopped = loop {
                let Some(at) = cursor else {
                    break None;
                };
                let (key, user_mm) = at.current();
                if budget.is_spent() || spent >= MAX_IN_SET {
                    break Some(*key);
                }
                spent += PIN_COST.saturating_add(bits);
                budget.spend(PIN_COST.saturating_add(bits));
                is_made |= user_mm.write(enablers, value) == Written::Changed;
                cursor = at.move_next();
            };
            change.is_made = is_made;
            if stopped.is_some() {
                partly.get_or_insert_with(|| PartlyWritten::new(self));
            }
            drop(change);
            match stopped {
                Some(key) => from = key,
                None => return Ok(()),
            }
        }
        Err(Stopped {
            mm_key: from,
            partly,
        })
    }
}
