// SPDX-License-Identifier: GPL-2.0

//! How many bits are written while locks are held for which other tasks may wait.

use crate::sorted_arcs::MAX_LEAF_LEN;
use crate::sys::event_mutex::EventMutexHeld;

/// Units that are left to be spent.
///
/// One unit is about the cost of changing a bit in a page that is pinned. To pin a page costs as
/// much as some tens of bits.
pub(crate) struct Budget {
    units: u32,
}

/// The cost of pinning a page.
pub(super) const PIN_COST: u32 = 32;

/// The cost of a set without members.
pub(super) const SET_COST: u32 = 8;

/// The most that is spent in one set before other tasks can lock it, but for the cost of the last
/// page.
pub(super) const MAX_IN_SET: u32 = 128;

/// The cost of waiting for a set in which the bits of another event are written.
pub(super) const WAIT_COST: u32 = 2 * MAX_IN_SET;

/// The bits of one page are at most those of a leaf.
const _: () = assert!(PIN_COST as usize + MAX_LEAF_LEN <= MAX_IN_SET as usize);

/// The budget of one hold of the trace core's locks: some 15 mms, or 400 bits of one page.
const MAX_UNDER_EVENT_MUTEX: u32 = 512;

/// The budget of one hold of the event's lock alone.
const MAX_ON_WORKQUEUE: u32 = 16 * MAX_UNDER_EVENT_MUTEX;

impl Budget {
    pub(crate) fn under_event_mutex(_held: &EventMutexHeld) -> Self {
        Self {
            units: MAX_UNDER_EVENT_MUTEX,
        }
    }

    pub(crate) fn on_workqueue() -> Self {
        Self {
            units: MAX_ON_WORKQUEUE,
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.units == 0
    }

    /// Spends units, or all if fewer are left.
    pub(super) fn spend(&mut self, units: u32) {
        self.units = self.units.saturating_sub(units);
    }
}
