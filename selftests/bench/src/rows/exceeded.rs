// SPDX-License-Identifier: GPL-2.0

//! The limits that are exceeded.

use super::row::Limit;

/// A limit that is exceeded, and may be for now.
pub struct Exceeded {
    pub row: &'static str,
    pub limit: Limit,
    /// How many times what the limit is of.
    pub measured: f64,
    pub since: &'static str,
    pub why: &'static str,
}

/// The limits that are exceeded. One that no longer is fails, too, so that this says what holds.
pub const EXCEEDED: &[Exceeded] = &[];
