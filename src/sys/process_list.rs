// SPDX-License-Identifier: GPL-2.0

//! The processes of the system, and their threads.
//!
//! C: `for_each_process()`, `for_each_thread()`, `struct multiprocess_signals` (linux/sched/signal.h).

use super::bindings::{self, task_struct, user_events_fork_visitor};
use super::task_work::{Reservation, TaskWork};
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use kernel::mm::{Mm, MmWithUser};
use kernel::sync::rcu;

/// A process: a group of threads.
///
/// # Invariants
///
/// `leader` is the leader of a thread group, and for `'a` RCU is read-locked, since before it was
/// found in the list of processes.
pub(crate) struct ListedProcess<'a> {
    leader: NonNull<task_struct>,
    _reader: PhantomData<&'a rcu::Guard>,
}

impl ListedProcess<'_> {
    /// The address of its address space, to be compared only; 0 if it has none. It may have ended
    /// by the time this returns.
    pub(crate) fn mm(&self) -> usize {
        // SAFETY: By the invariant the task is not freed yet.
        unsafe { bindings::user_events_process_mm(self.leader.as_ptr()) as usize }
    }

    /// Will the tracepoints that [`ExitProbe`](super::exit_probe::ExitProbe) watches still tell of the
    /// process that it leaves its address space? `false` as well when that cannot be told, because one
    /// of its threads is in an exec.
    pub(crate) fn is_to_leave(&self) -> bool {
        // SAFETY: As in `mm`.
        unsafe { bindings::user_events_process_is_to_leave(self.leader.as_ptr()) }
    }

    /// Calls `each` for every thread. One that begins or ends meanwhile may be left out.
    pub(crate) fn for_each_thread(&self, mut each: impl FnMut(&ListedThread<'_>)) {
        let mut last = ptr::null_mut();
        loop {
            // SAFETY: As in `mm`; `last` was found under the same lock, or is NULL.
            last = unsafe { bindings::user_events_next_thread(self.leader.as_ptr(), last) };
            let Some(thread) = NonNull::new(last) else {
                return;
            };
            // INVARIANT: Found under the lock that `self` stands for.
            each(&ListedThread {
                thread,
                _reader: PhantomData,
            });
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
    /// [`current_task`](super::task_work::current_task).
    pub(crate) fn key(&self) -> usize {
        self.thread.as_ptr() as usize
    }

    /// Has the thread do `work`. Does not sleep.
    ///
    /// # Errors
    ///
    /// The work, if the thread does none any more, or the module is being unloaded.
    pub(crate) fn add_work<W: TaskWork>(&self, room: Reservation<W>, work: W) -> Result<(), W> {
        // SAFETY: By the invariant the thread is not freed yet.
        unsafe { room.add(self.thread.as_ptr(), work) }
    }
}

/// Calls `each` for every process, the oldest first, until it returns `false`; one that begins or ends
/// meanwhile may be left out. `each` must not sleep. Process context.
pub(crate) fn for_each_while(mut each: impl FnMut(&ListedProcess<'_>) -> bool) {
    let _reader = rcu::read_lock();
    let mut last = ptr::null_mut();
    loop {
        // SAFETY: RCU has been read-locked since `last` was found in the list, or it is NULL.
        last = unsafe { bindings::user_events_next_process(last) };
        let Some(leader) = NonNull::new(last) else {
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

/// Is there a process in this address space of which [`ExitProbe`](super::exit_probe::ExitProbe) will
/// still tell that it leaves? Looks at all processes. Process context.
pub(crate) fn is_to_be_left(mm: &Mm) -> bool {
    let key = mm.as_raw() as usize;
    let mut found = false;
    for_each_while(|process| {
        found = process.mm() == key && process.is_to_leave();
        !found
    });
    found
}

/// A visitor of forks. The part that C knows comes first, so that its address is the whole's.
#[repr(C)]
struct Visitor<F> {
    head: user_events_fork_visitor,
    each: F,
}

/// Calls `each` for every task that is in a fork of the current task's address space `mm`, at one moment
/// for each group of threads that uses it: all that is done in a fork before the child is in the list
/// of processes is done either before that moment, or after it. Calls that make a thread are left out.
/// Looks at all processes if others than the current one may use the address space. Interrupts are off while
/// the threads of a process are gone through. Returns `false` if a process has more forks under way than one
/// pass can look for; these were left out.
///
/// `each` must not sleep, and take no lock that is not taken with interrupts off everywhere. UserMm
/// context.
pub(crate) fn for_each_forking<F: FnMut(&ListedThread<'_>)>(mm: &MmWithUser, each: F) -> bool {
    let _reader = rcu::read_lock();
    let mut visitor = Visitor {
        head: user_events_fork_visitor {
            each: Some(visit::<F>),
        },
        each,
    };
    // SAFETY: RCU is read-locked, and `head` is the first field of a visitor with such a function.
    unsafe {
        bindings::user_events_visit_forks(
            mm.as_raw(),
            ptr::from_mut(&mut visitor).cast::<user_events_fork_visitor>(),
        )
    }
}

/// # Safety
///
/// `visitor` is a `Visitor<F>` that nothing else uses, `task` is a thread that is not freed before this
/// returns, and RCU has been read-locked since it was found.
unsafe extern "C" fn visit<F: FnMut(&ListedThread<'_>)>(
    visitor: *mut user_events_fork_visitor,
    task: *mut task_struct,
) {
    let Some(thread) = NonNull::new(task) else {
        return;
    };
    // SAFETY: It is one, says the caller, and no reference to it is used meanwhile.
    let visitor = unsafe { &mut *visitor.cast::<Visitor<F>>() };
    // INVARIANT: RCU is read-locked, says the caller.
    (visitor.each)(&ListedThread {
        thread,
        _reader: PhantomData,
    });
}

/// May there be a fork of this address space of which the parent has not been told yet, and that
/// [`for_each_forking`] does not find any more? Looks at all processes. Process context.
pub(crate) fn is_fork_ending(mm: &MmWithUser) -> bool {
    let _reader = rcu::read_lock();
    // SAFETY: RCU is read-locked, and the address space is alive.
    unsafe { bindings::user_events_is_fork_ending(mm.as_raw()) }
}
