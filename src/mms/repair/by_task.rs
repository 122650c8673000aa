// SPDX-License-Identifier: GPL-2.0

//! Bits that only a task of the mm can write, as a file system has to read their page.
//!
//! Each thread gets a task work, which runs before it returns to user space. The first thread to
//! run it starts the read of the page, and waits for its own file system, for a short time; it may
//! never have used the page. After a pause the work queue notifies all threads again, and the page
//! may be there. A thread waits longer for a file system that is frozen, or that writes the page
//! back, and for a mapping without read-ahead: `FOLL_NOWAIT` does not reach there.

use super::super::mm::{
    key,
    UserMm, //
};
use super::list::Writer;
use super::Outcome;
use crate::sys::process_list::ListedThread;
use crate::sys::task_work::{
    Reservation,
    TaskWork, //
};
use crate::sys::{
    mm_users,
    task, //
};
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::rbtree::RBTreeNode;
use kernel::sync::Arc;
use kernel::time::{
    delay::fsleep,
    Delta, //
};

/// How often a thread tries again, and the pause before each try: a tenth of a second in all.
const MAX_FS_WAITS: usize = 20;
const FS_WAIT: Delta = Delta::from_millis(5);

impl UserMm {
    /// Notifies a thread of the mm that it has bits to write, unless it is notified already. Does
    /// not sleep.
    pub(crate) fn notify_thread(self: &Arc<Self>, thread: &ListedThread<'_>) -> Result {
        // One walk at a time notifies threads, so this holds until `note_notified`.
        if self.repairs.lock().is_notified(thread.key()) {
            return Ok(());
        }
        // Charged to the mm's own memory cgroup, beyond its limit if need be.
        let account = GFP_KERNEL_ACCOUNT & !GFP_KERNEL;
        let flags = GFP_ATOMIC | account | __GFP_NOWARN;
        let (reservation, node) = mm_users::with_active_memcg(&self.mm, || {
            Ok::<_, Error>((
                Reservation::new(flags)?,
                RBTreeNode::new(thread.key(), (), flags)?,
            ))
        })?;
        let replaced = self.repairs.lock().note_notified(node);
        drop(replaced);
        if let Err(work) = thread.add_work(reservation, TaskRepair(self.clone())) {
            // The thread is about to exit, or the mm has nothing registered.
            work.forget(thread.key());
        }
        Ok(())
    }

    /// Writes the bits that only a task of the mm can write. The current one is a task of the mm,
    /// and returns to user space after this, if `is_own`; otherwise it leaves the bits to others.
    ///
    /// A task that is killed, or ends, costs at most one turn of the work queue, and all such tasks
    /// together one turn each pause, until all bits are written or the mm has ended.
    fn repair_current(self: &Arc<Self>, is_own: bool) {
        let mut waits_left = MAX_FS_WAITS;
        self.write_listed(Writer::Tasks, |enablers, force| loop {
            if !is_own || task::fatal_signal_pending() {
                return Outcome::Again;
            }
            let outcome = self.try_fix_page(enablers, Writer::Tasks, force);
            if outcome != Outcome::Again || waits_left == 0 {
                return outcome;
            }
            waits_left -= 1;
            fsleep(FS_WAIT);
        });
    }
}

/// The task work of a thread.
struct TaskRepair(Arc<UserMm>);

impl TaskRepair {
    /// Lets the thread be notified again.
    fn forget(&self, thread: usize) {
        let node = self.0.repairs.lock().forget_notified(thread);
        drop(node);
    }
}

impl TaskWork for TaskRepair {
    fn run(self, mm: Option<&MmWithUser>) {
        // Before the list is read: a task that lists a bit from here on notifies the thread again.
        self.forget(task::current_key());
        let user_mm = &self.0;
        user_mm.repair_current(mm.is_some_and(|mm| key(mm) == user_mm.key()));
    }
}
