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

/// Limits, some of which these figures exceed.
const LIMITS: &[(&str, &[Limit])] = &[
    ("disabled.write", &[OfC(0.85)]),
    ("ftrace.write", &[OfC(0.73), OfOurs("uprobe", 0.42)]),
    ("memory.more.own", &[OfC(0.8)]),
];

/// The rows of these figures, with these limits.
fn rows() -> Vec<Row> {
    let table = kept();
    let is_there = |row: &&Row| table.figures.contains_key(row.key);
    let limits_of = |row: &Row| LIMITS.iter().find(|(key, _)| *key == row.key);
    let limited = |row: &Row| match limits_of(row) {
        Some((_, limits)) => row.at_most(limits),
        None => *row,
    };
    ROWS.iter().filter(is_there).map(limited).collect()
}

fn kept() -> Table {
    Table::parse(KEPT).expect("the figures")
}

/// The figures with one text in place of another.
fn with(old: &str, new: &str) -> Table {
    assert_eq!(KEPT.matches(old).count(), 1, "{old} is to be altered once");
    Table::parse(&KEPT.replace(old, new)).expect("altered figures")
}

/// The limits that these figures exceed.
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

fn failures_by_limits(table: &Table, exceeded: &[Exceeded]) -> Vec<String> {
    by_limits(table, &rows(), exceeded).failures
}

fn failures_by_kept(now: &Table) -> Vec<String> {
    by_kept(now, &kept(), &rows()).failures
}

/// Checks that there is exactly one failure, with this beginning.
fn assert_one(failures: &[String], begins: &str) {
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].starts_with(begins), "{failures:?}");
}

#[test]
fn what_was_kept_passes() {
    let none: [String; 0] = [];
    assert_eq!(failures_by_limits(&kept(), &exceeded()), none);
    assert_eq!(failures_by_kept(&kept()), none);
    assert!(by_kept(&kept(), &kept(), &rows()).passed >= 5);
}

#[test]
fn a_limit_that_is_not_listed_fails() {
    let mut exceeded = exceeded();
    exceeded.remove(2);
    assert_one(
        &failures_by_limits(&kept(), &exceeded),
        "exceeded: memory.more.own",
    );
    let table = with(r#""ours": 436"#, r#""ours": 437"#);
    let failures = failures_by_limits(&table, &self::exceeded());
    assert_one(&failures, "exceeded: disabled.write");
}

#[test]
fn a_listed_limit_that_holds_again_fails() {
    let table = with(r#""c": 762, "ours": 789"#, r#""c": 762, "ours": 607"#);
    assert_one(
        &failures_by_limits(&table, &exceeded()),
        "exceeded no longer: memory.more.own",
    );
    // Near its limit, a ratio may exceed it in the next run.
    let none: [&str; 0] = [];
    let table = with(r#""c": 762, "ours": 789"#, r#""c": 762, "ours": 608"#);
    assert_eq!(failures_by_limits(&table, &exceeded()), none);
}

#[test]
fn a_listed_limit_that_is_exceeded_further_fails() {
    let table = with(r#""c": 762, "ours": 789"#, r#""c": 762, "ours": 799"#);
    assert_one(
        &failures_by_limits(&table, &exceeded()),
        "exceeded further: memory.more.own",
    );
}

#[test]
fn a_list_of_what_is_not_there_fails() {
    let mut exceeded = exceeded();
    exceeded[2].row = "memory.less.own";
    let failures = failures_by_limits(&kept(), &exceeded);
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures[1].starts_with("no such limit: memory.less.own"));
    let mut exceeded = self::exceeded();
    exceeded[2].limit = OfC(0.9);
    let failures = failures_by_limits(&kept(), &exceeded);
    assert_eq!(failures.len(), 2, "{failures:?}");
}

#[test]
fn a_program_that_does_not_run_each_time_fails() {
    let table = with(r#""ours": 100,"#, r#""ours": 99,"#);
    assert_one(&failures_by_limits(&table, &exceeded()), "wrong: bpf.runs");
}

#[test]
fn a_floor_above_its_row_fails() {
    let table = with(r#""floor": 937"#, r#""floor": 1161"#);
    assert_one(
        &failures_by_limits(&table, &exceeded()),
        "nothing is its own: ftrace.write",
    );
}

#[test]
fn four_instructions_of_a_write_fail() {
    // 3 % of the whole would allow 34 instructions.
    let table = with(r#""ours": 1161"#, r#""ours": 1165"#);
    assert_one(&failures_by_kept(&table), "worse: ftrace.write");
    let table = with(r#""ours": 1161"#, r#""ours": 1164"#);
    assert_eq!(failures_by_kept(&table).len(), 0);
}

#[test]
fn what_cs_own_count_does_makes_nothing_fail() {
    for c in ["1000000", "2000000", "3200000"] {
        let table = with(r#""c": 2539358"#, &format!(r#""c": {c}"#));
        assert_eq!(failures_by_kept(&table).len(), 0, "{c}");
    }
}

#[test]
fn what_cs_own_count_does_allows_nothing() {
    // The row grows by 1.4 %, its own part by 24 %.
    let table = with(
        r#""c": 2539358, "ours": 401296"#,
        r#""c": 3200000, "ours": 407000"#,
    );
    assert_one(&failures_by_kept(&table), "worse: life.8000");
}

#[test]
fn our_own_part_is_judged_where_the_floor_went_down() {
    let table = with(
        r#""ours": 401296, "ratio": 0.1580, "floor": 377952"#,
        r#""ours": 401296, "ratio": 0.1580, "floor": 374000"#,
    );
    assert_one(&failures_by_kept(&table), "worse: life.8000");
}

#[test]
fn a_row_and_its_floor_may_each_move_a_little() {
    // The row moves by 0.3 % and its floor by 0.5 %, together 14 % of the own part.
    let table = with(
        r#""ours": 401296, "ratio": 0.1580, "floor": 377952"#,
        r#""ours": 402600, "ratio": 0.1585, "floor": 376000"#,
    );
    assert_eq!(failures_by_kept(&table).len(), 0);
}

#[test]
fn another_kernel_is_judged_by_what_is_above_its_floor() {
    // Only the kernel's part grows.
    let grown = KEPT.replace(
        r#""c": 1318, "ours": 1161, "ratio": 0.8809, "floor": 937"#,
        r#""c": 1418, "ours": 1261, "ratio": 0.8893, "floor": 1037"#,
    );
    let same = Table::parse(&grown).expect("figures");
    assert_one(&failures_by_kept(&same), "worse: ftrace.write");
    let other = Table::parse(&grown.replace("1-a", "2-b")).expect("figures");
    assert_eq!(failures_by_kept(&other).len(), 0);
    // The own part grows as well.
    let ours = grown.replace("1-a", "2-b").replace("1261", "1281");
    let ours = Table::parse(&ours).expect("figures");
    assert_one(&failures_by_kept(&ours), "worse: ftrace.write");
    // The own part grows by a ninth, the row only by a fiftieth.
    let little = KEPT.replace("1-a", "2-b").replace("1161", "1185");
    let little = Table::parse(&little).expect("figures");
    assert_one(&failures_by_kept(&little), "worse: ftrace.write");
}

#[test]
fn on_another_kernel_c_allows_nothing_where_it_does_something_else() {
    let row = ROWS.iter().find(|row| row.key == "bpf.write");
    let row = row.expect("a row that is unlike C's");
    let table = |kernel: &str, c: u64, ours: u64| {
        let text = format!(
            "{{\"kernel\": \"{kernel}\"}}\n{{\"key\": \"bpf.write\", \"c\": {c}, \"ours\": {ours}, \"ratio\": 2.0}}"
        );
        Table::parse(&text).expect("figures")
    };
    let (kept, now) = (table("1-a", 1000, 2000), table("2-b", 1500, 2400));
    let failure = row_by_kept(row.key, Some(row), &now, &kept);
    assert!(failure.is_some_and(|failure| failure.starts_with("worse: bpf.write")));
}

#[test]
fn a_row_of_a_measured_group_that_is_gone_fails() {
    let mut table = kept();
    table.figures.remove("life.8000");
    assert_one(&failures_by_kept(&table), "gone: life.8000");
    // A limit fails, too, if its base is gone.
    table.figures.remove("uprobe");
    assert_one(
        &failures_by_limits(&table, &exceeded()),
        "not measured: ftrace.write",
    );
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
        let text = format!(r#"{{"key": "group.ftrace.write", "ours": {ours}}}"#);
        let mut table =
            Table::parse(&KEPT.replace("instead,", "instead,groups,")).expect("figures");
        table
            .figures
            .extend(Table::parse(&text).expect("a row").figures);
        let is_it = |row: &&Row| row.key == "group.ftrace.write";
        let rows: Vec<Row> = ROWS.iter().filter(is_it).chain(&rows()).copied().collect();
        by_limits(&table, &rows, &exceeded()).failures
    };
    // The first group's row is 1161.
    assert_eq!(failures(1172).len(), 0);
    assert_one(&failures(1173), "exceeded: group.ftrace.write");
}

#[test]
fn times_are_not_judged() {
    let table = with(r#""ours": 391389"#, r#""ours": 3913890"#);
    assert_eq!(failures_by_kept(&table).len(), 0);
}

#[test]
fn what_the_module_costs_others_is_judged() {
    let text = |with: u64| {
        let row = |key| format!(r#"{{"key": "{key}", "c": 100000, "ours": {with}, "ratio": 1.0}}"#);
        UNUSED
            .iter()
            .map(|(key, ..)| row(key) + "\n")
            .collect::<String>()
    };
    let failures = |with| {
        by_unused(&Table::parse(&text(with)).expect("figures"))
            .failures
            .len()
    };
    assert_eq!(failures(100_700), 0);
    assert_eq!(failures(101_000), UNUSED.len());
    assert_eq!(by_unused(&Table::default()).failures.len(), UNUSED.len());
}

#[test]
fn the_figures_that_are_kept_keep_to_the_limits() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/figures/table.json");
    assert_eq!(check(path, Some(path)), Ok(()));
}

#[test]
fn every_row_belongs_to_a_group_and_every_entry_says_when_and_why() {
    for row in ROWS {
        let is_known = GROUPS
            .iter()
            .chain(WITHOUT_C)
            .any(|(name, _)| *name == row.group);
        assert!(is_known, "{}", row.key);
        for floor in row.floor {
            let is_row = ROWS.iter().any(|row| row.key == *floor);
            assert!(is_row, "{}: {floor}", row.key);
        }
        assert_eq!(ROWS.iter().filter(|other| other.key == row.key).count(), 1);
        if let Some(key) = row.beside {
            let is_row = ROWS.iter().any(|row| row.key == key);
            assert!(is_row && !has_c(row.group), "{}: {key}", row.key);
        }
        let of_c = |limit: &Limit| matches!(limit, OfC(_));
        assert!(
            has_c(row.group) || !row.limits.iter().any(of_c),
            "{}",
            row.key
        );
    }
    for entry in EXCEEDED {
        let date: Vec<&str> = entry.since.split('-').collect();
        let lengths: Vec<usize> = date.iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [4, 2, 2], "{}", entry.row);
        assert!(date.iter().all(|part| part.parse::<u32>().is_ok()));
        assert!(entry.why.len() > 10, "{}", entry.row);
    }
}
