// SPDX-License-Identifier: GPL-2.0

//! Results in KTAP, version 1 (Documentation/dev-tools/ktap.rst of the kernel): a plan, and a line for each test.

use std::process::ExitCode;

/// Prints results as they come, and counts them.
pub struct Ktap {
    planned: usize,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Ktap {
    /// Begins, with so many results to come.
    pub fn begin(planned: usize) -> Ktap {
        println!("KTAP version 1\n1..{planned}");
        Ktap {
            planned,
            passed: 0,
            failed: 0,
            skipped: 0,
        }
    }

    fn done(&self) -> usize {
        self.passed + self.failed + self.skipped
    }

    /// One more result, with what there is to say of it.
    fn line(&self, word: &str, name: &str, text: &str) {
        let text = text.replace('\n', " ");
        let mark = if text.is_empty() { "" } else { " # " };
        println!("{word} {} {name}{mark}{text}", self.done());
    }

    /// A test has passed, with something to say or nothing, or failed, and why.
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

    /// A test makes no sense on this machine.
    pub fn skip(&mut self, name: &str, why: &str) {
        self.skipped += 1;
        self.line("ok", name, &format!("SKIP {why}"));
    }

    /// Has any test failed?
    pub fn has_failed(&self) -> bool {
        self.failed > 0
    }

    /// Ends: well, if all that was planned has come, something of it has passed and nothing failed.
    pub fn end(self) -> ExitCode {
        let Ktap {
            planned,
            passed,
            failed,
            skipped,
        } = self;
        println!("# Totals: pass:{passed} fail:{failed} xfail:0 xpass:0 skip:{skipped} error:0");
        match failed == 0 && passed > 0 && passed + skipped == planned {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}
