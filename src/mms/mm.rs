// SPDX-License-Identifier: GPL-2.0

//! One address space that has registered something. How its bits are written that could not be written at
//! once, and how its end is found out, is in [`repair`](crate::mms::repair).

use crate::events::event::EventRef;
use crate::mms::enabler::Enabler;
use crate::mms::enablers::{self, EnableAddr, EnablerSet, EnablerSetRef};
use crate::mms::repair::Repairs;
use crate::mms::stale_bits::{InheritedBits, PendingClear, StaleBits};
use crate::mms::UserMms;
use crate::sys::mm_users;
use crate::sys::task_work;
use crate::sys::user_bit::{BitWriteError, FaultIn, LockedMm, UserBit};
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
pub(crate) struct UserMm {
    pub(crate) mm: ARef<Mm>,
    pub(crate) mms: Arc<UserMms>,
    /// Held while the process changes its registrations.
    #[pin]
    changes: Mutex<()>,
    #[pin]
    state: SpinLock<State>,
    #[pin]
    pub(crate) repairs: SpinLock<Repairs>,
    /// When it is to be looked at again, in nanoseconds since boot; [`NEVER`] if it is not.
    pub(crate) due_at: Atomic<u64>,
    #[pin]
    work: Work<UserMm>,
    #[pin]
    asking: Work<UserMm, 1>,
    /// For [`Retries`](crate::mms::retries::Retries).
    #[pin]
    is_listed: AtomicTracker,
    #[pin]
    links: ListLinks,
}

/// What a process has of a set of registrations.
struct State {
    /// Empty when the address space has ended.
    set: Option<EnablerSetRef>,
    /// The task that forked last, and the number of the last change then.
    last_fork: (usize, u64),
    /// There when a bit has been unregistered beside other tasks.
    stale_bits: Option<Arc<StaleBits>>,
}

/// What a child gets of its parent.
pub(crate) struct Inheritance {
    pub(crate) set: EnablerSetRef,
    /// The number of a change that was made before the child's memory was copied; `None` if the copy may
    /// be wrong in any case.
    known: Option<u64>,
    stale_bits: Option<InheritedBits>,
}

impl Inheritance {
    /// Takes the bits that were unregistered in the parent's memory, and may be set in the child's.
    pub(crate) fn take_stale_bits(&mut self) -> Option<InheritedBits> {
        self.stale_bits.take()
    }

    /// May a registered bit be wrong in the child's memory? Asked by the child, as a member.
    pub(crate) fn may_be_stale(&self) -> bool {
        let set = self.set.set();
        self.known
            .is_none_or(|known| set.may_have_changed_since(known))
    }
}

/// What a bit looks like in the memory of a process.
pub(crate) struct BitState {
    /// Is it set? `None` if it cannot be seen now.
    pub(crate) value: Option<bool>,
    /// May it not say what it should, and is that being mended?
    pub(crate) repair_pending: bool,
}

workqueue::impl_has_work! {
    impl HasWork<Self> for UserMm { self.work }
    impl HasWork<Self, 1> for UserMm { self.asking }
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for UserMm {
        tracked_by is_listed: AtomicTracker;
    }
}

impl_list_item! {
    impl ListItem<0> for UserMm {
        using ListLinks { self.links };
    }
}

impl UserMm {
    /// A process that is in no table yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        mm: &MmWithUser,
        mms: &Arc<UserMms>,
        set: EnablerSetRef,
    ) -> Result<Arc<Self>> {
        let mm: &Mm = mm;
        let state = State {
            set: None,
            last_fork: (0, 0),
            stale_bits: None,
        };
        let user_mm = Arc::pin_init(
            pin_init!(Self {
                mm: ARef::from(mm),
                mms: mms.clone(),
                changes <- new_mutex!((), "UserMm::changes"),
                state <- new_spinlock!(state, "UserMm::state"),
                repairs <- new_spinlock!(Repairs::new(), "UserMm::repairs"),
                due_at: Atomic::new(NEVER),
                work <- new_work!("UserMm::work"),
                asking <- new_work!("UserMm::asking"),
                is_listed <- AtomicTracker::new(),
                links <- ListLinks::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let node = RBTreeNode::new(user_mm.key(), user_mm.clone(), GFP_KERNEL_ACCOUNT)?;
        set.set().join(node);
        user_mm.state.lock().set = Some(set);
        Ok(user_mm)
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
    pub(crate) fn leave_set(&self) {
        let mut state = self.state.lock();
        let (set, stale_bits) = (state.set.take(), state.stale_bits.take());
        drop(state);
        if let Some(set) = &set {
            set.set().leave(self);
        }
        drop((set, stale_bits));
    }

    /// A share in the process's registrations, for a child of the current task. `mm` is this process's. Does
    /// not sleep.
    pub(crate) fn inheritance(&self, mm: &MmWithUser) -> Option<Inheritance> {
        let is_due = self.has_repairs();
        let task = task_work::current_task();
        let mut state = self.state.lock();
        let set = state.set.as_ref()?.clone_for_child();
        // What had changed when this task forked the last time is in the memory that it has just copied.
        let known = match state.last_fork {
            (last, change) if last == task => change,
            _ => 0,
        };
        state.last_fork = (task, enablers::last_change());
        let stale_bits = state.stale_bits.as_ref().and_then(StaleBits::inherit);
        drop(state);
        if let Some(bits) = &stale_bits {
            bits.settle(mm);
        }
        Some(Inheritance {
            set,
            known: (!is_due).then_some(known),
            stale_bits,
        })
    }

    /// The registrations, and whether they are this process's alone.
    pub(crate) fn set(&self) -> Option<(Arc<EnablerSet>, bool)> {
        let state = self.state.lock();
        let set = state.set.as_ref()?;
        Some((set.set().clone(), set.is_exclusive()))
    }

    /// Is so little registered, and noted for children, that it can be given up in a short time?
    pub(crate) fn is_short(&self) -> bool {
        let state = self.state.lock();
        let (set, stale_bits) = (&state.set, &state.stale_bits);
        stale_bits.as_ref().is_none_or(|bits| bits.is_short())
            && set.as_ref().is_none_or(|set| set.set().is_short())
    }

    /// Are these the process's registrations?
    pub(crate) fn has_set(&self, set: &Arc<EnablerSet>) -> bool {
        let state = self.state.lock();
        let own = state.set.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(own.set(), set))
    }

    /// Are the registrations this process's alone?
    fn is_exclusive(&self) -> bool {
        let state = self.state.lock();
        state.set.as_ref().is_some_and(EnablerSetRef::is_exclusive)
    }

    /// Is something registered for this bit?
    pub(crate) fn has(&self, address: usize, bit: u8) -> bool {
        self.set()
            .is_some_and(|(set, _)| set.get(&(address, bit)).is_some())
    }

    /// Registrations that are this process's alone, so that they can be changed. `changes` is held.
    fn exclusive_set(self: &Arc<Self>) -> Result<Arc<EnablerSet>> {
        let (shared, is_exclusive) = self.set().ok_or(ESRCH)?;
        if is_exclusive {
            return Ok(shared);
        }
        let copy = shared.copy(self)?;
        let own = copy.set().clone();
        shared.leave(self);
        let old = self.state.lock().set.replace(copy);
        drop(old);
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
        mut event: EventRef,
    ) -> Result {
        // Held while the page is waited for: that holds up this process alone.
        let _changes = self.changes.lock();
        if self.has(bit.address(), bit.bit()) {
            return Err(EADDRINUSE);
        }
        loop {
            let set = self.exclusive_set()?;
            let enabler = Enabler::new(&set, bit, event)?;
            let mut may_be_lost = false;
            let is_registered = write_with_fault_in(mm, &bit, |locked| {
                set.insert_if(&enabler, |reservation| {
                    if !self.is_exclusive() {
                        return Ok(false);
                    }
                    enabler.event().connect(&enabler, reservation, |on| {
                        let written = write_one(locked, &bit, on);
                        may_be_lost = written == Err(BitWriteError::Busy);
                        written.or_else(|error| may_be_lost.then_some(()).ok_or(error))
                    })?;
                    // Another thread may be forking, and the child's memory have been copied before
                    // the bit was written here.
                    if mm_users::is_shared(mm) {
                        set.note_change();
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
            event = enabler.event().get();
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
        let unregistering = match mm_users::is_shared(mm) {
            true => Some(self.begin_unregistering(&site)?),
            false => None,
        };
        let enabler = loop {
            let set = match self.set().ok_or(ENOENT)? {
                (own, true) => own,
                // A set that is shared is not copied for nothing.
                (shared, false) if shared.get(&site).is_none() => return Err(ENOENT),
                _ => self.exclusive_set()?,
            };
            if let Some(removed) = set.remove_if(&site, || self.is_exclusive()) {
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
    fn begin_unregistering(&self, site: &EnableAddr) -> Result<PendingClear> {
        let (set, _) = self.set().ok_or(ENOENT)?;
        let enabler = set.get(site).ok_or(ENOENT)?;
        let known = self.state.lock().stale_bits.clone();
        let stale_bits = match known {
            Some(stale_bits) => stale_bits,
            None => {
                let stale_bits = StaleBits::new()?;
                self.state.lock().stale_bits = Some(stale_bits.clone());
                stale_bits
            }
        };
        stale_bits.begin(enabler.bit())
    }

    /// Clears bits in the memory of this process, which is the current task's and has not run yet: they were
    /// unregistered in its parent's, and are registered here no more. May sleep.
    pub(crate) fn clear_stale_bits(&self, mm: &MmWithUser, bits: &InheritedBits) {
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
    pub(crate) fn enabler_from(&self, site: &EnableAddr) -> Option<Arc<Enabler>> {
        let (set, _) = self.set()?;
        set.get_from(site)
    }

    /// Looks at a bit, without waiting for the process in any way. `None` if it is not registered
    /// any more.
    pub(crate) fn peek_bit(&self, enabler: &Enabler) -> Option<BitState> {
        self.with_mm(|mm| {
            let locked = LockedMm::try_lock(mm);
            let bit = enabler.bit();
            let is_deferred = enabler.event().is_due(enabler, self.key());
            let mut state = None;
            // With the event's lock held a bit is what it should be, or due, or was given up.
            let _ = enabler.event().rewrite(enabler, |on| {
                let locked = locked.as_ref();
                let value = locked.and_then(|locked| {
                    locked
                        .read_page(bit.address(), |page| page.load(bit))
                        .flatten()
                });
                state = Some(BitState {
                    value,
                    repair_pending: value != Some(on) && (is_deferred || self.has_repairs()),
                });
                Ok::<_, Error>(())
            });
            state
        })?
    }
}

/// Clears a bit of the current task's address space. Waits for the page. Fails as [`write_with_fault_in`].
pub(crate) fn clear_own(mm: &MmWithUser, bit: &UserBit) -> Result {
    if bit.clear_own(mm) {
        return Ok(());
    }
    write_with_fault_in(mm, bit, |locked| write_one(locked, bit, false))
}

/// Writes one bit, with the mmap lock held.
fn write_one(locked: &LockedMm<'_>, bit: &UserBit, on: bool) -> Result<(), BitWriteError> {
    locked.write_page(bit.address(), FaultIn::Never, |page| page.store(bit, on))
}

/// Calls `write` with the mmap lock held, and again each time the page of `bit` was not there and
/// has been brought in. Waits for both: `mm` is the current task's. Returns what it returns.
///
/// # Errors
///
/// `ENOMEM`; `EFAULT` when the page cannot be brought in, or does not stay; `EINTR` when the current task
/// is killed.
pub(crate) fn write_with_fault_in<T>(
    mm: &MmWithUser,
    bit: &UserBit,
    mut write: impl FnMut(&LockedMm<'_>) -> Result<T, BitWriteError>,
) -> Result<T> {
    let mut faults_left = MAX_FAULTS;
    let mut waits_left = MAX_WAITS;
    while faults_left != 0 && waits_left != 0 {
        let locked = LockedMm::lock(mm);
        let written = write(&locked);
        drop(locked);
        match written {
            Ok(result) => return Ok(result),
            Err(BitWriteError::NotPresent) => {
                faults_left -= 1;
                let is_told = |error: &Error| [EINTR, ENOMEM].contains(error);
                bit.fault_in(mm)
                    .map_err(|error| if is_told(&error) { error } else { EFAULT })?;
            }
            Err(BitWriteError::NoMemory) => return Err(ENOMEM),
            Err(BitWriteError::Busy | BitWriteError::NotYet) => {
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
