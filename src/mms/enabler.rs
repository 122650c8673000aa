// SPDX-License-Identifier: GPL-2.0

//! An enabler: a bit in user memory that shows whether an event has consumers. C: `struct
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
use kernel::prelude::*;
use kernel::sync::Arc;

/// A bit in the memory of each mm of a set, and the event the state of which it shows.
///
/// The set lists it by its [`BitAddr`], the event by its [`Position`]; it is in both lists or in
/// none. As there may be very many, its size is bounded: 32 bytes with its reference count.
pub(crate) struct Enabler {
    bit: UserBit,
    event: EventRef,
    /// The last field, so that it is dropped last: it keeps the module loaded.
    set: SetBackRef,
}

/// The place of an enabler among those of its event: by set, and in the set by address, so that the
/// bits of one page are neighbours.
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

    pub(crate) fn bit(&self) -> &UserBit {
        &self.bit
    }

    pub(crate) fn set(&self) -> &Arc<EnablerSet> {
        &self.set
    }

    pub(crate) fn addr(&self) -> BitAddr {
        self.bit.addr()
    }

    pub(crate) fn position(&self) -> Position {
        Position {
            set: Arc::as_ptr(self.set()) as usize,
            addr: self.addr(),
        }
    }

    /// Whether the bit of the other one is in the same page, for the same set.
    pub(crate) fn is_in_same_page(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.set(), other.set()) && self.bit.page() == other.bit.page()
    }

    pub(crate) fn event(&self) -> &EventRef {
        &self.event
    }
}

const _: () = assert!(size_of::<Enabler>() <= 24);

pub(crate) struct ByAddr;

impl Order<Enabler> for ByAddr {
    fn cmp_to(enabler: &Arc<Enabler>) -> impl Fn(&Arc<Enabler>) -> Ordering {
        let addr = enabler.addr();
        move |other| other.addr().cmp(&addr)
    }
}

pub(crate) struct ByPosition;

impl Order<Enabler> for ByPosition {
    fn cmp_to(enabler: &Arc<Enabler>) -> impl Fn(&Arc<Enabler>) -> Ordering {
        let position = enabler.position();
        move |other| other.position().cmp(&position)
    }
}
