// SPDX-License-Identifier: GPL-2.0

//! The process that owns an address space.
//!
//! C: `mm->owner` (linux/mm_types.h), with `CONFIG_MEMCG`.

use super::bindings;
use kernel::mm::Mm;
use kernel::prelude::*;
use kernel::sync::rcu;
use kernel::task::Task;

/// Bytes of a command name, with its NUL.
const TASK_COMM_LEN: usize = bindings::TASK_COMM_LEN as usize;

/// A snapshot of the process.
#[derive(Clone, Copy)]
pub(crate) struct MmOwner {
    pid: i32,
    name: [u8; TASK_COMM_LEN],
}

/// The leader of the process that owns an address space. `_reader` keeps the task.
#[cfg(CONFIG_MEMCG)]
fn find(mm: &Mm, _reader: &rcu::Guard) -> Option<core::ptr::NonNull<bindings::task_struct>> {
    use core::ptr::NonNull;
    use kernel::sync::atomic::{
        Acquire,
        Atomic, //
    };

    // SAFETY: The reference keeps the structure. Tasks are freed after a grace period of RCU, which
    // is read-locked. The kernel writes both pointers with single accesses where others may read
    // them.
    unsafe {
        let owner = &raw mut (*mm.as_raw()).__bindgen_anon_1.owner;
        let owner = NonNull::new(Atomic::from_ptr(owner).load(Acquire))?.as_ptr();
        let leader = &raw mut (*owner).group_leader;
        NonNull::new(Atomic::from_ptr(leader).load(Acquire))
    }
}

#[cfg(not(CONFIG_MEMCG))]
use super::process_list::find;

impl MmOwner {
    /// The owner of an address space. Of several processes that share it, the one for which it was
    /// made, or another one after that has ended. Process context.
    pub(crate) fn of(mm: &Mm) -> Option<Self> {
        let reader = rcu::read_lock();
        let leader = find(mm, &reader)?;
        // SAFETY: `reader` keeps the task. `Task` has the layout of C's structure.
        let task = unsafe { &*leader.as_ptr().cast::<Task>() };
        let pid = task.tgid_nr_ns(current!().active_pid_ns());
        let mut name = [0; TASK_COMM_LEN];
        for (at, byte) in name.iter_mut().enumerate() {
            // SAFETY: The name has `TASK_COMM_LEN` bytes. The task may change them meanwhile, hence
            // the volatile reads: each byte is one of the old name or of the new one.
            *byte = unsafe {
                let comm = (&raw const (*leader.as_ptr()).comm).cast::<u8>();
                comm.add(at).read_volatile()
            };
        }
        drop(reader);
        Some(Self { pid, name })
    }

    /// The process id in the pid namespace of the task that called `of`; 0 if the process is not in
    /// there.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The command name without the NUL. Any bytes.
    pub(crate) fn name(&self) -> &[u8] {
        (self.name.split(|byte| *byte == 0))
            .next()
            .unwrap_or_default()
    }
}
