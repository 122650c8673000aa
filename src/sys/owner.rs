// SPDX-License-Identifier: GPL-2.0

//! The process that an address space belongs to.
//!
//! C: `mm->owner` (linux/mm_types.h), where the kernel has it.

use super::bindings;
use kernel::mm::Mm;

/// Bytes of a command name, its NUL included.
const NAME_LEN: usize = bindings::TASK_COMM_LEN as usize;

/// A process, as it was when it was looked for.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pid: i32,
    name: [u8; NAME_LEN],
}

impl Owner {
    /// The process that an address space belongs to: of several that share it, the one for which it
    /// was made, or another one of them when that has ended. Process context.
    pub(crate) fn of(mm: &Mm) -> Option<Self> {
        let mut owner = Self {
            pid: 0,
            name: [0; NAME_LEN],
        };
        let (pid, name) = (&raw mut owner.pid, owner.name.as_mut_ptr());
        // SAFETY: The address space is not freed, by its type. `pid` is writable, and `name` has
        // room for NAME_LEN bytes, which is TASK_COMM_LEN.
        let is_there = unsafe { bindings::user_events_owner(mm.as_raw(), pid, name) };
        is_there.then_some(owner)
    }

    /// Its id in the pid namespace of the task that looked; 0 if it is not in there.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Its command name, up to the first NUL. Any bytes.
    pub(crate) fn name(&self) -> &[u8] {
        let length = self.name.iter().position(|byte| *byte == 0);
        self.name
            .get(..length.unwrap_or(NAME_LEN))
            .unwrap_or_default()
    }
}
