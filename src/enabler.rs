// SPDX-License-Identifier: GPL-2.0

//! One bit in the memory of a process that shows whether anybody listens to an event.

use crate::event::Use;
use crate::ordered::Order;
use crate::registrations::{Registrations, Site};
use crate::sys::module_ref::ModuleRef;
use crate::sys::remote_page::UserBit;
use core::cmp::Ordering;
use core::mem::size_of;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A registration: a bit, and the event whose state it shows.
///
/// Its set of registrations finds it by address and bit, the event by itself; whoever removes it
/// removes it from both. There may be very many: it takes 32 bytes with its count.
pub(crate) struct Enabler {
    bit: UserBit,
    event: Use,
    registrations: Arc<Registrations>,
    /// Last, so that it is dropped last.
    _module: ModuleRef,
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
                registrations: registrations.clone(),
                _module: ModuleRef::get()?,
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

    /// The event whose state the bit shows.
    pub(crate) fn event(&self) -> &Use {
        &self.event
    }

    /// Writes the bit in the memory of all processes that have this registration.
    pub(crate) fn write(&self, on: bool) {
        self.registrations.write(&self.bit, on);
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

/// By where they lie in memory: an order in which each has a place of its own.
pub(crate) struct ByIdentity;

impl Order<Enabler> for ByIdentity {
    fn compare(one: &Arc<Enabler>, other: &Arc<Enabler>) -> Ordering {
        Arc::as_ptr(one).cmp(&Arc::as_ptr(other))
    }
}
