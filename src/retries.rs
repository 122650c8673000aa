// SPDX-License-Identifier: GPL-2.0

//! Processes that are looked at again after a while.

use crate::process::Process;
use crate::sys::clock;
use crate::sys::work_queue::OwnedQueue;
use core::mem;
use kernel::list::{List, ListArc};
use kernel::prelude::*;
use kernel::sync::{Arc, CondVar, SpinLock};
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::{self, Work, WorkItem};
use kernel::{new_condvar, new_spinlock, new_work};

/// Nanoseconds in a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// Processes of which something is to be looked at again: a bit that could not be written, or whether the
/// address space has ended.
///
/// One task of the work queue waits for all of them, while there are any. Timers of their own would each
/// have to be waited for when the module is unloaded.
#[pin_data]
pub(crate) struct Retries {
    #[pin]
    waiting: SpinLock<Waiting>,
    /// Told of a new process, and of the end.
    #[pin]
    changed: CondVar,
    #[pin]
    work: Work<Retries>,
}

struct Waiting {
    processes: List<Process>,
    /// When the next of them is due, in nanoseconds since boot, or earlier.
    next: u64,
    /// Set once: nothing is looked at again from then on.
    is_closed: bool,
}

workqueue::impl_has_work! {
    impl HasWork<Self> for Retries { self.work }
}

impl Retries {
    /// None yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let waiting = Waiting {
            processes: List::new(),
            next: u64::MAX,
            is_closed: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                waiting <- new_spinlock!(waiting, "Retries::waiting"),
                changed <- new_condvar!("Retries::changed"),
                work <- new_work!("Retries::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Has a process looked at when it says that it is due. Any context.
    pub(crate) fn add(self: &Arc<Self>, queue: &OwnedQueue, process: &Arc<Process>) {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return;
        }
        waiting.next = waiting.next.min(process.due_at());
        // In the list already is as good: when it is due is asked then.
        let listed = ListArc::try_from_arc(process.clone());
        let refused = listed.map(|process| waiting.processes.push_back(process));
        drop(waiting);
        drop(refused);
        self.changed.notify_all();
        // Already running is as good.
        let _ = queue.enqueue::<_, 0>(self.clone());
    }

    /// Forgets all, and lets the worker end.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        let forgotten = mem::replace(&mut waiting.processes, List::new());
        drop(waiting);
        self.changed.notify_all();
        drop(forgotten);
    }

    /// Has those that are due looked at, and keeps the others.
    fn look(&self) {
        let mut waiting = self.waiting.lock();
        waiting.next = u64::MAX;
        let mut processes = mem::replace(&mut waiting.processes, List::new());
        drop(waiting);
        let now = clock::now();
        let mut kept = List::new();
        let mut next = u64::MAX;
        while let Some(process) = processes.pop_front() {
            let due = process.due_at();
            if due > now {
                next = next.min(due);
                kept.push_back(process);
            } else {
                // Out of the list first: from here on it can be listed again.
                process.into_arc().look_again();
            }
        }
        let mut waiting = self.waiting.lock();
        if !waiting.is_closed {
            waiting.next = waiting.next.min(next);
            waiting.processes.push_all_back(&mut kept);
        }
        drop(waiting);
        // Empty, unless all is closed.
        drop(kept);
    }

    /// Waits for the first that is due. `false` when there is none to wait for.
    fn wait(&self) -> bool {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.is_closed || waiting.processes.is_empty() {
                return false;
            }
            let left = waiting.next.saturating_sub(clock::now());
            if left == 0 {
                return true;
            }
            let left = u32::try_from(left / MILLISECOND + 1).unwrap_or(u32::MAX);
            // Whatever woke it, what is due shows.
            let _ = self
                .changed
                .wait_interruptible_timeout(&mut waiting, msecs_to_jiffies(left));
        }
    }
}

impl WorkItem for Retries {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        while this.wait() {
            this.look();
        }
    }
}
