// SPDX-License-Identifier: GPL-2.0

//! Who uses an address space.
//!
//! C: `mm_users` of `struct mm_struct` (linux/mm_types.h).

use super::bindings;
use kernel::mm::{Mm, MmWithUser};

/// Is there another user of the address space than the caller: a task, or a context that looks into
/// it? Any context.
pub(crate) fn is_shared(mm: &MmWithUser) -> bool {
    // SAFETY: The address space is alive, as the reference shows.
    unsafe { bindings::user_events_mm_users(mm.as_raw()) != 1 }
}

/// Has the address space ended: its last user left it, and none can come any more? Any context.
pub(crate) fn has_ended(mm: &Mm) -> bool {
    // SAFETY: The structure is not freed, as the reference shows.
    unsafe { bindings::user_events_mm_users(mm.as_raw()) == 0 }
}
