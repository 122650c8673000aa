// SPDX-License-Identifier: GPL-2.0

//! Sets of enablers, each shared by mms that were forked from one another.
//!
//! A child has the enablers of its parent, at the same addresses, in memory of its own. Both share
//! one set until one of them registers or unregisters: that one gets a copy. So the cost of a fork
//! does not depend on the number of enablers.
//!
//! This file has the enablers of a set and the references to it, [`members`](super::members) the
//! mms, in the memory of which the bits are written.

use super::enabler::{
    ByAddr,
    Enabler, //
};
use super::members::Members;
use super::mm::UserMm;
use crate::sorted_arcs::{
    NodeMemory,
    Shortfall,
    SortedArcs, //
};
use crate::sys::kernel_crate::prelude::*;
use crate::sys::module_ref::ModuleRef;
use crate::sys::user_bit::BitAddr;
use core::ops::Deref;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Relaxed, //
};
use kernel::sync::{
    Arc,
    Mutex,
    MutexGuard,
    SpinLock, //
};
use kernel::{
    new_mutex,
    new_spinlock, //
};

/// Enablers, and the mms with their bits.
///
/// While a set has several members, no enabler is added or removed. One exception: a thread may be
/// doing so when another thread forks. The child waits for the end of that before it runs.
#[pin_data]
pub(crate) struct EnablerSet {
    /// How many [`EnablerSetRef`]s there are.
    refs: Atomic<usize>,
    #[pin]
    by_addr: Mutex<SortedArcs<Enabler, ByAddr>>,
    #[pin]
    pub(super) members: Members<UserMm>,
    #[pin]
    module: SpinLock<ModulePin>,
}

/// The place where writing the bits of one page in the members of a set has stopped.
pub(crate) struct WriteStopped {
    /// The key of the first mm that is still to be written to.
    pub(crate) mm_key: usize,
    /// `Some` after a write to others: an mm that joins the set meanwhile may be passed over.
    pub(crate) partly: Option<PartialWrite>,
}

/// A set in which bits have been written in some members and not in all. While this exists, an mm
/// that joins the set checks all of its bits.
pub(crate) struct PartialWrite(Arc<EnablerSet>);

impl PartialWrite {
    pub(super) fn new(set: &Arc<EnablerSet>) -> Self {
        set.members.partly_written.fetch_add(1, Full);
        Self(set.clone())
    }
}

impl Drop for PartialWrite {
    fn drop(&mut self) {
        self.0.members.partly_written.fetch_sub(1, Full);
    }
}

/// The most bits of a page that are handled in one hold of the set's lock.
pub(super) const MAX_BITS_AT_ONCE: usize = 32;

/// The most enablers of a set: each has a reference to it, which are counted in 32 bits.
const MAX_ENABLERS: usize = 1 << 30;

/// Keeps the module loaded while the set has enablers: with one reference, as the kernel counts
/// references to a module in 32 bits.
struct ModulePin {
    enablers: usize,
    module: Option<ModuleRef>,
}

/// Memory for an enabler in the lists of its set and its event. Allocated without locks: the work
/// queue, readers of the listing and holders of `event_mutex` may wait for the locks of both lists.
pub(super) type ListMemory = [NodeMemory<Enabler>; 2];

/// No memory, which is enough for most lists.
pub(super) const NO_LIST_MEMORY: ListMemory = [const { NodeMemory::new() }; 2];

/// The memory that does not suffice, and what it lacks.
pub(super) type NoRoom<'a> = (&'a mut NodeMemory<Enabler>, Shortfall);

impl EnablerSet {
    /// Locks the enablers. A child that is forked meanwhile does not run user code before the
    /// result is dropped. May sleep. Inside of an mmap lock, outside of the locks of events.
    pub(super) fn lock(&self) -> MutexGuard<'_, SortedArcs<Enabler, ByAddr>> {
        self.by_addr.lock()
    }

    /// Whether the set can be cleared in a short time; `false` while an enabler is being added or
    /// removed. Does not sleep.
    pub(super) fn is_cheap_to_drop(&self) -> bool {
        let by_addr = self.by_addr.try_lock();
        by_addr.is_some_and(|by_addr| by_addr.fits_one_leaf())
    }

    /// The enabler of a bit. May sleep.
    pub(crate) fn get(&self, addr: BitAddr) -> Option<Arc<Enabler>> {
        let by_addr = self.by_addr.lock();
        by_addr.get(|enabler| enabler.addr().cmp(&addr)).cloned()
    }

    /// The first enabler at or behind an address. May sleep.
    pub(crate) fn get_from(&self, addr: BitAddr) -> Option<Arc<Enabler>> {
        self.by_addr
            .lock()
            .get_from(|enabler| enabler.addr().cmp(&addr))
            .cloned()
    }

    /// Puts the enablers from an address on, the bits of which lie in one page, into the first
    /// places of `buf`, as many as fit. May sleep.
    pub(super) fn get_page(&self, from: BitAddr, buf: &mut [Option<Arc<Enabler>>]) {
        let by_addr = self.by_addr.lock();
        let mut enablers = by_addr.values_from(|enabler| enabler.addr().cmp(&from));
        let mut first: Option<&Arc<Enabler>> = None;
        for place in buf {
            let Some(enabler) = enablers.next() else {
                break;
            };
            if !first.get_or_insert(enabler).is_in_same_page(enabler) {
                break;
            }
            *place = Some(enabler.clone());
        }
    }

    /// Waits for the task that was adding or removing an enabler when the current process was
    /// forked. May sleep.
    pub(super) fn wait_for_registration(&self) {
        drop(self.by_addr.lock());
    }

    /// Removes all enablers from their events. Frees each leaf before the next. May sleep.
    fn clear(&self) {
        loop {
            let Some(leaf) = self.by_addr.lock().take_leaf() else {
                return;
            };
            for enabler in leaf.values() {
                enabler.event().lock_enablers().remove(enabler);
            }
        }
    }
}

/// An enabler's reference to its set. Keeps the module loaded.
pub(super) struct SetBackRef(Arc<EnablerSet>);

impl SetBackRef {
    /// A reference for a new enabler. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC` when the set has too many; `ENODEV` when the module is being unloaded.
    pub(super) fn new(set: &Arc<EnablerSet>) -> Result<Self> {
        let mut hold = set.module.lock();
        if hold.enablers >= MAX_ENABLERS {
            return Err(ENOSPC);
        }
        if hold.module.is_none() {
            hold.module = Some(ModuleRef::get()?);
        }
        hold.enablers += 1;
        drop(hold);
        Ok(Self(set.clone()))
    }
}

impl Deref for SetBackRef {
    type Target = Arc<EnablerSet>;

    fn deref(&self) -> &Arc<EnablerSet> {
        &self.0
    }
}

impl Drop for SetBackRef {
    fn drop(&mut self) {
        let mut hold = self.0.module.lock();
        hold.enablers -= 1;
        let module = (hold.enablers == 0).then(|| hold.module.take());
        drop(hold);
        drop(module);
    }
}

/// An mm's reference to a set, or that of a child that is being forked. The last drop clears the
/// set, and may sleep.
pub(crate) struct EnablerSetRef(Arc<EnablerSet>);

impl EnablerSetRef {
    /// The first reference to a new, empty set. May sleep.
    pub(super) fn new() -> Result<Self> {
        let set = Arc::pin_init(
            pin_init!(EnablerSet {
                refs: Atomic::new(1),
                by_addr <- new_mutex!(SortedArcs::new(), "EnablerSet::by_addr"),
                members <- Members::new(),
                module <- new_spinlock!(
                    ModulePin {
                        enablers: 0,
                        module: None,
                    },
                    "EnablerSet::module"
                ),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(Self(set))
    }

    /// Another reference, for a child that is being forked. Any context.
    pub(super) fn clone_for_child(&self) -> Self {
        self.0.refs.fetch_add(1, Relaxed);
        Self(self.0.clone())
    }

    /// Whether this is the only reference, so that the set may be changed. All effects of dropped
    /// references are visible then.
    pub(super) fn is_exclusive(&self) -> bool {
        // Pairs with the full barrier of the drop.
        self.0.refs.load(Acquire) == 1
    }
}

impl Deref for EnablerSetRef {
    type Target = Arc<EnablerSet>;

    fn deref(&self) -> &Arc<EnablerSet> {
        &self.0
    }
}

impl Drop for EnablerSetRef {
    fn drop(&mut self) {
        if self.0.refs.fetch_sub(1, Full) == 1 {
            self.0.clear();
        }
    }
}
