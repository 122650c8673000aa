// SPDX-License-Identifier: GPL-2.0

//! Open files that are told when the state of an event changes.
//!
//! An open file has a [`Watch`], and once it is polled for that, each event that was registered through it lists the
//! watch. So a change reaches those files that it concerns, and costs nothing where there is none; and a poll looks at
//! one number, however many events the file has.
//!
//! What a watch is told has a number, and a poll reports it once. A number is drawn when the bits that show the new
//! state have been written, as far as that can be done without waiting: so whichever number a program has been told of
//! last, all that came before can be seen in its bits. A bit that is written later than that is told of once more.

use crate::sorted_arcs::{
    Order,
    Reservation,
    Shortfall,
    SortedArcs, //
};
use crate::sys::poll::{
    Kind,
    PollQueue, //
};
use core::array;
use core::cmp::Ordering;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full, //
};
use kernel::sync::{
    Arc,
    SpinLock, //
};
use kernel::{
    new_spinlock,
    static_lock_class, //
};

/// Counts the changes of all events, and what watches are told of them.
static CHANGES: Atomic<u64> = Atomic::new(0);

/// The number of the last change. Any context.
pub(crate) fn last_change() -> u64 {
    CHANGES.load(Acquire)
}

/// The number of a change that is noted now. Any context.
pub(crate) fn next_change() -> u64 {
    CHANGES.fetch_add(1, Full).wrapping_add(1)
}

/// How many watches are told of a change with the lock of the event held.
const BATCH: usize = 16;

/// What one open file is told.
#[pin_data]
pub(crate) struct Watch {
    #[pin]
    told: SpinLock<Told>,
    #[pin]
    queue: PollQueue,
}

/// The numbers of changes.
struct Told {
    /// Of the last one.
    last: u64,
    /// Of the last one that a poll has reported.
    reported: u64,
    /// Of the last one that made a new waiter poll again at once.
    offered: u64,
}

impl Watch {
    /// Nothing has changed. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                told <- new_spinlock!(Told {
                    last: 0,
                    reported: 0,
                    offered: 0,
                }, "Watch::told"),
                queue <- PollQueue::new(c"Watch::queue", static_lock_class!()),
            }? Error),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Those who wait.
    pub(crate) fn queue(&self) -> &PollQueue {
        &self.queue
    }

    /// Notes a change, for the next poll. Returns whether there is something to be reported.
    pub(crate) fn note(&self, number: u64) -> bool {
        let mut told = self.told.lock();
        told.last = told.last.max(number);
        told.last > told.reported
    }

    /// Notes a change, and wakes those who wait.
    fn tell(&self, number: u64) {
        if self.note(number) {
            self.queue.wake();
        }
    }

    /// Is there something that has not been reported? If so, it has been by this, unless the poll is one to
    /// subscribe: then the next one reports it, and no other that subscribes.
    pub(crate) fn take(&self, kind: Kind) -> bool {
        let mut told = self.told.lock();
        let before = match kind {
            Kind::Report => told.reported,
            Kind::Subscribe => told.reported.max(told.offered),
        };
        match kind {
            Kind::Report => told.reported = told.last,
            Kind::Subscribe => told.offered = told.last,
        }
        told.last > before
    }

    fn key(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}

/// By address.
struct ByKey;

impl Order<Watch> for ByKey {
    fn compare(one: &Arc<Watch>, other: &Arc<Watch>) -> Ordering {
        one.key().cmp(&other.key())
    }
}

/// The watches of one event.
pub(super) struct Watches {
    by_key: SortedArcs<Watch, ByKey>,
    untold: Option<Untold>,
}

/// Watches that are still to be told of a change: those with a key from one on, and below a limit; then the first ones,
/// below another limit.
///
/// A change that comes in the midst of it is told from where that stands, once round. So those who cause one change
/// after the other do not keep the last watches from being told.
#[derive(Clone, Copy)]
struct Untold {
    key: usize,
    below: usize,
    /// 0: none of the first ones are left.
    then_below: usize,
    /// The number; 0: the bits are still being written.
    number: u64,
}

/// Watches that are to be told of the change with a number.
pub(super) struct Batch {
    number: u64,
    watches: [Option<Arc<Watch>>; BATCH],
}

impl Batch {
    /// Tells them. Takes spinlocks only, as those who wait for a file are woken with its own held, however many they are.
    pub(super) fn tell(self) {
        for watch in self.watches.iter().flatten() {
            watch.tell(self.number);
        }
    }
}

/// Memory for adding a watch to an event, got without the lock of the event.
pub(super) struct WatchMemory {
    list: Option<KBox<Watches>>,
    place: Reservation<Watch>,
}

/// What adding a watch lacks.
pub(super) enum WatchShortfall {
    List,
    Place(Shortfall),
}

impl WatchMemory {
    /// None.
    pub(super) const fn new() -> Self {
        Self {
            list: None,
            place: Reservation::new(),
        }
    }

    /// Gets what is lacking. May sleep.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(super) fn fill(&mut self, shortfall: WatchShortfall) -> Result<(), AllocError> {
        match shortfall {
            WatchShortfall::List => {
                self.list = Some(KBox::new(Watches::new(), GFP_KERNEL_ACCOUNT)?);
                Ok(())
            }
            WatchShortfall::Place(shortfall) => self.place.fill(shortfall),
        }
    }
}

impl Watches {
    const fn new() -> Self {
        Self {
            by_key: SortedArcs::new(),
            untold: None,
        }
    }

    /// Adds a watch, which is in no list of this event. Does not allocate.
    ///
    /// # Errors
    ///
    /// What `memory` lacks.
    pub(super) fn add(
        list: &mut Option<KBox<Self>>,
        watch: &Arc<Watch>,
        memory: &mut WatchMemory,
    ) -> Result<(), WatchShortfall> {
        if list.is_none() {
            *list = memory.list.take();
        }
        // A new list has room for the first, so that none is left empty.
        let watches = list.as_mut().ok_or(WatchShortfall::List)?;
        let added = watches.by_key.insert_with(watch, &mut memory.place);
        added.map_err(WatchShortfall::Place)
    }

    /// Takes a watch out. Returns what is to be dropped without the lock of the event.
    #[must_use]
    pub(super) fn remove(list: &mut Option<KBox<Self>>, watch: &Watch) -> Option<KBox<Self>> {
        let watches = list.as_mut()?;
        // The caller has it, too, so that it is not freed here.
        let _ = watches.by_key.remove(|other| other.key().cmp(&watch.key()));
        list.take_if(|watches| watches.by_key.is_empty())
    }

    /// The state has changed, or a bit shows it late: all watches are to be told, once no bit is to be written first.
    pub(super) fn begin(&mut self) {
        let key = self.untold.map_or(0, |untold| untold.key);
        self.untold = Some(Untold {
            key,
            below: usize::MAX,
            then_below: key,
            number: 0,
        });
    }

    /// The bits have been written. The first few watches know from here on, so that a poll that follows the change
    /// reports it. Returns whether there is something left to tell.
    pub(super) fn note_first(&mut self) -> bool {
        let Some(untold) = &mut self.untold else {
            return false;
        };
        if untold.number == 0 {
            untold.number = next_change();
            for watch in self.by_key.values().take(BATCH) {
                let _ = watch.note(untold.number);
            }
        }
        true
    }

    /// Are there watches that are still to be told?
    pub(super) fn has_untold(&self) -> bool {
        self.untold.is_some()
    }

    /// The next watches that are to be told; `None` if there are none, or if the bits are still being written.
    pub(super) fn next(&mut self) -> Option<Batch> {
        let untold = self.untold.filter(|untold| untold.number != 0)?;
        let mut others = self
            .by_key
            .values_from(|other| other.key().cmp(&untold.key))
            .take_while(|other| other.key() < untold.below);
        let watches = array::from_fn(|_| others.next().cloned());
        let next = others.next().map(|other| other.key());
        self.untold = match next {
            Some(key) => Some(Untold { key, ..untold }),
            None => (untold.then_below > 0).then_some(Untold {
                key: 0,
                below: untold.then_below,
                then_below: 0,
                ..untold
            }),
        };
        Some(Batch {
            number: untold.number,
            watches,
        })
    }
}
