// SPDX-License-Identifier: GPL-2.0

//! One address space that has registered something. How its bits are written that could not be written at
//! once, and how its end is found out, is in [`repair`](crate::repair).

use crate::enabler::Enabler;
use crate::event::Use;
use crate::processes::Processes;
use crate::registrations::{self, Membership, Registrations, Site};
use crate::repair::Repairs;
use crate::sys::address_space;
use crate::sys::remote_page::{Bring, LockedMm, NotWritten, UserBit};
use crate::sys::task_work;
use crate::unregistered::{InheritedBits, Unregistered, Unregistering};
use kernel::list::{impl_list_arc_safe, impl_list_item, AtomicTracker, ListLinks, TryNewListArc};
use kernel::mm::{Mm, MmWithUser};
use kernel::prelude::*;
use kernel::rbtree::RBTreeNode;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::{Arc, Mutex, SpinLock};
use kernel::time::{delay::fsleep, Delta};
use kernel::workqueue::{self, Work};
use kernel::{new_mutex, new_spinlock, new_work};

/// How often a process brings a page of its own in before it is given up: enough for one that is swapped
/// out or copied meanwhile, an end to one that is unmapped in a loop.
const MAX_FAULTS: usize = 10;

/// How often a process waits for a page of its own that is locked, and how long each time: ten seconds, an
/// eternity for what is done with a locked page.
const MAX_WAITS: usize = 10_000;
const WAIT: Delta = Delta::from_millis(1);

/// How long to wait before memory is asked for again.
pub(crate) const RETRY_AFTER: Delta = Delta::from_millis(10);

/// How often a child asks for memory to clear a bit.
const MAX_TRIES: usize = 1000;

/// A time that does not come.
pub(crate) const NEVER: u64 = u64::MAX;

/// An address space, and its share in a set of registrations.
#[pin_data]
pub(crate) struct Process {
    pub(crate) mm: ARef<Mm>,
    pub(crate) processes: Arc<Processes>,
    /// Held while the process changes its registrations.
    #[pin]
    changes: Mutex<()>,
    #[pin]
    membership: SpinLock<Joined>,
    #[pin]
    pub(crate) repairs: SpinLock<Repairs>,
    /// When it is to be looked at again, in nanoseconds since boot; [`NEVER`] if it is not.
    pub(crate) due_at: Atomic<u64>,
    #[pin]
    work: Work<Process>,
    #[pin]
    asking: Work<Process, 1>,
    /// For [`Retries`](crate::retries::Retries).
    #[pin]
    is_listed: AtomicTracker,
    #[pin]
    links: ListLinks,
}

/// What a process has of a set of registrations.
struct Joined {
    /// Empty when the address space has ended.
    membership: Option<Membership>,
    /// The task that forked last, and the number of the last change then.
    last_fork: (usize, u64),
    /// There when a bit has been unregistered beside other tasks.
    unregistered: Option<Arc<Unregistered>>,
}

/// What a child gets of its parent.
pub(crate) struct Inheritance {
    pub(crate) membership: Membership,
    /// The number of a change that was made before the child's memory was copied; `None` if the copy may
    /// be wrong in any case.
    known: Option<u64>,
    unregistered: Option<InheritedBits>,
}

impl Inheritance {
    /// Takes the bits that were unregistered in the parent's memory, and may be set in the child's.
    pub(crate) fn take_unregistered(&mut self) -> Option<InheritedBits> {
        self.unregistered.take()
    }

    /// May a registered bit be wrong in the child's memory? Asked by the child, as a member.
    pub(crate) fn may_be_stale(&self) -> bool {
        let registrations = self.membership.registrations();
        self.known
            .is_none_or(|known| registrations.may_have_changed_since(known))
    }
}

/// What a bit looks like in the memory of a process.
pub(crate) struct Sight {
    /// Is it set? `None` if it cannot be seen now.
    pub(crate) is_set: Option<bool>,
    /// May it not say what it should, and is that being mended?
    pub(crate) is_due: bool,
}

workqueue::impl_has_work! {
    impl HasWork<Self> for Process { self.work }
    impl HasWork<Self, 1> for Process { self.asking }
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Process {
        tracked_by is_listed: AtomicTracker;
    }
}

impl_list_item! {
    impl ListItem<0> for Process {
        using ListLinks { self.links };
    }
}

impl Process {
    /// A process that is in no table yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        mm: &MmWithUser,
        processes: &Arc<Processes>,
        membership: Membership,
    ) -> Result<Arc<Self>> {
        let mm: &Mm = mm;
        let joined = Joined {
            membership: None,
            last_fork: (0, 0),
            unregistered: None,
        };
        let process = Arc::pin_init(
            pin_init!(Self {
                mm: ARef::from(mm),
                processes: processes.clone(),
                changes <- new_mutex!((), "Process::changes"),
                membership <- new_spinlock!(joined, "Process::membership"),
                repairs <- new_spinlock!(Repairs::new(), "Process::repairs"),
                due_at: Atomic::new(NEVER),
                work <- new_work!("Process::work"),
                asking <- new_work!("Process::asking"),
                is_listed <- AtomicTracker::new(),
                links <- ListLinks::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let node = RBTreeNode::new(process.key(), process.clone(), GFP_KERNEL_ACCOUNT)?;
        membership.registrations().join(node);
        process.membership.lock().membership = Some(membership);
        Ok(process)
    }

    /// The address space.
    pub(crate) fn mm(&self) -> &Mm {
        &self.mm
    }

    /// The address space as a key. Unique for as long as the process exists.
    pub(crate) fn key(&self) -> usize {
        key(&self.mm)
    }

    /// Gives up the process's share in its registrations. May sleep.
    pub(crate) fn withdraw(&self) {
        let mut joined = self.membership.lock();
        let (membership, unregistered) = (joined.membership.take(), joined.unregistered.take());
        drop(joined);
        if let Some(membership) = &membership {
            membership.registrations().leave(self);
        }
        drop((membership, unregistered));
    }

    /// A share in the process's registrations, for a child of the current task. `mm` is this process's. Does
    /// not sleep.
    pub(crate) fn share(&self, mm: &MmWithUser) -> Option<Inheritance> {
        let is_due = self.has_repairs();
        let task = task_work::current_task();
        let mut joined = self.membership.lock();
        let membership = joined.membership.as_ref()?.share();
        // What had changed when this task forked the last time is in the memory that it has just copied.
        let known = match joined.last_fork {
            (last, change) if last == task => change,
            _ => 0,
        };
        joined.last_fork = (task, registrations::last_change());
        let unregistered = joined.unregistered.as_ref().and_then(Unregistered::inherit);
        drop(joined);
        if let Some(bits) = &unregistered {
            bits.settle(mm);
        }
        Some(Inheritance {
            membership,
            known: (!is_due).then_some(known),
            unregistered,
        })
    }

    /// The registrations, and whether they are this process's alone.
    pub(crate) fn registrations(&self) -> Option<(Arc<Registrations>, bool)> {
        let joined = self.membership.lock();
        let membership = joined.membership.as_ref()?;
        Some((membership.registrations().clone(), membership.is_alone()))
    }

    /// Is so little registered, and noted for children, that it can be given up in a short time?
    pub(crate) fn is_short(&self) -> bool {
        let joined = self.membership.lock();
        let (membership, unregistered) = (&joined.membership, &joined.unregistered);
        unregistered.as_ref().is_none_or(|bits| bits.is_short())
            && membership
                .as_ref()
                .is_none_or(|share| share.registrations().is_short())
    }

    /// Are these the process's registrations?
    pub(crate) fn has_set(&self, registrations: &Arc<Registrations>) -> bool {
        let joined = self.membership.lock();
        let membership = joined.membership.as_ref();
        membership.is_some_and(|share| Arc::ptr_eq(share.registrations(), registrations))
    }

    /// Are the registrations this process's alone?
    fn is_alone(&self) -> bool {
        let joined = self.membership.lock();
        joined.membership.as_ref().is_some_and(Membership::is_alone)
    }

    /// Is something registered for this bit?
    pub(crate) fn has(&self, address: usize, bit: u8) -> bool {
        self.registrations()
            .is_some_and(|(registrations, _)| registrations.get(&(address, bit)).is_some())
    }

    /// Registrations that are this process's alone, so that they can be changed. `changes` is held.
    fn own_registrations(self: &Arc<Self>) -> Result<Arc<Registrations>> {
        let (shared, is_alone) = self.registrations().ok_or(ESRCH)?;
        if is_alone {
            return Ok(shared);
        }
        let copy = shared.copy(self)?;
        let own = copy.registrations().clone();
        shared.leave(self);
        let share = self.membership.lock().membership.replace(copy);
        drop(share);
        Ok(own)
    }

    /// Registers `bit` for `event`. On success the bit tells the event's state. `mm` is the
    /// caller's, and this process's, address space. Waits for the page.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when the bit is registered already, `EFAULT` when it cannot be written,
    /// `ENOMEM`.
    pub(crate) fn register(
        self: &Arc<Self>,
        mm: &MmWithUser,
        bit: UserBit,
        mut event: Use,
    ) -> Result {
        // Held while the page is waited for: that holds up this process alone.
        let _changes = self.changes.lock();
        if self.has(bit.address(), bit.bit()) {
            return Err(EADDRINUSE);
        }
        loop {
            let registrations = self.own_registrations()?;
            let enabler = Enabler::new(&registrations, bit, event)?;
            let mut may_be_lost = false;
            let is_registered = with_own_page(mm, &bit, |locked| {
                registrations.insert_if(&enabler, |spare| {
                    if !self.is_alone() {
                        return Ok(false);
                    }
                    enabler.event().connect(&enabler, spare, |on| {
                        let written = write_one(locked, &bit, on);
                        may_be_lost = written == Err(NotWritten::Busy);
                        written.or_else(|error| may_be_lost.then_some(()).ok_or(error))
                    })?;
                    // Another thread may be forking, and the child's memory have been copied before
                    // the bit was written here.
                    if address_space::is_shared(mm) {
                        registrations.note_change();
                    }
                    Ok(true)
                })
            })?;
            if may_be_lost {
                self.repair_later(&enabler);
            }
            if is_registered {
                return Ok(());
            }
            // Shared with a child by now. It is not to have what it began without.
            event = enabler.event().again();
        }
    }

    /// Ends a registration and clears its bit. `mm` is the caller's, and this process's, address
    /// space. Waits for the page.
    ///
    /// # Errors
    ///
    /// `ENOENT` when nothing is registered there; `EFAULT` when it was, and is not any more, but
    /// the bit could not be cleared; `ENOMEM`, and it still is.
    pub(crate) fn unregister(self: &Arc<Self>, mm: &MmWithUser, address: usize, bit: u8) -> Result {
        // Held until the bit is clear, so that a new registration of it comes after.
        let _changes = self.changes.lock();
        let site = (address, bit);
        let unregistering = match address_space::is_shared(mm) {
            true => Some(self.begin_unregistering(&site)?),
            false => None,
        };
        let enabler = loop {
            let registrations = match self.registrations().ok_or(ENOENT)? {
                (own, true) => own,
                // A set that is shared is not copied for nothing.
                (shared, false) if shared.get(&site).is_none() => return Err(ENOENT),
                _ => self.own_registrations()?,
            };
            if let Some(removed) = registrations.remove_if(&site, || self.is_alone()) {
                break removed.ok_or(ENOENT)?;
            }
        };
        let cleared = clear_own(mm, enabler.bit());
        if let Some(unregistering) = unregistering {
            unregistering.finish(mm);
        }
        // That nothing is left to be unregistered is told also if what lacked was memory.
        cleared.map_err(|error| if error == ENOMEM { EFAULT } else { error })
    }

    /// A bit is about to be unregistered, and another task of the address space may be in a fork. `changes`
    /// is held.
    fn begin_unregistering(&self, site: &Site) -> Result<Unregistering> {
        let (registrations, _) = self.registrations().ok_or(ENOENT)?;
        let enabler = registrations.get(site).ok_or(ENOENT)?;
        let known = self.membership.lock().unregistered.clone();
        let unregistered = match known {
            Some(unregistered) => unregistered,
            None => {
                let unregistered = Unregistered::new()?;
                self.membership.lock().unregistered = Some(unregistered.clone());
                unregistered
            }
        };
        unregistered.begin(enabler.bit())
    }

    /// Clears bits in the memory of this process, which is the current task's and has not run yet: they were
    /// unregistered in its parent's, and are registered here no more. May sleep.
    pub(crate) fn clear_unregistered(&self, mm: &MmWithUser, bits: &InheritedBits) {
        bits.for_each(|bit| {
            // A page that is shared is the parent's, too, and was cleared there.
            let is_copy = LockedMm::lock(mm).is_private(bit.address());
            if !is_copy || self.has(bit.address(), bit.bit()) {
                return;
            }
            // What cannot be cleared as things are is left as it is.
            let mut tries = 0..MAX_TRIES;
            while clear_own(mm, bit) == Err(ENOMEM)
                && tries.next().is_some()
                && !task_work::is_dying()
            {
                fsleep(RETRY_AFTER);
            }
        });
    }

    /// Calls `with` with the address space, unless that has ended.
    pub(crate) fn with_mm<T>(&self, with: impl FnOnce(&MmWithUser) -> T) -> Option<T> {
        // The last reference to an address space is heavy, and `event_mutex` may be held.
        let mm = MmWithUser::into_mmput_async(self.mm.mmget_not_zero()?);
        Some(with(&mm))
    }

    /// The first registration at or behind a site.
    pub(crate) fn registration_from(&self, site: &Site) -> Option<Arc<Enabler>> {
        let (registrations, _) = self.registrations()?;
        registrations.get_from(site)
    }

    /// Looks at a bit, without waiting for the process in any way. `None` if it is not registered
    /// any more.
    pub(crate) fn look(&self, enabler: &Enabler) -> Option<Sight> {
        self.with_mm(|mm| {
            let locked = LockedMm::try_lock(mm);
            let bit = enabler.bit();
            let is_deferred = enabler.event().is_due(enabler, self.key());
            let mut sight = None;
            // With the event's lock held a bit is what it should be, or due, or was given up.
            let _ = enabler.event().rewrite(enabler, |on| {
                let locked = locked.as_ref();
                let is_set = locked.and_then(|locked| {
                    locked
                        .read_page(bit.address(), |page| page.load(bit))
                        .flatten()
                });
                sight = Some(Sight {
                    is_set,
                    is_due: is_set != Some(on) && (is_deferred || self.has_repairs()),
                });
                Ok::<_, Error>(())
            });
            sight
        })?
    }
}

/// Clears a bit of the current task's address space. Waits for the page. Fails as [`with_own_page`].
pub(crate) fn clear_own(mm: &MmWithUser, bit: &UserBit) -> Result {
    if bit.clear_own(mm) {
        return Ok(());
    }
    with_own_page(mm, bit, |locked| write_one(locked, bit, false))
}

/// Writes one bit, with the mmap lock held.
fn write_one(locked: &LockedMm<'_>, bit: &UserBit, on: bool) -> Result<(), NotWritten> {
    locked.write_page(bit.address(), Bring::Nothing, |page| page.store(bit, on))
}

/// Calls `write` with the mmap lock held, and again each time the page of `bit` was not there and
/// has been brought in. Waits for both: `mm` is the current task's. Returns what it returns.
///
/// # Errors
///
/// `ENOMEM`; `EFAULT` when the page cannot be brought in, or does not stay; `EINTR` when the current task
/// is killed.
pub(crate) fn with_own_page<T>(
    mm: &MmWithUser,
    bit: &UserBit,
    mut write: impl FnMut(&LockedMm<'_>) -> Result<T, NotWritten>,
) -> Result<T> {
    let mut faults_left = MAX_FAULTS;
    let mut waits_left = MAX_WAITS;
    while faults_left != 0 && waits_left != 0 {
        let locked = LockedMm::lock(mm);
        let written = write(&locked);
        drop(locked);
        match written {
            Ok(result) => return Ok(result),
            Err(NotWritten::NotPresent) => {
                faults_left -= 1;
                let is_told = |error: &Error| [EINTR, ENOMEM].contains(error);
                bit.fault_in(mm)
                    .map_err(|error| if is_told(&error) { error } else { EFAULT })?;
            }
            Err(NotWritten::NoMemory) => return Err(ENOMEM),
            Err(NotWritten::Busy | NotWritten::NotYet) => {
                if task_work::is_dying() {
                    return Err(EINTR);
                }
                waits_left -= 1;
                fsleep(WAIT);
            }
        }
    }
    Err(EFAULT)
}

/// An address space as a key.
pub(crate) fn key(mm: &Mm) -> usize {
    mm.as_raw() as usize
}
