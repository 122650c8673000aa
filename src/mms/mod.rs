// SPDX-License-Identifier: GPL-2.0

//! All processes that have registered something, and how they come and go.

pub(crate) mod enabler;
pub(crate) mod enablers;
pub(crate) mod mm;
pub(crate) mod repair;
mod retries;
mod stale_bits;
mod table;

use crate::events::Registry;
use crate::mms::enablers::EnablerSetRef;
use crate::mms::mm::{key, Inheritance, UserMm, RETRY_AFTER};
use crate::mms::retries::Retries;
use crate::mms::table::{MmTable, MmTableReservation};
use crate::sys::exit_probe::ExitListener;
use crate::sys::fork::ForkListener;
use crate::sys::mm_users;
use crate::sys::process_list;
use crate::sys::task_work;
use crate::sys::work_queue::OwnedQueue;
use kernel::mm::{Mm, MmWithUser};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::{Arc, SpinLock};
use kernel::time::delay::fsleep;
use kernel::workqueue::{self, Work, WorkItem};
use kernel::{new_spinlock, new_work};

/// All processes that have registered something.
#[pin_data]
pub(crate) struct UserMms {
    registry: Arc<Registry>,
    /// Where handlers of userfaultfd are waited for.
    asking: OwnedQueue,
    retries: Arc<Retries>,
    filter: Filter,
    /// A spinlock, since forks and exits are noticed where sleeping may not be allowed.
    #[pin]
    known: SpinLock<MmTable>,
    /// Tells threads that they have bits to write.
    #[pin]
    telling: Work<UserMms>,
}

workqueue::impl_has_work! {
    impl HasWork<Self> for UserMms { self.telling }
}

/// How many address spaces are known of each of some kinds, by their addresses: so a fork or an exit of a
/// process that uses no user events takes one look, and no lock.
struct Filter(KVVec<Atomic<u32>>);

/// Kinds of address spaces, as a power of two.
const KINDS_BITS: u32 = 12;

impl Filter {
    /// No address space is known.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new() -> Result<Self> {
        let mut counts = KVVec::with_capacity(1 << KINDS_BITS, GFP_KERNEL)?;
        for _ in 0..1 << KINDS_BITS {
            counts.push(Atomic::new(0), GFP_KERNEL)?;
        }
        Ok(Self(counts))
    }

    fn count(&self, key: usize) -> Option<&Atomic<u32>> {
        // The golden ratio; the upper bits have what all bits of the address make of it.
        let kind = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - KINDS_BITS);
        self.0.get(kind as usize)
    }

    fn add(&self, key: usize) {
        if let Some(count) = self.count(key) {
            count.fetch_add(1, Full);
        }
    }

    fn remove(&self, key: usize) {
        if let Some(count) = self.count(key) {
            count.fetch_sub(1, Full);
        }
    }

    /// May the address space be known?
    fn has(&self, key: usize) -> bool {
        self.count(key)
            .is_some_and(|count| count.load(Relaxed) != 0)
    }
}

impl UserMms {
    /// None yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(registry: &Arc<Registry>) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                registry: registry.clone(),
                asking: OwnedQueue::new()?,
                retries: Retries::new()?,
                filter: Filter::new()?,
                known <- new_spinlock!(MmTable::new(), "UserMms::known"),
                telling <- new_work!("UserMms::telling"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Where work is done that cannot be done where it is noticed. Nothing there waits for a process or
    /// for what serves its memory.
    pub(crate) fn queue(&self) -> &OwnedQueue {
        self.registry.queue()
    }

    /// Where handlers of userfaultfd are waited for, each for a short time.
    pub(crate) fn asking(&self) -> &OwnedQueue {
        &self.asking
    }

    /// Has a process looked at again when it is due. Does not sleep.
    pub(crate) fn look_later(&self, user_mm: &Arc<UserMm>) {
        self.retries.add(self.queue(), user_mm);
    }

    /// Has the threads of all processes told that have bits to write themselves. Any context.
    pub(crate) fn tell_owners(self: &Arc<Self>) {
        // Queued already is as good.
        let _ = self.queue().enqueue::<_, 0>(self.clone());
    }

    /// The process of this address space, if it has registered anything. Any context.
    pub(crate) fn find(&self, mm: &Mm) -> Option<Arc<UserMm>> {
        self.find_key(key(mm))
    }

    fn find_key(&self, key: usize) -> Option<Arc<UserMm>> {
        if !self.filter.has(key) {
            return None;
        }
        self.known.lock().get(key).cloned()
    }

    /// The first process with this number or a higher one, and its number. UserMms are numbered as
    /// they get their first registration. Any context.
    pub(crate) fn find_from(&self, number: u64) -> Option<(u64, Arc<UserMm>)> {
        self.known.lock().get_from(number)
    }

    /// The number that the next process gets. Any context.
    pub(crate) fn next_number(&self) -> u64 {
        self.known.lock().next_number()
    }

    /// The process of the caller's address space.
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

    /// Adds the process of the caller's address space. If another thread was faster, its process
    /// counts.
    fn add(self: &Arc<Self>, mm: &MmWithUser, set: EnablerSetRef) -> Result<Arc<UserMm>> {
        let user_mm = UserMm::new(mm, self, set)?;
        let places = MmTableReservation::new().inspect_err(|_| user_mm.leave_set())?;
        let key = user_mm.key();
        let mut known = self.known.lock();
        if let Some(faster) = known.get(key).cloned() {
            drop(known);
            drop(places);
            user_mm.leave_set();
            return Ok(faster);
        }
        self.filter.add(key);
        known.insert(places, &user_mm);
        Ok(user_mm)
    }

    /// Forgets a process. Returns whether it was known. Does not sleep.
    pub(crate) fn forget(&self, user_mm: &UserMm) -> bool {
        let removed = self.known.lock().remove(user_mm);
        if removed.is_some() {
            self.filter.remove(user_mm.key());
        }
        removed.is_some()
    }

    /// Forgets all. For the module's exit: no task can register any more, nothing is registered, and no
    /// fork or exit is noticed. May sleep.
    pub(crate) fn close(&self) {
        self.retries.close();
        loop {
            let Some((_, user_mm)) = self.find_from(0) else {
                break;
            };
            self.forget(&user_mm);
            user_mm.leave_set();
        }
        // Work of either queue may still queue on the other. It does so for bits that it has found registered, and
        // for processes that are known; and those that are to be looked at later are forgotten. So what starts from
        // here on queues nothing, and what has started may queue that once more. A queue that is drained would
        // refuse, and lose, what the other's work queues on it.
        //
        // Nothing that started before this runs on the first queue then;
        self.queue().flush();
        // nor on the second, nor is anything left there, as the first has only what queues nothing;
        self.asking.flush();
        // nor is anything left on the first of what the second queued.
        self.queue().flush();
    }
}

impl WorkItem for UserMms {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut is_complete = true;
        process_list::for_each(|listed| {
            let user_mm = this.find_key(listed.mm());
            let Some(user_mm) = user_mm.filter(|user_mm| user_mm.is_to_tell()) else {
                return;
            };
            listed.for_each_thread(|thread| is_complete &= user_mm.tell(thread).is_ok());
        });
        if !is_complete {
            fsleep(RETRY_AFTER);
            this.tell_owners();
        }
    }
}

impl ForkListener for UserMms {
    type Inheritance = Inheritance;

    fn knows(&self, parent: &MmWithUser) -> bool {
        self.filter.has(key(parent))
    }

    fn forked(&self, parent: &MmWithUser) -> Option<Inheritance> {
        self.find(parent)?.inheritance(parent)
    }

    fn inherit(self: &Arc<Self>, child: &MmWithUser, mut inheritance: Inheritance) {
        // The child has not run yet, and it must not run without its registrations.
        while !task_work::is_dying() {
            if let Ok(user_mm) = self.add(child, inheritance.set.clone_for_child()) {
                inheritance.set.set().settle();
                if let Some(bits) = inheritance.take_stale_bits() {
                    user_mm.clear_stale_bits(child, &bits);
                }
                if inheritance.may_be_stale() {
                    user_mm.check_own(child);
                }
                return;
            }
            fsleep(RETRY_AFTER);
        }
    }
}

impl ExitListener for UserMms {
    fn leaving(&self, mm: &MmWithUser) {
        let Some(user_mm) = self.find(mm) else {
            return;
        };
        if mm_users::is_shared(mm) {
            // Threads that exit at the same time, another process with this memory, a reference that is
            // held to look into it.
            user_mm.is_left();
        } else if self.forget(&user_mm) {
            user_mm.is_left_for_good();
        }
    }
}
