// SPDX-License-Identifier: GPL-2.0

//! Looking at things again after a while.

use crate::sys::clock;
use crate::sys::work_queue::OwnedQueue;
use core::mem;
use kernel::list::{
    List,
    ListArc,
    ListArcSafe,
    ListItem,
    TryNewListArc, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};
use kernel::sync::{
    Arc,
    CondVar,
    SpinLock, //
};
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::{
    self,
    Work,
    WorkItem, //
};
use kernel::{
    new_condvar,
    new_spinlock,
    new_work, //
};

/// Nanoseconds in a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// A time that does not come.
const NEVER: u64 = u64::MAX;

/// What can be looked at again. One list of its type has [`Retries`] to itself.
pub(super) trait Retry:
    ListItem<0> + ListArcSafe<0> + TryNewListArc<0> + Send + Sync + 'static
{
    /// When it is to be looked at.
    fn deadline(&self) -> &Deadline;

    /// The time has come. Resets the deadline first, and then looks. Runs on the work queue.
    fn retry(self: &Arc<Self>);
}

/// When something is to be looked at again, if at all: in nanoseconds since boot.
pub(super) struct Deadline(Atomic<u64>);

impl Deadline {
    /// Not to be looked at.
    pub(super) const fn none() -> Self {
        Self(Atomic::new(NEVER))
    }

    /// Sets a time, `pause` nanoseconds from now, unless an earlier one is set. Any context.
    pub(super) fn set(&self, pause: u64) {
        let due = clock::now().saturating_add(pause);
        let mut before = self.0.load(Relaxed);
        while due < before {
            match self.0.cmpxchg(before, due, Full) {
                Ok(_) => break,
                Err(other) => before = other,
            }
        }
    }

    /// Resets the time. Any context.
    pub(super) fn reset(&self) {
        self.0.store(NEVER, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// All that is to be looked at again: mms with a bit that could not be written, or that may have ended.
///
/// One task of the work queue waits for all of them, while there are any. A delayed work of each would have to
/// be cancelled when the module is unloaded, for which the kernel crate has no function yet.
///
/// An item is in the list if and only if it has a deadline, but for the moments in which that has been set or
/// reset and the list has not followed. The list follows with `waiting` locked, which is how a task that adds an
/// item and the one that takes it out see each other:
///
/// - The task that adds has set the deadline before it locks `waiting`. The one that takes out looks at the
///   deadline with `waiting` locked, after the item has left the list. If the one that adds is first, that look
///   sees the deadline, and the item goes back; else it finds the item in no list, and lists it.
/// - The task that adds may find the deadline reset by a retry of the item that has begun meanwhile: then there is
///   nothing to wait for, and the item is not listed. That retry misses nothing: what it is for was noted in the
///   item before the deadline was set, and it resets the deadline before it looks.
#[pin_data]
pub(super) struct Retries<T: Retry> {
    #[pin]
    waiting: SpinLock<Waiting<T>>,
    /// Notified of a new item, and of the end.
    #[pin]
    changed: CondVar,
    #[pin]
    work: Work<Retries<T>>,
}

struct Waiting<T: Retry> {
    items: List<T>,
    /// When the next of them is due, in nanoseconds since boot, or earlier.
    next: u64,
    /// Set once: nothing is looked at again from then on.
    is_closed: bool,
}

impl<T: Retry> Waiting<T> {
    /// Lists an item that is in no list, if it has a deadline. Returns whether it is listed.
    fn list(&mut self, item: &Arc<T>) -> bool {
        let due = item.deadline().get();
        if self.is_closed || due == NEVER {
            return false;
        }
        self.next = self.next.min(due);
        // In the list already is as good: the deadline is read when it is looked at. The reference that is not
        // needed then is not the last.
        if let Ok(item) = ListArc::try_from_arc(item.clone()) {
            self.items.push_back(item);
        }
        true
    }
}

workqueue::impl_has_work! {
    impl{T: Retry} HasWork<Self> for Retries<T> { self.work }
}

impl<T: Retry> Retries<T> {
    /// None yet. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let waiting = Waiting {
            items: List::new(),
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

    /// Has an item looked at when its deadline has come. Any context.
    pub(super) fn add(self: &Arc<Self>, queue: &OwnedQueue, item: &Arc<T>) {
        let mut waiting = self.waiting.lock();
        if !waiting.list(item) {
            return;
        }
        drop(waiting);
        self.changed.notify_all();
        // Already running is as good.
        let _ = queue.enqueue::<_, 0>(self.clone());
    }

    /// Forgets all, and lets the worker end. May sleep.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        let forgotten = mem::replace(&mut waiting.items, List::new());
        drop(waiting);
        self.changed.notify_all();
        drop(forgotten);
    }

    /// Has those looked at that are due, and keeps the others.
    fn run_due(&self) {
        let mut waiting = self.waiting.lock();
        waiting.next = NEVER;
        let mut items = mem::replace(&mut waiting.items, List::new());
        drop(waiting);
        let now = clock::now();
        let mut kept = List::new();
        let mut next = NEVER;
        while let Some(item) = items.pop_front() {
            let due = item.deadline().get();
            if due > now {
                // A task that sets an earlier deadline meanwhile says so in `waiting.next`.
                next = next.min(due);
                kept.push_back(item);
            } else {
                // A task that sets a deadline from here on finds it in the list, or lists it again.
                item.clone_arc().retry();
                self.release(item);
            }
        }
        let mut waiting = self.waiting.lock();
        if !waiting.is_closed {
            waiting.next = waiting.next.min(next);
            waiting.items.push_all_back(&mut kept);
        }
        drop(waiting);
        // Empty, unless all is closed.
        drop(kept);
    }

    /// Takes an item out of the list that has no deadline any more. It stays if one has been set since.
    fn release(&self, item: ListArc<T>) {
        let mut waiting = self.waiting.lock();
        let item = item.into_arc();
        waiting.list(&item);
        drop(waiting);
        // Perhaps the last reference, which is not to be dropped with a lock held.
        drop(item);
    }

    /// Waits for the first that is due. `false` when there is none to wait for.
    fn wait(&self) -> bool {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.is_closed || waiting.items.is_empty() {
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

impl<T: Retry> WorkItem for Retries<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        while this.wait() {
            this.run_due();
        }
    }
}
