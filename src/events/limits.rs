// SPDX-License-Identifier: GPL-2.0

//! The limits of a group: the events that it may have, and the bytes that its programs may record.

use crate::sys::clock;
use crate::sys::kernel_crate::prelude::*;
use crate::sys::sysctl::SysctlU32;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The most events of a group.
pub(super) enum MaxEvents {
    /// `kernel.user_events_max`. C: `max_user_events`.
    Sysctl(SysctlU32),
    /// Set by the group's line.
    Line(Atomic<u32>),
}

impl MaxEvents {
    pub(super) fn get(&self) -> u32 {
        match self {
            MaxEvents::Sysctl(max) => max.get(),
            MaxEvents::Line(max) => max.load(Relaxed),
        }
    }

    /// Sets the limit of a group that has a line.
    pub(super) fn set(&self, events: u32) {
        if let MaxEvents::Line(max) = self {
            max.store(events, Relaxed);
        }
    }
}

/// The bits of `ByteRate::recorded` that are the second; the others count bytes.
const SECOND_MASK: u64 = !(u32::MAX as u64);

/// The most bytes that are recorded in a second, if that is limited.
///
/// Seconds are those of the clock since boot. So twice as many bytes may be recorded in a second
/// that spans two of them.
pub(crate) struct ByteRate {
    /// 0 is no limit.
    per_second: Atomic<u32>,
    /// The second of the last record, in the upper half, and the bytes recorded in that second.
    recorded: Atomic<u64>,
    refused: Atomic<u64>,
}

/// A record that was counted: its second, in the upper half, and its bytes.
pub(crate) struct Charged {
    second: u64,
    len: u64,
}

impl ByteRate {
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            per_second: Atomic::new(per_second),
            recorded: Atomic::new(0),
            refused: Atomic::new(0),
        }
    }

    /// The limit; 0 is none.
    pub(super) fn per_second(&self) -> u32 {
        self.per_second.load(Relaxed)
    }

    pub(super) fn set(&self, per_second: u32) {
        self.per_second.store(per_second, Relaxed);
    }

    /// How many records were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Counts a record of so many bytes. The result is for [`Self::uncharge`], if the record is not
    /// made. Any context but NMI.
    ///
    /// # Errors
    ///
    /// `EDQUOT` when the limit of this second is exceeded.
    #[cold]
    #[inline(never)]
    pub(crate) fn charge(&self, len: usize) -> Result<Charged> {
        let second = clock::seconds() << 32;
        // Without a limit, if that was removed meanwhile, the count stays below the second's bits.
        let most = match self.per_second() {
            0 => u64::from(u32::MAX),
            most => most.into(),
        };
        let mut before = self.recorded.load(Relaxed);
        loop {
            // Another processor may have begun the next second already: that one goes on.
            let (second, used) = if before & SECOND_MASK >= second {
                (before & SECOND_MASK, before & !SECOND_MASK)
            } else {
                (second, 0)
            };
            let used = used.saturating_add(len as u64);
            if used > most {
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

    /// Takes back the count of a record that no consumer has taken, if the second has not ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn uncharge(&self, charged: Charged) {
        let mut before = self.recorded.load(Relaxed);
        while before & SECOND_MASK == charged.second {
            // The record was added in this second, so the count is at least as large.
            let left = before.saturating_sub(charged.len);
            match self.recorded.cmpxchg(before, left, Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }
}
