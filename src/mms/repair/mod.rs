// SPDX-License-Identifier: GPL-2.0

//! Bits that could not be written at once.
//!
//! A bit is written by the task that changes the event's state, if its page is there and the locks
//! are free. If not, its address is listed for a [`Writer`], and each time it is written with what
//! the event's state is at that moment. The backing of its page decides which writer may fault it
//! in:
//!
//! | [`Writer`] | where it writes | it leaves a bit to |
//! |---|---|---|
//! | [`Queue`](Writer::Queue) | the work queue, to a page that is there: it waits for nothing | itself, after a pause; the one that can have the page brought in |
//! | [`Faults`](Writer::Faults) | a queue of its own: anonymous memory, files in memory. It asks for no wait (`FOLL_NOWAIT`), but there are waits in the kernel for all that | itself, after a pause |
//! | [`Handlers`](Writer::Handlers) | another queue of its own, where handlers of userfaultfd are asked ([`userfaultfd`]) | itself, after a longer pause |
//! | [`Tasks`](Writer::Tasks) | the tasks of the mm before they return to user space ([`by_task`]): file systems, so what that takes, and whether it ever comes, is the mm's own matter | `Queue`, if it takes too long, or the task is killed |
//!
//! While it is tried, it is in no list, and `in_progress` counts that. A bit that is right is left
//! alone. One is given up that cannot be written as things are: no mapping, or one that is
//! read-only. The next change of the event's state begins anew.

mod by_task;
mod list;
mod userfaultfd;

pub(crate) use list::Repairs;

use super::enabler::Enabler;
use super::enabler_set::MAX_BITS_AT_ONCE;
use super::fault_in::WriteRetries;
use super::mm::UserMm;
use crate::sys::user_bit::{
    BitAddr,
    BitWriteError,
    FaultIn,
    LockedMm, //
};
use crate::sys::work_queue::Delayed;
use crate::sys::{
    mm_users,
    task, //
};
use core::array;
use core::cell::Cell;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Delta;
use kernel::workqueue::WorkItem;
use list::{
    RepairList,
    Writer, //
};

/// The first pause before something is tried again, in milliseconds. Each is twice as long as the
/// one before.
const FIRST_PAUSE: i64 = 10;

/// How many doublings longer the longest pause is: 1.28 s.
const BACKOFF_MAX_SHIFT: u32 = 7;

/// The same where a handler of userfaultfd is asked: 10.24 s.
const HANDLER_BACKOFF_MAX_SHIFT: u32 = 10;

/// What became of bits that a writer was to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// There is nothing left to be done: written, right, given up, or the mm has ended.
    Done,
    /// To be tried again after a pause.
    Again,
    /// As `Again`, and to be written also if they are right.
    MayBeLost,
    /// To be tried by another writer.
    LeftTo(Writer),
}

impl UserMm {
    /// Has bits written by the work queue; with `force` also those that are right, as they may get
    /// lost. Any context.
    pub(super) fn repair_later<'a>(
        self: &Arc<Self>,
        enablers: impl Iterator<Item = &'a Arc<Enabler>>,
        force: bool,
    ) {
        let mut repairs = self.repairs.lock();
        repairs.reset_tries();
        repairs.add(Writer::Queue, enablers.map(|enabler| enabler.addr()), force);
        drop(repairs);
        self.enqueue();
    }

    /// Are bits waiting to be repaired? Any context.
    pub(super) fn has_repairs(&self) -> bool {
        self.repairs.lock().are_pending()
    }

    /// Has the work queue look at the mm. Any context.
    pub(super) fn enqueue(self: &Arc<Self>) {
        self.queue_writer(Writer::Queue, 0);
    }

    /// Has a writer run: at once, or after a pause that grows with the number of tries. What is to
    /// be done has been listed. Any context.
    fn queue_writer(self: &Arc<Self>, writer: Writer, tries: u32) {
        let max_shift = match writer {
            Writer::Handlers => HANDLER_BACKOFF_MAX_SHIFT,
            _ => BACKOFF_MAX_SHIFT,
        };
        let pause = match tries {
            0 => Delta::ZERO,
            tries => Delta::from_millis(FIRST_PAUSE << (tries - 1).min(max_shift)),
        };
        let mms = &self.mms;
        match writer {
            Writer::Queue => mms.queue.enqueue_after::<_, 0>(self, pause),
            Writer::Faults => mms.fault_queue.enqueue_after::<_, 1>(self, pause),
            Writer::Handlers => mms.userfaultfd_queue.enqueue_after::<_, 2>(self, pause),
            // They are notified all at once.
            Writer::Tasks => mms.queue.enqueue_after::<_, 0>(mms, Delta::ZERO),
        }
    }

    /// The mm has ended: nothing is tried again. Does not wait for what is being tried.
    pub(super) fn end_repairs(self: &Arc<Self>) {
        self.repairs.lock().end();
        Delayed::<_, 0>::cancel(self);
        Delayed::<_, 1>::cancel(self);
        Delayed::<_, 2>::cancel(self);
    }

    /// The turn of a writer: calls `write` with the bits that are listed for it, those of one page
    /// at once, and whether they are to be written also if they are right. Has done what `write`
    /// says. May sleep.
    fn write_listed(
        self: &Arc<Self>,
        writer: Writer,
        mut write: impl FnMut(&[Option<Arc<Enabler>>], bool) -> Outcome,
    ) {
        // Out of the list before they are written: a task that changes the event from here on
        // either is seen by the writer, or lists the bit again.
        let begun = self.repairs.lock().begin_turn(writer);
        let Some((list, tries)) = begun else {
            return;
        };
        // A task that could not write its bits leaves them to another one, which the queue
        // notifies.
        let again = match writer {
            Writer::Tasks => Writer::Queue,
            writer => writer,
        };
        let mut is_left = false;
        self.for_each_listed_page(&list, |enablers| {
            let outcome = write(enablers, list.force);
            let next = match outcome {
                Outcome::Done => return,
                Outcome::Again | Outcome::MayBeLost => again,
                Outcome::LeftTo(writer) => writer,
            };
            let force = list.force || outcome == Outcome::MayBeLost;
            let addrs = enablers.iter().flatten().map(|enabler| enabler.addr());
            self.repairs.lock().add(next, addrs, force);
            match outcome {
                Outcome::LeftTo(next) => self.queue_writer(next, 0),
                _ => is_left = true,
            }
        });
        let mut repairs = self.repairs.lock();
        repairs.end_turn(writer);
        // With the lock held: what has ended is cancelled once, and not begun after that.
        if is_left && !repairs.have_ended() {
            self.queue_writer(again, tries);
        }
    }

    /// Looks at all bits of the mm, and writes those that are wrong: it is the current task's,
    /// which is a child that has not run yet, and an event may have changed since its memory was
    /// copied. Waits for its pages, until the task is killed.
    pub(super) fn fix_child_bits(self: &Arc<Self>, mm: &MmWithUser) {
        self.for_each_page(|enablers| {
            // They are as many as the program has registered.
            if !task::fatal_signal_pending() {
                self.fix_current_page(mm, enablers);
            }
        });
    }

    /// Calls `each` with the enablers of these bits, those of one page at once.
    fn for_each_listed_page(
        &self,
        list: &RepairList,
        mut each: impl FnMut(&[Option<Arc<Enabler>>]),
    ) {
        if list.overflowed {
            return self.for_each_page(each);
        }
        for addr in list.addrs() {
            if let Some((set, _)) = self.set() {
                each(&[set.get(addr)]);
            }
        }
    }

    /// Calls `each` with all enablers of the mm, those of one page at once.
    fn for_each_page(&self, mut each: impl FnMut(&[Option<Arc<Enabler>>])) {
        let mut from = BitAddr::FIRST;
        while let Some((set, _)) = self.set() {
            let mut buf: [_; MAX_BITS_AT_ONCE] = array::from_fn(|_| None);
            set.get_page(from, &mut buf);
            let Some(last) = buf.iter().flatten().last() else {
                break;
            };
            from = last.addr().next();
            each(&buf);
        }
    }

    /// Writes bits of one page, with the mmap lock held. Returns whether they are still the mm's: its set may
    /// have been replaced meanwhile, and what is to be written is to be looked for in the new one.
    fn fix_bits_of_page(
        &self,
        locked_mm: &LockedMm<'_>,
        enablers: &[Option<Arc<Enabler>>],
        fault_in: FaultIn,
        force: bool,
    ) -> Result<bool, BitWriteError> {
        let set_unchanged = Cell::new(true);
        let Some(first) = enablers.iter().flatten().next() else {
            return Ok(true);
        };
        locked_mm.fix_page(first.bit().address(), fault_in, force, |page| {
            for enabler in enablers.iter().flatten() {
                let of_event = enabler.event().lock_enablers();
                let Some(value) = of_event.value_for(enabler) else {
                    continue;
                };
                let mut write = enabler.set().members.begin_write();
                // It stays connected for others when this mm gets a copy, from which it may have been removed
                // since. The task that does that waits for the lock held here before it clears the bit.
                if !self.has_set(enabler.set()) {
                    set_unchanged.set(false);
                } else if page.set(enabler.bit(), value) {
                    write.changed = true;
                    // The program may have been told of the change, and have looked at the bit in
                    // vain.
                    of_event.record_late_write(enabler.event());
                }
            }
        })?;
        Ok(set_unchanged.get())
    }

    /// Writes bits of one page, without waiting for a task of the mm or for what serves its memory,
    /// but as far as `writer` may.
    fn try_fix_page(
        &self,
        enablers: &[Option<Arc<Enabler>>],
        writer: Writer,
        force: bool,
    ) -> Outcome {
        let Some(first) = enablers.iter().flatten().next() else {
            return Outcome::Done;
        };
        let address = first.bit().address();
        let outcome = self.with_mm(|mm| {
            let Some(locked_mm) = LockedMm::try_lock(mm) else {
                return Outcome::Again;
            };
            let Some(backing) = locked_mm.backing_of(address) else {
                return Outcome::Done;
            };
            let fault_in = match writer.may_fault_in(backing) {
                true => FaultIn::NoWait,
                false => FaultIn::Never,
            };
            match self.fix_bits_of_page(&locked_mm, enablers, fault_in, force) {
                Err(BitWriteError::NotPresent) if fault_in == FaultIn::Never => {
                    Outcome::LeftTo(Writer::of(backing))
                }
                Ok(true) | Err(BitWriteError::NotPresent) => Outcome::Done,
                Ok(false) => Outcome::LeftTo(Writer::Queue),
                Err(BitWriteError::Busy) => Outcome::MayBeLost,
                Err(BitWriteError::NotYet | BitWriteError::NoMemory) => Outcome::Again,
            }
        });
        outcome.unwrap_or(Outcome::Done)
    }

    /// Writes bits of one page of the current task's mm, which this is. Waits for what that takes,
    /// until the task is killed.
    fn fix_current_page(self: &Arc<Self>, mm: &MmWithUser, enablers: &[Option<Arc<Enabler>>]) {
        let Some(first) = enablers.iter().flatten().next() else {
            return;
        };
        let mut tries = WriteRetries::new(mm, first.bit());
        loop {
            let locked_mm = LockedMm::lock(mm);
            let written = self.fix_bits_of_page(&locked_mm, enablers, FaultIn::Never, false);
            drop(locked_mm);
            let is_left = match written {
                Ok(true) => return,
                // The mm has another set by now, to be looked into; or the bit may get lost.
                Ok(false) | Err(BitWriteError::Busy) => true,
                Err(error) => match tries.prepare_retry(error) {
                    Ok(()) => false,
                    // Others may share the memory of a task that is killed, or there may be more
                    // memory later.
                    Err(error) if error == EINTR || error == ENOMEM => true,
                    // It cannot be written as things are, and is left alone until the event changes
                    // again.
                    Err(_) => return,
                },
            };
            if is_left {
                let force = written == Err(BitWriteError::Busy);
                return self.repair_later(enablers.iter().flatten(), force);
            }
        }
    }
}

impl WorkItem for UserMm {
    type Pointer = Delayed<Self>;

    fn run(this: Delayed<Self>) {
        if this.repairs.lock().have_ended() || mm_users::has_ended(&this.mm) {
            this.mms.forget(&this);
            this.leave_set();
        } else {
            this.write_listed(Writer::Queue, |enablers, force| {
                this.try_fix_page(enablers, Writer::Queue, force)
            });
        }
    }
}

impl WorkItem<1> for UserMm {
    type Pointer = Delayed<Self, 1>;

    fn run(this: Delayed<Self, 1>) {
        this.write_listed(Writer::Faults, |enablers, force| {
            this.try_fix_page(enablers, Writer::Faults, force)
        });
    }
}
