// SPDX-License-Identifier: GPL-2.0

//! One bit of one process that shows whether anybody listens to an event.

use crate::event::Use;
use crate::process::Process;
use crate::sys::remote_page::UserBit;
use kernel::list::{AtomicTracker, ListArc, ListLinks, TryNewListArc};
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// The next enabler's number.
static NEXT_ID: Atomic<u64> = Atomic::new(0);

/// A registration: a bit in the memory of a process, and the event whose state it shows.
///
/// The process finds it by address and bit, the event by its number; whoever removes it removes it
/// from both.
#[pin_data]
pub(crate) struct Enabler {
    id: u64,
    bit: UserBit,
    event: Use,
    process: Arc<Process>,
    /// In the process's list of bits that could not be written when they should have been.
    #[pin]
    links: ListLinks,
    #[pin]
    tracker: AtomicTracker,
}

kernel::list::impl_list_arc_safe! {
    impl ListArcSafe<0> for Enabler { tracked_by tracker: AtomicTracker; }
}
kernel::list::impl_list_item! {
    impl ListItem<0> for Enabler { using ListLinks { self.links }; }
}

impl Enabler {
    /// An enabler that is not connected to anything yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(process: &Arc<Process>, bit: UserBit, event: Use) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                id: NEXT_ID.fetch_add(1, Relaxed),
                bit,
                event,
                process: process.clone(),
                links <- ListLinks::new(),
                tracker <- AtomicTracker::new(),
            }? Error),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Unique while the module is loaded.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The bit.
    pub(crate) fn bit(&self) -> &UserBit {
        &self.bit
    }

    /// The event whose state the bit shows.
    pub(crate) fn event(&self) -> &Use {
        &self.event
    }

    /// Writes the bit, if that can be done without waiting for the process in any way. Returns
    /// whether there is nothing left to be done: it was written, or the process is gone.
    pub(crate) fn try_write(&self, on: bool) -> bool {
        let Some(mm) = self.process.mm().mmget_not_zero() else {
            return true;
        };
        // The last reference to an address space is heavy, and `event_mutex` may be held.
        let mm = MmWithUser::into_mmput_async(mm);
        let Some(locked) = mm.mmap_read_trylock() else {
            return false;
        };
        self.bit.store(&mm, &locked, on).is_ok()
    }

    /// Has the process's memory brought in and the bit written by the work queue.
    pub(crate) fn repair_later(self: &Arc<Self>) {
        // If it is in the list already, it will be written with the newest state.
        if let Some(item) = ListArc::try_from_arc_or_drop(self.clone()) {
            self.process.repair_later(item);
        }
    }
}
