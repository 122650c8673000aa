// SPDX-License-Identifier: GPL-2.0

//! The processes of the system, and their threads.
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

/// Tells a process from all others, also from those that have ended: the id of its thread group in
/// the first pid namespace, and the time of its start. An exec changes neither.
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
/// and has been since before it was found in the list of processes, unless it is the current task.
pub(crate) struct ListedProcess<'a> {
    leader: NonNull<task_struct>,
    _reader: PhantomData<&'a rcu::Guard>,
}

impl<'a> ListedProcess<'a> {
    /// # Safety
    ///
    /// The invariants must hold for `leader`, unless it is NULL.
    unsafe fn new(leader: *mut task_struct, _reader: &'a rcu::Guard) -> Option<Self> {
        // INVARIANT: Promised by the caller.
        NonNull::new(leader).map(|leader| Self {
            leader,
            _reader: PhantomData,
        })
    }

    /// What the threads have in common. It is freed with the last of them.
    fn signal(&self) -> *mut signal_struct {
        // SAFETY: By the invariant the task is not freed yet. The pointer does not change.
        unsafe { (*self.leader.as_ptr()).signal }
    }

    /// How many of the threads live: they have not begun to exit.
    fn live(&self) -> i32 {
        // SAFETY: As for `signal`. The number is one that the kernel takes for an atomic
        // everywhere.
        let live = unsafe { Atomic::from_ptr(&raw mut (*self.signal()).live.counter) };
        live.load(Acquire)
    }

    /// The threads. One that begins or ends meanwhile may be left out.
    pub(crate) fn threads(&self) -> impl Iterator<Item = ListedThread<'a>> {
        let leader = self.leader.as_ptr();
        let mut last = ptr::null_mut();
        iter::from_fn(move || {
            // SAFETY: By the invariant RCU is read-locked, and the leader is not freed meanwhile;
            // `last` was found since RCU was, or is NULL.
            last = unsafe { bindings::user_events_next_thread(leader, last) };
            // INVARIANT: Just found.
            NonNull::new(last).map(|thread| ListedThread {
                thread,
                _reader: PhantomData,
            })
        })
    }

    /// The address of its address space, to be compared only; 0 if it has none. It may have ended
    /// by the time this returns.
    pub(crate) fn mm(&self) -> usize {
        // A kernel thread works in the address space of others.
        // SAFETY: By the invariant the task is not freed yet.
        if unsafe { bindings::user_events_is_kthread(self.leader.as_ptr()) } {
            return 0;
        }
        // Of any thread: the leader may have exited.
        let mut threads = self.threads().map(|thread| thread.mm());
        threads.find(|mm| *mm != 0).unwrap_or(0)
    }

    /// Which process it is.
    fn id(&self) -> ProcessId {
        // SAFETY: By the invariant the task is not freed yet. A thread that execs takes both
        // numbers over from the leader, hence the volatile reads.
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
/// For `'a` RCU is read-locked, since before the thread was found in its process.
pub(crate) struct ListedThread<'a> {
    thread: NonNull<task_struct>,
    _reader: PhantomData<&'a rcu::Guard>,
}

impl ListedThread<'_> {
    /// Tells it from all threads that there are at the same time. See
    /// [`current_key`](super::task::current_key).
    pub(crate) fn key(&self) -> usize {
        self.thread.as_ptr() as usize
    }

    /// The address of its address space, to be compared only.
    fn mm(&self) -> usize {
        // SAFETY: By the invariant the thread is not freed yet. It may leave its address space just
        // now, hence the read as a pointer that others may change.
        let mm = unsafe { Atomic::from_ptr(&raw mut (*self.thread.as_ptr()).mm) };
        mm.load(Acquire) as usize
    }

    /// Has the thread do `work`. Does not sleep.
    ///
    /// # Errors
    ///
    /// The work, if the thread does none any more, or the module is being unloaded.
    pub(crate) fn add_work<W: TaskWork>(
        &self,
        reservation: Reservation<W>,
        work: W,
    ) -> Result<(), W> {
        // SAFETY: By the invariant the thread is not freed yet.
        unsafe { reservation.add(self.thread.as_ptr(), work) }
    }
}

/// The processes, as [`for_each_process`] goes through them.
fn all(reader: &rcu::Guard) -> impl Iterator<Item = ListedProcess<'_>> {
    let first = &raw mut kernel::bindings::init_task;
    let mut last = first;
    iter::from_fn(move || {
        // SAFETY: RCU has been read-locked since `last` was found in the list, or it is the one at
        // its start, which never goes. Those in the list are leaders.
        unsafe {
            last = bindings::user_events_next_task(last);
            ListedProcess::new(last, reader).filter(|_| last != first)
        }
    })
}

/// Calls `each`, which must not sleep, for every process, the oldest first; one that begins or ends
/// meanwhile may be left out. Process context.
pub(crate) fn for_each_process(mut each: impl FnMut(&ListedProcess<'_>)) {
    all(&rcu::read_lock()).for_each(|process| each(&process));
}

/// The leader of a process in an address space, if there is one. Looks at all processes.
#[cfg(not(CONFIG_MEMCG))]
pub(super) fn find(mm: &Mm, reader: &rcu::Guard) -> Option<NonNull<task_struct>> {
    let found = all(reader).find(|process| process.mm() == key(mm));
    found.map(|process| process.leader)
}

/// The process of the current task.
fn current(reader: &rcu::Guard) -> Option<ListedProcess<'_>> {
    let task = current!().as_ptr();
    // SAFETY: The current task has a leader, which is not freed before it, and the task has not
    // been released. Which one that is changes in an exec only, hence the read as a pointer that
    // others may change.
    unsafe {
        let leader = Atomic::from_ptr(&raw mut (*task).group_leader).load(Acquire);
        ListedProcess::new(leader, reader)
    }
}

/// Has just one thread of the current process not begun to exit? Any context of a task.
pub(crate) fn one_live_thread_left() -> bool {
    current(&rcu::read_lock()).is_some_and(|process| process.live() == 1)
}

/// Is the current task ended by an exec of another thread of its process? Any context of a task.
pub(crate) fn is_killed_by_exec() -> bool {
    // SAFETY: The current task is alive, and so is what its threads have in common. The pointer may
    // change just now, hence the volatile read.
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

    /// Is the process there, and has it this address space? It may have begun to leave it. Any
    /// context.
    pub(crate) fn has_mm(self, mm: &Mm) -> bool {
        let reader = rcu::read_lock();
        // SAFETY: RCU is read-locked. What is found is the leader of a thread group, or NULL.
        let process = unsafe {
            let pid = bindings::find_pid_ns(self.tgid, &raw mut bindings::init_pid_ns);
            let leader = bindings::pid_task(pid, bindings::pid_type_PIDTYPE_TGID);
            ListedProcess::new(leader, &reader)
        };
        process.is_some_and(|process| process.id() == self && process.mm() == key(mm))
    }
}

/// An address space as [`ListedProcess::mm`] has it.
fn key(mm: &Mm) -> usize {
    mm.as_raw() as usize
}

/// Are all users of the address space, but for the caller's one, threads of the current process
/// that exit? To be asked by the last of them, as there are no new ones then. Process context.
pub(crate) fn is_last_mm_user(mm: &MmWithUser) -> bool {
    // In this order: a thread that is counted as the process's was a user before.
    let users = mm_users::count(mm);
    let reader = rcu::read_lock();
    let Some(process) = current(&reader) else {
        return false;
    };
    let threads = process.threads().filter(|thread| thread.mm() == key(mm));
    usize::try_from(users).is_ok_and(|users| users <= threads.count())
}

/// Is there a process, other than the current one, that runs user code in this address space: has
/// one of its threads not begun to exit, and if it is the only one, is it not `in_exec`? The parent
/// is looked at first, and if that is none, all processes are. `in_exec` must not sleep. Process
/// context.
///
/// A process that exits is none from before [`ExitProbe`](super::exit_probe::ExitProbe) tells of
/// it.
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
    // SAFETY: The current task is alive, and has a parent, which is not freed before a grace period
    // of RCU after it has another. The parent's leader is not freed before the parent.
    let parent = unsafe {
        let task = current!().as_ptr();
        let parent = Atomic::from_ptr(&raw mut (*task).real_parent).load(Acquire);
        let leader = Atomic::from_ptr(&raw mut (*parent).group_leader).load(Acquire);
        ListedProcess::new(leader, &reader)
    };
    parent.is_some_and(|parent| counts(&parent)) || all(&reader).any(|process| counts(&process))
}
