// SPDX-License-Identifier: GPL-2.0

//! A table of cases: every case is tried, and all that went wrong are reported together.

use crate::kit::errno::{Errno, Result};
use std::fmt::Debug;

/// Collects what went wrong.
#[derive(Default)]
pub struct Rows {
    tried: usize,
    wrong: Vec<String>,
}

impl Rows {
    /// `row` is the rule, as the contract words it.
    pub fn new() -> Rows {
        Rows::default()
    }

    /// The case must fail with this error.
    pub fn fails<T: Debug>(&mut self, row: &str, case: &str, got: Result<T>, want: Errno) {
        self.tried += 1;
        match got {
            Err(errno) if errno == want => {}
            got => self
                .wrong
                .push(format!("\"{row}\", {case}: want {want:?}, got {got:?}")),
        }
    }

    /// The case must give this.
    pub fn gives<T: Debug + PartialEq>(&mut self, row: &str, case: &str, got: T, want: T) {
        self.tried += 1;
        if got != want {
            self.wrong
                .push(format!("\"{row}\", {case}: want {want:?}, got {got:?}"));
        }
    }

    /// Panics with all that went wrong.
    #[track_caller]
    pub fn finish(self) {
        assert!(self.tried > 0, "an empty table");
        let wrong = self.wrong.len();
        assert!(
            wrong == 0,
            "{wrong} of {} cases: {}",
            self.tried,
            self.wrong.join("; ")
        );
    }
}
