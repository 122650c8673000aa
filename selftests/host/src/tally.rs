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

/// Returns the number at the start of a result.
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
pub fn boot(boot: &str) -> Result<Vec<String>, String> {
    let text = |suffix: &str| crate::read(&format!("{boot}.{suffix}")).ok();
    let starts = (1..).map_while(|start| text(&format!("score.{start}")));
    Ok(boot_lines(text("score"), text("shown"), starts))
}

fn boot_lines(
    score: Option<String>,
    shown: Option<String>,
    starts: impl Iterator<Item = String>,
) -> Vec<String> {
    let mut lines: Vec<String> = score
        .iter()
        .flat_map(|score| score.lines())
        .map(String::from)
        .collect();
    let shown = shown.unwrap_or_default();
    let again = shown.lines().filter(|line| line.ends_with(AGAIN)).count();
    if again == 0 {
        return lines;
    }
    // Of earlier starts only, as the score has the last one.
    let mut told = 0;
    let mut starts_left = again;
    for line in shown.lines() {
        if line.ends_with(AGAIN) {
            starts_left -= 1;
        } else if starts_left > 0 && line.starts_with("not ok ") {
            told += 1;
        }
    }
    let failed = |line: &str| line.split(' ').nth(1)?.parse::<usize>().ok();
    let scored: usize = starts
        .map(|score| score.lines().filter_map(failed).sum::<usize>())
        .sum();
    lines.push(format!(
        "0 {} before the emulator died and the machine was started again, {again} of at most 2 times",
        told.max(scored)
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTS_AGAIN: &str =
        "  the emulator ran code that the kernel had replaced (Oops: int3), see x: starting again";

    #[track_caller]
    fn tap_is(ended_well: bool, may_skip: bool, sum: (usize, usize), lines: &[&str]) {
        let (passed, failed) = sum;
        let got = tap(&lines.join("\n"), ended_well, may_skip);
        assert_eq!(got, Sum { passed, failed });
    }

    #[test]
    fn results_are_counted() {
        tap_is(
            true,
            false,
            (2, 0),
            &["TAP version 13", "1..2", "ok 1 one", "ok 2 two"],
        );
        tap_is(true, false, (1, 1), &["1..2", "ok 1 one", "not ok 2 two"]);
        tap_is(true, false, (2, 0), &["1..2\r", "ok 1 one\r", "ok 2 two\r"]);
    }

    #[test]
    fn a_status_is_a_failure_once() {
        tap_is(false, false, (2, 1), &["1..2", "ok 1 one", "ok 2 two"]);
        tap_is(false, false, (1, 1), &["1..2", "ok 1 one", "not ok 2 two"]);
        tap_is(false, false, (0, 3), &["1..3"]);
    }

    #[test]
    fn what_is_skipped_counts_where_it_may_not_be() {
        tap_is(
            true,
            false,
            (1, 1),
            &["1..2", "ok 1 one", "ok 2 two # SKIP no"],
        );
        tap_is(
            true,
            true,
            (1, 0),
            &["1..2", "ok 1 one", "ok 2 two # SKIP no"],
        );
        tap_is(
            true,
            true,
            (1, 1),
            &["1..3", "ok 1 one", "ok 2 two # skip no"],
        );
        tap_is(false, true, (0, 1), &["1..1", "ok 1 one # SKIP no"]);
    }

    #[test]
    fn the_plan_is_kept_to() {
        tap_is(true, false, (1, 2), &["1..3", "ok 1 one"]);
        tap_is(true, false, (1, 1), &["1..2", "ok 1 one", "ok 1 one"]);
        tap_is(true, false, (2, 1), &["1..1", "ok 1 one", "ok 2 two"]);
        tap_is(true, false, (1, 1), &["ok 1 one"]);
        tap_is(true, false, (1, 1), &["1..1", "1..1", "ok 1 one"]);
        tap_is(true, false, (0, 1), &["1..0"]);
        tap_is(true, false, (0, 1), &[""]);
    }

    #[test]
    fn a_machine_that_starts_again_keeps_its_failures() {
        let again = STARTS_AGAIN;
        tap_is(
            true,
            false,
            (2, 0),
            &["1..2", "ok 1 one", again, "1..2", "ok 1 one", "ok 2 two"],
        );
        tap_is(
            true,
            false,
            (2, 1),
            &[
                "1..2",
                "not ok 1 one",
                again,
                "1..2",
                "ok 1 one",
                "ok 2 two",
            ],
        );
        tap_is(
            true,
            false,
            (1, 1),
            &["1..2", "ok 1 one", "ok 2 two", again, "1..2", "ok 1 one"],
        );
    }

    #[track_caller]
    fn boot_is(sum: (usize, usize), score: &[&str], shown: &[&str], starts: &[&str]) {
        let text = |lines: &[&str]| (!lines.is_empty()).then(|| lines.join("\n"));
        let starts = starts.iter().map(|score| score.to_string());
        let lines = boot_lines(text(score), text(shown), starts);
        let part = |line: &String, at| line.split(' ').nth(at).unwrap().parse::<usize>().unwrap();
        let got = (
            lines.iter().map(|line| part(line, 0)).sum::<usize>(),
            lines.iter().map(|line| part(line, 1)).sum::<usize>(),
        );
        assert_eq!(got, sum);
    }

    #[test]
    fn starts_add_up() {
        let again = STARTS_AGAIN;
        let score = ["10 0 selftests", "3 1 abi_test"];
        boot_is((0, 0), &[], &[], &[]);
        boot_is((13, 1), &score, &[], &[]);
        boot_is((13, 1), &score, &["ok one", "not ok two: why"], &[]);
        boot_is(
            (13, 1),
            &score,
            &["ok one", again, "ok one", "not ok two: why"],
            &[],
        );
        boot_is(
            (13, 2),
            &score,
            &["not ok one: why", again, "ok one", "not ok two: why"],
            &[],
        );
        let twice = [
            "not ok one: why",
            again,
            "ok one",
            "not ok three",
            again,
            "ok one",
        ];
        boot_is((13, 3), &score, &twice, &[]);
        boot_is((13, 3), &score, &twice, &["9 2 selftests"]);
        boot_is((13, 4), &score, &twice, &["9 2 selftests", "0 1 unloading"]);
    }
}
