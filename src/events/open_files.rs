// SPDX-License-Identifier: GPL-2.0

//! The open data files of a group, which keep it from being removed.

use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Relaxed,
    Release, //
};

/// What the number of open files is when none can be opened any more.
const CLOSED: usize = usize::MAX;

/// How many data files of a group are open, or that none can be opened any more.
pub(super) struct OpenFiles {
    count: Atomic<usize>,
    /// No further one is opened: the group is to be removed with its last use.
    is_ending: Atomic<bool>,
}

impl OpenFiles {
    /// None.
    pub(super) const fn new() -> Self {
        Self {
            count: Atomic::new(0),
            is_ending: Atomic::new(false),
        }
    }

    /// Counts one that is opened.
    ///
    /// # Errors
    ///
    /// `EIO` when none can be opened any more.
    pub(super) fn open(&self) -> Result {
        let mut before = self.count.load(Acquire);
        while before != CLOSED && !self.are_ending() {
            // There is memory for fewer open files than would reach `CLOSED`.
            match (self.count).cmpxchg(before, before.wrapping_add(1), Full) {
                Ok(_) => return Ok(()),
                Err(now) => before = now,
            }
        }
        Err(EIO)
    }

    /// One that was counted is released.
    pub(super) fn release(&self) {
        self.count.fetch_sub(1, Full);
    }

    /// Lets no further one be opened. Returns whether one could be.
    pub(super) fn set_ending(&self) -> bool {
        !self.is_ending.xchg(true, Full)
    }

    /// Can no further one be opened?
    pub(super) fn are_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// How many are open now.
    pub(super) fn count(&self) -> usize {
        match self.count.load(Relaxed) {
            CLOSED => 0,
            count => count,
        }
    }

    /// Can none be opened any more?
    pub(super) fn are_closed(&self) -> bool {
        self.count.load(Relaxed) == CLOSED
    }

    /// Lets none be opened any more.
    ///
    /// # Errors
    ///
    /// `EBUSY` while one is open.
    pub(super) fn close(&self) -> Result {
        (self.count.cmpxchg(0, CLOSED, Full)).map_err(|_| EBUSY)?;
        Ok(())
    }

    /// Lets them be opened again. They were closed.
    pub(super) fn reopen(&self) {
        self.count.store(0, Release);
    }
}
