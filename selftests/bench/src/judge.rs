// SPDX-License-Identifier: GPL-2.0

//! Judges a table by the limits, and by the stored figures.
//!
//! Most of a row's count is common to both kernels, so growth is compared with the module's own
//! part. C's figures fail no comparison with stored figures, as some of C's rows change by a fifth
//! by themselves. Only on another kernel, whose own part may have grown, does the ratio allow a
//! larger count.

#[cfg(test)]
mod tests;

use crate::alternatives;
use crate::figures::{Figure, Table};
use crate::rows::exceeded::{Exceeded, EXCEEDED};
use crate::rows::row::{Judged, Limit, Row};
use crate::rows::table::{ALONE, ALONE_JUDGED, MODULE, ROWS, UNUSED, UNUSED_LIMIT};

/// Largest allowed multiple of the stored own part.
const OWN: f64 = 1.03;

/// Allowed growth of a call. Its count is the same in every run, but another build has another
/// memory layout.
const CALL: f64 = 0.003;

/// Allowed difference of two runs, as a part of the row plus its floor. The own part is their
/// difference, and both vary a little.
const REPEATS: f64 = 0.005;

/// Largest allowed multiple of a limit for rows that vary between runs.
pub const NOISE: f64 = 1.003;

/// Largest allowed multiple of the listed ratio of an exceeded limit.
const FURTHER: f64 = 1.01;

/// The results of judging: a failure, or None for what has passed.
pub type Verdicts = Vec<Option<String>>;

/// Returns the module's figure as a multiple of the limit's base, and the limit. None if not
/// measured.
pub fn times(table: &Table, row: &Row, limit: Limit) -> Option<(f64, f64)> {
    let figure = table.figures.get(row.key)?;
    match limit {
        Limit::OfC(most) => Some((figure.ratio()?, most)),
        Limit::OfOurs(key, most) => {
            let of = table.ours(key)?;
            Some((figure.ours as f64 / of.max(1) as f64, most))
        }
    }
}

/// Ratio by which two runs may differ.
fn moves(row: &Row) -> f64 {
    match row.judged {
        Judged::Call => 1.0,
        _ => NOISE,
    }
}

/// Whether the limit is exceeded by more than the difference of two runs.
pub fn is_beyond(row: &Row, times: f64, most: f64) -> bool {
    times > most * moves(row)
}

/// Whether the ratio is below the limit by at least that difference. In between, the row may be
/// listed as exceeded or not.
fn is_within(row: &Row, times: f64, most: f64) -> bool {
    times * moves(row) <= most
}

impl Limit {
    pub fn text(self) -> String {
        match self {
            Limit::OfC(most) => format!("{most} x C"),
            Limit::OfOurs(key, most) => format!("{most} x {key}"),
        }
    }
}

/// Judges one limit of one row, and its entry in the list of exceeded limits.
fn limit_of(table: &Table, row: &Row, limit: Limit, exceeded: &[Exceeded]) -> Option<String> {
    let what = format!("{}, at most {}", row.key, limit.text());
    let Some((times, most)) = times(table, row, limit) else {
        return Some(format!("not measured: {what}"));
    };
    let listed = exceeded
        .iter()
        .find(|entry| entry.row == row.key && entry.limit == limit);
    match listed {
        None if is_beyond(row, times, most) => Some(format!("exceeded: {what}: {times:.3}")),
        Some(entry) if is_within(row, times, most) => Some(format!(
            "exceeded no longer: {what}: {times:.3}: take what it was on {} from the list",
            entry.since
        )),
        Some(entry) if times > entry.measured * FURTHER => Some(format!(
            "exceeded further: {what}: {times:.3}, on {} it was {}",
            entry.since, entry.measured
        )),
        _ => None,
    }
}

pub fn by_limits(table: &Table, rows: &[Row], exceeded: &[Exceeded]) -> Verdicts {
    let mut verdicts = Verdicts::new();
    for row in rows.iter().filter(|row| table.has(row.group)) {
        for limit in row.limits {
            // A limit is skipped if its base is not in a measured group.
            let base = match limit {
                Limit::OfC(_) => Some(row),
                Limit::OfOurs(of, _) => rows.iter().find(|row| row.key == *of),
            };
            if base.is_none_or(|row| table.has(row.group)) {
                verdicts.push(limit_of(table, row, *limit, exceeded));
            }
        }
        // An own part of zero would hide growth.
        let figure = table.figures.get(row.key);
        if figure.is_some_and(|figure| figure.floor.is_some() && figure.own_part() == 0) {
            verdicts.push(Some(format!("nothing is its own: {}", row.key)));
        }
        if let (Judged::Equals(right), ours) = (row.judged, table.ours(row.key)) {
            let wrong = ours != Some(right);
            verdicts.push(wrong.then(|| format!("wrong: {}: {ours:?}, not {right}", row.key)));
        }
    }
    // Each listed limit must exist.
    for entry in exceeded {
        let is_of = |row: &Row| row.key == entry.row && row.limits.contains(&entry.limit);
        if !rows.iter().any(is_of) {
            let text = entry.limit.text();
            verdicts.push(Some(format!("no such limit: {}, {text}", entry.row)));
        }
    }
    verdicts
}

/// Judges the costs of the module for programs that do not use it.
fn by_unused(table: &Table) -> Verdicts {
    let verdict = |key: &str| match table.figures.get(key).and_then(Figure::ratio) {
        None => Some(format!("not measured: {key}")),
        Some(ratio) if ratio > UNUSED_LIMIT * NOISE => Some(format!(
            "exceeded: {key}, at most {UNUSED_LIMIT}: {ratio:.4}"
        )),
        Some(_) => None,
    };
    let asked = UNUSED.iter().filter(|_| table.has(MODULE));
    asked.map(|(key, ..)| verdict(key)).collect()
}

/// Whether a figure is worse than the stored one.
fn is_worse(judged: Judged, now: &Figure, kept: &Figure, is_same_kernel: bool) -> bool {
    // Floors are used only if both figures have one.
    let is_known = now.floor.is_some() && kept.floor.is_some();
    let part = |figure: &Figure| Figure {
        floor: figure.floor.filter(|_| is_known),
        ..*figure
    };
    let (now, kept) = (part(now), part(kept));
    let own = kept.own_part() as f64 * (OWN - 1.0);
    let whole = kept.ours as f64;
    let (own, whole) = match judged {
        Judged::Call => {
            let allowed = own.min(whole * CALL).max(2.0);
            (allowed, allowed)
        }
        Judged::Within(part) => {
            let counts = whole + kept.floor.unwrap_or(0) as f64;
            (own.max(counts * REPEATS), whole * part)
        }
        Judged::Equals(_) | Judged::Not(_) => return false,
    };
    let has_grown = now.own_part() as f64 > kept.own_part() as f64 + own;
    if is_same_kernel {
        return has_grown || now.ours as f64 > kept.ours as f64 + whole;
    }
    let ratio = |figure: &Figure| figure.own_ratio().or_else(|| figure.ratio());
    let by_ratio = match (ratio(&now), ratio(&kept)) {
        (Some(now), Some(kept)) => now > kept * OWN,
        _ => now.ours as f64 > kept.ours as f64 * OWN,
    };
    has_grown && by_ratio
}

fn shown(figure: &Figure) -> String {
    match figure.floor {
        Some(_) => format!("{} ({} its own)", figure.ours, figure.own_part()),
        None => format!("{}", figure.ours),
    }
}

/// Judges one row by the stored one. If C's operation differs, C's figure is not used.
fn row_by_kept(key: &str, row: Option<&Row>, now: &Table, kept: &Table) -> Option<String> {
    let judged = row.map_or(ALONE_JUDGED, |row| row.judged);
    let is_unlike = row.is_some_and(|row| row.unlike.is_some());
    let is_same_kernel = now.is_of_the_kernel_of(kept);
    let figure = |table: &Table| {
        let figure = *table.figures.get(key)?;
        let other = figure.other.filter(|_| !is_unlike);
        Some(Figure { other, ..figure })
    };
    match (figure(now), figure(kept)) {
        (None, _) => Some(format!("gone: {key}")),
        // A new row: the next run with KEEP=1 stores it.
        (Some(_), None) => None,
        (Some(figure), Some(before)) => {
            is_worse(judged, &figure, &before, is_same_kernel).then(|| {
                format!(
                    "worse: {key}: was {}, is {}",
                    shown(&before),
                    shown(&figure)
                )
            })
        }
    }
}

pub fn by_kept(now: &Table, kept: &Table, rows: &[Row]) -> Verdicts {
    let mut verdicts = Verdicts::new();
    let is_judged = |row: &&Row| !matches!(row.judged, Judged::Not(_)) && now.has(row.group);
    for row in rows.iter().filter(is_judged) {
        verdicts.push(row_by_kept(row.key, Some(row), now, kept));
    }
    if now.has(MODULE) {
        let unused = UNUSED.iter().map(|(key, ..)| key);
        for key in unused.chain(ALONE.iter().map(|(key, _)| key)) {
            verdicts.push(row_by_kept(key, None, now, kept));
        }
    }
    verdicts
}

/// Fails if a limit is exceeded, or if a figure is missing or worse than the stored one.
pub fn check(now: &str, kept: Option<&str>) -> Result<(), String> {
    let now = Table::read(now)?;
    let mut verdicts = by_limits(&now, ROWS, EXCEEDED);
    verdicts.extend(by_unused(&now));
    let kept = kept.map(Table::read).transpose()?;
    if let Some(kept) = &kept {
        if !now.is_of_the_kernel_of(kept) {
            println!(
                "The figures that were kept are of other kernels: a ratio allows for a count."
            );
        }
        verdicts.extend(by_kept(&now, kept, ROWS));
    }
    verdicts.extend(alternatives::by_kept(&now, kept.as_ref()));
    let failures: Vec<&String> = verdicts.iter().flatten().collect();
    let passed = verdicts.len() - failures.len();
    for failure in &failures {
        println!("{failure}");
    }
    println!("\n{passed} passed, {} failed", failures.len());
    match failures.len() {
        0 if passed > 0 => Ok(()),
        _ => Err("the figures are not what they are to be".into()),
    }
}
