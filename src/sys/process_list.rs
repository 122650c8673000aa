// SPDX-License-Identifier: GPL-2.0

//! The system's processes and their threads.
//!
//! C: `for_each_process()`, `for_each_thread()`, `struct signal_struct` (linux/sched/signal.h),
//! `struct pid` (linux/pid.h).

use super::bindings::{
    self,
    task_struct, //
};
use super::mm_users;
use super::task_work::{
    Reservation,
    TaskWork, //
};
use core::iter;
use core::marker::PhantomData;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::bindings::signal_struct;
use kernel::mm::{
    Mm,
    MmWithUser, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic, //
};
use kernel::sync::rcu;

/// Identifies a process, also among ended ones: the thread group id in the initial pid namespace
/// and the start time. An exec changes neither.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessId {
    tgid: i32,
    start_time: u64,
}

/// A process: a group of threads.
///
/// # Invariants
///
/// `leader` is the leader of a thread group, or another thread of it. For `'a` RCU is read-locked,
/// since before the process was found in the list, unless it is the current task's.
pub(crate) struct ListedProcess<'a> {
    leader: NonNull<task_struct>,
    _reader: PhantomData<&'a rcu::Guard>,
}

impl<'a> ListedProcess<'a> {
    /// # Safety
    ///
    /// `leader` must be NULL, or fulfil the type invariants.
    unsafe fn new(leader: *mut task_struct, _reader: &'a rcu::Guard) -> Option<Self> {
        // INVARIANT: By the safety requirement.
        NonNull::new(leader).map(|leader| Self {
            leader,
            _reader: PhantomData,
        })
    }

    /// The state that the threads share, freed with the last of them.
    fn signal(&self) -> *mut signal_struct {
        // SAFETY: By the invariant the task is not freed yet, and its pointer does not change.
        unsafe { (*self.leader.as_ptr()).signal }
    }

    /// The number of threads that have not begun to exit.
    fn live(&self) -> i32 {
        // SAFETY: The state lives as long as the task, which is not freed yet. The kernel accesses
        // the number as an atomic only.
        let live = unsafe { Atomic::from_ptr(&raw mut (*self.signal()).live.counter) };
        live.load(Acquire)
    }

    /// Iterates over the threads. May miss one that starts or ends meanwhile.
    pub(crate) fn threads(&self) -> impl Iterator<Item = ListedThread<'a>> {
        let leader = self.leader.as_ptr();
        let mut last = ptr::null_mut();
        iter::from_fn(move || {
            // SAFETY: By the invariant RCU is read-locked, which keeps the leader, and `last`,
            // unless that is NULL.
            last = unsafe { bindings::user_events_next_thread(leader, last) };
            // INVARIANT: Just found.
            NonNull::new(last).map(|thread| ListedThread {
                thread,
                _reader: PhantomData,
            })
        })
    }

    /// The address of the process's `mm_struct`, to be compared only; 0 if it has none. The address
    /// space may have ended by the time this returns.
    pub(crate) fn mm(&self) -> usize {
        // A kernel thread borrows the address spaces of others.
        // SAFETY: By the invariant the task is not freed yet.
        if unsafe { bindings::user_events_is_kthread(self.leader.as_ptr()) } {
            return 0;
        }
        // The leader may have exited before other threads.
        let mut threads = self.threads().map(|thread| thread.mm());
        threads.find(|mm| *mm != 0).unwrap_or(0)
    }

    /// Identifies the process.
    fn id(&self) -> ProcessId {
        // SAFETY: By the invariant the task is not freed yet. Volatile reads, as a thread that
        // execs takes both numbers over from the leader.
        unsafe {
            let leader = self.leader.as_ptr();
            ProcessId {
                tgid: (&raw const (*leader).tgid).read_volatile(),
                start_time: (&raw const (*leader).start_time).read_volatile(),
            }
        }
    }
}

/// A thread of a [`ListedProcess`].
///
/// # Invariants
///
/// For `'a` RCU is read-locked, since before the thread was found.
pub(crate) struct ListedThread<'a> {
    thread: NonNull<task_struct>,
    _reader: PhantomData<&'a rcu::Guard>,
}

impl ListedThread<'_> {
    /// A number that no other existing thread has. See [`current_key`](super::task::current_key).
    pub(crate) fn key(&self) -> usize {
        self.thread.as_ptr() as usize
    }

    /// The address of the thread's `mm_struct`, to be compared only.
    fn mm(&self) -> usize {
        // SAFETY: By the invariant the thread is not freed yet. It may leave its address space
        // meanwhile, hence the atomic read.
        let mm = unsafe { Atomic::from_ptr(&raw mut (*self.thread.as_ptr()).mm) };
        mm.load(Acquire) as usize
    }

    /// Adds `work` to the thread. Does not sleep.
    ///
    /// # Errors
    ///
    /// The work, if the thread has exited too far to do any, or the module is being unloaded.
    pub(crate) fn add_work<W: TaskWork>(
        &self,
        reservation: Reservation<W>,
        work: W,
    ) -> Result<(), W> {
        // SAFETY: By the invariant the thread is not freed yet.
        unsafe { reservation.add(self.thread.as_ptr(), work) }
    }
}

/// Iterates over the processes, see [`for_each_process`].
fn all(reader: &rcu::Guard) -> impl Iterator<Item = ListedProcess<'_>> {
    let first = &raw mut kernel::bindings::init_task;
    let mut last = first;
    iter::from_fn(move || {
        // SAFETY: RCU has been read-locked since `last` was found in the list, unless `last` is the
        // first one, which is never freed. The list has leaders only.
        unsafe {
            last = bindings::user_events_next_task(last);
            ListedProcess::new(last, reader).filter(|_| last != first)
        }
    })
}

/// Calls `each`, which must not sleep, for every process, the oldest first. May miss one that
/// starts or ends meanwhile. Process context.
pub(crate) fn for_each_process(mut each: impl FnMut(&ListedProcess<'_>)) {
    all(&rcu::read_lock()).for_each(|process| each(&process));
}

/// Searches all processes for one with this address space, and returns its leader.
#[cfg(not(CONFIG_MEMCG))]
pub(super) fn find(mm: &Mm, reader: &rcu::Guard) -> Option<NonNull<task_struct>> {
    let found = all(reader).find(|process| process.mm() == key(mm));
    found.map(|process| process.leader)
}

/// The process of the current task.
fn current(reader: &rcu::Guard) -> Option<ListedProcess<'_>> {
    let task = current!().as_ptr();
    // SAFETY: The leader of the current task is not freed before the task. It changes in an exec
    // only, hence the atomic read.
    unsafe {
        let leader = Atomic::from_ptr(&raw mut (*task).group_leader).load(Acquire);
        ListedProcess::new(leader, reader)
    }
}

/// Whether exactly one thread of the current process has not begun to exit. Any context of a task.
pub(crate) fn one_live_thread_left() -> bool {
    current(&rcu::read_lock()).is_some_and(|process| process.live() == 1)
}

/// Whether an exec of another thread of its process kills the current task. Any context of a task.
pub(crate) fn is_killed_by_exec() -> bool {
    // SAFETY: The current task keeps the state that its threads share. The pointer may change
    // meanwhile, hence the volatile read.
    let task = unsafe {
        let signal = (*current!().as_ptr()).signal;
        (&raw const (*signal).group_exec_task).read_volatile()
    };
    !task.is_null() && task != current!().as_ptr()
}

impl ProcessId {
    /// The process of the current task. Any context of a task.
    pub(crate) fn current() -> Option<Self> {
        current(&rcu::read_lock()).map(|process| process.id())
    }

    /// Whether the process exists and has this address space, which it may have begun to leave. Any
    /// context.
    pub(crate) fn has_mm(self, mm: &Mm) -> bool {
        let reader = rcu::read_lock();
        // SAFETY: RCU is read-locked. The lookup returns the leader of a thread group, or NULL.
        let process = unsafe {
            let pid = bindings::find_pid_ns(self.tgid, &raw mut bindings::init_pid_ns);
            let leader = bindings::pid_task(pid, bindings::pid_type_PIDTYPE_TGID);
            ListedProcess::new(leader, &reader)
        };
        process.is_some_and(|process| process.id() == self && process.mm() == key(mm))
    }
}

/// The value of [`ListedProcess::mm`] for an address space.
fn key(mm: &Mm) -> usize {
    mm.as_raw() as usize
}

/// Whether the other users of the address space are all exiting threads of the current process. To
/// be called by the last thread, as there are no new ones then. Process context.
pub(crate) fn is_last_mm_user(mm: &MmWithUser) -> bool {
    // Counted first: each thread that is found afterwards was a user then.
    let users = mm_users::count(mm);
    let reader = rcu::read_lock();
    let Some(process) = current(&reader) else {
        return false;
    };
    let threads = process.threads().filter(|thread| thread.mm() == key(mm));
    usize::try_from(users).is_ok_and(|users| users <= threads.count())
}

/// Whether a process other than the current one runs user code in this address space: one with the
/// address space and a thread that has not begun to exit, and if there is exactly one such thread,
/// for which `in_exec` returns `false`. Checks the parent first, then all processes. `in_exec` must
/// not sleep. Process context.
///
/// An exiting process counts as none from before its [`ExitProbe`](super::exit_probe::ExitProbe) is
/// called.
pub(crate) fn mm_has_other_process(mm: &Mm, mut in_exec: impl FnMut(ProcessId) -> bool) -> bool {
    let key = key(mm);
    let reader = rcu::read_lock();
    let Some(own) = current(&reader) else {
        return false;
    };
    let mut counts = |process: &ListedProcess<'_>| {
        process.signal() != own.signal()
            && process.mm() == key
            && match process.live() {
                0 => false,
                1 => !in_exec(process.id()),
                _ => true,
            }
    };
    // SAFETY: The current task has a parent, which is freed after a grace period of RCU at the
    // earliest once the task has another, and whose leader is not freed before it.
    let parent = unsafe {
        let task = current!().as_ptr();
        let parent = Atomic::from_ptr(&raw mut (*task).real_parent).load(Acquire);
        let leader = Atomic::from_ptr(&raw mut (*parent).group_leader).load(Acquire);
        ListedProcess::new(leader, &reader)
    };
    parent.is_some_and(|parent| counts(&parent)) || all(&reader).any(|process| counts(&process))
}
