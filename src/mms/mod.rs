// SPDX-License-Identifier: GPL-2.0

//! All mms with enablers: how they begin, fork and end. C: `struct user_event_mm`, and what is done at
//! `user_event_mm_dup()` and `user_event_mm_remove()`.
//!
//! - [`mm`]: one of them, and its set of enablers; [`register`]: adding and removing enablers.
//! - [`enabler`]: one enabler; [`enablers`]: sets of them; [`members`]: the mms of a set; [`budget`]: how much
//!   is written at once.
//! - [`repair`]: bits that could not be written at once; [`userfaultfd`] and [`task_repair`]: those that are
//!   not the work queue's; [`addrs`]: which ones; [`fault_in`]: those of the current task; [`retries`].
//! - [`fork`]: what a child gets; [`stale_bits`] and [`forks_in_progress`]: what a child has to clear.
//! - [`mm_end`]: finding out that an mm has ended; [`table`]: finding mms.

mod addrs;
mod budget;
mod enabler;
mod enablers;
mod fault_in;
mod fork;
mod forks_in_progress;
mod members;
mod mm;
mod mm_end;
mod register;
mod repair;
mod retries;
mod stale_bits;
mod table;
mod task_repair;
mod userfaultfd;

pub(crate) use budget::Budget;
pub(crate) use enabler::{
    ByPosition,
    EnableAddr,
    Enabler,
    Position, //
};
pub(crate) use members::{
    PartlyWritten,
    Stopped, //
};
pub(crate) use mm::{
    UserMm,
    ALLOC_RETRY, //
};

use crate::sys::process_list;
use crate::sys::work_queue::OwnedQueue;
use enablers::EnablerSetRef;
use kernel::mm::{
    Mm,
    MmWithUser, //
};
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    SpinLock, //
};
use kernel::time::delay::fsleep;
use kernel::workqueue::{
    self,
    Work,
    WorkItem, //
};
use kernel::{
    new_spinlock,
    new_work, //
};
use mm::key;
use retries::Retries;
use table::{
    KeyFilter,
    MmTable,
    MmTableReservation, //
};

/// All mms with enablers.
#[pin_data]
pub(crate) struct UserMms {
    queue: Arc<OwnedQueue>,
    userfaultfd_queue: OwnedQueue,
    retries: Arc<Retries<UserMm>>,
    filter: KeyFilter,
    /// A spinlock, since forks and exits are noticed where sleeping may not be allowed.
    #[pin]
    table: SpinLock<MmTable>,
    /// Notifies tasks that have bits to write.
    #[pin]
    notifying: Work<UserMms>,
}

workqueue::impl_has_work! {
    impl HasWork<Self> for UserMms { self.notifying }
}

impl UserMms {
    /// No mms. `queue` is where work is done that cannot be done where it is noticed. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(queue: Arc<OwnedQueue>) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                queue,
                userfaultfd_queue: OwnedQueue::new()?,
                retries: Retries::new()?,
                filter: KeyFilter::new()?,
                table <- new_spinlock!(MmTable::new(), "UserMms::table"),
                notifying <- new_work!("UserMms::notifying"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// The work queue. Nothing there waits for a task of an mm or for what serves its memory.
    fn queue(&self) -> &OwnedQueue {
        &self.queue
    }

    /// Where handlers of userfaultfd are waited for, each for a short time.
    fn userfaultfd_queue(&self) -> &OwnedQueue {
        &self.userfaultfd_queue
    }

    /// Has an mm looked at when its deadline has come. Does not sleep.
    fn retry_later(&self, user_mm: &Arc<UserMm>) {
        self.retries.add(self.queue(), user_mm);
    }

    /// Has the tasks of all mms notified that have bits to write themselves. Any context.
    fn notify_tasks(self: &Arc<Self>) {
        // Queued already is as good.
        let _ = self.queue().enqueue::<_, 0>(self.clone());
    }

    /// May the mm with this key have enablers? One look, and no lock. Any context.
    fn may_have_enablers(&self, key: usize) -> bool {
        self.filter.may_have(key)
    }

    /// The [`UserMm`] of this mm, if it has registered anything. Any context.
    pub(crate) fn find(&self, mm: &Mm) -> Option<Arc<UserMm>> {
        self.find_key(key(mm))
    }

    fn find_key(&self, key: usize) -> Option<Arc<UserMm>> {
        if !self.may_have_enablers(key) {
            return None;
        }
        self.table.lock().get(key).cloned()
    }

    /// The first mm with this number or a higher one, and its number. Mms are numbered as they get their first
    /// enabler. Any context.
    pub(crate) fn find_from(&self, number: u64) -> Option<(u64, Arc<UserMm>)> {
        self.table.lock().get_from(number)
    }

    /// The number that the next mm gets. Any context.
    pub(crate) fn next_number(&self) -> u64 {
        self.table.lock().next_number()
    }

    /// The [`UserMm`] of the current task's mm. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn find_or_make(self: &Arc<Self>, mm: &MmWithUser) -> Result<Arc<UserMm>> {
        match self.find(mm) {
            Some(user_mm) => Ok(user_mm),
            None => self.add(mm, EnablerSetRef::new()?),
        }
    }

    /// Adds the current task's mm. If another thread was faster, its [`UserMm`] counts. May sleep.
    fn add(self: &Arc<Self>, mm: &MmWithUser, set: EnablerSetRef) -> Result<Arc<UserMm>> {
        let user_mm = UserMm::new(mm, self, set)?;
        let reservation = MmTableReservation::new().inspect_err(|_| user_mm.leave_set())?;
        let key = user_mm.key();
        let mut table = self.table.lock();
        if let Some(faster) = table.get(key).cloned() {
            drop(table);
            drop(reservation);
            user_mm.leave_set();
            return Ok(faster);
        }
        self.filter.add(key);
        table.insert(reservation, &user_mm);
        Ok(user_mm)
    }

    /// Takes an mm out of the table. Returns whether it was there. Does not sleep.
    fn forget(&self, user_mm: &UserMm) -> bool {
        let removed = self.table.lock().remove(user_mm);
        if removed.is_some() {
            self.filter.remove(user_mm.key());
        }
        removed.is_some()
    }

    /// Forgets all. For the module's exit: no task can register any more, nothing is registered, and no fork or
    /// exit is noticed. May sleep.
    pub(crate) fn close(&self) {
        self.retries.close();
        loop {
            let Some((_, user_mm)) = self.find_from(0) else {
                break;
            };
            self.forget(&user_mm);
            user_mm.leave_set();
        }
        // Each queue's work may queue on the other. After the table is empty, running work may still do so once,
        // and new work does not. Draining one queue would refuse, and lose, what the other queues on it; so flush
        // the first, the second, and the first again.
        self.queue().flush();
        self.userfaultfd_queue.flush();
        self.queue().flush();
    }
}

impl WorkItem for UserMms {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut is_complete = true;
        process_list::for_each(|listed| {
            let user_mm = this.find_key(listed.mm());
            let Some(user_mm) = user_mm.filter(|user_mm| user_mm.needs_task()) else {
                return;
            };
            listed.for_each_thread(|thread| is_complete &= user_mm.notify_thread(thread).is_ok());
        });
        if !is_complete {
            fsleep(ALLOC_RETRY);
            this.notify_tasks();
        }
    }
}
