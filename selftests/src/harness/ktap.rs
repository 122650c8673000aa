// SPDX-License-Identifier: GPL-2.0

//! Results in KTAP version 1 (Documentation/dev-tools/ktap.rst of the kernel): a plan, and a line
//! for each test.

use std::process::ExitCode;

/// Prints results as they arrive, and counts them.
pub struct Ktap {
    planned: usize,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Ktap {
    /// Prints the plan.
    pub fn begin(planned: usize) -> Ktap {
        println!("KTAP version 1\n1..{planned}");
        Ktap {
            planned,
            passed: 0,
            failed: 0,
            skipped: 0,
        }
    }

    fn line(&self, word: &str, name: &str, text: &str) {
        let number = self.passed + self.failed + self.skipped;
        let text = text.replace('\n', " ");
        let mark = if text.is_empty() { "" } else { " # " };
        println!("{word} {number} {name}{mark}{text}");
    }

    /// Reports that a test has passed, with an optional note, or failed, with the reason.
    pub fn result(&mut self, name: &str, result: Result<String, String>) {
        match result {
            Ok(text) => {
                self.passed += 1;
                self.line("ok", name, &text);
            }
            Err(why) => {
                self.failed += 1;
                self.line("not ok", name, &why);
            }
        }
    }

    /// Reports that a test cannot be run on this machine.
    pub fn skip(&mut self, name: &str, why: &str) {
        self.skipped += 1;
        self.line("ok", name, &format!("SKIP {why}"));
    }

    /// Returns whether any test has failed.
    pub fn has_failed(&self) -> bool {
        self.failed > 0
    }

    /// Prints the totals. Succeeds if all planned results have arrived, and some passed and none
    /// failed.
    pub fn end(self) -> ExitCode {
        let (passed, failed, skipped) = (self.passed, self.failed, self.skipped);
        println!("# Totals: pass:{passed} fail:{failed} xfail:0 xpass:0 skip:{skipped} error:0");
        match failed == 0 && passed > 0 && passed + skipped == self.planned {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}
