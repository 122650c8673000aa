// SPDX-License-Identifier: GPL-2.0

//! Writes to the memory of the current task, the pages of which can be faulted in and waited for.

use crate::sys::task;
use crate::sys::user_bit::{
    BitWriteError,
    UserBit, //
};
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::time::{
    delay::fsleep,
    Delta, //
};

/// The most faults for one write: enough for a page that is swapped out or copied meanwhile, and a
/// bound for one that is unmapped in a loop.
const MAX_FAULTS: usize = 10;

/// How often a locked page is waited for, and how long each time. Ten seconds in all are longer
/// than any operation on a locked page.
const MAX_PAGE_WAITS: usize = 10_000;
const PAGE_WAIT: Delta = Delta::from_millis(1);

/// Retries of one write to a bit of the current task's mm.
pub(super) struct WriteRetries<'a> {
    mm: &'a MmWithUser,
    bit: &'a UserBit,
    faults_left: usize,
    waits_left: usize,
}

impl<'a> WriteRetries<'a> {
    /// No retry yet. `mm` is the current task's.
    pub(super) fn new(mm: &'a MmWithUser, bit: &'a UserBit) -> Self {
        Self {
            mm,
            bit,
            faults_left: MAX_FAULTS,
            waits_left: MAX_PAGE_WAITS,
        }
    }

    /// Does what the next try needs after one that failed with `error`. Sleeps; takes the mmap
    /// lock.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EFAULT` when the page cannot be faulted in, or does not stay; `EINTR` when the
    /// current task is killed.
    pub(super) fn prepare_retry(&mut self, error: BitWriteError) -> Result {
        match error {
            BitWriteError::NotPresent => {
                self.faults_left = self.faults_left.saturating_sub(1);
                let is_passed_on = |error: &Error| [EINTR, ENOMEM].contains(error);
                self.bit.fault_in(self.mm).map_err(|error| {
                    if is_passed_on(&error) {
                        error
                    } else {
                        EFAULT
                    }
                })?;
            }
            BitWriteError::NoMemory => return Err(ENOMEM),
            BitWriteError::Busy | BitWriteError::NotYet => {
                if task::fatal_signal_pending() {
                    return Err(EINTR);
                }
                self.waits_left = self.waits_left.saturating_sub(1);
                fsleep(PAGE_WAIT);
            }
        }
        if self.faults_left == 0 || self.waits_left == 0 {
            return Err(EFAULT);
        }
        Ok(())
    }
}
