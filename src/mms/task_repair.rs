// SPDX-License-Identifier: GPL-2.0

//! Bits that only a task of their mm can write, since a file system has to be asked for their page.
//!
//! Each thread gets a task work, which runs before it returns to user space. The first one that comes to it
//! writes the bits, and waits for its own file system.

use super::mm::{
    key,
    UserMm, //
};
use super::repair::MAX_DOUBLINGS;
use crate::sys::mm_users;
use crate::sys::process_list::ListedThread;
use crate::sys::task_work::{
    self,
    Reservation,
    TaskWork, //
};
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::rbtree::RBTreeNode;
use kernel::sync::Arc;

impl UserMm {
    /// Has the mm bits that a task of it has to write? Does not sleep.
    pub(super) fn needs_task(&self) -> bool {
        !self.repairs.lock().tasks.is_empty()
    }

    /// Notifies a thread of the mm that it has bits to write, unless it was notified. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn notify_thread(self: &Arc<Self>, thread: &ListedThread<'_>) -> Result {
        // The mm's own control group pays, and may go beyond its limit for that.
        let account = GFP_KERNEL_ACCOUNT & !GFP_KERNEL;
        let flags = GFP_ATOMIC | account | __GFP_NOWARN;
        let (reservation, node) = mm_users::with_active_memcg_of(&self.mm, || {
            Ok::<_, Error>((
                Reservation::new(flags)?,
                RBTreeNode::new(thread.key(), (), flags)?,
            ))
        })?;
        let mut repairs = self.repairs.lock();
        if repairs.notified.get(&thread.key()).is_some() {
            return Ok(());
        }
        let replaced = repairs.notified.insert(node);
        drop(repairs);
        drop(replaced);
        if let Err(work) = thread.add_work(reservation, TaskRepair(self.clone())) {
            // It is about to exit, or the mm has nothing registered.
            work.forget(thread.key());
        }
        Ok(())
    }

    /// Writes the bits that only a task of the mm can write. The current task is one, and returns to user space
    /// after this.
    fn repair_current(self: &Arc<Self>, mm: &MmWithUser) {
        let mut repairs = self.repairs.lock();
        let tasks = repairs.tasks.take();
        if tasks.is_empty() {
            return;
        }
        repairs.in_progress += 1;
        drop(repairs);
        self.for_each_page(&tasks, |enablers| self.write_current(mm, enablers));
        self.repairs.lock().in_progress -= 1;
    }

    /// A thread that was notified leaves the mm without having looked. There may be other tasks of this mm, and
    /// some that began after all were notified: the work queue notifies those that there are after a pause. So a
    /// task that ends costs no more than one such turn, and all of them together one each pause, until all is
    /// written or the mm has ended.
    fn requeue(self: &Arc<Self>) {
        let mut repairs = self.repairs.lock();
        let tasks = repairs.tasks.take();
        if tasks.is_empty() {
            return;
        }
        repairs.queued.add_these(&tasks);
        let tries = repairs.tries;
        drop(repairs);
        self.pause(tries, MAX_DOUBLINGS);
    }
}

/// What a thread does for its mm.
struct TaskRepair(Arc<UserMm>);

impl TaskRepair {
    /// The thread can be notified again.
    fn forget(&self, thread: usize) {
        let node = self.0.repairs.lock().notified.remove_node(&thread);
        drop(node);
    }
}

impl TaskWork for TaskRepair {
    fn run(self, mm: Option<&MmWithUser>) {
        // Before it looks: a task that lists something from here on notifies it again.
        self.forget(task_work::current_task());
        let user_mm = &self.0;
        let own = mm.filter(|mm| key(mm) == user_mm.key());
        match own.filter(|_| !task_work::fatal_signal_pending()) {
            Some(mm) => user_mm.repair_current(mm),
            None => user_mm.requeue(),
        }
    }
}
