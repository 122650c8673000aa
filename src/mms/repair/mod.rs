// SPDX-License-Identifier: GPL-2.0

//! Bits that could not be written at once.
//!
//! The task that changes an event's state writes a bit if its page is there and the locks are free
//! ([`write`](super::write)). Otherwise the bit is listed for a [`Writer`], which writes the state
//! that the event has then. The backing of a page decides which writer may fault it in:
//!
//! - [`Queue`](Writer::Queue): the work queue, which waits for nothing, and writes to pages that
//!   are there. It leaves a bit to itself after a pause, or to the writer that can bring in the
//!   page.
//! - [`Faults`](Writer::Faults): a work queue of its own, for anonymous memory and files in memory.
//!   It faults pages in with `FOLL_NOWAIT`, but the kernel may wait all the same. It leaves a bit
//!   to itself after a pause.
//! - [`Handlers`](Writer::Handlers): another work queue of its own, which requests pages from
//!   handlers of userfaultfd ([`userfaultfd`]). It leaves a bit to itself after a longer pause.
//! - [`Tasks`](Writer::Tasks): the tasks of the mm, before they return to user space ([`by_task`]),
//!   for file systems: the mm itself waits for its file system. A task leaves a bit to `Queue` if
//!   the page takes too long, or the task is killed.
//!
//! While a bit is tried, it is in no list, and `in_progress` counts its writer's turn. A bit that
//! is right is left alone. A bit without a mapping, or with a read-only one, is given up. The next
//! change of the event's state starts over.

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

/// The first pause before a retry, in milliseconds. Each pause is twice as long as the one before.
const FIRST_PAUSE: i64 = 10;

/// The doublings up to the longest pause: 1.28 s.
const BACKOFF_MAX_SHIFT: u32 = 7;

/// The doublings up to the longest pause between requests to a handler of userfaultfd: 10.24 s.
const HANDLER_BACKOFF_MAX_SHIFT: u32 = 10;

/// The outcome of a writer's try at the bits of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing is left to be done: the bits are written, right, or given up, or the mm has ended.
    Done,
    /// To be tried again after a pause.
    Again,
    /// As `Again`; bits that are right are to be written, too.
    MayBeLost,
    /// To be tried by another writer.
    LeftTo(Writer),
}

impl UserMm {
    /// Lists bits for the work queue; with `force`, bits that are right are written, too, as they
    /// may be lost with their page. Any context.
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

    /// Whether a bit is waiting for its repair, or being repaired. Any context.
    pub(super) fn has_repairs(&self) -> bool {
        self.repairs.lock().are_pending()
    }

    /// Queues a turn of [`Writer::Queue`]. Any context.
    pub(super) fn enqueue(self: &Arc<Self>) {
        self.queue_writer(Writer::Queue, 0);
    }

    /// Queues a turn of a writer: at once, or after a pause that grows with the number of tries.
    /// Its list has been filled. Any context.
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
            // All tasks are notified together.
            Writer::Tasks => mms.queue.enqueue_after::<_, 0>(mms, Delta::ZERO),
        }
    }

    /// Ends all repairs when the mm has ended. Does not wait for a turn that is running.
    pub(super) fn end_repairs(self: &Arc<Self>) {
        self.repairs.lock().end();
        Delayed::<_, 0>::cancel(self);
        Delayed::<_, 1>::cancel(self);
        Delayed::<_, 2>::cancel(self);
    }

    /// Runs a turn of a writer: calls `write` for each page with listed bits. With its second
    /// argument `true`, bits that are right are written, too. Lists the bits again as the outcome
    /// requires. May sleep.
    fn write_listed(
        self: &Arc<Self>,
        writer: Writer,
        mut write: impl FnMut(&[Option<Arc<Enabler>>], bool) -> Outcome,
    ) {
        // Taken from the list before the write: a task that changes the event from here on either
        // is seen by the writer, or lists the bit again.
        let begun = self.repairs.lock().begin_turn(writer);
        let Some((list, tries)) = begun else {
            return;
        };
        // A task leaves its bits to another one, which the work queue notifies.
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
        // Under the lock: `end_repairs` cancels once, and no turn is queued after that.
        if is_left && !repairs.have_ended() {
            self.queue_writer(again, tries);
        }
    }

    /// Checks all bits of the current task's mm, and writes those that are wrong: the mm is that of
    /// a child that has not run yet, and an event may have changed since its memory was copied.
    /// Waits for pages, until the task is killed.
    pub(super) fn fix_child_bits(self: &Arc<Self>, mm: &MmWithUser) {
        self.for_each_page(|enablers| {
            // The number is up to the program, so this can take long.
            if !task::fatal_signal_pending() {
                self.fix_current_page(mm, enablers);
            }
        });
    }

    /// Calls `each` with the enablers of the listed bits, page by page.
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

    /// Calls `each` with all enablers of the mm, page by page.
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

    /// Writes bits of one page, with the mmap lock held. Returns whether the enablers are still the
    /// mm's: its set may have been replaced meanwhile, and has to be searched again then.
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
                // The mm may have got a copy of the set, and the enabler have been removed from
                // that, while it stays connected for others. The task that removes it takes the
                // lock held here before it clears the bit.
                if !self.has_set(enabler.set()) {
                    set_unchanged.set(false);
                } else if page.set(enabler.bit(), value) {
                    write.changed = true;
                    // The program may have been notified of the change, and have found the bit
                    // unchanged.
                    of_event.record_late_write(enabler.event());
                }
            }
        })?;
        Ok(set_unchanged.get())
    }

    /// Writes bits of one page, as far as `writer` may: without waiting for a task of the mm, or
    /// for a server of its memory.
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

    /// Writes bits of one page of the current task's mm. Waits for the page, until the task is
    /// killed.
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
                // The mm has another set by now, which has to be searched; or the write may be
                // lost.
                Ok(false) | Err(BitWriteError::Busy) => true,
                Err(error) => match tries.prepare_retry(error) {
                    Ok(()) => false,
                    // Others may share the memory of a killed task, and memory may be there later.
                    Err(error) if error == EINTR || error == ENOMEM => true,
                    // The bit is given up until the event changes again.
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
