// SPDX-License-Identifier: GPL-2.0

//! All mms with enablers: how they begin, fork and end. C: `struct user_event_mm`,
//! `user_event_mm_dup()`, `user_event_mm_remove()`.
//!
//! - [`mm`]: one of them, and its set of enablers; [`register`]: adding and removing enablers.
//! - [`enabler`]: one enabler; [`enabler_set`]: sets of them; [`members`]: the mms of a set;
//!   [`unshare`]: the copy of a set.
//! - [`write`]: writing the bits of an event; [`budget`]: how much is written at once; [`repair`]:
//!   bits that could not be written at once; [`fault_in`]: bits of the current task.
//! - [`fork`]: what a child gets; [`mm_end`]: the end of an mm; [`key_filter`]: a test without a
//!   lock, as most mms have no enablers.

mod budget;
mod enabler;
mod enabler_set;
mod fault_in;
mod fork;
mod key_filter;
mod members;
mod mm;
mod mm_end;
mod register;
mod repair;
mod unshare;
mod write;

pub(crate) use budget::Budget;
pub(crate) use enabler::{
    ByPosition,
    Enabler,
    Position, //
};
pub(crate) use enabler_set::{
    PartialWrite,
    WriteStopped, //
};
pub(crate) use mm::UserMm;

use crate::sys::work_queue::{
    Delayed,
    OwnedQueue, //
};
use crate::sys::{
    mm_users,
    process_list, //
};
use core::ptr;
use enabler_set::EnablerSetRef;
use kernel::mm::{
    Mm,
    MmWithUser, //
};
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNode, //
};
use kernel::sync::{
    Arc,
    SpinLock, //
};
use kernel::workqueue::{
    impl_has_delayed_work,
    new_delayed_work,
    DelayedWork,
    WorkItem, //
};
use key_filter::KeyFilter;
use mm::{
    key,
    ALLOC_RETRY, //
};

/// All mms with enablers.
#[pin_data]
pub(crate) struct UserMms {
    /// Its work waits for no task of an mm, no server of its memory, and no page.
    queue: Arc<OwnedQueue>,
    /// Its work faults in pages of memory.
    fault_queue: OwnedQueue,
    /// Its work waits for handlers of userfaultfd, each for a short time.
    userfaultfd_queue: OwnedQueue,
    filter: KeyFilter,
    /// By [`UserMm::key`]. A spinlock, as forks and exits may not sleep.
    #[pin]
    table: SpinLock<RBTree<usize, Arc<UserMm>>>,
    /// Notifies tasks that have bits to write.
    #[pin]
    notifying: DelayedWork<UserMms>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for UserMms { self.notifying }
}

impl UserMms {
    /// No mms. `queue` runs work that the context of a caller does not allow. May sleep.
    pub(crate) fn new(queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                queue,
                fault_queue: OwnedQueue::new(c"user_events_faults")?,
                userfaultfd_queue: OwnedQueue::new(c"user_events_userfaultfd")?,
                filter: KeyFilter::new()?,
                table <- new_spinlock!(RBTree::new(), "UserMms::table"),
                notifying <- new_delayed_work!("UserMms::notifying"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Whether the mm with this key may have enablers. Takes no lock. Any context.
    fn may_have_enablers(&self, key: usize) -> bool {
        self.filter.may_have(key)
    }

    /// The [`UserMm`] of an mm, if there is one. Any context.
    pub(crate) fn find(&self, mm: &Mm) -> Option<Arc<UserMm>> {
        self.find_key(key(mm))
    }

    fn find_key(&self, key: usize) -> Option<Arc<UserMm>> {
        if !self.may_have_enablers(key) {
            return None;
        }
        self.table.lock().get(&key).cloned()
    }

    /// The mm with this [`UserMm::key`], or the one with the next higher key. Any context.
    pub(crate) fn find_from(&self, key: usize) -> Option<Arc<UserMm>> {
        let table = &mut *self.table.lock();
        let cursor = table.cursor_lower_bound(&key)?;
        Some(cursor.current().1.clone())
    }

    /// The [`UserMm`] of the current task's mm. May sleep.
    pub(crate) fn find_or_create(self: &Arc<Self>, mm: &MmWithUser) -> Result<Arc<UserMm>> {
        match self.find(mm) {
            Some(user_mm) => Ok(user_mm),
            None => self.add(mm, EnablerSetRef::new()?),
        }
    }

    /// Adds the current task's mm, unless another thread has done so meanwhile. May sleep.
    fn add(self: &Arc<Self>, mm: &MmWithUser, set: EnablerSetRef) -> Result<Arc<UserMm>> {
        let user_mm = UserMm::new(mm, self, set)?;
        let key = user_mm.key();
        let node = RBTreeNode::new(key, user_mm.clone(), GFP_KERNEL_ACCOUNT)
            .inspect_err(|_| user_mm.leave_set())?;
        let mut table = self.table.lock();
        if let Some(faster) = table.get(&key).cloned() {
            drop(table);
            drop(node);
            user_mm.leave_set();
            return Ok(faster);
        }
        self.filter.add(key);
        table.insert(node);
        drop(table);
        // Each addition checks one mm whose end may have been missed, see `note_exec`.
        let next = self.find_from(key + 1).or_else(|| self.find_from(0));
        if let Some(left_behind) = next.filter(|next| mm_users::has_ended(&next.mm)) {
            left_behind.enqueue();
        }
        Ok(user_mm)
    }

    /// Removes an mm from the table. Returns whether it was there. Does not sleep.
    fn forget(&self, user_mm: &UserMm) -> bool {
        let key = user_mm.key();
        let mut table = self.table.lock();
        let is_listed = |listed: &Arc<UserMm>| ptr::eq(&**listed, user_mm);
        if !table.get(&key).is_some_and(is_listed) {
            return false;
        }
        let removed = table.remove_node(&key);
        drop(table);
        // It may be the last reference but the caller's, and is not dropped under the lock.
        drop(removed);
        self.filter.remove(key);
        true
    }

    /// Removes all mms. For the module's exit: no task can register any more, nothing is
    /// registered, and the probes of forks and exits are gone. May sleep.
    pub(crate) fn close(self: &Arc<Self>) {
        while let Some(user_mm) = self.find_from(0) {
            self.forget(&user_mm);
            user_mm.leave_set();
        }
        Delayed::<_, 0>::cancel(self);
        // To drain a queue would lose the work that the work of the others queues on it. With the
        // table empty, running work queues more once, and new work none.
        self.queue.flush();
        self.fault_queue.flush();
        self.userfaultfd_queue.flush();
        self.queue.flush();
    }
}

impl WorkItem for UserMms {
    type Pointer = Delayed<Self>;

    fn run(this: Delayed<Self>) {
        let mut is_complete = true;
        process_list::for_each_process(|listed| {
            let user_mm = this.find_key(listed.mm());
            if let Some(user_mm) = user_mm.filter(|user_mm| user_mm.repairs.lock().need_task()) {
                for thread in listed.threads() {
                    is_complete &= user_mm.notify_thread(&thread).is_ok();
                }
            }
        });
        if !is_complete {
            this.queue.enqueue_after::<_, 0>(&this, ALLOC_RETRY);
        }
    }
}
