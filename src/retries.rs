// SPDX-License-Identifier: GPL-2.0

//! Repairs that wait for another try.

use crate::process::Process;
use crate::sys::clock;
use crate::sys::work_queue::OwnedQueue;
use core::mem;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::{Arc, CondVar, Mutex};
use kernel::time::{msecs_to_jiffies, Delta};
use kernel::workqueue::{self, Work, WorkItem};
use kernel::{new_condvar, new_mutex, new_work};

/// When, in nanoseconds since boot, and which address space.
type Due = (u64, usize);

/// Processes a page of which nobody brought in, by when that is tried again.
///
/// One worker waits for all of them, while there are any. Timers of their own would each have to be
/// waited for when the module is unloaded.
#[pin_data]
pub(crate) struct Retries {
    #[pin]
    waiting: Mutex<Waiting>,
    /// Told of a new first process, and of the end.
    #[pin]
    changed: CondVar,
    #[pin]
    work: Work<Retries>,
}

struct Waiting {
    by_due: RBTree<Due, Arc<Process>>,
    /// Set once: nothing is tried again from then on.
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
            by_due: RBTree::new(),
            is_closed: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                waiting <- new_mutex!(waiting, "Retries::waiting"),
                changed <- new_condvar!("Retries::changed"),
                work <- new_work!("Retries::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Has a process try again after `pause`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(
        self: &Arc<Self>,
        queue: &OwnedQueue,
        process: &Arc<Process>,
        pause: Delta,
    ) -> Result {
        let pause = u64::try_from(pause.as_nanos()).unwrap_or(0);
        let due = (clock::now().saturating_add(pause), process.key());
        let node = RBTreeNode::new(due, process.clone(), GFP_KERNEL)?;
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return Ok(());
        }
        waiting.by_due.insert(node);
        drop(waiting);
        self.changed.notify_all();
        // Already running is as good.
        let _ = queue.enqueue::<_, 0>(self.clone());
        Ok(())
    }

    /// Forgets all, and lets the worker end.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        let forgotten = mem::replace(&mut waiting.by_due, RBTree::new());
        drop(waiting);
        self.changed.notify_all();
        drop(forgotten);
    }
}

impl WorkItem for Retries {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut waiting = this.waiting.lock();
        while let Some((&due, _)) = waiting.by_due.iter().next() {
            let (at, _) = due;
            let left = at.saturating_sub(clock::now());
            if left == 0 {
                let process = waiting.by_due.remove(&due);
                drop(waiting);
                if let Some(process) = process {
                    process.retry();
                }
                waiting = this.waiting.lock();
                continue;
            }
            let left = u32::try_from(left / 1_000_000 + 1).unwrap_or(u32::MAX);
            // Whatever woke it, what is due shows.
            let _ = this
                .changed
                .wait_interruptible_timeout(&mut waiting, msecs_to_jiffies(left));
        }
    }
}
