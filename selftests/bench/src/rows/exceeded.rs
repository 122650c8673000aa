// SPDX-License-Identifier: GPL-2.0

//! The limits that are exceeded.

use super::row::Limit;

/// A limit that may be exceeded for now.
pub struct Exceeded {
    pub row: &'static str,
    pub limit: Limit,
    /// The measured ratio.
    pub measured: f64,
    pub since: &'static str,
    pub why: &'static str,
}

/// The limits that are exceeded. An entry within its limit fails, too, so the list stays true.
pub const EXCEEDED: &[Exceeded] = &[];
