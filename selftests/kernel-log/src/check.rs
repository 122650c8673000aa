// SPDX-License-Identifier: GPL-2.0

//! The log of a whole run, as `dmesg` shows it.

use crate::{
    judge::{
        self,
        Allowed, //
    },
    prefix, //
};
use std::fmt;

/// How much of a log there is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it: where the kernel's first line is missing, lines are lost.
    FromStart,
    /// A part.
    Part,
}

/// A line that says that something is wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding<'a> {
    /// Its number in the log, from 1 on.
    pub number: usize,
    /// Its text without time and task, or what is wrong with the log as a whole.
    pub text: &'a str,
}

impl fmt::Display for Finding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, self.text)
    }
}

/// All lines of a log that say that something is wrong. An empty log is wrong as well.
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

/// A few lines may come before the kernel's version.
fn begins_with_kernel(lines: &[&str]) -> bool {
    let mut first = lines.iter().take(5);
    first.any(|line| line.starts_with("Linux version "))
}
