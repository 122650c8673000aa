// SPDX-License-Identifier: GPL-2.0

//! The table at the end of a run, the faults with a wrong result, and the sum.

use super::{
    plan,
    plan::Entry,
    Verdict,
    Word,
    DIR, //
};
use crate::{
    outcome,
    read,
    Outcome, //
};
use std::collections::BTreeMap;

pub fn show() -> Outcome {
    if let Ok(why) = read(&format!("{DIR}/unsound")) {
        return Err(format!("nothing can be said of faults: {why}"));
    }
    let entries = plan::entries()?;
    let verdict = |entry: &Entry| Verdict::read(&entry.result_file());
    let verdicts: Vec<_> = entries.iter().map(verdict).collect();
    let report = Report::of(&entries, &verdicts);
    println!("\n{:<36}  faults  killed  survived  argued", "file");
    for (file, [faults, killed, survived, argued]) in &report.rows {
        println!("{file:<36} {faults:>7} {killed:>7} {survived:>9} {argued:>7}");
    }
    report.wrong.iter().for_each(|line| println!("{line}"));
    println!("\n{} passed, {} failed", report.passed, report.wrong.len());
    outcome(report.wrong.is_empty())
}

#[derive(Default)]
struct Report {
    /// By file: number of faults, killed, survived, survived as argued.
    rows: BTreeMap<String, [usize; 4]>,
    passed: usize,
    wrong: Vec<String>,
}

impl Report {
    fn of(entries: &[Entry], verdicts: &[Option<Verdict>]) -> Report {
        let mut report = Report::default();
        for (entry, verdict) in entries.iter().zip(verdicts) {
            let place = format!("{} ({})", entry.name, entry.file);
            let word = verdict.as_ref().map(|verdict| verdict.word);
            let (column, wrong) = match (word, entry.is_argued) {
                (Some(Word::Killed), false) => (Some(1), None),
                (Some(Word::Survived), true) => (Some(3), None),
                (Some(Word::Survived), false) => (
                    Some(2),
                    Some(format!("survived: {place}, with {}", entry.tests)),
                ),
                (Some(Word::Killed), true) => {
                    let why = verdict.as_ref().map_or("", |verdict| verdict.why.as_str());
                    (
                        Some(1),
                        Some(format!("argued, and yet killed: {place}: {why}")),
                    )
                }
                _ => (None, Some(format!("does not compile: {place}"))),
            };
            for row in [entry.file.as_str(), "total"] {
                let row = report.rows.entry(row.into()).or_default();
                row[0] += 1;
                if let Some(column) = column {
                    row[column] += 1;
                }
            }
            match wrong {
                None => report.passed += 1,
                Some(wrong) => report.wrong.push(wrong),
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_pass_when_they_are_as_they_should_be() {
        let rows = [
            ("a", false, Some(Word::Killed)),
            ("b", true, Some(Word::Survived)),
            ("c", false, Some(Word::Survived)),
            ("d", true, Some(Word::Killed)),
            ("e", false, None),
        ];
        let entry = |(name, is_argued, _): &(&str, bool, Option<Word>)| Entry {
            name: name.to_string(),
            file: "src/a.rs".into(),
            key: String::new(),
            tests: "t".into(),
            is_argued: *is_argued,
            is_open: true,
        };
        let entries: Vec<Entry> = rows.iter().map(entry).collect();
        let verdicts: Vec<_> = rows
            .iter()
            .map(|row| row.2.map(|word| Verdict::new(word, "why")))
            .collect();
        let report = Report::of(&entries, &verdicts);
        assert_eq!((report.passed, report.wrong.len()), (2, 3));
        assert_eq!(report.rows["total"], [5, 2, 1, 1]);
        assert_eq!(report.wrong[1], "argued, and yet killed: d (src/a.rs): why");
    }
}
