// SPDX-License-Identifier: GPL-2.0

//! One mm with enablers. C: `struct user_event_mm`.
//!
//! There is one [`UserMm`] for each mm that has registered something, or that was forked from one
//! that had. It has a reference to a set of enablers, alone or together with the mms that were
//! forked with it. It is in one of these states:
//!
//! - *new*: in no table; its set is empty, or the parent's. Goes on to *exclusive* or *shared* when
//!   it is put into the table of [`UserMms`], or to *ended* when another task of the mm was faster.
//! - *exclusive*: the set is its own, and can be changed. Goes on to *shared* when a task of the mm
//!   forks.
//! - *shared*: the set belongs to other mms, too, or to a child that does not run yet. Goes on to
//!   *exclusive* with a copy, before it registers or unregisters something, or when the others have
//!   left.
//! - *ended*: in no table, without a set. It is freed with its last reference: of queued work, or
//!   of a task work.
//!
//! The last process that leaves the mm makes it *ended* ([`mm_end`](super::mm_end)). A copy is made
//! with [`UserMm::reg_mutex`] held, but a fork makes a set shared at any time: so a task that adds
//! or removes an enabler checks with the set locked that the set is exclusive.

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

/// The pause before an allocation is tried again.
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
    /// [`Writer::Queue`](super::repair), and giving up the set of an mm that has ended.
    #[pin]
    work: DelayedWork<UserMm>,
    /// `Writer::Faults`.
    #[pin]
    fault_work: DelayedWork<UserMm, 1>,
    /// `Writer::Handlers`.
    #[pin]
    userfaultfd_work: DelayedWork<UserMm, 2>,
}

/// The state of an mm, which forks of its tasks read and change.
pub(super) struct MmState {
    /// `None` when the mm has ended.
    pub(super) set: Option<EnablerSetRef>,
    /// The task that forked last, and the number of the last write to any bit then.
    pub(super) last_fork: (usize, u64),
    /// The processes that leave the mm by an exec, and may still have it.
    pub(super) in_exec: KVec<ProcessId>,
}

/// A bit in the memory of an mm, for the listing of registrations.
pub(crate) struct BitState {
    /// `None` if the bit cannot be read now.
    pub(crate) value: Option<bool>,
    /// The bit may be wrong, and is going to be written.
    pub(crate) repair_pending: bool,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for UserMm { self.work }
    impl HasDelayedWork<Self, 1> for UserMm { self.fault_work }
    impl HasDelayedWork<Self, 2> for UserMm { self.userfaultfd_work }
}

impl UserMm {
    /// An mm that is in no table yet, and a member of `set`. May sleep.
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

    /// The mm, which may have ended.
    pub(crate) fn mm(&self) -> &Mm {
        &self.mm
    }

    /// The mm as a key, unique while `self` exists.
    pub(crate) fn key(&self) -> usize {
        key(&self.mm)
    }

    /// Gives up the set when the mm has ended. May sleep.
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

    /// Whether the set can be given up in a short time. Task context; does not sleep.
    pub(super) fn is_cheap_to_drop(&self) -> bool {
        let state = self.state.lock();
        state.set.as_ref().is_none_or(|set| set.is_cheap_to_drop())
    }

    pub(super) fn has_set(&self, set: &Arc<EnablerSet>) -> bool {
        let state = self.state.lock();
        (state.set.as_ref()).is_some_and(|own| Arc::ptr_eq(own, set))
    }

    /// Whether the set is exclusive. It stays so while the set is locked. Any context.
    pub(super) fn is_exclusive(&self) -> bool {
        let state = self.state.lock();
        state.set.as_ref().is_some_and(EnablerSetRef::is_exclusive)
    }

    /// Whether there is an enabler for this bit. May sleep.
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
        // The drop of the last reference to an address space is expensive, and `event_mutex` may be
        // held.
        let mm = MmWithUser::into_mmput_async(self.mm.mmget_not_zero()?);
        Some(with(&mm))
    }

    /// Reads a bit, without waiting for a task of the mm. `None` if the mm has ended, or the
    /// enabler has been removed. May sleep.
    pub(crate) fn peek_bit(&self, enabler: &Arc<Enabler>) -> Option<BitState> {
        self.with_mm(|mm| {
            let locked_mm = LockedMm::try_lock(mm);
            let of_event = enabler.event().lock_enablers();
            // While this lock is held, a bit is right, is to be written, or was given up.
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
