// SPDX-License-Identifier: GPL-2.0

//! RCU. 7.x: `kernel::sync::rcu`. C: linux/rcupdate.h.

use crate::bindings;
use crate::types::NotThreadSafe;

/// An RCU read-side critical section until dropped.
#[must_use]
pub struct Guard(NotThreadSafe);

/// Read-locks RCU.
pub fn read_lock() -> Guard {
    // SAFETY: The guard ends the section, on this thread.
    unsafe { bindings::rcu_read_lock() };
    Guard(NotThreadSafe)
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: The section began with the guard.
        unsafe { bindings::rcu_read_unlock() };
    }
}
