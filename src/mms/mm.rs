// SPDX-License-Identifier: GPL-2.0

//! One mm with enablers. C: `struct user_event_mm`.
//!
//! There is one [`UserMm`] for each mm that has registered something, or that was forked from one that had.
//! It has a reference to a set of enablers, alone or with the mms that were forked with it:
//!
//! | state | in the table of [`UserMms`] | its set | goes on to |
//! |---|---|---|---|
//! | new | no | its own, empty, or the parent's | *exclusive* or *shared*, when it is put into the table; *ended*, when another task of the mm was faster |
//! | exclusive | yes | its own: enablers can be added and removed | *shared*, when a task of the mm forks |
//! | shared | yes | one with other mms, or with a child that does not run yet | *exclusive*, with a copy before it registers or unregisters something, or when the others have left |
//! | ended | no | none | is freed with its last reference: of queued work, or of a task work |
//!
//! The last process that leaves the mm makes it *ended* ([`mm_end`](super::mm_end)).
//! A copy is made with [`UserMm::reg_mutex`] held only, but a fork makes a set shared at any time: so a task that
//! adds or removes an enabler checks with the set locked that it is exclusive.
//!
//! Registering and unregistering is in [`register`](super::register), how bits are written that could not be
//! written at once in [`repair`](super::repair), what a child gets of its parent in [`fork`](super::fork).

use super::enabler::Enabler;
use super::enabler_set::{
    EnablerSet,
    EnablerSetRef, //
};
use super::repair::Repairs;
use super::UserMms;
use crate::sys::process_list::ProcessId;
use crate::sys::user_bit::{
    BitAddr,
    LockedMm, //
};
use kernel::mm::{
    Mm,
    MmWithUser, //
};
use kernel::prelude::*;
use kernel::rbtree::RBTreeNode;
use kernel::sync::aref::ARef;
use kernel::sync::{
    Arc,
    Mutex,
    SpinLock, //
};
use kernel::time::Delta;
use kernel::workqueue::{
    impl_has_delayed_work,
    new_delayed_work,
    DelayedWork, //
};
use kernel::{
    new_mutex,
    new_spinlock, //
};

/// How long to wait before memory is asked for again.
pub(crate) const ALLOC_RETRY: Delta = Delta::from_millis(10);

/// An mm, and its reference to a set of enablers.
#[pin_data]
pub(crate) struct UserMm {
    pub(super) mm: ARef<Mm>,
    pub(super) mms: Arc<UserMms>,
    /// Held while a task of the mm registers or unregisters. C: `reg_mutex` of `struct
    /// user_event_group`.
    #[pin]
    pub(super) reg_mutex: Mutex<()>,
    #[pin]
    pub(super) state: SpinLock<MmState>,
    #[pin]
    pub(super) repairs: SpinLock<Repairs>,
    /// Writes bits to pages that are there, and gives up the set of an mm that has ended.
    #[pin]
    work: DelayedWork<UserMm>,
    /// Writes bits to pages of memory that have to be faulted in.
    #[pin]
    fault_work: DelayedWork<UserMm, 1>,
    /// Writes bits to pages that a handler of userfaultfd has to be asked for.
    #[pin]
    userfaultfd_work: DelayedWork<UserMm, 2>,
}

/// What belongs to an mm, or to the forks of its tasks.
pub(super) struct MmState {
    /// `None` when the mm has ended.
    pub(super) set: Option<EnablerSetRef>,
    /// The task that forked last, and the number of the last change of a bit then.
    pub(super) last_fork: (usize, u64),
    /// The processes that leave the mm by an exec, and may still have it.
    pub(super) in_exec: KVec<ProcessId>,
}

/// A bit in the memory of an mm, as it looks from outside.
pub(crate) struct BitState {
    /// The bit; `None` if it cannot be read now.
    pub(crate) value: Option<bool>,
    /// May it not be what it should be, and is it going to be written?
    pub(crate) repair_pending: bool,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for UserMm { self.work }
    impl HasDelayedWork<Self, 1> for UserMm { self.fault_work }
    impl HasDelayedWork<Self, 2> for UserMm { self.userfaultfd_work }
}

impl UserMm {
    /// An mm that is in no table yet, and a member of `set`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        mm: &MmWithUser,
        mms: &Arc<UserMms>,
        set: EnablerSetRef,
    ) -> Result<Arc<Self>> {
        let mm: &Mm = mm;
        let state = MmState {
            set: None,
            last_fork: (0, 0),
            in_exec: KVec::new(),
        };
        let user_mm = Arc::pin_init(
            pin_init!(Self {
                mm: ARef::from(mm),
                mms: mms.clone(),
                reg_mutex <- new_mutex!((), "UserMm::reg_mutex"),
                state <- new_spinlock!(state, "UserMm::state"),
                repairs <- new_spinlock!(Repairs::new(), "UserMm::repairs"),
                work <- new_delayed_work!("UserMm::work"),
                fault_work <- new_delayed_work!("UserMm::fault_work"),
                userfaultfd_work <- new_delayed_work!("UserMm::userfaultfd_work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let node = RBTreeNode::new(user_mm.key(), user_mm.clone(), GFP_KERNEL_ACCOUNT)?;
        set.members.join(node);
        user_mm.state.lock().set = Some(set);
        Ok(user_mm)
    }

    /// The mm. It may have ended.
    pub(crate) fn mm(&self) -> &Mm {
        &self.mm
    }

    /// The mm as a key. Unique for as long as `self` exists.
    pub(crate) fn key(&self) -> usize {
        key(&self.mm)
    }

    /// Gives up the reference to the set: the mm has ended. May sleep.
    pub(super) fn leave_set(self: &Arc<Self>) {
        let set = self.state.lock().set.take();
        if let Some(set) = &set {
            set.members.leave(self.key());
        }
        self.end_repairs();
        drop(set);
    }

    /// The set, and whether it is exclusive; `None` when the mm has ended. Any context.
    pub(super) fn set(&self) -> Option<(Arc<EnablerSet>, bool)> {
        let state = self.state.lock();
        let set = state.set.as_ref()?;
        Some(((*set).clone(), set.is_exclusive()))
    }

    /// Are there so few enablers that they can be given up in a short time? Task context; does not
    /// sleep.
    pub(super) fn is_cheap_to_drop(&self) -> bool {
        let state = self.state.lock();
        state.set.as_ref().is_none_or(|set| set.is_cheap_to_drop())
    }

    /// Is this the mm's set? Any context.
    pub(super) fn has_set(&self, set: &Arc<EnablerSet>) -> bool {
        let state = self.state.lock();
        (state.set.as_ref()).is_some_and(|own| Arc::ptr_eq(own, set))
    }

    /// Is the set exclusive? Any context. Stays so while the set is locked.
    pub(super) fn is_exclusive(&self) -> bool {
        let state = self.state.lock();
        state.set.as_ref().is_some_and(EnablerSetRef::is_exclusive)
    }

    /// Is something registered for this bit? May sleep.
    pub(crate) fn has_enabler(&self, addr: BitAddr) -> bool {
        self.set().is_some_and(|(set, _)| set.get(addr).is_some())
    }

    /// The first enabler at or behind an address. May sleep.
    pub(crate) fn enabler_from(&self, addr: BitAddr) -> Option<Arc<Enabler>> {
        let (set, _) = self.set()?;
        set.get_from(addr)
    }

    /// Calls `with` with the mm, unless it has ended. Any context.
    pub(super) fn with_mm<T>(&self, with: impl FnOnce(&MmWithUser) -> T) -> Option<T> {
        // The last reference to an address space is heavy to drop, and `event_mutex` may be held.
        let mm = MmWithUser::into_mmput_async(self.mm.mmget_not_zero()?);
        Some(with(&mm))
    }

    /// Looks at a bit, without waiting for a task of the mm in any way. `None` if the mm has ended, or it is
    /// not registered any more. May sleep.
    pub(crate) fn peek_bit(&self, enabler: &Arc<Enabler>) -> Option<BitState> {
        self.with_mm(|mm| {
            let locked_mm = LockedMm::try_lock(mm);
            let of_event = enabler.event().lock_enablers();
            // With this lock held a bit is what it should be, or is to be written, or was given up.
            let wanted = of_event.value_for(enabler)?;
            let bit = enabler.bit();
            let value = (locked_mm.as_ref()).and_then(|locked_mm| locked_mm.load(bit));
            let is_pending = || of_event.is_pending(enabler, self.key()) || self.has_repairs();
            Some(BitState {
                value,
                repair_pending: value != Some(wanted) && is_pending(),
            })
        })?
    }
}

/// An mm as a key. Any context.
pub(super) fn key(mm: &Mm) -> usize {
    mm.as_raw() as usize
}
