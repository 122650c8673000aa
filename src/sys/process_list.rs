// SPDX-License-Identifier: GPL-2.0

//! The processes of the system, and what they call themselves.
//!
//! C: `for_each_process()` (linux/sched/signal.h).

use super::bindings;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use kernel::sync::rcu;

/// Bytes of a command name, its NUL included.
pub(crate) const NAME_LEN: usize = bindings::TASK_COMM_LEN as usize;

/// A process: a group of threads.
///
/// # Invariants
///
/// `leader` is the leader of a thread group, and for `'a` RCU is read-locked, since before it was
/// found in the list of processes.
pub(crate) struct ListedProcess<'a> {
    leader: NonNull<bindings::task_struct>,
    _reader: PhantomData<&'a rcu::Guard>,
}

impl ListedProcess<'_> {
    /// The address of its address space, to be compared only; 0 if it has none. It may have ended
    /// by the time this returns.
    pub(crate) fn mm(&self) -> usize {
        // SAFETY: By the invariant the task is not freed yet.
        unsafe { bindings::user_events_process_mm(self.leader.as_ptr()) as usize }
    }

    /// Its id in the pid namespace of the current task; 0 if it is not in there.
    pub(crate) fn id(&self) -> i32 {
        // SAFETY: As in `mm`; it is asked in process context, where the current task has a pid
        // namespace.
        unsafe { bindings::user_events_process_id(self.leader.as_ptr()) }
    }

    /// Its command name, up to the first NUL. Any bytes.
    pub(crate) fn name(&self) -> [u8; NAME_LEN] {
        let mut name = [0; NAME_LEN];
        // SAFETY: As in `mm`, and `name` has room for NAME_LEN bytes, which is TASK_COMM_LEN.
        unsafe { bindings::user_events_process_name(self.leader.as_ptr(), name.as_mut_ptr()) };
        name
    }
}

/// Calls `each` for every process, the oldest first; one that begins or ends meanwhile may be left
/// out. `each` must not sleep. Process context.
pub(crate) fn for_each(mut each: impl FnMut(&ListedProcess<'_>)) {
    let _reader = rcu::read_lock();
    let mut last = ptr::null_mut();
    loop {
        // SAFETY: RCU has been read-locked since `last` was found in the list, or it is NULL.
        last = unsafe { bindings::user_events_next_process(last) };
        let Some(leader) = NonNull::new(last) else {
            return;
        };
        // INVARIANT: Found under the lock that `_reader` holds until this returns.
        each(&ListedProcess {
            leader,
            _reader: PhantomData,
        });
    }
}
