// SPDX-License-Identifier: GPL-2.0

//! What a row of the table is.

/// What our figure of a row is to keep to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// So many times C's figure.
    OfC(f64),
    /// So many times our own figure of another row.
    OfOurs(&'static str, f64),
}

/// How a row's figure is compared with the one that was kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Judged {
    /// The instructions of a call: the same in every run.
    Call,
    /// Other figures: so much of it is what two runs differ by.
    Within(f64),
    /// Exactly this.
    Equals(u64),
    /// Not at all, for this reason.
    Not(&'static str),
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Row {
    pub group: &'static str,
    pub key: &'static str,
    pub text: &'static str,
    pub judged: Judged,
    /// What was counted of something that has no part in user_events, to be added up: what both kernels do for this
    /// row anyway.
    pub floor: &'static [&'static str],
    pub limits: &'static [Limit],
    /// The row of ours that it is set beside, where C has nothing of the kind.
    pub beside: Option<&'static str>,
    /// Mostly a copy, whose count says how the emulator counts.
    pub is_copy: bool,
    /// Why the two figures are no ratio.
    pub unlike: Option<&'static str>,
    /// Quoted by performance.rst, however it comes out.
    pub is_quoted: bool,
}

pub const fn row(
    group: &'static str,
    judged: Judged,
    key: &'static str,
    text: &'static str,
) -> Row {
    Row {
        group,
        key,
        text,
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
