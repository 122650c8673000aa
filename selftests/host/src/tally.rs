// SPDX-License-Identifier: GPL-2.0

//! Adds up the output of test programs in TAP or KTAP: a plan `1..N`, then `ok` or `not ok` for
//! each test.

use std::collections::BTreeSet;

/// The end of the line by which the script `vm` announces another start of the machine.
const AGAIN: &str = ": starting again";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub passed: usize,
    pub failed: usize,
}

/// Returns the sum of a program's output. `ended_well` is whether its status was 0, `may_skip`
/// whether skipped tests are allowed.
pub fn tap(output: &str, ended_well: bool, may_skip: bool) -> Sum {
    let mut failed = 0;
    let (mut plans, mut passed, mut skipped) = (Vec::new(), 0, 0);
    let mut seen = BTreeSet::new();
    for line in output.lines().map(|line| line.trim_end_matches('\r')) {
        if line.ends_with(AGAIN) {
            // Only failures of earlier starts count.
            plans.clear();
            seen.clear();
            (passed, skipped) = (0, 0);
        } else if let Some(count) = line.strip_prefix("1..") {
            plans.extend(count.parse::<usize>());
        } else if line.starts_with("not ok ") {
            failed += 1;
        } else if let Some(number) = line.strip_prefix("ok ").and_then(number) {
            if seen.insert(number) {
                match (is_skipped(line), may_skip) {
                    (false, _) => passed += 1,
                    (true, true) => skipped += 1,
                    (true, false) => {}
                }
            }
        }
    }
    let [plan @ (1..)] = plans[..] else {
        return Sum {
            passed,
            failed: failed + 1,
        };
    };
    let plan = plan.saturating_sub(skipped);
    failed += passed.saturating_sub(plan);
    failed = failed.max(plan.saturating_sub(passed));
    if !ended_well {
        failed = failed.max(1);
    }
    Sum { passed, failed }
}

fn number(result: &str) -> Option<usize> {
    result.split(' ').next()?.parse().ok()
}

fn is_skipped(line: &str) -> bool {
    let mut notes = line.split('#').skip(1);
    notes.any(|note| {
        note.trim_start()
            .get(..4)
            .is_some_and(|word| word.eq_ignore_ascii_case("skip"))
    })
}

/// Returns the lines with the results of a machine; see the program's usage.
pub fn boot(boot: &str) -> Vec<String> {
    let text = |suffix: &str| crate::read(&format!("{boot}.{suffix}"));
    let starts = (1..).map_while(|start| text(&format!("score.{start}")).ok());
    let [score, shown] = ["score", "shown"].map(|suffix| text(suffix).unwrap_or_default());
    boot_lines(&score, &shown, starts)
}

fn boot_lines(score: &str, shown: &str, starts: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = score.lines().map(String::from).collect();
    let is_again = |line: &&str| line.ends_with(AGAIN);
    let again = shown.lines().filter(is_again).count();
    if again == 0 {
        return lines;
    }
    // Of earlier starts only, as the score has the last one.
    let earlier = shown.lines().rev().skip_while(|line| !is_again(line));
    let told = earlier.filter(|line| line.starts_with("not ok ")).count();
    let failed = |line: &str| line.split(' ').nth(1)?.parse::<usize>().ok();
    let failed = |score: String| score.lines().filter_map(failed).sum::<usize>();
    let scored = starts.map(failed).sum();
    lines.push(format!(
        "0 {} before the emulator died and the machine was started again, {again} of at most 2 times",
        told.max(scored)
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGAIN: &str = "the emulator ran code that the kernel had replaced, see x: starting again";

    /// Replaces a line `again` by [`AGAIN`].
    fn text(lines: &str) -> String {
        let lines = lines.split('\n');
        let lines = lines.map(|line| if line == "again" { AGAIN } else { line });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[track_caller]
    fn comes_to(output: &str, ended_well: bool, may_skip: bool, passed: usize, failed: usize) {
        let sum = tap(&text(output), ended_well, may_skip);
        assert_eq!(sum, Sum { passed, failed }, "{output}");
    }

    #[test]
    fn results_are_counted() {
        for (output, passed, failed) in [
            ("TAP version 13\n1..2\nok 1 one\nok 2 two", 2, 0),
            ("1..2\nok 1 one\nnot ok 2 two", 1, 1),
            ("1..2\r\nok 1 one\r\nok 2 two\r", 2, 0),
            // The plan is kept to.
            ("1..3\nok 1 one", 1, 2),
            ("1..2\nok 1 one\nok 1 one", 1, 1),
            ("1..1\nok 1 one\nok 2 two", 2, 1),
            ("ok 1 one", 1, 1),
            ("1..1\n1..1\nok 1 one", 1, 1),
            ("1..0", 0, 1),
            ("", 0, 1),
            // A machine that starts again keeps its failures.
            ("1..2\nok 1 one\nagain\n1..2\nok 1 one\nok 2 two", 2, 0),
            ("1..2\nnot ok 1 one\nagain\n1..2\nok 1 one\nok 2 two", 2, 1),
            ("1..2\nok 1 one\nok 2 two\nagain\n1..2\nok 1 one", 1, 1),
            ("1..2\nok 1 one\nok 2 two # SKIP no", 1, 1),
        ] {
            comes_to(output, true, false, passed, failed);
        }
        // A status is a failure once.
        comes_to("1..2\nok 1 one\nok 2 two", false, false, 2, 1);
        comes_to("1..2\nok 1 one\nnot ok 2 two", false, false, 1, 1);
        comes_to("1..3", false, false, 0, 3);
        // What is skipped does not count where it may be.
        comes_to("1..2\nok 1 one\nok 2 two # SKIP no", true, true, 1, 0);
        comes_to("1..3\nok 1 one\nok 2 two # skip no", true, true, 1, 1);
        comes_to("1..1\nok 1 one # SKIP no", false, true, 0, 1);
    }

    #[test]
    fn starts_add_up() {
        const SCORE: &str = "10 0 selftests\n3 1 abi_test";
        const TWICE: &str = "not ok one: why\nagain\nok one\nnot ok three\nagain\nok one";
        for (score, shown, starts, sum) in [
            ("", "", &[][..], (0, 0)),
            (SCORE, "", &[], (13, 1)),
            (SCORE, "ok one\nnot ok two: why", &[], (13, 1)),
            (SCORE, "ok one\nagain\nnot ok two: why", &[], (13, 1)),
            (SCORE, "not ok one\nagain\nnot ok two", &[], (13, 2)),
            (SCORE, TWICE, &[], (13, 3)),
            (SCORE, TWICE, &["9 2 selftests"], (13, 3)),
            (SCORE, TWICE, &["9 2 selftests", "0 1 unloading"], (13, 4)),
        ] {
            let others = starts.iter().map(|score| score.to_string());
            let lines = boot_lines(score, &text(shown), others);
            let total = |at: usize| -> usize {
                let parts = lines.iter().filter_map(|line| line.split(' ').nth(at));
                parts.map(|part| part.parse::<usize>().unwrap()).sum()
            };
            assert_eq!((total(0), total(1)), sum, "{shown} {starts:?}");
        }
    }
}
