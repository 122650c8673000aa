// SPDX-License-Identifier: GPL-2.0

//! Who uses an address space, and who pays for it.
//!
//! C: `mm_users` of `struct mm_struct` (linux/mm_types.h), `get_mem_cgroup_from_mm()`
//! (linux/memcontrol.h), `set_active_memcg()` (linux/sched/mm.h).

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

/// Calls `allocate` with what it allocates for the account of the current task charged to the control group
/// of an address space instead. Process context.
pub(crate) fn charged_to<T>(mm: &Mm, allocate: impl FnOnce() -> T) -> T {
    // SAFETY: The structure of the address space is not freed, as the reference shows. What this
    // returns is a reference to a group, or NULL.
    let group = unsafe { bindings::user_events_get_memcg(mm.as_raw()) };
    // SAFETY: The group is held until after the one from before is set again, below. Calls nest, so the
    // one from before is held, too, by who set it.
    let before = unsafe { bindings::user_events_set_memcg(group) };
    let result = allocate();
    // SAFETY: As above.
    unsafe {
        bindings::user_events_set_memcg(before);
        bindings::user_events_put_memcg(group);
    }
    result
}
