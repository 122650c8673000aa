// SPDX-License-Identifier: GPL-2.0

//! What a process has registered, shared by the processes that were forked with it.
//!
//! A child has its parent's registrations, at the same addresses, in memory of its own. Both share
//! one set until one of them changes something: then that one gets a copy. So forking costs the
//! same however much is registered.

use crate::events::event::NotConnected;
use crate::mms::enabler::{ByAddr, Enabler};
use crate::mms::mm::UserMm;
use crate::sorted_arcs::{Reservation, SortedArcs, LEAF};
use crate::sys::event_mutex::EventMutexHeld;
use crate::sys::module_ref::ModuleRef;
use core::mem;
use core::ops::Deref;
use core::slice;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::{Arc, Mutex, MutexGuard, SpinLock};
use kernel::{new_mutex, new_spinlock};

/// Counts the changes of bits in the memory of processes: each gets the next number.
static CHANGES: Atomic<u64> = Atomic::new(0);

/// The number of the last change of any bit.
pub(crate) fn last_change() -> u64 {
    CHANGES.load(Acquire)
}

/// The number of a change that is made now.
pub(crate) fn next_change() -> u64 {
    CHANGES.fetch_add(1, Full).wrapping_add(1)
}

/// Where a registration is: the address of its word, and the bit in it.
pub(crate) type EnableAddr = (usize, u8);

/// How much is written with locks held that others may wait for.
///
/// One unit is about what it takes to change a bit of a page that is pinned, and to pin one takes as much
/// as some tens of bits.
pub(crate) struct Budget(u32);

/// What to pin a page costs.
const PIN: u32 = 32;

/// What a set without members costs.
const SET: u32 = 8;

/// So much is written in one set before others can have it, but for what the last page costs.
const MAX_IN_SET: u32 = 128;

/// What it costs to wait for a set in which the bits of another event are written.
const WAIT: u32 = 2 * MAX_IN_SET;

/// Bits of one page, at most: those of a leaf.
const _: () = assert!(PIN as usize + LEAF <= MAX_IN_SET as usize);

/// Units that may be spent at once with the trace core's locks held: some 15 processes, or 400 bits of one
/// page.
const MAX_AT_ONCE: u32 = 512;

/// Units that may be spent at once where only the event's lock is held.
const MAX_LATER: u32 = 16 * MAX_AT_ONCE;

impl Budget {
    /// What may be spent while the trace core's locks are held once.
    pub(crate) fn at_once(_held: &EventMutexHeld) -> Self {
        Self(MAX_AT_ONCE)
    }

    /// What may be spent while no lock but the event's is held once.
    pub(crate) fn later() -> Self {
        Self(MAX_LATER)
    }

    /// Is nothing left?
    fn is_spent(&self) -> bool {
        self.0 == 0
    }

    /// Spends some units. What is left may be less.
    fn spend(&mut self, units: u32) {
        self.0 = self.0.saturating_sub(units);
    }
}

/// Where writing the bits of enablers of one page in the memory of the members of a set has stopped.
pub(crate) struct Stopped {
    /// The key of the first process that is still to be written to.
    pub(crate) mm_key: usize,
    /// If others have been written to before: a process that joins the set before the writing goes on may be
    /// passed over.
    pub(crate) partly: Option<PartlyWritten>,
}

/// A set in which bits have been written in the memory of some processes and not of all. UserMms that join
/// look at all of their bits while this exists.
pub(crate) struct PartlyWritten(Arc<EnablerSet>);

impl PartlyWritten {
    fn new(set: &Arc<EnablerSet>) -> Self {
        set.partly_written.fetch_add(1, Full);
        Self(set.clone())
    }
}

impl Drop for PartlyWritten {
    fn drop(&mut self) {
        self.0.partly_written.fetch_sub(1, Full);
    }
}

/// A set of registrations, and the processes in whose memory they are.
///
/// While more than one process is in it, no registration is added or removed, but for the one that a
/// thread was at when another one forked: a child waits for that before it runs.
#[pin_data]
pub(crate) struct EnablerSet {
    /// Memberships, those of processes that are just being forked included.
    users: Atomic<usize>,
    /// The number of the last change of a bit that a child may have an older copy of; 0: none.
    last_change: Atomic<u64>,
    /// How many events have their bits written in some members and not in all.
    partly_written: Atomic<usize>,
    #[pin]
    by_addr: Mutex<SortedArcs<Enabler, ByAddr>>,
    /// By address space.
    #[pin]
    members: Mutex<Members>,
    #[pin]
    referred: SpinLock<Referred>,
}

/// What keeps the module loaded while there are enablers of a set: one reference for all of them, as the
/// kernel counts those in 32 bits and there may be more enablers.
struct Referred {
    enablers: usize,
    module: Option<ModuleRef>,
}

/// UserMms by the key of their address space.
type Members = RBTree<usize, Arc<UserMm>>;

impl EnablerSet {
    /// Are there so few registrations, with none being changed, that all can be given up in a short time?
    pub(crate) fn is_short(&self) -> bool {
        let by_addr = self.by_addr.try_lock();
        by_addr.is_some_and(|by_addr| by_addr.is_short())
    }

    /// The registration at a site.
    pub(crate) fn get(&self, site: &EnableAddr) -> Option<Arc<Enabler>> {
        self.by_addr
            .lock()
            .get(|enabler| enabler.site().cmp(site))
            .cloned()
    }

    /// The first registration at or behind a site.
    pub(crate) fn get_from(&self, site: &EnableAddr) -> Option<Arc<Enabler>> {
        self.by_addr
            .lock()
            .get_from(|enabler| enabler.site().cmp(site))
            .cloned()
    }

    /// Adds a registration, if `connect` says so, and returns what it says; `connect` is called again when it
    /// has been given the memory that it lacks. A child that is forked meanwhile does not run before that is done.
    ///
    /// # Errors
    ///
    /// What `connect` fails with, and what a lack of memory is to it.
    pub(crate) fn insert_if<E: From<AllocError>>(
        &self,
        enabler: &Arc<Enabler>,
        mut connect: impl FnMut(&mut Reservation<Enabler>) -> Result<bool, NotConnected<E>>,
    ) -> Result<bool, E> {
        // The work queue and readers of the listing may wait for the lock, so memory is not waited for with it.
        let (mut reservation, mut reservation_of_event) = (Reservation::new(), Reservation::new());
        loop {
            let mut by_addr = self.by_addr.lock();
            if let Err(shortfall) = by_addr.insert_with(enabler, &mut reservation) {
                drop(by_addr);
                reservation.fill(shortfall)?;
                continue;
            }
            let connected = connect(&mut reservation_of_event);
            if !matches!(connected, Ok(true)) {
                // The caller has it, too.
                let _ = by_addr.remove(|other| other.site().cmp(&enabler.site()));
            }
            drop(by_addr);
            match connected {
                Err(NotConnected::Shortfall(shortfall)) => reservation_of_event.fill(shortfall)?,
                Err(NotConnected::Failed(error)) => return Err(error),
                Ok(is_connected) => return Ok(is_connected),
            }
        }
    }

    /// Removes the registration at a site, if there is one and `is_exclusive` says so: `None` if it does
    /// not. Its bit is not written any more once this returns.
    ///
    /// A child that is forked meanwhile does not run before that is done: it has the registration or
    /// not, and if not, its bit is not written either.
    pub(crate) fn remove_if(
        &self,
        site: &EnableAddr,
        is_exclusive: impl FnOnce() -> bool,
    ) -> Option<Option<Arc<Enabler>>> {
        let mut by_addr = self.by_addr.lock();
        if !is_exclusive() {
            return None;
        }
        let removed = by_addr.remove(|enabler| enabler.site().cmp(site));
        if let Some(enabler) = &removed {
            enabler.event().disconnect(enabler);
        }
        Some(removed)
    }

    /// Takes the registrations from a site on whose bits lie in one page, as many as there is room for:
    /// how many these are.
    pub(crate) fn get_page(&self, from: &EnableAddr, room: &mut [Option<Arc<Enabler>>]) -> usize {
        let by_addr = self.by_addr.lock();
        let mut enablers = by_addr.values_from(|enabler| enabler.site().cmp(from));
        let mut count = 0;
        let mut first: Option<&Arc<Enabler>> = None;
        for place in room {
            let Some(enabler) = enablers.next() else {
                break;
            };
            if !first.get_or_insert(enabler).is_beside(enabler) {
                break;
            }
            *place = Some(enabler.clone());
            count += 1;
        }
        count
    }

    /// Waits until whoever was at a registration when the current process was forked has done it.
    pub(crate) fn settle(&self) {
        drop(self.by_addr.lock());
    }

    /// Lets the bits be written in the memory of a process, too.
    pub(crate) fn join(&self, node: RBTreeNode<usize, Arc<UserMm>>) {
        let replaced = self.members.lock().insert(node);
        drop(replaced);
    }

    /// Stops writing bits in the memory of a process. None is being written once this returns.
    pub(crate) fn leave(&self, user_mm: &UserMm) {
        let node = self.members.lock().remove_node(&user_mm.key());
        drop(node);
    }

    /// Writes the bits of enablers, all of one page, in the memory of all processes with this key or a
    /// higher one. Those that cannot be written now are repaired later. The caller holds the lock of the
    /// event.
    ///
    /// # Errors
    ///
    /// Where it stopped, since the budget did not suffice.
    pub(crate) fn write(
        self: &Arc<Self>,
        enablers: &[Arc<Enabler>],
        on: bool,
        mut from: usize,
        budget: &mut Budget,
    ) -> Result<(), Stopped> {
        let bits = u32::try_from(enablers.len()).unwrap_or(u32::MAX);
        let mut partly = None;
        while !budget.is_spent() {
            let mut members = match self.members.try_lock() {
                Some(members) => members,
                None => {
                    budget.spend(WAIT);
                    self.members.lock()
                }
            };
            let mut cursor = members.cursor_lower_bound_mut(&from);
            if cursor.is_none() {
                budget.spend(SET);
            }
            let mut spent = 0;
            let stopped = loop {
                let Some(at) = cursor else {
                    break None;
                };
                let (key, user_mm) = at.current();
                if budget.is_spent() || spent >= MAX_IN_SET {
                    break Some(*key);
                }
                spent += PIN.saturating_add(bits);
                budget.spend(PIN.saturating_add(bits));
                user_mm.write(enablers, on);
                cursor = at.move_next();
            };
            if stopped.is_some() {
                partly.get_or_insert_with(|| PartlyWritten::new(self));
            }
            self.count_change(&members);
            match stopped {
                Some(key) => from = key,
                None => return Ok(()),
            }
        }
        Err(Stopped {
            mm_key: from,
            partly,
        })
    }

    /// Bits have been changed that a child may have an older copy of.
    ///
    /// A child joins the set, and then looks whether something has changed since it was forked. So either
    /// it is found among the members, or it finds that something has changed.
    fn count_change(&self, _members: &MutexGuard<'_, Members>) {
        let number = next_change();
        // In the order of the numbers, as the lock is held.
        self.last_change.store(number, Release);
    }

    /// Calls `write`, which changes bits as told in [`Self::count_change`].
    fn change<T>(&self, write: impl FnOnce() -> T) -> T {
        let members = self.members.lock();
        let result = write();
        self.count_change(&members);
        result
    }

    /// Calls `write`, which changes a bit in the memory of one member.
    pub(crate) fn change_one(&self, write: impl FnOnce()) {
        self.change(write);
    }

    /// Has the bits looked at in the memory of children that are being forked.
    pub(crate) fn note_change(&self) {
        self.change(|| ());
    }

    /// May a bit have changed since the change with this number? Asked by a member, after
    /// [`Self::settle`].
    pub(crate) fn may_have_changed_since(&self, number: u64) -> bool {
        // In this order: what is not written partly any more has a number of its own.
        self.partly_written.load(Acquire) != 0 || self.last_change.load(Acquire) > number
    }

    /// A set of its own for one of several members, which is in both after this. The caller leaves
    /// this one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` when the module is being unloaded.
    pub(crate) fn copy(&self, user_mm: &Arc<UserMm>) -> Result<EnablerSetRef> {
        // Of any length: there may be no contiguous memory for it. It is not waited for with the lock held.
        let mut enablers = KVVec::new();
        loop {
            let by_addr = self.by_addr.lock();
            let count = by_addr.len();
            if enablers.capacity() >= count {
                for enabler in by_addr.values() {
                    // There is room.
                    let _ = enablers.push_within_capacity(enabler.clone());
                }
                break;
            }
            drop(by_addr);
            enablers.reserve(count, GFP_KERNEL_ACCOUNT)?;
        }
        let copy = EnablerSetRef::new()?;
        copy.0.note_change();
        let member = RBTreeNode::new(user_mm.key(), user_mm.clone(), GFP_KERNEL_ACCOUNT)?;
        copy.0.join(member);
        for original in enablers {
            let enabler = Enabler::new(&copy.0, *original.bit(), original.event().get())?;
            copy.0.insert_if(&enabler, |reservation| {
                // It may have changed since the original was written, and changes from here on.
                original.event().connect(&enabler, reservation, |on| {
                    copy.0
                        .change(|| user_mm.write(slice::from_ref(&enabler), on));
                    Ok::<_, Error>(())
                })?;
                Ok(true)
            })?;
        }
        Ok(copy)
    }

    /// Forgets everything.
    fn clear(&self) {
        let by_addr = mem::replace(&mut *self.by_addr.lock(), SortedArcs::new());
        for enabler in by_addr.values() {
            enabler.event().disconnect(enabler);
        }
    }
}

/// An enabler's reference to its set. The module stays loaded while there is one.
pub(crate) struct OwningSet(Arc<EnablerSet>);

impl OwningSet {
    /// A reference for a new enabler. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the module is being unloaded.
    pub(crate) fn new(set: &Arc<EnablerSet>) -> Result<Self> {
        let mut referred = set.referred.lock();
        if referred.module.is_none() {
            referred.module = Some(ModuleRef::get()?);
        }
        referred.enablers += 1;
        drop(referred);
        Ok(Self(set.clone()))
    }
}

impl Deref for OwningSet {
    type Target = Arc<EnablerSet>;

    fn deref(&self) -> &Arc<EnablerSet> {
        &self.0
    }
}

impl Drop for OwningSet {
    fn drop(&mut self) {
        let mut referred = self.0.referred.lock();
        referred.enablers -= 1;
        let module = (referred.enablers == 0).then(|| referred.module.take());
        drop(referred);
        drop(module);
    }
}

/// A share in a set of registrations. When the last is dropped, the set is cleared.
pub(crate) struct EnablerSetRef(Arc<EnablerSet>);

impl EnablerSetRef {
    /// The first share in a new, empty set.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let set = Arc::pin_init(
            pin_init!(EnablerSet {
                users: Atomic::new(1),
                last_change: Atomic::new(0),
                partly_written: Atomic::new(0),
                by_addr <- new_mutex!(SortedArcs::new(), "EnablerSet::by_addr"),
                members <- new_mutex!(RBTree::new(), "EnablerSet::members"),
                referred <- new_spinlock!(
                    Referred {
                        enablers: 0,
                        module: None,
                    },
                    "EnablerSet::referred"
                ),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(Self(set))
    }

    /// Another share, for a process that is being forked. Any context.
    pub(crate) fn clone_for_child(&self) -> Self {
        self.0.users.fetch_add(1, Relaxed);
        Self(self.0.clone())
    }

    /// Is this the only share?
    pub(crate) fn is_exclusive(&self) -> bool {
        self.0.users.load(Relaxed) == 1
    }

    /// The set.
    pub(crate) fn set(&self) -> &Arc<EnablerSet> {
        &self.0
    }
}

impl Drop for EnablerSetRef {
    fn drop(&mut self) {
        if self.0.users.fetch_sub(1, Full) == 1 {
            self.0.clear();
        }
    }
}
