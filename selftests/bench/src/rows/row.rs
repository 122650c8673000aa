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

pub const fn row(group: &'static str, key: &'static str, judged: Judged) -> Row {
    Row {
        group,
        key,
        text: "",
        judged,
        floor: &[],
        limits: &[],
        beside: None,
        is_copy: false,
        unlike: None,
        is_quoted: false,
    }
}

impl Row {
    pub const fn text(mut self, text: &'static str) -> Row {
        self.text = text;
        self
    }

    pub const fn above(mut self, floor: &'static [&'static str]) -> Row {
        self.floor = floor;
        self
    }

    pub const fn at_most(mut self, limits: &'static [Limit]) -> Row {
        self.limits = limits;
        self
    }

    pub const fn beside(mut self, key: &'static str) -> Row {
        self.beside = Some(key);
        self
    }

    pub const fn copy(mut self) -> Row {
        self.is_copy = true;
        self
    }

    pub const fn unlike(mut self, why: &'static str) -> Row {
        self.unlike = Some(why);
        self
    }

    pub const fn quoted(mut self) -> Row {
        self.is_quoted = true;
        self
    }
}
