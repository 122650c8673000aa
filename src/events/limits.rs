// SPDX-License-Identifier: GPL-2.0

//! How many events a group may have, and how many bytes its programs may record.

use crate::sys::clock;
use crate::sys::kernel_crate::prelude::*;
use crate::sys::sysctl::SysctlU32;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The most events of a group.
pub(super) enum MaxEvents {
    /// What the administrator sets. C: `max_user_events`.
    Sysctl(SysctlU32),
    /// What the group's line says.
    Line(Atomic<u32>),
}

impl MaxEvents {
    /// The number now.
    pub(super) fn get(&self) -> u32 {
        match self {
            MaxEvents::Sysctl(max) => max.get(),
            MaxEvents::Line(max) => max.load(Relaxed),
        }
    }

    /// Sets what a line says.
    pub(super) fn set(&self, events: u32) {
        if let MaxEvents::Line(max) = self {
            max.store(events, Relaxed);
        }
    }
}

/// Of what is recorded: the second. The rest are bytes.
const SECOND_MASK: u64 = !(u32::MAX as u64);

/// The most bytes that are recorded in a second, if that is limited.
///
/// Seconds are those of the clock since boot, one after the other: in a second that begins within one of them, twice as
/// many may be recorded.
pub(crate) struct ByteRate {
    /// 0 is no limit.
    per_second: Atomic<u32>,
    /// The second of the last record, in the upper half, and the bytes that were recorded in it.
    recorded: Atomic<u64>,
    refused: Atomic<u64>,
}

/// A record that was counted: the second, in the upper half, and the bytes.
pub(crate) struct Charged {
    second: u64,
    len: u64,
}

impl ByteRate {
    /// None are recorded yet.
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            per_second: Atomic::new(per_second),
            recorded: Atomic::new(0),
            refused: Atomic::new(0),
        }
    }

    /// How many they are; 0 is no limit.
    pub(super) fn per_second(&self) -> u32 {
        self.per_second.load(Relaxed)
    }

    /// Sets that, from the next record on.
    pub(super) fn set(&self, per_second: u32) {
        self.per_second.store(per_second, Relaxed);
    }

    /// How many records were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Counts a record that takes so many bytes in a buffer. Returns what [`Self::uncharge`] takes if the record is not made. Any context
    /// but NMI.
    ///
    /// # Errors
    ///
    /// `EDQUOT` when it is one too many in this second.
    #[cold]
    #[inline(never)]
    pub(crate) fn charge(&self, len: usize) -> Result<Charged> {
        let second = clock::seconds() << 32;
        // No limit, which may be set meanwhile, wraps to the largest.
        let most_less_one = u64::from(self.per_second().wrapping_sub(1));
        let mut before = self.recorded.load(Relaxed);
        loop {
            // A second that another processor has seen a little earlier does not begin anew.
            let (second, used) = if before & SECOND_MASK >= second {
                (before & SECOND_MASK, before & !SECOND_MASK)
            } else {
                (second, 0)
            };
            let used = used.saturating_add(len as u64);
            if used.wrapping_sub(1) > most_less_one {
                self.refused.fetch_add(1, Relaxed);
                return Err(EDQUOT);
            }
            match self.recorded.cmpxchg(before, second | used, Relaxed) {
                Ok(_) => {
                    return Ok(Charged {
                        second,
                        len: len as u64,
                    })
                }
                Err(now) => before = now,
            }
        }
    }

    /// Counts a record no more that no consumer has taken. In a later second it does not count anyway.
    #[cold]
    #[inline(never)]
    pub(crate) fn uncharge(&self, charged: Charged) {
        let mut before = self.recorded.load(Relaxed);
        while before & SECOND_MASK == charged.second {
            // It was added in this second, so there is as much.
            let left = before.saturating_sub(charged.len);
            match self.recorded.cmpxchg(before, left, Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }
}
