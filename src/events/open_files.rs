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

/// The count when no file can be opened any more.
const CLOSED: usize = usize::MAX;

/// How many data files of a group are open.
pub(super) struct OpenFiles {
    count: Atomic<usize>,
    /// No further file is opened: the group is to be removed with its last use.
    is_ending: Atomic<bool>,
}

impl OpenFiles {
    pub(super) const fn new() -> Self {
        Self {
            count: Atomic::new(0),
            is_ending: Atomic::new(false),
        }
    }

    /// Counts a file that is opened.
    ///
    /// # Errors
    ///
    /// `EIO` when none can be opened any more.
    pub(super) fn open(&self) -> Result {
        let mut before = self.count.load(Acquire);
        while before != CLOSED && !self.are_ending() {
            // Memory ends before so many files are open.
            match (self.count).cmpxchg(before, before.wrapping_add(1), Full) {
                Ok(_) => return Ok(()),
                Err(now) => before = now,
            }
        }
        Err(EIO)
    }

    pub(super) fn release(&self) {
        self.count.fetch_sub(1, Full);
    }

    /// Lets no further file be opened. Returns whether files could be opened before.
    pub(super) fn set_ending(&self) -> bool {
        !self.is_ending.xchg(true, Full)
    }

    pub(super) fn are_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    pub(super) fn count(&self) -> usize {
        match self.count.load(Relaxed) {
            CLOSED => 0,
            count => count,
        }
    }

    pub(super) fn are_closed(&self) -> bool {
        self.count.load(Relaxed) == CLOSED
    }

    /// Lets no file be opened any more.
    ///
    /// # Errors
    ///
    /// `EBUSY` while one is open.
    pub(super) fn close(&self) -> Result {
        (self.count.cmpxchg(0, CLOSED, Full)).map_err(|_| EBUSY)?;
        Ok(())
    }

    /// Lets files be opened again after [`Self::close`].
    pub(super) fn reopen(&self) {
        self.count.store(0, Release);
    }
}
