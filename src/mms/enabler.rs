// SPDX-License-Identifier: GPL-2.0

//! An enabler: one bit in user memory that shows whether an event has consumers. C: `struct
//! user_event_enabler`.

use super::enabler_set::{
    EnablerSet,
    SetBackRef, //
};
use crate::events::EventRef;
use crate::sorted_arcs::Order;
use crate::sys::user_bit::{
    BitAddr,
    UserBit, //
};
use core::cmp::Ordering;
use core::mem::size_of;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A bit, and the event whose state it shows, in the memory of each mm of a set.
///
/// Its set finds it by its [`BitAddr`], the event by its [`Position`]; it is in both lists or in
/// none. There may be very many: it takes 32 bytes with its reference count.
pub(crate) struct Enabler {
    bit: UserBit,
    event: EventRef,
    /// Last, so that it is dropped last: it keeps the module loaded.
    set: SetBackRef,
}

/// Where an enabler stands among those of its event: by set, and in that by address, so that the bits of
/// one page stand together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    set: usize,
    addr: BitAddr,
}

impl Position {
    /// Before all others.
    pub(crate) const FIRST: Self = Self {
        set: 0,
        addr: BitAddr::FIRST,
    };
}

impl Enabler {
    /// An enabler that is in no list yet. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` when the set has too many; `ENODEV` when the module is being unloaded.
    pub(crate) fn new(set: &Arc<EnablerSet>, bit: UserBit, event: EventRef) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                bit,
                event,
                set: SetBackRef::new(set)?,
            },
            GFP_KERNEL_ACCOUNT,
        )?)
    }

    /// The bit.
    pub(crate) fn bit(&self) -> &UserBit {
        &self.bit
    }

    /// The set that it belongs to.
    pub(crate) fn set(&self) -> &Arc<EnablerSet> {
        &self.set
    }

    /// Where the bit is.
    pub(crate) fn addr(&self) -> BitAddr {
        self.bit.addr()
    }

    /// Where it stands among the enablers of its event.
    pub(crate) fn position(&self) -> Position {
        Position {
            set: Arc::as_ptr(self.set()) as usize,
            addr: self.addr(),
        }
    }

    /// Is the other one in the same set, with its bit in the same page?
    pub(crate) fn is_in_same_page(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.set(), other.set()) && self.bit.page() == other.bit.page()
    }

    /// The event whose state the bit shows.
    pub(crate) fn event(&self) -> &EventRef {
        &self.event
    }
}

const _: () = assert!(size_of::<Enabler>() <= 24);

/// By address and bit.
pub(crate) struct ByAddr;

impl Order<Enabler> for ByAddr {
    fn cmp_to(enabler: &Arc<Enabler>) -> impl Fn(&Arc<Enabler>) -> Ordering {
        let addr = enabler.addr();
        move |other| other.addr().cmp(&addr)
    }
}

/// By position.
pub(crate) struct ByPosition;

impl Order<Enabler> for ByPosition {
    fn cmp_to(enabler: &Arc<Enabler>) -> impl Fn(&Arc<Enabler>) -> Ordering {
        let position = enabler.position();
        move |other| other.position().cmp(&position)
    }
}
