// SPDX-License-Identifier: GPL-2.0

//! The lists in `lists/`. Each line is an entry, with all of its blanks, unless it is empty or
//! begins with `#`.

/// The text of a list's file.
#[derive(Clone, Copy)]
pub(crate) struct List(&'static str);

/// Texts that make a line a report.
pub(crate) const REPORTS: List = List(include_str!("../lists/reports"));

/// Reports that are allowed if allocations are made to fail.
pub(crate) const OF_FAULTS: List = List(include_str!("../lists/of-faults"));

/// Beginnings of expected lines.
pub(crate) const EXPECTED: List = List(include_str!("../lists/expected"));

/// Beginnings of stack frames that access memory for their caller.
pub(crate) const ACCESSORS: List = List(include_str!("../lists/accessors"));

/// Lines that tests cause: the beginning of the test's name, `: `, and the whole line.
const OF_TESTS: List = List(include_str!("../lists/of-tests"));

pub(crate) fn is_of_test(line: &str, test: &str) -> bool {
    let mut entries = OF_TESTS
        .entries()
        .filter_map(|entry| entry.split_once(": "));
    entries.any(|(start, text)| test.starts_with(start) && line == text)
}

impl List {
    pub(crate) fn entries(self) -> impl Iterator<Item = &'static str> {
        let lines = self.0.lines();
        lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
    }

    pub(crate) fn begin(self, line: &str) -> bool {
        self.entries().any(|entry| line.starts_with(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const ALL: [(&str, List); 5] = [
        ("reports", REPORTS),
        ("of-faults", OF_FAULTS),
        ("expected", EXPECTED),
        ("accessors", ACCESSORS),
        ("of-tests", OF_TESTS),
    ];

    #[test]
    fn each_entry_stands_once_below_a_comment() {
        for (name, list) in ALL {
            let mut entries = BTreeSet::new();
            let mut above = "";
            for line in list.0.lines() {
                if !line.is_empty() && !line.starts_with('#') {
                    let comment = above.strip_prefix("# ").unwrap_or_default();
                    assert!(!comment.is_empty(), "{name}: {line}");
                    assert!(entries.insert(line), "{name}: {line}");
                }
                above = line;
            }
            assert!(!entries.is_empty(), "{name}");
        }
    }

    #[test]
    fn what_a_test_brings_about_is_a_report_elsewhere() {
        for entry in OF_TESTS.entries() {
            let (test, text) = entry.split_once(": ").unwrap();
            assert!(is_of_test(text, &format!("{test}more")));
            assert!(!is_of_test(text, &format!("one {test}")), "{entry}");
            assert!(!is_of_test(&format!("{text}2"), test), "{entry}");
            assert!(
                REPORTS.entries().any(|report| text.contains(report)),
                "{entry}"
            );
        }
    }
}
