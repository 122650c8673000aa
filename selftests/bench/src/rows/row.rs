// SPDX-License-Identifier: GPL-2.0

//! A row of the table.

/// A limit for the module's figure of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A multiple of C's figure.
    OfC(f64),
    /// A multiple of the module's figure of another row.
    OfOurs(&'static str, f64),
}

/// How a figure is compared with the stored one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Judged {
    /// The instructions of a call: the same in every run.
    Call,
    /// Other figures: two runs differ by this part.
    Within(f64),
    /// Must be exactly this.
    Equals(u64),
    /// Not compared, for this reason.
    Not(&'static str),
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Row {
    pub group: &'static str,
    pub key: &'static str,
    pub text: &'static str,
    pub judged: Judged,
    /// Rows without user_events whose sum is the floor: the common work of both kernels.
    pub floor: &'static [&'static str],
    pub limits: &'static [Limit],
    /// The module's row to compare with, where C has none.
    pub beside: Option<&'static str>,
    /// Mostly a copy: the count depends on the emulator.
    pub is_copy: bool,
    /// Why the two figures have no ratio.
    pub unlike: Option<&'static str>,
    /// Quoted by performance.rst in any case.
    pub is_quoted: bool,
}
