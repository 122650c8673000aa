// SPDX-License-Identifier: GPL-2.0

//! RCU. 7.x: `kernel::sync::rcu`. C: linux/rcupdate.h.

use crate::bindings;
use crate::types::NotThreadSafe;

/// RCU, read-locked until this is dropped.
#[must_use]
pub struct Guard(NotThreadSafe);

/// Read-locks RCU.
pub fn read_lock() -> Guard {
    // SAFETY: The guard ends what begins here, on this thread.
    unsafe { bindings::rcu_read_lock() };
    Guard(NotThreadSafe)
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: Read-locked when the guard was made.
        unsafe { bindings::rcu_read_unlock() };
    }
}
