// SPDX-License-Identifier: GPL-2.0

//! What a process has registered, shared by the processes that were forked with it.
//!
//! A child has its parent's registrations, at the same addresses, in memory of its own. Both share
//! one set until one of them changes something: then that one gets a copy. So forking costs the
//! same however much is registered.

use crate::enabler::{BySite, Enabler};
use crate::ordered::Ordered;
use crate::process::Process;
use crate::sys::event_mutex::EventMutexHeld;
use crate::sys::module_ref::ModuleRef;
use crate::sys::remote_page::UserBit;
use core::mem;
use core::ops::Deref;
use core::slice;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::{Arc, Mutex, SpinLock};
use kernel::{new_mutex, new_spinlock};

/// Counts the changes of bits in the memory of processes: each gets the next number.
static CHANGES: Atomic<u64> = Atomic::new(0);

/// The number of the last change of any bit.
pub(crate) fn last_change() -> u64 {
    CHANGES.load(Acquire)
}

/// Where a registration is: the address of its word, and the bit in it.
pub(crate) type Site = (usize, u8);

/// How much is written with locks held that others may wait for.
///
/// One unit is about what it takes to change a bit of a page that is pinned, and to pin one takes as much
/// as some tens of bits.
pub(crate) struct Budget(u32);

/// What to pin a page costs.
const PIN: u32 = 32;

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

    /// Spends what bits of one page cost. `false` if nothing is left; what is left may be less than they
    /// cost.
    fn spend(&mut self, bits: usize) -> bool {
        let is_left = self.0 != 0;
        let bits = u32::try_from(bits).unwrap_or(u32::MAX);
        self.0 = self.0.saturating_sub(PIN.saturating_add(bits));
        is_left
    }
}

/// Bits that were given up while another thread may have been forking: its child may have a copy of one that
/// is set, and no registration.
struct Ended {
    /// Each with the number of the change that cleared it; `PENDING` until then.
    bits: KVVec<(UserBit, u64)>,
    /// Which one is forgotten for the next, when there are [`MAX_ENDED`].
    oldest: usize,
}

/// In place of the number of the change that cleared a bit: it is still to come.
const PENDING: u64 = u64::MAX;

/// So many bits are known that were given up beside other threads.
const MAX_ENDED: usize = 1024;

impl Ended {
    const NONE: Self = Self {
        bits: KVVec::new(),
        oldest: 0,
    };

    fn copy(&self) -> Result<Self> {
        let mut copy = Self::NONE;
        // One that is not cleared yet is another process's affair, a parent's: in the memory of the process
        // that copies it was cleared before that ran.
        for (bit, cleared) in self.bits.iter().filter(|(_, cleared)| *cleared != PENDING) {
            copy.add(*bit, *cleared)?;
        }
        Ok(copy)
    }

    fn add(&mut self, bit: UserBit, cleared: u64) -> Result {
        if self.bits.len() < MAX_ENDED {
            return Ok(self.bits.push((bit, cleared), GFP_KERNEL_ACCOUNT)?);
        }
        if let Some(oldest) = self.bits.get_mut(self.oldest) {
            *oldest = (bit, cleared);
        }
        self.oldest = (self.oldest + 1) % MAX_ENDED;
        Ok(())
    }
}

/// A set of registrations, and the processes in whose memory they are.
///
/// While more than one process is in it, no registration is added or removed, but for the one that a
/// thread was at when another one forked: a child waits for that before it runs.
#[pin_data]
pub(crate) struct Registrations {
    /// Memberships, those of processes that are just being forked included.
    users: Atomic<usize>,
    /// The number of the last change of a bit that a child may have an older copy of; 0: none.
    last_change: Atomic<u64>,
    /// How many bits were given up, and are still to be cleared.
    pending: Atomic<usize>,
    #[pin]
    by_site: Mutex<Ordered<Enabler, BySite>>,
    /// Taken with or without `by_site`.
    #[pin]
    ended: Mutex<Ended>,
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

/// Processes by the key of their address space.
type Members = RBTree<usize, Arc<Process>>;

impl Registrations {
    /// Are there so few registrations, with none being changed, that all can be given up in a short time?
    pub(crate) fn is_short(&self) -> bool {
        let by_site = self.by_site.try_lock();
        by_site.is_some_and(|by_site| by_site.is_short())
    }

    /// The registration at a site.
    pub(crate) fn get(&self, site: &Site) -> Option<Arc<Enabler>> {
        self.by_site
            .lock()
            .get(|enabler| enabler.site().cmp(site))
            .cloned()
    }

    /// The first registration at or behind a site.
    pub(crate) fn get_from(&self, site: &Site) -> Option<Arc<Enabler>> {
        self.by_site
            .lock()
            .get_from(|enabler| enabler.site().cmp(site))
            .cloned()
    }

    /// Adds a registration, if `connect` says so, and returns what it says. Whoever is forked
    /// meanwhile does not run before that is done.
    ///
    /// # Errors
    ///
    /// What `connect` fails with, and what a lack of memory is to it.
    pub(crate) fn insert_if<E: From<AllocError>>(
        &self,
        enabler: &Arc<Enabler>,
        connect: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut by_site = self.by_site.lock();
        by_site.insert(enabler)?;
        let connected = connect();
        if !matches!(connected, Ok(true)) {
            // The caller has it, too.
            let _ = by_site.remove(|other| other.site().cmp(&enabler.site()));
        }
        connected
    }

    /// Removes the registration at a site, if there is one and `is_alone` says so: `None` if it does
    /// not. Its bit is not written any more once this returns.
    ///
    /// A child that is forked meanwhile does not run before that is done: it has the registration or
    /// not, and if not, its bit is not written either. If another thread may be forking, which
    /// `is_shared` says, the bit is noted for its child; [`Self::is_cleared`] is to be called then.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing is removed then.
    pub(crate) fn remove_if(
        &self,
        site: &Site,
        is_alone: impl FnOnce() -> bool,
        is_shared: bool,
    ) -> Result<Option<Option<Arc<Enabler>>>> {
        let mut by_site = self.by_site.lock();
        if !is_alone() {
            return Ok(None);
        }
        let Some(enabler) = by_site.get(|enabler| enabler.site().cmp(site)).cloned() else {
            return Ok(Some(None));
        };
        if is_shared {
            self.ended.lock().add(*enabler.bit(), PENDING)?;
            self.pending.fetch_add(1, Relaxed);
            self.note_change();
        }
        // The caller has it, too.
        let _ = by_site.remove(|enabler| enabler.site().cmp(site));
        enabler.event().disconnect(&enabler);
        Ok(Some(Some(enabler)))
    }

    /// A bit that was given up is clear, or can not be cleared.
    pub(crate) fn is_cleared(&self, bit: &UserBit) {
        let mut ended = self.ended.lock();
        // A child that finds no change of late has copied the memory after this.
        self.note_change();
        let number = last_change();
        let site = (bit.address(), bit.bit());
        for (other, cleared) in ended.bits.iter_mut() {
            if (other.address(), other.bit()) == site {
                *cleared = number;
            }
        }
        // Who finds none pending finds the change.
        self.pending.fetch_sub(1, Full);
    }

    /// Calls `clear` with each bit that was given up, and may be set in the memory of a child for which all
    /// is known up to the change with this number. Not with one that is registered again.
    pub(crate) fn for_each_ended(&self, known: u64, mut clear: impl FnMut(&UserBit)) {
        let mut from = 0;
        loop {
            let ended = self.ended.lock();
            let mut bits = ended.bits.iter().enumerate().skip(from);
            let Some((at, (bit, _))) = bits.find(|(_, (_, cleared))| *cleared > known) else {
                return;
            };
            let bit = *bit;
            drop(ended);
            if self.get(&(bit.address(), bit.bit())).is_none() {
                clear(&bit);
            }
            from = at + 1;
        }
    }

    /// Takes the registrations from a site on whose bits lie in one page, as many as there is room for:
    /// how many these are.
    pub(crate) fn get_page(&self, from: &Site, room: &mut [Option<Arc<Enabler>>]) -> usize {
        let by_site = self.by_site.lock();
        let mut enablers = by_site.values_from(|enabler| enabler.site().cmp(from));
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
        drop(self.by_site.lock());
    }

    /// Lets the bits be written in the memory of a process, too.
    pub(crate) fn join(&self, node: RBTreeNode<usize, Arc<Process>>) {
        let replaced = self.members.lock().insert(node);
        drop(replaced);
    }

    /// Stops writing bits in the memory of a process. None is being written once this returns.
    pub(crate) fn leave(&self, process: &Process) {
        let node = self.members.lock().remove_node(&process.key());
        drop(node);
    }

    /// Writes the bits of enablers, all of one page, in the memory of all processes with this key or a
    /// higher one. Those that cannot be written now are repaired later. The caller holds the lock of the
    /// event.
    ///
    /// # Errors
    ///
    /// The key of the first process that the budget did not suffice for.
    pub(crate) fn write(
        &self,
        enablers: &[Arc<Enabler>],
        on: bool,
        from: usize,
        budget: &mut Budget,
    ) -> Result<(), usize> {
        self.change(|members| {
            let mut cursor = members.cursor_lower_bound_mut(&from);
            while let Some(at) = cursor {
                let (key, process) = at.current();
                if !budget.spend(enablers.len()) {
                    return Err(*key);
                }
                process.write(enablers, on);
                cursor = at.move_next();
            }
            Ok(())
        })
    }

    /// Calls `write`, which changes bits that a child may have an older copy of.
    ///
    /// A child joins the set, and then looks whether something has changed since it was forked. So either
    /// `write` finds it among the members, or it finds that something has changed.
    fn change<T>(&self, write: impl FnOnce(&mut Members) -> T) -> T {
        let mut members = self.members.lock();
        let result = write(&mut members);
        let number = CHANGES.fetch_add(1, Full).wrapping_add(1);
        // In the order of the numbers, as the lock is held.
        self.last_change.store(number, Release);
        result
    }

    /// Calls `write`, which changes a bit in the memory of one member.
    pub(crate) fn change_one(&self, write: impl FnOnce()) {
        self.change(|_| write());
    }

    /// Has the bits looked at in the memory of children that are being forked.
    pub(crate) fn note_change(&self) {
        self.change(|_| ());
    }

    /// Has a bit changed since the change with this number, or is one that was given up still to be cleared?
    /// That may have been pending since long before. Asked after [`Self::settle`].
    pub(crate) fn may_have_changed_since(&self, number: u64) -> bool {
        self.pending.load(Acquire) != 0 || self.last_change.load(Acquire) > number
    }

    /// A set of its own for one of several members, which is in both after this. The caller leaves
    /// this one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` when the module is being unloaded.
    pub(crate) fn copy(&self, process: &Arc<Process>) -> Result<Membership> {
        // Of any length: there may be no contiguous memory for it.
        let mut enablers = KVVec::new();
        for enabler in self.by_site.lock().values() {
            enablers.push(enabler.clone(), GFP_KERNEL_ACCOUNT)?;
        }
        let copy = Membership::new()?;
        copy.0.note_change();
        let ended = self.ended.lock().copy()?;
        *copy.0.ended.lock() = ended;
        let member = RBTreeNode::new(process.key(), process.clone(), GFP_KERNEL_ACCOUNT)?;
        copy.0.join(member);
        for original in enablers {
            let enabler = Enabler::new(&copy.0, *original.bit(), original.event().again())?;
            copy.0.insert_if(&enabler, || {
                // It may have changed since the original was written, and changes from here on.
                original.event().connect(&enabler, |on| {
                    copy.0
                        .change(|_| process.write(slice::from_ref(&enabler), on));
                    Ok::<_, Error>(())
                })?;
                Ok::<_, Error>(true)
            })?;
        }
        Ok(copy)
    }

    /// Forgets everything.
    fn clear(&self) {
        let by_site = mem::replace(&mut *self.by_site.lock(), Ordered::new());
        for enabler in by_site.values() {
            enabler.event().disconnect(enabler);
        }
    }
}

/// An enabler's reference to its set. The module stays loaded while there is one.
pub(crate) struct SetRef(Arc<Registrations>);

impl SetRef {
    /// A reference for a new enabler. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the module is being unloaded.
    pub(crate) fn new(registrations: &Arc<Registrations>) -> Result<Self> {
        let mut referred = registrations.referred.lock();
        if referred.module.is_none() {
            referred.module = Some(ModuleRef::get()?);
        }
        referred.enablers += 1;
        drop(referred);
        Ok(Self(registrations.clone()))
    }
}

impl Deref for SetRef {
    type Target = Arc<Registrations>;

    fn deref(&self) -> &Arc<Registrations> {
        &self.0
    }
}

impl Drop for SetRef {
    fn drop(&mut self) {
        let mut referred = self.0.referred.lock();
        referred.enablers -= 1;
        let module = (referred.enablers == 0).then(|| referred.module.take());
        drop(referred);
        drop(module);
    }
}

/// A share in a set of registrations. When the last is dropped, the set is cleared.
pub(crate) struct Membership(Arc<Registrations>);

impl Membership {
    /// The first share in a new, empty set.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let registrations = Arc::pin_init(
            pin_init!(Registrations {
                users: Atomic::new(1),
                last_change: Atomic::new(0),
                pending: Atomic::new(0),
                by_site <- new_mutex!(Ordered::new(), "Registrations::by_site"),
                ended <- new_mutex!(Ended::NONE, "Registrations::ended"),
                members <- new_mutex!(RBTree::new(), "Registrations::members"),
                referred <- new_spinlock!(
                    Referred {
                        enablers: 0,
                        module: None,
                    },
                    "Registrations::referred"
                ),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(Self(registrations))
    }

    /// Another share, for a process that is being forked. Any context.
    pub(crate) fn share(&self) -> Self {
        self.0.users.fetch_add(1, Relaxed);
        Self(self.0.clone())
    }

    /// Is this the only share?
    pub(crate) fn is_alone(&self) -> bool {
        self.0.users.load(Relaxed) == 1
    }

    /// The set.
    pub(crate) fn registrations(&self) -> &Arc<Registrations> {
        &self.0
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.0.users.fetch_sub(1, Full) == 1 {
            self.0.clear();
        }
    }
}
