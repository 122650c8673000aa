// SPDX-License-Identifier: GPL-2.0

//! The lists in `lists/`. In each, a line is an entry, with all of its blanks, unless it is empty or begins with `#`.

/// A list as its file has it.
#[derive(Clone, Copy)]
pub(crate) struct List(&'static str);

/// What is a report.
pub(crate) const REPORTS: List = List(include_str!("../lists/reports"));

/// What is no report where allocations were made to fail.
pub(crate) const OF_FAULTS: List = List(include_str!("../lists/of-faults"));

/// What is expected.
pub(crate) const EXPECTED: List = List(include_str!("../lists/expected"));

/// Titles of reports of races that are known.
pub(crate) const KNOWN_RACES: List = List(include_str!("../lists/known-races"));

/// Functions below which a stack has no part in a race.
pub(crate) const BOUNDARIES: List = List(include_str!("../lists/boundaries"));

impl List {
    pub(crate) fn entries(self) -> impl Iterator<Item = &'static str> {
        let lines = self.0.lines();
        lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
    }

    /// Does the line contain an entry?
    pub(crate) fn matches(self, line: &str) -> bool {
        self.entries().any(|entry| line.contains(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, List); 5] = [
        ("reports", REPORTS),
        ("of-faults", OF_FAULTS),
        ("expected", EXPECTED),
        ("known-races", KNOWN_RACES),
        ("boundaries", BOUNDARIES),
    ];

    #[test]
    fn none_is_empty() {
        for (name, list) in ALL {
            assert!(list.entries().next().is_some(), "{name}");
        }
    }

    #[test]
    fn each_entry_has_a_comment_above_it() {
        for (name, list) in ALL {
            let mut above = "";
            for line in list.0.lines() {
                if !line.is_empty() && !line.starts_with('#') {
                    let comment = above.strip_prefix("# ").unwrap_or_default();
                    assert!(!comment.is_empty(), "{name}: {line}");
                }
                above = line;
            }
        }
    }

    #[test]
    fn no_entry_stands_twice() {
        for (name, list) in ALL {
            let mut entries: Vec<&str> = list.entries().collect();
            entries.sort_unstable();
            let pair = entries.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(pair, None, "{name}");
        }
    }

    #[test]
    fn blanks_at_the_ends_of_an_entry_count() {
        for entry in BOUNDARIES.entries() {
            assert!(entry.starts_with(' '), "{entry}");
            assert!(BOUNDARIES.matches(entry));
            assert!(!BOUNDARIES.matches(entry.trim_start()), "{entry}");
        }
    }

    /// What is no report anyway need not be allowed.
    #[test]
    fn what_comes_of_faults_is_a_report_elsewhere() {
        for entry in OF_FAULTS.entries() {
            assert!(REPORTS.matches(entry), "{entry}");
        }
    }
}
