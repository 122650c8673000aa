// SPDX-License-Identifier: GPL-2.0

//! Judges the log of a whole run, in the format of `dmesg`.

use crate::{
    judge::{
        self,
        Allowed, //
    },
    prefix, //
};
use std::fmt;

/// Which part of a log is judged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The whole log: if the kernel's first line is missing, lines are lost.
    FromStart,
    Part,
}

/// A line that reports an error.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding<'a> {
    /// The line's number in the log, from 1 on.
    pub number: usize,
    /// The line's text without time and task, or the error of the log as a whole.
    pub text: &'a str,
}

impl fmt::Display for Finding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, self.text)
    }
}

/// Returns all lines of a log that report an error. An empty log is an error as well.
pub fn check(log: &str, allowed: Allowed, extent: Extent) -> Vec<Finding<'_>> {
    let lines: Vec<&str> = log.lines().map(prefix::without_prefix).collect();
    let mut findings = Vec::new();
    if lines.is_empty() {
        findings.push(Finding {
            number: 1,
            text: "the log is empty",
        });
    } else if extent == Extent::FromStart && !begins_with_kernel(&lines) {
        findings.push(Finding {
            number: 1,
            text: "the log does not begin where the kernel did: lines are lost",
        });
    }
    for at in judge::unexpected(&lines, allowed, "", extent) {
        findings.extend(lines.get(at).map(|&text| Finding {
            number: at + 1,
            text,
        }));
    }
    findings
}

/// Allows a few lines before the kernel's version.
fn begins_with_kernel(lines: &[&str]) -> bool {
    let mut first = lines.iter().take(5);
    first.any(|line| line.starts_with("Linux version "))
}
