// SPDX-License-Identifier: GPL-2.0

//! Bits that could not be written at once.
//!
//! A bit is written by the task that changes the event's state, if its page is there and the locks are free. If
//! not, its address goes through the lists of [`Repairs`], and each time it is written with what the event's
//! state is at that moment. The backing of its page decides which context may fault it in:
//!
//! | the address is in | and is written by | which leaves it to |
//! |---|---|---|
//! | no list | the task that changes the event's state | `queued`, if that cannot be done without waiting |
//! | `queued` | the work queue, with no waiting ([`UserMm::repair`]): anonymous memory, files in memory | itself after a pause; `userfaultfd`; `tasks` |
//! | `userfaultfd` | a second queue, which has the handler asked and waits for it for a short time ([`userfaultfd`](super::userfaultfd)) | itself after a longer pause; `queued`, if it is another backing by now |
//! | `tasks` | the tasks of the mm before they return to user space ([`task_repair`](super::task_repair)): file systems, so what that takes, and whether it ever comes, is the mm's own matter | `queued`, if the task is killed, or the set was replaced |
//!
//! While it is tried, it is in no list, and `in_progress` counts that. A bit is given up that cannot be written as
//! things are: no mapping, or one that is read-only. The next change of the event's state begins anew.

use super::addrs::EnableAddrs;
use super::enabler::{
    EnableAddr,
    Enabler, //
};
use super::fault_in::WriteTries;
use super::mm::UserMm;
use super::retries::{
    Deadline,
    Retry, //
};
use crate::sys::user_bit::{
    Backing,
    BitWriteError,
    FaultIn,
    LockedMm, //
};
use core::array;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

/// The first pause before something is tried again, in nanoseconds. Each is twice as long as the one
/// before.
const FIRST_PAUSE: u64 = 10_000_000;

/// The longest pause is so many doublings longer: 1.28 s.
pub(super) const MAX_DOUBLINGS: u32 = 7;

/// How many bits are repaired with one pin of their page, at most.
const MAX_BITS_AT_ONCE: usize = 32;

/// Bits that could not be written when they should have been, by the context that is to write them; and
/// whether the mm may have ended, for [`mm_end`](super::mm_end).
pub(super) struct Repairs {
    /// For the work queue.
    pub(super) queued: EnableAddrs,
    /// For the second queue, which asks handlers of userfaultfd.
    pub(super) userfaultfd: EnableAddrs,
    /// For the tasks of the mm.
    pub(super) tasks: EnableAddrs,
    /// How many contexts are trying some that are in no list meanwhile.
    pub(super) in_progress: usize,
    /// How often has been tried since the last change.
    pub(super) tries: u32,
    /// The address of the page that a handler was asked for last.
    pub(super) last_asked: usize,
    /// Is it to be found out whether the mm has ended?
    pub(super) may_have_ended: bool,
    /// Has its last user left it?
    pub(super) has_ended: bool,
    /// The threads that have been notified of `tasks`, and have not looked yet.
    pub(super) notified: RBTree<usize, ()>,
}

impl Repairs {
    /// Nothing is to be done.
    pub(super) fn new() -> Self {
        Self {
            queued: EnableAddrs::NONE,
            userfaultfd: EnableAddrs::NONE,
            tasks: EnableAddrs::NONE,
            in_progress: 0,
            tries: 0,
            last_asked: 0,
            may_have_ended: false,
            has_ended: false,
            notified: RBTree::new(),
        }
    }
}

/// What became of bits that a work queue was to write.
pub(super) enum Outcome {
    /// There is nothing left to be done: written, given up, or the mm has ended.
    Done,
    /// To be tried again.
    Later,
    /// To be written where this backing allows it.
    Other(Backing),
}

impl UserMm {
    /// Writes the bits of enablers, all of one page, if that can be done without waiting for a task of the mm in
    /// any way. Else has them written later. The caller holds the lock of the event.
    pub(super) fn write(self: &Arc<Self>, enablers: &[Arc<Enabler>], value: bool) {
        let Some(first) = enablers.first() else {
            return;
        };
        let written = self.with_mm(|mm| {
            let locked_mm = LockedMm::try_lock(mm).ok_or(BitWriteError::NotYet)?;
            locked_mm.write_page(first.bit().address(), FaultIn::Never, |page| {
                for enabler in enablers {
                    page.store(enabler.bit(), value);
                }
            })
        });
        if written.is_some_and(|written| written.is_err()) {
            let mut repairs = self.repairs.lock();
            repairs.tries = 0;
            for enabler in enablers {
                repairs.queued.add(enabler.addr());
            }
            drop(repairs);
            self.enqueue();
        }
    }

    /// Has the bit of an enabler written again, which may have been lost. Any context.
    pub(super) fn repair_later(self: &Arc<Self>, enabler: &Enabler) {
        let mut repairs = self.repairs.lock();
        repairs.tries = 0;
        repairs.queued.add(enabler.addr());
        drop(repairs);
        self.enqueue();
    }

    /// Are bits waiting to be repaired? Any context.
    pub(super) fn has_repairs(&self) -> bool {
        let repairs = self.repairs.lock();
        repairs.in_progress != 0
            || !repairs.queued.is_empty()
            || !repairs.userfaultfd.is_empty()
            || !repairs.tasks.is_empty()
    }

    /// Has the work queue look at the mm. Any context.
    pub(super) fn enqueue(self: &Arc<Self>) {
        // Already queued is as good.
        let _ = self.mms.queue().enqueue::<_, 0>(self.clone());
    }

    /// Has the second work queue look at the mm. Any context.
    pub(super) fn enqueue_userfaultfd(self: &Arc<Self>) {
        let _ = self.mms.userfaultfd_queue().enqueue::<_, 1>(self.clone());
    }

    /// Has the mm looked at again after a pause, which grows with the number of tries. What is to be looked at
    /// has been noted in `repairs`. Any context.
    pub(super) fn pause(self: &Arc<Self>, tries: u32, max_doublings: u32) {
        self.deadline.set(FIRST_PAUSE << tries.min(max_doublings));
        self.mms.retry_later(self);
    }

    /// Looks at all bits of the mm, and writes those that are wrong: it is the current task's, which is a child
    /// that has not run yet, and an event may have changed since its memory was copied. May sleep.
    pub(super) fn check_current(self: &Arc<Self>, mm: &MmWithUser) {
        self.for_every_page(|enablers| {
            if !self.is_right(mm, enablers) {
                self.write_current(mm, enablers);
            }
        });
    }

    /// Are these bits, of one page, what they should be? `false` as well if they cannot be read.
    fn is_right(&self, mm: &MmWithUser, enablers: &[Option<Arc<Enabler>>]) -> bool {
        let Some(first) = enablers.iter().flatten().next() else {
            return true;
        };
        let locked_mm = LockedMm::lock(mm);
        let is_right = locked_mm.read_page(first.bit().address(), |page| {
            enablers.iter().flatten().all(|enabler| {
                let of_event = enabler.event().lock_enablers();
                let value = of_event.value_for(enabler);
                value.is_none_or(|value| page.load(enabler.bit()) == Some(value))
            })
        });
        is_right.unwrap_or(false)
    }

    /// Calls `each` with the enablers of these bits, those of one page at once.
    pub(super) fn for_each_page(
        &self,
        addrs: &EnableAddrs,
        mut each: impl FnMut(&[Option<Arc<Enabler>>]),
    ) {
        for addr in addrs.listed() {
            if let Some((set, _)) = self.set() {
                each(&[set.get(&addr)]);
            }
        }
        if addrs.all {
            self.for_every_page(each);
        }
    }

    /// Calls `each` with all enablers of the mm, those of one page at once.
    fn for_every_page(&self, mut each: impl FnMut(&[Option<Arc<Enabler>>])) {
        let mut from = EnableAddr::FIRST;
        while let Some((set, _)) = self.set() {
            let mut buf: [_; MAX_BITS_AT_ONCE] = array::from_fn(|_| None);
            let count = set.get_page(&from, &mut buf);
            let enablers = buf.get(..count).unwrap_or_default();
            let Some(last) = enablers.iter().flatten().last() else {
                break;
            };
            from = last.addr().next();
            each(enablers);
        }
    }

    /// Writes bits of one page, with the mmap lock held. Returns whether they are still the mm's: its set may
    /// have been replaced meanwhile, and what is to be written is to be looked for in the new one.
    fn write_page(
        &self,
        locked_mm: &LockedMm<'_>,
        enablers: &[Option<Arc<Enabler>>],
        fault_in: FaultIn,
    ) -> Result<bool, BitWriteError> {
        let mut are_its_own = true;
        let Some(first) = enablers.iter().flatten().next() else {
            return Ok(are_its_own);
        };
        locked_mm.write_page(first.bit().address(), fault_in, |page| {
            for enabler in enablers.iter().flatten() {
                let of_event = enabler.event().lock_enablers();
                let Some(value) = of_event.value_for(enabler) else {
                    continue;
                };
                let change = enabler.set().members.change();
                // It stays connected for others when this mm gets a copy, from which it may have been removed
                // since. The task that does that waits for the lock held here before it clears the bit.
                if self.has_set(enabler.set()) {
                    page.store(enabler.bit(), value);
                } else {
                    are_its_own = false;
                }
                drop(change);
                // The program may have been told of the change, and have looked at the bit in vain.
                enabler.event().wrote_late(of_event);
            }
        })?;
        Ok(are_its_own)
    }

    /// Writes bits of one page, as a work queue may: without waiting for a task of the mm or for what serves its
    /// memory.
    pub(super) fn write_remote(&self, enablers: &[Option<Arc<Enabler>>]) -> Outcome {
        let Some(first) = enablers.iter().flatten().next() else {
            return Outcome::Done;
        };
        let address = first.bit().address();
        let outcome = self.with_mm(|mm| {
            let Some(locked_mm) = LockedMm::try_lock(mm) else {
                return Outcome::Later;
            };
            let backing = locked_mm.backing_of(address);
            let fault_in = match backing {
                Some(Backing::Memory) => FaultIn::NoWait,
                Some(_) => FaultIn::Never,
                None => return Outcome::Done,
            };
            match (self.write_page(&locked_mm, enablers, fault_in), backing) {
                (Err(BitWriteError::NotPresent), Some(other)) if other != Backing::Memory => {
                    Outcome::Other(other)
                }
                (Ok(true) | Err(BitWriteError::NotPresent), _) => Outcome::Done,
                (Ok(false) | Err(_), _) => Outcome::Later,
            }
        });
        outcome.unwrap_or(Outcome::Done)
    }

    /// Writes bits of one page of the current task's mm, which this is. Waits for what that takes.
    pub(super) fn write_current(
        self: &Arc<Self>,
        mm: &MmWithUser,
        enablers: &[Option<Arc<Enabler>>],
    ) {
        let Some(first) = enablers.iter().flatten().next() else {
            return;
        };
        let mut tries = WriteTries::new(mm, first.bit());
        let written = loop {
            let locked_mm = LockedMm::lock(mm);
            let written = self.write_page(&locked_mm, enablers, FaultIn::Never);
            drop(locked_mm);
            match written {
                Ok(are_its_own) => break Ok(are_its_own),
                Err(error) => {
                    if let Err(error) = tries.prepare_next(error) {
                        break Err(error);
                    }
                }
            }
        };
        let is_to_pause = match written {
            // The mm has another set by now, which is to be looked into.
            Ok(false) => false,
            // The current task is killed, and others may share its memory; or there may be more memory later. The
            // work queue notifies all threads again that there are then.
            Err(error) if error == EINTR || error == ENOMEM => true,
            // Written; or it cannot be as things are, and is left alone until the event changes again.
            Ok(true) | Err(_) => return,
        };
        let mut repairs = self.repairs.lock();
        for enabler in enablers.iter().flatten() {
            repairs.queued.add(enabler.addr());
        }
        let tries = repairs.tries;
        drop(repairs);
        if is_to_pause {
            self.pause(tries, MAX_DOUBLINGS);
        } else {
            self.enqueue();
        }
    }

    /// What the work queue does for the mm.
    fn repair(self: &Arc<Self>) {
        let mut repairs = self.repairs.lock();
        // Out of the list before they are written: a task that changes the event from here on either is seen by
        // the repair, or lists the bit again.
        let queued = repairs.queued.take();
        if queued.is_empty() {
            return;
        }
        repairs.in_progress += 1;
        drop(repairs);
        let mut later = EnableAddrs::NONE;
        let mut userfaultfd = EnableAddrs::NONE;
        let mut tasks = EnableAddrs::NONE;
        self.for_each_page(&queued, |enablers| {
            let left = match self.write_remote(enablers) {
                Outcome::Done => return,
                Outcome::Later | Outcome::Other(Backing::Memory) => &mut later,
                Outcome::Other(Backing::Userfaultfd) => &mut userfaultfd,
                Outcome::Other(Backing::FileSystem) => &mut tasks,
            };
            for enabler in enablers.iter().flatten() {
                left.add(enabler.addr());
            }
        });
        let mut repairs = self.repairs.lock();
        repairs.in_progress -= 1;
        repairs.queued.add_these(&later);
        repairs.userfaultfd.add_these(&userfaultfd);
        repairs.tasks.add_these(&tasks);
        let tries = repairs.tries;
        repairs.tries = tries.saturating_add(1);
        drop(repairs);
        if !tasks.is_empty() {
            self.mms.notify_tasks();
        }
        if !userfaultfd.is_empty() {
            self.enqueue_userfaultfd();
        }
        if !later.is_empty() {
            self.pause(tries, MAX_DOUBLINGS);
        }
    }
}

impl Retry for UserMm {
    fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// Resets the deadline, also one that is set by [`Self::pause`] just now. What that was for is seen here, and
    /// by the work that is queued here: it was noted with `repairs` locked before the deadline was set. Had that
    /// been locked here before it was noted there, the deadline would have been reset before it was set.
    fn retry(self: &Arc<Self>) {
        self.deadline.reset();
        let is_to_ask = !self.repairs.lock().userfaultfd.is_empty();
        if is_to_ask {
            self.enqueue_userfaultfd();
        }
        self.enqueue();
    }
}

impl WorkItem for UserMm {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if !this.check_end() {
            this.repair();
        }
    }
}
