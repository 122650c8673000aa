// SPDX-License-Identifier: GPL-2.0

//! UserMms that are looked at again after a while.

use crate::mms::mm::{UserMm, NEVER};
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

/// UserMms of which something is to be looked at again: a bit that could not be written, or whether the
/// address space has ended.
///
/// One task of the work queue waits for all of them, while there are any. Timers of their own would each
/// have to be waited for when the module is unloaded.
///
/// A process is in the list if and only if there is a time at which it is due, but for the moments in which its
/// time has been set or reset and the list has not followed. The list follows with `waiting` locked, which is
/// how those who add a process and the one that takes it out see each other:
///
/// - Who adds has set the time before it locks `waiting`. Who takes out looks at the time with `waiting` locked,
///   after the process has left the list. If the one who adds is first, that look sees the time, and the process
///   goes back; else it finds the process in no list, and lists it.
/// - Who adds may find the time reset by a look at the process that has begun meanwhile: then there is nothing to
///   wait for, and the process is not listed. That look misses nothing, as [`UserMm::look_again`] argues.
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
    mms: List<UserMm>,
    /// When the next of them is due, in nanoseconds since boot, or earlier.
    next: u64,
    /// Set once: nothing is looked at again from then on.
    is_closed: bool,
}

impl Waiting {
    /// Lists a process that is in no list, if there is a time at which it is due. Returns whether it is listed.
    fn list(&mut self, user_mm: &Arc<UserMm>) -> bool {
        let due = user_mm.due_at();
        if self.is_closed || due == NEVER {
            return false;
        }
        self.next = self.next.min(due);
        // In the list already is as good: when it is due is asked when it is looked at. The reference that is not
        // needed then is not the last.
        if let Ok(user_mm) = ListArc::try_from_arc(user_mm.clone()) {
            self.mms.push_back(user_mm);
        }
        true
    }
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
            mms: List::new(),
            next: NEVER,
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
    pub(crate) fn add(self: &Arc<Self>, queue: &OwnedQueue, user_mm: &Arc<UserMm>) {
        let mut waiting = self.waiting.lock();
        if !waiting.list(user_mm) {
            return;
        }
        drop(waiting);
        self.changed.notify_all();
        // Already running is as good.
        let _ = queue.enqueue::<_, 0>(self.clone());
    }

    /// Forgets all, and lets the worker end.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        let forgotten = mem::replace(&mut waiting.mms, List::new());
        drop(waiting);
        self.changed.notify_all();
        drop(forgotten);
    }

    /// Has those that are due looked at, and keeps the others.
    fn look(&self) {
        let mut waiting = self.waiting.lock();
        waiting.next = NEVER;
        let mut mms = mem::replace(&mut waiting.mms, List::new());
        drop(waiting);
        let now = clock::now();
        let mut kept = List::new();
        let mut next = NEVER;
        while let Some(user_mm) = mms.pop_front() {
            let due = user_mm.due_at();
            if due > now {
                // Who sets an earlier time meanwhile says so in `waiting.next`.
                next = next.min(due);
                kept.push_back(user_mm);
            } else {
                // Who sets a time from here on finds it in the list, or lists it again.
                user_mm.clone_arc().look_again();
                self.release(user_mm);
            }
        }
        let mut waiting = self.waiting.lock();
        if !waiting.is_closed {
            waiting.next = waiting.next.min(next);
            waiting.mms.push_all_back(&mut kept);
        }
        drop(waiting);
        // Empty, unless all is closed.
        drop(kept);
    }

    /// Takes a process out of the list for which there is no time any more. It stays if one has been set since.
    fn release(&self, user_mm: ListArc<UserMm>) {
        let mut waiting = self.waiting.lock();
        let user_mm = user_mm.into_arc();
        waiting.list(&user_mm);
        drop(waiting);
        // Perhaps the last reference, which is not for a lock.
        drop(user_mm);
    }

    /// Waits for the first that is due. `false` when there is none to wait for.
    fn wait(&self) -> bool {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.is_closed || waiting.mms.is_empty() {
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
