// SPDX-License-Identifier: GPL-2.0

//! Lists of the kernel's that this module changes. `kernel::interop::list` only reads such lists.
//!
//! C: `struct list_head` (linux/list.h).

use super::bindings::list_head;

/// Puts an entry at the end of a list. C: `list_add_tail()`.
///
/// # Safety
///
/// `head` must be the head of a list that only the caller uses meanwhile, as a lock that it holds
/// sees to. `entry` must be in no list, and stay in place until it is in none again.
pub(super) unsafe fn add_tail(entry: *mut list_head, head: *mut list_head) {
    // SAFETY: Promised by the caller. Both types are made of the same structure.
    unsafe { kernel::bindings::list_add_tail(entry.cast(), head.cast()) };
}

/// Takes an entry out of its list. C: `list_del()`.
///
/// # Safety
///
/// `entry` must be in a list that only the caller uses meanwhile, as a lock that it holds sees to.
pub(super) unsafe fn del(entry: *mut list_head) {
    // SAFETY: Of an entry of a list both neighbours are there, be they entries or the head, and the
    // caller says that only it uses them.
    unsafe {
        let (prev, next) = ((*entry).prev, (*entry).next);
        (*prev).next = next;
        (*next).prev = prev;
    }
}

/// The entries of a list, by the addresses of their links.
pub(super) struct Entries {
    head: *const list_head,
    next: *const list_head,
}

impl Entries {
    /// # Safety
    ///
    /// `head` must be the head of a list that does not change while the result is used, but that an
    /// entry which was given out may be freed.
    pub(super) unsafe fn of(head: *const list_head) -> Self {
        // SAFETY: Promised by the caller.
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
        // SAFETY: Promised for `of`: a list that does not change leads from entry to entry, and
        // from the last one to its head. The entry was not given out yet.
        self.next = unsafe { (*entry).next };
        Some(entry)
    }
}
