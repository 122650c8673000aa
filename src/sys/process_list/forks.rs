// SPDX-License-Identifier: GPL-2.0

//! The tasks that are in a fork.
//!
//! C: `copy_process()` (kernel/fork.c), `struct multiprocess_signals` (linux/sched/signal.h).

use super::super::bindings;
use super::super::mm_users;
use super::{
    for_each,
    for_each_while,
    ListedProcess,
    ListedThread, //
};
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::bindings::{
    mm_struct,
    sighand_struct, //
};
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed, //
};
use kernel::sync::rcu;
use kernel::types::NotThreadSafe;

/// So many forks of one process are looked at, in one pass over its threads.
const MAX_LISTED_FORKS: usize = 32;

/// Bytes of a task's stack.
const THREAD_SIZE: usize = bindings::USER_EVENTS_THREAD_SIZE;

/// The lock under which the threads of a process change, held with interrupts off. C: `siglock` of
/// `struct sighand_struct`.
///
/// # Invariants
///
/// The current context has locked it, and RCU is read-locked.
struct SighandGuard {
    sighand: *mut sighand_struct,
    flags: c_ulong,
    _same_context: NotThreadSafe,
}

impl SighandGuard {
    /// Takes the lock of a process, if that has not ended. C: `lock_task_sighand()`, which is not
    /// exported.
    ///
    /// # Safety
    ///
    /// RCU must be read-locked for as long as the result lives. The context must have no other.
    unsafe fn lock(process: &ListedProcess<'_>) -> Option<Self> {
        // SAFETY: The task is not freed yet, by the invariant of `ListedProcess`. The kernel reads and
        // writes the pointer with single accesses where others may use it.
        let place = unsafe { Atomic::from_ptr(&raw mut (*process.leader.as_ptr()).sighand) };
        let sighand = place.load(Acquire);
        if sighand.is_null() {
            return None;
        }
        // SAFETY: The lock is there even if the process is being freed just now: it is of a cache with
        // SLAB_TYPESAFE_BY_RCU, and RCU is read-locked.
        let flags = unsafe { bindings::user_events_lock_sighand(sighand) };
        // INVARIANT: Just locked.
        let guard = Self {
            sighand,
            flags,
            _same_context: NotThreadSafe,
        };
        // It was not another process's by then: the pointer changes under the lock only.
        (place.load(Relaxed) == sighand).then_some(guard)
    }
}

impl Drop for SighandGuard {
    fn drop(&mut self) {
        // SAFETY: By the invariant the current context has locked it, with these flags from before.
        unsafe { bindings::user_events_unlock_sighand(self.sighand, self.flags) };
    }
}

impl ListedProcess<'_> {
    /// Calls `each` for the threads that are in a fork. Returns `false`, without a call, if they are too
    /// many.
    ///
    /// Each has an entry in a list of its process from the start of `copy_process()` until the child is
    /// in the list of processes, and the entry is on the thread's stack.
    fn for_each_forking(
        &self,
        _lock: &SighandGuard,
        each: &mut impl FnMut(&ListedThread<'_>),
    ) -> bool {
        let mut entries = [0; MAX_LISTED_FORKS];
        let mut count = 0;
        // SAFETY: As for `signal`. The list is protected by the lock that is held.
        let mut entry = unsafe { (*self.signal()).multiprocess.first };
        while !entry.is_null() {
            let Some(place) = entries.get_mut(count) else {
                return false;
            };
            *place = entry as usize;
            count += 1;
            // SAFETY: An entry of the list.
            entry = unsafe { (*entry).next };
        }
        let entries = entries.get(..count).unwrap_or_default();
        if entries.is_empty() {
            return true;
        }
        let mut found = 0;
        for thread in self.threads() {
            let stack = thread.stack();
            for entry in entries {
                if entry.wrapping_sub(stack) < THREAD_SIZE {
                    each(&thread);
                    found += 1;
                }
            }
            if found == count {
                break;
            }
        }
        true
    }
}

impl ListedThread<'_> {
    /// The address of its stack, to be compared only.
    fn stack(&self) -> usize {
        // SAFETY: By the invariant the thread is not freed yet.
        unsafe { (*self.thread.as_ptr()).stack as usize }
    }
}

/// Calls `each` for every task that is in a fork of the current task's address space `mm`, at one moment
/// for each group of threads that uses it: all that is done in a fork before the child is in the list
/// of processes is done either before that moment, or after it. Calls that make a thread are left out.
/// Looks at all processes if others than the current one may use the address space. Interrupts are off while
/// the threads of a process are gone through. Returns `false` if a process has more forks under way than one
/// pass can look for; these were left out.
///
/// `each` must not sleep, and take no lock that is not taken with interrupts off everywhere. Process
/// context.
pub(crate) fn for_each_forking(mm: &MmWithUser, mut each: impl FnMut(&ListedThread<'_>)) -> bool {
    // What the caller has written to the address space is written before it is read which tasks use it. Pairs with
    // the barrier after which a new task runs: one that is not found here, and forks, copies what was written.
    // SAFETY: A barrier only.
    unsafe { kernel::bindings::smp_mb() };
    let _reader = rcu::read_lock();
    let task = current!().as_ptr();
    let Some(leader) = NonNull::new(task) else {
        return true;
    };
    // INVARIANT: It is the current task.
    let own = ListedProcess {
        leader,
        _reader: PhantomData,
    };
    // SAFETY: RCU is read-locked until this returns.
    let Some(lock) = (unsafe { SighandGuard::lock(&own) }) else {
        return true;
    };
    let mut all = own.for_each_forking(&lock, &mut each);
    // Each thread that lives uses the address space, and while the lock is held there are none that are
    // new. So if there are no more users, there were none but these when the users were counted. They are
    // counted first, with an acquire, which pairs with the full barrier of a thread that exits.
    let users = mm_users::count(mm);
    let live = own.live();
    drop(lock);
    if users > live {
        all &= for_each_forking_elsewhere(mm, &own, &mut each);
    }
    all
}

/// [`for_each_forking`] for the other processes with this address space.
fn for_each_forking_elsewhere(
    mm: &MmWithUser,
    own: &ListedProcess<'_>,
    each: &mut impl FnMut(&ListedThread<'_>),
) -> bool {
    let key = mm.as_raw() as usize;
    let mut all = true;
    for_each(|process| {
        if process.signal() == own.signal() || process.mm() != key {
            return;
        }
        // SAFETY: RCU is read-locked for the call of this closure. The context has no other lock.
        if let Some(lock) = unsafe { SighandGuard::lock(process) } {
            all &= process.for_each_forking(&lock, each);
        }
    });
    all
}

/// May there be a fork of this address space of which the parent has not been told yet, and that
/// [`for_each_forking`] does not find any more? Looks at all processes. Process context.
///
/// The child is in the list of processes, has a copy of this address space, and has not run. It is a child
/// of a task in that, or (`CLONE_PARENT`) has the same program.
pub(crate) fn is_fork_ending(mm: &MmWithUser) -> bool {
    // SAFETY: The address space is not freed, by its type.
    let program = unsafe { program_of(mm.as_raw()) };
    let mut found = false;
    for_each_while(|process| {
        let task = process.leader.as_ptr();
        // SAFETY: By the invariant of `process` the task is not freed yet. Its state changes while it
        // is looked at, hence the volatile read.
        let state = unsafe { (&raw const (*task).__state).read_volatile() };
        if state & bindings::TASK_NEW == 0 {
            return true;
        }
        // SAFETY: As above; a parent is not freed before its child has another, and RCU is read-locked
        // since before it was found to be this one. The pointers are written with single accesses.
        let parent_mm = unsafe {
            let parent = Atomic::from_ptr(&raw mut (*task).real_parent).load(Acquire);
            (&raw const (*parent).mm).read_volatile()
        };
        found = parent_mm == mm.as_raw();
        if !found {
            // SAFETY: The task is not freed yet. With this lock held it does not leave its address space.
            // C: `task_lock()`.
            unsafe {
                let lock = &raw mut (*task).alloc_lock;
                kernel::bindings::spin_lock(lock);
                let its_mm = (*task).mm;
                found = !its_mm.is_null() && program_of(its_mm) == program;
                kernel::bindings::spin_unlock(lock);
            }
        }
        !found
    });
    found
}

/// The file that an address space's program is in, to be compared only.
///
/// # Safety
///
/// The address space must not be freed yet.
unsafe fn program_of(mm: *mut mm_struct) -> usize {
    // SAFETY: Promised by the caller. The pointer may change just now, hence the volatile read.
    unsafe { (&raw const (*mm).__bindgen_anon_1.exe_file).read_volatile() as usize }
}
