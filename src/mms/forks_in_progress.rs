// SPDX-License-Identifier: GPL-2.0

//! The tasks of an mm that were found in a fork, until they return to user space.
//!
//! The kernel lists the forks of a process that are under way (`signal_struct::multiprocess`), but a fork leaves
//! that list before the tracepoint tells of it. So a task that was found there is noted, whatever becomes of the
//! fork, until a task work runs in it.

use super::members::last_change;
use super::mm::ALLOC_RETRY;
use super::stale_bits::StaleBits;
use crate::sys::process_list::for_each_forking;
use crate::sys::task_work::{
    self,
    Reservation,
    TaskWork, //
};
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};
use kernel::sync::Arc;
use kernel::time::delay::fsleep;

/// So many tasks can be noted to be in a fork.
const MAX_NOTED: u32 = 64;

/// A task that was found in a fork.
pub(super) struct ForkInProgress {
    /// As [`current_task`](task_work::current_task) tells tasks apart; 0: none.
    task: Atomic<usize>,
    /// The number of the last change when it was found.
    since: Atomic<u64>,
}

/// Work of a task that was found in a fork: it is in none when it returns to user space.
struct ForkDone {
    stale_bits: Arc<StaleBits>,
    number: u32,
}

/// What it takes to note one task: a free entry, and memory for its task work.
type ForkReservation = (u32, Reservation<ForkDone>);

impl TaskWork for ForkDone {
    fn run(self, _: Option<&MmWithUser>) {
        if let Some(fork) = self.stale_bits.forks.get(self.number) {
            fork.task.store(0, Release);
        }
    }
}

impl StaleBits {
    fn forks(&self) -> impl Iterator<Item = (u32, &ForkInProgress)> {
        (0..).map_while(|number| Some((number, self.forks.get(number)?)))
    }

    /// Since when a task is known to be in a fork: the number of the last change then. Any context.
    pub(super) fn fork_of(&self, task: usize) -> Option<u64> {
        self.forks()
            .find(|(_, fork)| fork.task.load(Acquire) == task)
            .map(|(_, fork)| fork.since.load(Relaxed))
    }

    /// Finds an entry of `forks` that is free, from one on.
    ///
    /// # Errors
    ///
    /// `EMFILE` when there are too many; `ENOMEM`.
    fn free_fork(&self, from: u32) -> Result<u32> {
        let free = |(number, fork): &(u32, &ForkInProgress)| {
            *number >= from && fork.task.load(Acquire) == 0
        };
        if let Some((number, _)) = self.forks().find(free) {
            return Ok(number);
        }
        if self.forks.get(MAX_NOTED - 1).is_some() {
            return Err(EMFILE);
        }
        self.forks.lock().push(ForkInProgress {
            task: Atomic::new(0),
            since: Atomic::new(0),
        })
    }

    /// Notes which tasks are in a fork of the current task's mm. `false` if not all of them could be: they are
    /// too many, or there was no memory until the current task was killed. The caller keeps other tasks from
    /// doing so. May sleep.
    pub(super) fn note_forks(self: &Arc<Self>, mm: &MmWithUser) -> bool {
        let since = last_change();
        let mut reserved: KVec<ForkReservation> = KVec::new();
        loop {
            let mut missing = 0;
            let are_all = for_each_forking(mm, |task| {
                if self.fork_of(task.key()).is_some() {
                    return;
                }
                let Some((number, reservation)) = reserved.pop() else {
                    missing += 1;
                    return;
                };
                let Some(fork) = self.forks.get(number) else {
                    return;
                };
                fork.since.store(since, Relaxed);
                fork.task.store(task.key(), Release);
                let done = ForkDone {
                    stale_bits: self.clone(),
                    number,
                };
                // A task that is in a fork is not exiting, so it takes the work.
                let _ = task.add_work(reservation, done);
            });
            if missing == 0 {
                return are_all;
            }
            match self.reserve_forks(&mut reserved, missing) {
                Err(error) if error == EMFILE || task_work::fatal_signal_pending() => return false,
                Err(_) => fsleep(ALLOC_RETRY),
                Ok(()) => {}
            }
        }
    }

    /// Gets what it takes to note so many tasks more.
    fn reserve_forks(&self, reserved: &mut KVec<ForkReservation>, count: usize) -> Result {
        reserved.reserve(count, GFP_KERNEL_ACCOUNT)?;
        // What is reserved and not used yet looks free.
        let mut from = reserved
            .iter()
            .map(|(number, _)| number + 1)
            .max()
            .unwrap_or(0);
        for _ in 0..count {
            let number = self.free_fork(from)?;
            from = number + 1;
            let reservation = Reservation::new(GFP_KERNEL_ACCOUNT)?;
            reserved.push((number, reservation), GFP_KERNEL_ACCOUNT)?;
        }
        Ok(())
    }
}
