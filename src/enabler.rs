// SPDX-License-Identifier: GPL-2.0

//! One bit in the memory of a process that shows whether anybody listens to an event.

use crate::event::Use;
use crate::registrations::{Registrations, Site};
use crate::sys::module_ref::ModuleRef;
use crate::sys::remote_page::UserBit;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// The next enabler's number.
static NEXT_ID: Atomic<u64> = Atomic::new(0);

/// A registration: a bit, and the event whose state it shows.
///
/// Its set of registrations finds it by address and bit, the event by its number; whoever removes
/// it removes it from both.
pub(crate) struct Enabler {
    id: u64,
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
                id: NEXT_ID.fetch_add(1, Relaxed),
                bit,
                event,
                registrations: registrations.clone(),
                _module: ModuleRef::get()?,
            },
            GFP_KERNEL_ACCOUNT,
        )?)
    }

    /// Unique while the module is loaded.
    pub(crate) fn id(&self) -> u64 {
        self.id
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
