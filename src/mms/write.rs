// SPDX-License-Identifier: GPL-2.0

//! The write of an event's bits when its state changes, as far as that takes no waiting.

use super::budget::{
    Budget,
    MAX_IN_SET,
    PIN_COST,
    SET_COST,
    WAIT_COST, //
};
use super::enabler::Enabler;
use super::enabler_set::{
    EnablerSet,
    PartialWrite,
    WriteStopped, //
};
use super::mm::UserMm;
use crate::sys::user_bit::{
    BitWriteError,
    FaultIn,
    LockedMm,
    Written, //
};
use kernel::prelude::*;
use kernel::sync::Arc;

impl EnablerSet {
    /// Writes the bits of enablers, all of one page, in the memory of the mms with this key or a
    /// higher one. Bits that cannot be written now are repaired later. The caller holds the lock of
    /// the event.
    ///
    /// # Errors
    ///
    /// The place where the budget ended.
    pub(crate) fn write(
        self: &Arc<Self>,
        enablers: &[Arc<Enabler>],
        value: bool,
        mut from: usize,
        budget: &mut Budget,
    ) -> Result<(), WriteStopped> {
        let bits = u32::try_from(enablers.len()).unwrap_or(u32::MAX);
        let mut partly = None;
        while !budget.is_spent() {
            let Some(mut write) = self.members.try_begin_write().or_else(|| {
                budget.spend(WAIT_COST);
                (!budget.is_spent()).then(|| self.members.begin_write())
            }) else {
                break;
            };
            let mut cursor = write.by_key.cursor_lower_bound_mut(&from);
            // A set without members may be that of a child that has not joined yet.
            let mut changed = cursor.is_none();
            if cursor.is_none() {
                budget.spend(SET_COST);
            }
            let mut spent = 0;
            let stopped = loop {
                let Some(at) = cursor else {
                    break None;
                };
                let (key, user_mm) = at.current();
                if budget.is_spent() || spent >= MAX_IN_SET {
                    break Some(*key);
                }
                spent += PIN_COST.saturating_add(bits);
                budget.spend(PIN_COST.saturating_add(bits));
                changed |= user_mm.write(enablers, value) == Written::Changed;
                cursor = at.move_next();
            };
            write.changed = changed;
            if stopped.is_some() {
                partly.get_or_insert_with(|| PartialWrite::new(self));
            }
            drop(write);
            match stopped {
                Some(key) => from = key,
                None => return Ok(()),
            }
        }
        Err(WriteStopped {
            mm_key: from,
            partly,
        })
    }
}

impl UserMm {
    /// Writes the bits of enablers, all of one page, if that takes no waiting for a task of the mm.
    /// Otherwise queues their repair, which is `Changed`, too. The caller holds the lock of the
    /// event.
    pub(super) fn write(self: &Arc<Self>, enablers: &[Arc<Enabler>], value: bool) -> Written {
        let Some(first) = enablers.first() else {
            return Written::Unchanged;
        };
        let written = self.with_mm(|mm| {
            let locked_mm = LockedMm::try_lock(mm).ok_or(BitWriteError::NotYet)?;
            locked_mm.fix_page(first.bit().address(), FaultIn::Never, false, |page| {
                for enabler in enablers {
                    page.set(enabler.bit(), value);
                }
            })
        });
        match written {
            Some(Ok(written)) => written,
            Some(Err(error)) => {
                self.repair_later(enablers.iter(), error == BitWriteError::Busy);
                Written::Changed
            }
            // A child may not have joined its set yet.
            None => {
                self.enqueue();
                Written::Changed
            }
        }
    }
}
