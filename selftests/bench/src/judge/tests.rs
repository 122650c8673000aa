// SPDX-License-Identifier: GPL-2.0

//! Verdicts on altered tables.

use super::*;
use crate::rows::row::{Limit::OfC, Limit::OfOurs};
use crate::rows::{has_c, GROUPS, WITHOUT_C};

/// Stored figures, of which each test alters one.
const KEPT: &str = r#"[
  {"license": "SPDX-License-Identifier: GPL-2.0"},
  {"kernel": "1-a"},
  {"groups": "nothing,core,numbers,runs,instead,many,memory"},
  {"key": "null.write", "c": 350, "ours": 350, "ratio": 1.0000},
  {"key": "disabled.write", "c": 513, "ours": 436, "ratio": 0.8499, "floor": 350, "own_ratio": 0.5276},
  {"key": "ftrace.write", "c": 1318, "ours": 1161, "ratio": 0.8809, "floor": 937, "own_ratio": 0.5879},
  {"key": "uprobe", "c": 2300, "ours": 2300, "ratio": 1.0000},
  {"key": "bpf.runs", "c": 0, "ours": 100, "ratio": 100.0000},
  {"key": "life.none", "c": 377952, "ours": 378029, "ratio": 1.0002},
  {"key": "life.8000", "c": 2539358, "ours": 401296, "ratio": 0.1580, "floor": 377952, "own_ratio": 0.0108},
  {"key": "time.8000", "c": 2472476, "ours": 391389, "ratio": 0.1583},
  {"key": "memory.more.own", "c": 762, "ours": 789, "ratio": 1.0354}
]
"#;

/// The rows of these figures, with limits, some of which the figures exceed.
fn rows() -> Vec<Row> {
    let table = kept();
    let limits = |row: &Row| match row.key {
        "disabled.write" => &[OfC(0.85)][..],
        "ftrace.write" => &[OfC(0.73), OfOurs("uprobe", 0.42)],
        "memory.more.own" => &[OfC(0.8)],
        _ => row.limits,
    };
    let of_it = ROWS
        .iter()
        .filter(|row| table.figures.contains_key(row.key));
    of_it
        .map(|row| Row {
            limits: limits(row),
            ..*row
        })
        .collect()
}

fn kept() -> Table {
    Table::parse(KEPT).expect("the figures")
}

/// The stored figures with a change: a key, and names and values of figures.
fn with(change: &str) -> Table {
    let mut table = kept();
    let words: Vec<&str> = change.split(' ').collect();
    let figure = table.figures.get_mut(words[0]).expect("a key");
    for pair in words[1..].chunks(2) {
        let value = pair[1].parse().expect("a figure");
        match pair[0] {
            "ours" => figure.ours = value,
            "c" => figure.other = Some(value),
            "floor" => figure.floor = Some(value),
            other => panic!("{other}"),
        }
    }
    table
}

/// A table of these rows: keys, C's figures and the module's.
fn figures(rows: &[(&str, Option<u64>, u64)]) -> Table {
    let figure = |&(key, other, ours): &(&str, Option<u64>, u64)| {
        (key.to_string(), Figure::new(ours, other))
    };
    Table {
        figures: rows.iter().map(figure).collect(),
        ..Table::default()
    }
}

fn exceeded() -> Vec<Exceeded> {
    let entry = |row, limit, measured| Exceeded {
        row,
        limit,
        measured,
        since: "2026-11-24",
        why: "a reason",
    };
    vec![
        entry("ftrace.write", OfC(0.73), 0.881),
        entry("ftrace.write", OfOurs("uprobe", 0.42), 0.505),
        entry("memory.more.own", OfC(0.8), 1.035),
    ]
}

fn failures(verdicts: Verdicts) -> Vec<String> {
    verdicts.into_iter().flatten().collect()
}

fn failures_by_limits(table: &Table, exceeded: &[Exceeded]) -> Vec<String> {
    failures(by_limits(table, &rows(), exceeded))
}

fn failures_by_kept(now: &Table) -> Vec<String> {
    failures(by_kept(now, &kept(), &rows()))
}

/// Checks that the changed row has one failure, which begins with this verdict, or none.
#[track_caller]
fn assert_verdict(change: &str, verdict: &str, failures: &[String]) {
    let key = change.split(' ').next().unwrap_or_default();
    let is_right = match failures {
        [] => verdict.is_empty(),
        [failure] => !verdict.is_empty() && failure.starts_with(&format!("{verdict}: {key}")),
        _ => false,
    };
    assert!(is_right, "{change}: {failures:?}");
}

#[test]
fn what_was_kept_passes() {
    let none: [String; 0] = [];
    assert_eq!(failures_by_limits(&kept(), &exceeded()), none);
    assert_eq!(failures_by_kept(&kept()), none);
    assert!(by_kept(&kept(), &kept(), &rows()).len() >= 5);
}

#[test]
fn limits_and_the_list_of_exceeded_ones_are_judged() {
    for (change, verdict) in [
        // A limit that is not listed.
        ("disabled.write ours 437", "exceeded"),
        // A listed limit that holds again. Near the limit, the next run may exceed it.
        ("memory.more.own ours 607", "exceeded no longer"),
        ("memory.more.own ours 608", ""),
        ("memory.more.own ours 799", "exceeded further"),
        // A program that does not run each time.
        ("bpf.runs ours 99", "wrong"),
        // A floor as high as its row.
        ("ftrace.write floor 1161", "nothing is its own"),
    ] {
        let failures = failures_by_limits(&with(change), &exceeded());
        assert_verdict(change, verdict, &failures);
    }
    let failures = failures_by_limits(&kept(), &exceeded()[..2]);
    assert_verdict("memory.more.own", "exceeded", &failures);
}

#[test]
fn a_list_of_what_is_not_there_fails() {
    for (row, limit) in [("memory.less.own", OfC(0.8)), ("memory.more.own", OfC(0.9))] {
        let mut exceeded = exceeded();
        (exceeded[2].row, exceeded[2].limit) = (row, limit);
        let failures = failures_by_limits(&kept(), &exceeded);
        // The limit that is no longer listed, and the entry.
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert_verdict(row, "no such limit", &failures[1..]);
    }
}

#[test]
fn our_own_part_is_judged_by_what_was_kept() {
    for (change, verdict) in [
        // 3 % of the whole would allow 34 instructions.
        ("ftrace.write ours 1165", "worse"),
        ("ftrace.write ours 1164", ""),
        // C's own count makes nothing fail,
        ("life.8000 c 1000000", ""),
        ("life.8000 c 2000000", ""),
        ("life.8000 c 3200000", ""),
        // and allows nothing: the row grows by 1.4 %, its own part by 24 %.
        ("life.8000 c 3200000 ours 407000", "worse"),
        // The floor went down alone.
        ("life.8000 floor 374000", "worse"),
        // The row moves by 0.3 % and its floor by 0.5 %, together 14 % of the own part.
        ("life.8000 ours 402600 floor 376000", ""),
        ("time.8000 ours 3913890", ""),
        // Only the kernel's part grows.
        ("ftrace.write c 1418 ours 1261 floor 1037", "worse"),
    ] {
        assert_verdict(change, verdict, &failures_by_kept(&with(change)));
    }
    for (change, verdict) in [
        // Only the kernel's part grows.
        ("ftrace.write c 1418 ours 1261 floor 1037", ""),
        // The own part grows as well.
        ("ftrace.write c 1418 ours 1281 floor 1037", "worse"),
        // The own part grows by a ninth, the row only by a fiftieth.
        ("ftrace.write ours 1185", "worse"),
    ] {
        let mut table = with(change);
        table.kernel = Some("another".into());
        assert_verdict(change, verdict, &failures_by_kept(&table));
    }
}

#[test]
fn on_another_kernel_c_allows_nothing_where_it_does_something_else() {
    let row = ROWS.iter().find(|row| row.key == "bpf.write");
    let row = row.expect("a row that is unlike C's");
    let table = |kernel: &str, c, ours| Table {
        kernel: Some(kernel.into()),
        ..figures(&[(row.key, Some(c), ours)])
    };
    let (kept, now) = (table("1-a", 1000, 2000), table("2-b", 1500, 2400));
    let failure = row_by_kept(row.key, Some(row), &now, &kept);
    assert_verdict(row.key, "worse", failure.as_slice());
}

#[test]
fn a_row_of_a_measured_group_that_is_gone_fails() {
    let mut table = kept();
    table.figures.remove("life.8000");
    assert_verdict("life.8000", "gone", &failures_by_kept(&table));
    // A limit fails, too, if its base is gone.
    table.figures.remove("uprobe");
    let failures = failures_by_limits(&table, &exceeded());
    assert_verdict("ftrace.write", "not measured", &failures);
}

#[test]
fn a_group_that_was_not_asked_for_is_not_judged() {
    let mut table = kept();
    table.groups = Some("nothing,core,numbers,many".into());
    table.figures.remove("uprobe");
    table.figures.remove("memory.more.own");
    assert_eq!(failures_by_limits(&table, &exceeded()).len(), 0);
    assert_eq!(failures_by_kept(&table).len(), 0);
}

#[test]
fn a_group_of_events_may_cost_a_hundredth_more_than_the_first() {
    let failures = |ours| {
        let mut table = kept();
        table.groups = table.groups.map(|groups| groups + ",groups");
        table
            .figures
            .extend(figures(&[("group.ftrace.write", None, ours)]).figures);
        let is_it = |row: &&Row| row.key == "group.ftrace.write";
        let rows: Vec<Row> = ROWS.iter().filter(is_it).chain(&rows()).copied().collect();
        self::failures(by_limits(&table, &rows, &exceeded()))
    };
    // The first group's row is 1161.
    assert_eq!(failures(1172).len(), 0);
    assert_verdict("group.ftrace.write", "exceeded", &failures(1173));
}

#[test]
fn what_the_module_costs_others_is_judged() {
    let failures = |with| {
        let rows: Vec<_> = UNUSED
            .iter()
            .map(|(key, ..)| (*key, Some(100_000), with))
            .collect();
        self::failures(by_unused(&figures(&rows))).len()
    };
    assert_eq!(failures(100_700), 0);
    assert_eq!(failures(101_000), UNUSED.len());
    let of_none = by_unused(&Table::default());
    assert_eq!(self::failures(of_none).len(), UNUSED.len());
}

#[test]
fn the_figures_that_are_kept_keep_to_the_limits() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/figures/table.json");
    assert_eq!(check(path, Some(path)), Ok(()));
}

#[test]
fn every_row_belongs_to_a_group_and_every_entry_says_when_and_why() {
    let is_row = |key: &str| ROWS.iter().filter(|row| row.key == key).count() == 1;
    for row in ROWS {
        let mut groups = GROUPS.iter().chain(WITHOUT_C);
        assert!(groups.any(|(name, _)| *name == row.group), "{}", row.key);
        assert!(!row.text.is_empty() && is_row(row.key), "{}", row.key);
        let others = row.floor.iter().chain(row.beside.as_ref());
        others.for_each(|key| assert!(is_row(key), "{}: {key}", row.key));
        // Only what C lacks is set beside another row.
        match has_c(row.group) {
            true => assert!(row.beside.is_none(), "{}", row.key),
            false => {
                let of_c = row.limits.iter().find(|limit| matches!(limit, OfC(_)));
                assert_eq!(of_c, None, "{}", row.key);
            }
        }
    }
    for entry in EXCEEDED {
        let mut date = entry.since.split('-');
        let is_date = entry.since.len() == 10 && date.all(|part| part.parse::<u32>().is_ok());
        assert!(is_date && entry.why.len() > 10, "{}", entry.row);
    }
}
