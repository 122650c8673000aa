// SPDX-License-Identifier: GPL-2.0

//! Which implementation of user_events the running kernel has: the module's, unless it was said that it is C's.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_C: AtomicBool = AtomicBool::new(false);

/// Says that the kernel has the C implementation.
pub fn set_c() {
    IS_C.store(true, Ordering::Relaxed);
}

/// Does it?
pub fn is_c() -> bool {
    IS_C.load(Ordering::Relaxed)
}
