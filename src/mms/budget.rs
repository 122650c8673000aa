// SPDX-License-Identifier: GPL-2.0

//! How much is written with locks held that other tasks may wait for.

use crate::sorted_arcs::MAX_LEAF_LEN;
use crate::sys::event_mutex::EventMutexHeld;

/// Units that are left to be spent.
///
/// One unit is about what it takes to change a bit of a page that is pinned, and to pin one takes as much
/// as some tens of bits.
pub(crate) struct Budget {
    units: u32,
}

/// What it costs to pin a page, in units.
pub(super) const PIN_COST: u32 = 32;

/// What a set without members costs.
pub(super) const SET_COST: u32 = 8;

/// So much is written in one set before other tasks can lock it, but for what the last page costs.
pub(super) const MAX_IN_SET: u32 = 128;

/// What it costs to wait for a set in which the bits of another event are written.
pub(super) const WAIT_COST: u32 = 2 * MAX_IN_SET;

/// Bits of one page, at most: those of a leaf.
const _: () = assert!(PIN_COST as usize + MAX_LEAF_LEN <= MAX_IN_SET as usize);

/// Units that may be spent at once with the trace core's locks held: some 15 mms, or 400 bits of one page.
const MAX_UNDER_EVENT_MUTEX: u32 = 512;

/// Units that may be spent at once where only the event's lock is held.
const MAX_ON_WORKQUEUE: u32 = 16 * MAX_UNDER_EVENT_MUTEX;

impl Budget {
    /// What may be spent while the trace core's locks are held once.
    pub(crate) fn under_event_mutex(_held: &EventMutexHeld) -> Self {
        Self {
            units: MAX_UNDER_EVENT_MUTEX,
        }
    }

    /// What may be spent while no lock but the event's is held once.
    pub(crate) fn on_workqueue() -> Self {
        Self {
            units: MAX_ON_WORKQUEUE,
        }
    }

    /// Is nothing left?
    pub(super) fn is_spent(&self) -> bool {
        self.units == 0
    }

    /// Spends some units. What is left may be less.
    pub(super) fn spend(&mut self, units: u32) {
        self.units = self.units.saturating_sub(units);
    }
}
