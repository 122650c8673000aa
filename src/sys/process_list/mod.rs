// SPDX-License-Identifier: GPL-2.0

//! The processes of the system, their threads, and in [`forks`] those that are in a fork.
//!
//! C: `for_each_process()`, `for_each_thread()`, `struct signal_struct` (linux/sched/signal.h).

mod forks;

pub(crate) use forks::{
    for_each_forking,
    is_fork_ending, //
};

use super::bindings::{
    self,
    task_struct, //
};
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
use kernel::mm::Mm;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::rcu;

/// A process: a group of threads.
///
/// # Invariants
///
/// `leader` is the leader of a thread group, or another thread of it. For `'a` RCU is read-locked, and has
/// been since before it was found in the list of processes, unless it is the current task.
pub(crate) struct ListedProcess<'a> {
    leader: NonNull<task_struct>,
    _reader: PhantomData<&'a rcu::Guard>,
}

impl<'a> ListedProcess<'a> {
    /// What the threads have in common. It is freed with the last of them.
    fn signal(&self) -> *mut signal_struct {
        // SAFETY: By the invariant the task is not freed yet. The pointer does not change.
        unsafe { (*self.leader.as_ptr()).signal }
    }

    /// How many of the threads live: they have not begun to exit.
    fn live(&self) -> i32 {
        // SAFETY: As for `signal`. The number is one that the kernel takes for an atomic everywhere.
        let live = unsafe { Atomic::from_ptr(&raw mut (*self.signal()).live.counter) };
        live.load(Relaxed)
    }

    /// The threads. One that begins or ends meanwhile may be left out.
    fn threads(&self) -> impl Iterator<Item = ListedThread<'a>> {
        let leader = self.leader.as_ptr();
        let mut last = ptr::null_mut();
        iter::from_fn(move || {
            // SAFETY: By the invariant RCU is read-locked, and the leader is not freed meanwhile; `last`
            // was found since RCU was, or is NULL.
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

    /// Will the tracepoints that [`ExitProbe`](super::exit_probe::ExitProbe) watches still tell of the
    /// process that it leaves its address space? `false` as well when that cannot be told, because one
    /// of its threads is in an exec: it may have passed `sched_prepare_exec`, and has its old address
    /// space for a while after that.
    pub(crate) fn reports_exit(&self) -> bool {
        self.live() != 0 && !self.threads().any(|thread| thread.is_in_exec())
    }

    /// Calls `each` for every thread. One that begins or ends meanwhile may be left out.
    pub(crate) fn for_each_thread(&self, mut each: impl FnMut(&ListedThread<'_>)) {
        self.threads().for_each(|thread| each(&thread));
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
    /// [`current_task`](super::task_work::current_task).
    pub(crate) fn key(&self) -> usize {
        self.thread.as_ptr() as usize
    }

    /// The address of its address space, to be compared only.
    fn mm(&self) -> usize {
        // SAFETY: By the invariant the thread is not freed yet. It may leave its address space just
        // now, hence the volatile read.
        unsafe { (&raw const (*self.thread.as_ptr()).mm).read_volatile() as usize }
    }

    fn is_in_exec(&self) -> bool {
        // SAFETY: By the invariant the thread is not freed yet.
        unsafe { bindings::user_events_is_in_exec(self.thread.as_ptr()) }
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

/// Calls `each` for every process, the oldest first, until it returns `false`; one that begins or ends
/// meanwhile may be left out. `each` must not sleep. Process context.
pub(crate) fn for_each_while(mut each: impl FnMut(&ListedProcess<'_>) -> bool) {
    let _reader = rcu::read_lock();
    let first = &raw mut kernel::bindings::init_task;
    let mut last = first;
    loop {
        // SAFETY: RCU has been read-locked since `last` was found in the list, or it is the one at
        // its start, which never goes.
        last = unsafe { bindings::user_events_next_task(last) };
        let Some(leader) = NonNull::new(last).filter(|_| last != first) else {
            return;
        };
        // INVARIANT: Found under the lock that `_reader` holds until this returns.
        let process = ListedProcess {
            leader,
            _reader: PhantomData,
        };
        if !each(&process) {
            return;
        }
    }
}

/// Calls `each` for every process. As [`for_each_while`].
pub(crate) fn for_each(mut each: impl FnMut(&ListedProcess<'_>)) {
    for_each_while(|process| {
        each(process);
        true
    });
}

/// The leader of a process in an address space, if there is one. Looks at all processes.
#[cfg(not(CONFIG_MEMCG))]
pub(super) fn find(mm: &Mm, _reader: &rcu::Guard) -> Option<NonNull<task_struct>> {
    let key = mm.as_raw() as usize;
    let mut found = None;
    for_each_while(|process| {
        found = (process.mm() == key).then_some(process.leader);
        found.is_none()
    });
    found
}

/// Is there a process in this address space of which [`ExitProbe`](super::exit_probe::ExitProbe) will
/// still tell that it leaves? Looks at all processes. Process context.
pub(crate) fn will_report_exit(mm: &Mm) -> bool {
    let key = mm.as_raw() as usize;
    let mut found = false;
    for_each_while(|process| {
        found = process.mm() == key && process.reports_exit();
        !found
    });
    found
}
