// SPDX-License-Identifier: GPL-2.0

//! Times. 7.x: `kernel::time`.

use core::ops::Add;

pub use tree::time::*;

const NSEC_PER_USEC: i64 = 1000;

/// A span of time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delta(i64);

impl Delta {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// From microseconds.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros.saturating_mul(NSEC_PER_USEC))
    }

    /// From milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(NSEC_PER_MSEC))
    }

    /// Whole milliseconds.
    pub const fn as_millis(self) -> i64 {
        self.0 / NSEC_PER_MSEC
    }

    /// Microseconds, rounded up.
    const fn as_micros_ceil(self) -> i64 {
        self.0.saturating_add(NSEC_PER_USEC - 1) / NSEC_PER_USEC
    }
}

impl Add for Delta {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Sleeping. 7.x: `kernel::time::delay`.
pub mod delay {
    use super::Delta;
    use crate::bindings;

    /// Sleeps for a time, or up to a quarter longer. C: `fsleep()`.
    pub fn fsleep(delta: Delta) {
        let micros = delta.as_micros_ceil().max(0) as usize;
        // SAFETY: Sleeps only. The kernel warns if that is not allowed.
        unsafe {
            bindings::usleep_range_state(
                micros,
                micros + micros / 4,
                bindings::TASK_UNINTERRUPTIBLE,
            );
        }
    }
}
