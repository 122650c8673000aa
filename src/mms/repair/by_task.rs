// SPDX-License-Identifier: GPL-2.0

//! Bits that only a task of their mm can write, since a file system has to be asked for their page.
//!
//! Each thread gets a task work, which runs before it returns to user space. The first one that
//! comes to it has the page read, and waits for its own file system, for a short time: it has
//! perhaps never used the page. The work queue notifies all threads again after a pause, and then
//! the page is perhaps there. A file system that is frozen, or writes the page back, and a mapping
//! without read-ahead make it wait longer, as `FOLL_NOWAIT` does not reach there.

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

/// How often a thread tries again, in all, and how long it waits before that: a tenth of a second.
const MAX_FS_WAITS: usize = 20;
const FS_WAIT: Delta = Delta::from_millis(5);

impl UserMm {
    /// Notifies a thread of the mm that it has bits to write, unless it was notified. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn notify_thread(self: &Arc<Self>, thread: &ListedThread<'_>) -> Result {
        // One walk at a time notifies threads: what is asked here does not change until below.
        if self.repairs.lock().is_notified(thread.key()) {
            return Ok(());
        }
        // The mm's own control group pays, and may go beyond its limit for that.
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
            // It is about to exit, or the mm has nothing registered.
            work.forget(thread.key());
        }
        Ok(())
    }

    /// Writes the bits that only a task of the mm can write. The current task is one, and returns to user space
    /// after this; or it is none any more, and leaves them to others.
    ///
    /// A task that is killed, or ends, costs no more than one turn of the work queue, and all of
    /// them together one each pause, until all is written or the mm has ended.
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

/// What a thread does for its mm.
struct TaskRepair(Arc<UserMm>);

impl TaskRepair {
    /// The thread can be notified again.
    fn forget(&self, thread: usize) {
        let node = self.0.repairs.lock().forget_notified(thread);
        drop(node);
    }
}

impl TaskWork for TaskRepair {
    fn run(self, mm: Option<&MmWithUser>) {
        // Before it looks: a task that lists something from here on notifies it again.
        self.forget(task::current_key());
        let user_mm = &self.0;
        user_mm.repair_current(mm.is_some_and(|mm| key(mm) == user_mm.key()));
    }
}
