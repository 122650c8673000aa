// SPDX-License-Identifier: GPL-2.0

//! One bit in the memory of processes that shows whether an event has consumers.

use crate::events::event::EventRef;
use crate::mms::enablers::{EnableAddr, EnablerSet, OwningSet};
use crate::sorted_arcs::Order;
use crate::sys::user_bit::UserBit;
use core::cmp::Ordering;
use core::mem::size_of;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A registration: a bit, and the event whose state it shows.
///
/// Its set of registrations finds it by address and bit, the event by its [`Position`]; who removes it
/// removes it from both. There may be very many: it takes 32 bytes with its count.
pub(crate) struct Enabler {
    bit: UserBit,
    event: EventRef,
    /// Last, so that it is dropped last: it keeps the module loaded.
    set: OwningSet,
}

/// Where an enabler stands among those of its event: by set of registrations, and in that by address, so
/// that the bits of one page stand together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    set: usize,
    site: EnableAddr,
}

impl Position {
    /// Before all others.
    pub(crate) const FIRST: Self = Self {
        set: 0,
        site: (0, 0),
    };
}

impl Enabler {
    /// An enabler that is not connected to anything yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` when the module is being unloaded.
    pub(crate) fn new(set: &Arc<EnablerSet>, bit: UserBit, event: EventRef) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                bit,
                event,
                set: OwningSet::new(set)?,
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
    pub(crate) fn site(&self) -> EnableAddr {
        (self.bit.address(), self.bit.bit())
    }

    /// Where it stands among the enablers of its event.
    pub(crate) fn position(&self) -> Position {
        Position {
            set: Arc::as_ptr(self.set()) as usize,
            site: self.site(),
        }
    }

    /// Is the other one in the same set, with its bit in the same page?
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
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
    fn compare(one: &Arc<Enabler>, other: &Arc<Enabler>) -> Ordering {
        one.site().cmp(&other.site())
    }
}

/// By position.
pub(crate) struct ByPosition;

impl Order<Enabler> for ByPosition {
    fn compare(one: &Arc<Enabler>, other: &Arc<Enabler>) -> Ordering {
        one.position().cmp(&other.position())
    }
}
