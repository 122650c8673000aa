// SPDX-License-Identifier: GPL-2.0

//! One bit in the memory of processes that shows whether an event has consumers.

use crate::event::Use;
use crate::ordered::Order;
use crate::registrations::{Registrations, SetRef, Site};
use crate::sys::remote_page::UserBit;
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
    event: Use,
    /// Last, so that it is dropped last: it keeps the module loaded.
    registrations: SetRef,
}

/// Where an enabler stands among those of its event: by set of registrations, and in that by address, so
/// that the bits of one page stand together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    set: usize,
    site: Site,
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
    pub(crate) fn new(
        registrations: &Arc<Registrations>,
        bit: UserBit,
        event: Use,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                bit,
                event,
                registrations: SetRef::new(registrations)?,
            },
            GFP_KERNEL_ACCOUNT,
        )?)
    }

    /// The bit.
    pub(crate) fn bit(&self) -> &UserBit {
        &self.bit
    }

    /// The set that it belongs to.
    pub(crate) fn registrations(&self) -> &Arc<Registrations> {
        &self.registrations
    }

    /// Where the bit is.
    pub(crate) fn site(&self) -> Site {
        (self.bit.address(), self.bit.bit())
    }

    /// Where it stands among the enablers of its event.
    pub(crate) fn position(&self) -> Position {
        Position {
            set: Arc::as_ptr(self.registrations()) as usize,
            site: self.site(),
        }
    }

    /// Is the other one in the same set, with its bit in the same page?
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.registrations(), other.registrations())
            && self.bit.page() == other.bit.page()
    }

    /// The event whose state the bit shows.
    pub(crate) fn event(&self) -> &Use {
        &self.event
    }
}

const _: () = assert!(size_of::<Enabler>() <= 24);

/// By address and bit.
pub(crate) struct BySite;

impl Order<Enabler> for BySite {
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
