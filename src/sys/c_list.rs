// SPDX-License-Identifier: GPL-2.0

//! Lists of the kernel that the module changes. `kernel::interop::list` only reads such lists.
//!
//! C: `struct list_head` (linux/list.h).

use super::bindings::list_head;

/// Adds an entry at the end of a list. C: `list_add_tail()`.
///
/// # Safety
///
/// `head` must be the head of a list that only the caller uses meanwhile, by a lock that it holds.
/// `entry` must be in no list, and stay in place until it is removed.
pub(super) unsafe fn add_tail(entry: *mut list_head, head: *mut list_head) {
    // SAFETY: By the safety requirement. Both types are of the same structure.
    unsafe { kernel::bindings::list_add_tail(entry.cast(), head.cast()) };
}

/// Removes an entry from its list. C: `list_del()`.
///
/// # Safety
///
/// `entry` must be in a list that only the caller uses meanwhile, by a lock that it holds.
pub(super) unsafe fn del(entry: *mut list_head) {
    // SAFETY: Both neighbours of a list entry are valid, entries or the head, and only the caller
    // uses them.
    unsafe {
        let (prev, next) = ((*entry).prev, (*entry).next);
        (*prev).next = next;
        (*next).prev = prev;
    }
}

/// An iterator over the `list_head`s of a list's entries.
pub(super) struct Entries {
    head: *const list_head,
    next: *const list_head,
}

impl Entries {
    /// # Safety
    ///
    /// `head` must be the head of a list that does not change while the result is used. Only an
    /// entry that the iterator has returned may be freed.
    pub(super) unsafe fn of(head: *const list_head) -> Self {
        // SAFETY: By the safety requirement.
        let next = unsafe { (*head).next };
        Self { head, next }
    }
}

impl Iterator for Entries {
    type Item = *const list_head;

    fn next(&mut self) -> Option<*const list_head> {
        let entry = self.next;
        if entry == self.head {
            return None;
        }
        // SAFETY: By the safety requirement of `of` the list does not change, and this entry was
        // not returned yet.
        self.next = unsafe { (*entry).next };
        Some(entry)
    }
}
