// SPDX-License-Identifier: GPL-2.0

//! The users of an address space, and the control group that its memory is charged to.
//!
//! C: `mm_users` of `struct mm_struct` (linux/mm_types.h), `get_mem_cgroup_from_mm()`
//! (linux/memcontrol.h), `set_active_memcg()` (linux/sched/mm.h).

#[cfg(CONFIG_MEMCG)]
use super::bindings;
use kernel::mm::{
    Mm,
    MmWithUser, //
};
use kernel::sync::atomic::{
    Acquire,
    Atomic, //
};

/// How many users an address space has: tasks, and contexts that look into it. With an acquire:
/// what is read later is no older. Any context.
pub(super) fn count(mm: &Mm) -> i32 {
    // SAFETY: The structure is not freed, as the reference shows. The number is one that the kernel
    // takes for an atomic everywhere.
    let users = unsafe {
        let users = &raw mut (*mm.as_raw()).__bindgen_anon_1.mm_users;
        Atomic::from_ptr(&raw mut (*users).counter)
    };
    users.load(Acquire)
}

/// Is there another user of the address space than the caller: a task, or a context that looks into
/// it? Any context.
pub(crate) fn is_shared(mm: &MmWithUser) -> bool {
    count(mm) != 1
}

/// Has the address space ended: its last user left it, and none can come any more? Any context.
pub(crate) fn has_ended(mm: &Mm) -> bool {
    count(mm) == 0
}

/// Calls `allocate` with what it allocates for the account of the current task charged to the
/// control group of an address space instead. Process context.
#[cfg(CONFIG_MEMCG)]
pub(crate) fn with_active_memcg<T>(mm: &Mm, allocate: impl FnOnce() -> T) -> T {
    // SAFETY: The structure of the address space is not freed, as the reference shows. What this
    // returns is a reference to a group, or NULL.
    let group = unsafe { bindings::get_mem_cgroup_from_mm(mm.as_raw()) };
    // SAFETY: The group is held until after the one from before is set again, below. Calls nest, so
    // the one from before is held, too, by the caller that set it.
    let before = unsafe { bindings::user_events_set_active_memcg(group) };
    let result = allocate();
    // SAFETY: As above.
    unsafe {
        bindings::user_events_set_active_memcg(before);
        bindings::user_events_mem_cgroup_put(group);
    }
    result
}

/// Calls `allocate`. This kernel has no control groups for memory.
#[cfg(not(CONFIG_MEMCG))]
pub(crate) fn with_active_memcg<T>(_mm: &Mm, allocate: impl FnOnce() -> T) -> T {
    allocate()
}
