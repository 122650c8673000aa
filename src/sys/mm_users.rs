// SPDX-License-Identifier: GPL-2.0

//! The number of users of an address space, and the memory cgroup that it is charged to.
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

/// The number of users of an address space: tasks, and contexts that access it. An acquire: later
/// reads see no older state. Any context.
pub(super) fn count(mm: &Mm) -> i32 {
    // SAFETY: The reference keeps the structure. The kernel accesses the number as an atomic only.
    let users = unsafe {
        let users = &raw mut (*mm.as_raw()).__bindgen_anon_1.mm_users;
        Atomic::from_ptr(&raw mut (*users).counter)
    };
    users.load(Acquire)
}

/// Whether the address space has another user than the caller: a task, or a context that accesses
/// it. Any context.
pub(crate) fn is_shared(mm: &MmWithUser) -> bool {
    count(mm) != 1
}

/// Whether the address space has ended: the last user has left, and no other can come. Any context.
pub(crate) fn has_ended(mm: &Mm) -> bool {
    count(mm) == 0
}

/// Calls `allocate`, with the memory cgroup of an address space charged for its accounted
/// allocations in place of the current task's. Process context.
#[cfg(CONFIG_MEMCG)]
pub(crate) fn with_active_memcg<T>(mm: &Mm, allocate: impl FnOnce() -> T) -> T {
    // SAFETY: The reference keeps the structure. The result is a reference to a cgroup, or NULL.
    let group = unsafe { bindings::get_mem_cgroup_from_mm(mm.as_raw()) };
    // SAFETY: The cgroup is held until after the previous one is restored below. Calls nest, so the
    // caller that set the previous one still holds it.
    let before = unsafe { bindings::user_events_set_active_memcg(group) };
    let result = allocate();
    // SAFETY: As above. The reference to the cgroup, or NULL, is given back once.
    unsafe {
        bindings::user_events_set_active_memcg(before);
        bindings::user_events_mem_cgroup_put(group);
    }
    result
}

/// Calls `allocate`. The kernel has no memory cgroups.
#[cfg(not(CONFIG_MEMCG))]
pub(crate) fn with_active_memcg<T>(_mm: &Mm, allocate: impl FnOnce() -> T) -> T {
    allocate()
}
