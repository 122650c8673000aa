// SPDX-License-Identifier: GPL-2.0

//! The table, made of what two machines printed.

use crate::chart::{self, Growth};
use crate::rows::{Limit, ALONE, EACH_SECOND, GROWTH, NOT_JUDGED, ROWS, UNUSED, UNUSED_LIMIT};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write};
use std::fs;

/// What each file says.
const LICENCE: &str = "SPDX-License-Identifier: GPL-2.0";

/// How many times a figure that was kept one may be.
const WORSE: f64 = 1.03;

/// What a ratio may be beyond its limit: the same processes, counted again in the same machine, differ by this
/// much, by what memory the kernel has kept of those before.
const MOVES: f64 = 1.003;

/// What one machine counted, by row.
struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// Reads what was printed on a kernel: by the machine that counts, and by the one that goes by the clock.
    fn of_kernel(directory: &str, kernel: &str) -> Result<Counts, String> {
        let mut counts = Counts::read(&format!("{directory}/{kernel}.console"))?;
        let by_the_clock = Counts::read(&format!("{directory}/{kernel}-writers.console"))?;
        counts.0.extend(by_the_clock.0);
        Ok(counts)
    }

    /// Reads what a machine printed.
    fn read(path: &str) -> Result<Counts, String> {
        let text = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        let text = String::from_utf8_lossy(&text);
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("bench "));
        let mut counts = BTreeMap::new();
        let mut ended = false;
        for line in lines {
            match line.split_once(' ') {
                Some((key, count)) => {
                    let count: u64 = count.parse().map_err(|_| format!("{path}: bench {line}"))?;
                    // What is counted several times differs by what it happened beside, which adds to it.
                    let least = counts.entry(key.to_string()).or_insert(count);
                    *least = count.min(*least);
                }
                None => ended = line == "ended",
            }
        }
        if ended {
            Ok(Counts(counts))
        } else {
            Err(format!(
                "the measurement did not come to its end: see {path}"
            ))
        }
    }

    fn of(&self, key: &str) -> Result<u64, String> {
        let count = self.0.get(key).copied();
        count.ok_or_else(|| format!("nothing was counted for {key}"))
    }
}

fn ratio(ours: u64, other: u64) -> f64 {
    ours as f64 / other.max(1) as f64
}

/// A row that compares the two implementations, as JSON. `kind` is what `key` is.
fn json_row(kind: &str, key: &str, theirs: u64, own: u64) -> String {
    let ratio = ratio(own, theirs);
    format!(r#"{{"{kind}": "{key}", "c": {theirs}, "ours": {own}, "ratio": {ratio:.4}}}"#)
}

/// A row that compares the two implementations, as text.
fn text_row(what: &str, theirs: u64, own: u64) -> String {
    let ratio = ratio(own, theirs);
    format!("{what:<52} {theirs:>11} {own:>11} {ratio:>7.3}")
}

/// The part of the table that compares, as text and as JSON.
fn compared(
    c: &Counts,
    ours: &Counts,
    text: &mut String,
    json: &mut Vec<String>,
) -> Result<(), String> {
    let _ = writeln!(
        text,
        "{:<52} {:>11} {:>11} {:>7}  ours at most",
        "instructions", "C", "ours", "ratio"
    );
    for row in ROWS {
        let (theirs, own) = (c.of(row.key)?, ours.of(row.key)?);
        let mut limits = Vec::new();
        for limit in row.limits {
            let (most, told) = match *limit {
                Limit::OfC(times) => (times * theirs as f64, format!("{times} x C")),
                Limit::OfOurs(key, times) => {
                    let most = times * ours.of(key)? as f64;
                    (most, format!("{times} x {key} = {most:.0}"))
                }
            };
            let verdict = if own as f64 <= most * MOVES {
                ""
            } else {
                " EXCEEDED"
            };
            limits.push(format!("{told}{verdict}"));
        }
        let line = format!("{}  {}", text_row(row.text, theirs, own), limits.join(", "));
        let _ = writeln!(text, "{}", line.trim_end());
        json.push(json_row("key", row.key, theirs, own));
    }
    Ok(())
}

/// The part about those who do not use user_events.
fn unused(ours: &Counts, text: &mut String, json: &mut Vec<String>) -> Result<(), String> {
    let _ = writeln!(
        text,
        "\n{:<52} {:>11} {:>11} {:>7}  at most",
        "a process that uses no user_events", "no module", "module", "ratio"
    );
    for (without, with, what) in UNUSED {
        let (before, after) = (ours.of(without)?, ours.of(with)?);
        let ratio = ratio(after, before);
        let verdict = if ratio <= UNUSED_LIMIT * MOVES {
            ""
        } else {
            " EXCEEDED"
        };
        let _ = writeln!(
            text,
            "{what:<52} {before:>11} {after:>11} {ratio:>7.3}  {UNUSED_LIMIT}{verdict}"
        );
        json.push(format!(
            r#"{{"key": "{without}", "without": {before}, "with": {after}, "ratio": {ratio:.4}}}"#
        ));
    }
    Ok(())
}

/// The part about the module itself.
fn alone(ours: &Counts, text: &mut String, json: &mut Vec<String>) -> Result<(), String> {
    text.push('\n');
    for (key, what) in ALONE {
        let count = ours.of(key)?;
        let _ = writeln!(text, "{what:<52} {:>11} {count:>11}", "");
        json.push(format!(r#"{{"key": "{key}", "ours": {count}}}"#));
    }
    Ok(())
}

/// The part that goes by the clock. It is no figure to be compared with another day's.
fn by_the_clock(
    c: &Counts,
    ours: &Counts,
    text: &mut String,
    json: &mut Vec<String>,
) -> Result<(), String> {
    let _ = writeln!(
        text,
        "\n{:<52} {:>11} {:>11} {:>7}",
        "records in a second, 12 bytes, ftrace, two CPUs", "C", "ours", "ratio"
    );
    for (key, what) in EACH_SECOND {
        let (theirs, own) = (c.of(key)?, ours.of(key)?);
        let _ = writeln!(text, "{}", text_row(what, theirs, own));
        json.push(json_row("timed", key, theirs, own));
    }
    Ok(())
}

/// The two charts.
fn charts(c: &Counts, ours: &Counts) -> Result<[(&'static str, String); 2], String> {
    let mut ratios = Vec::new();
    let mut continued = "";
    for row in ROWS {
        // "... so" goes on from the last one that does not.
        let rest = row.text.strip_prefix("... ");
        if rest.is_none() {
            continued = row
                .text
                .rsplit_once(',')
                .map_or(row.text, |(first, _)| first);
        }
        let what = match rest {
            Some(rest) => format!("{continued}, {rest}"),
            None => row.text.to_string(),
        };
        if !row.text.starts_with("instead") && !row.key.starts_with("null") && row.key != "call" {
            ratios.push((what, ratio(ours.of(row.key)?, c.of(row.key)?)));
        }
    }
    let ratios: Vec<(&str, f64)> = ratios
        .iter()
        .map(|(what, ratio)| (&**what, *ratio))
        .collect();
    let mut panels = Vec::new();
    for (what, points) in GROWTH {
        let mut all = Vec::new();
        for (registrations, key) in *points {
            let (theirs, own) = (c.of(key)? as f64, ours.of(key)? as f64);
            all.push((*registrations as f64, theirs, own));
        }
        panels.push(Growth { what, points: all });
    }
    Ok([
        ("ratios.svg", chart::ratios(&ratios)),
        ("growth.svg", chart::growth(&panels)),
    ])
}

/// Prints the table, and writes it to table.txt and table.json, and two charts.
pub fn make(directory: &str) -> Result<(), String> {
    let c = Counts::of_kernel(directory, "c")?;
    let ours = Counts::of_kernel(directory, "custom")?;
    let (mut text, mut json) = (String::new(), Vec::new());
    compared(&c, &ours, &mut text, &mut json)?;
    unused(&ours, &mut text, &mut json)?;
    alone(&ours, &mut text, &mut json)?;
    by_the_clock(&c, &ours, &mut text, &mut json)?;
    print!("{text}");
    // They may be kept.
    json.insert(0, format!("{{\"license\": \"{LICENCE}\"}}"));
    let json = format!("[\n  {}\n]\n", json.join(",\n  "));
    let text = format!("{LICENCE}\n\n{text}");
    let mut files = vec![("table.txt", text), ("table.json", json)];
    files.extend(charts(&c, &ours)?);
    for (name, content) in files {
        let path = format!("{directory}/{name}");
        fs::write(&path, content).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

/// What was counted of the module, and its ratio to the C implementation's if there is one.
#[derive(Clone, Copy)]
struct Figure {
    ours: f64,
    ratio: Option<f64>,
}

impl Figure {
    /// By more than [`WORSE`], the ratio and the count. The C implementation's count may change by itself, by a
    /// fifth in some rows; and all counts do with the kernel and its compiler.
    fn is_worse_than(&self, before: &Figure) -> bool {
        let by_ratio = match (self.ratio, before.ratio) {
            (Some(now), Some(before)) => now > before * WORSE,
            _ => true,
        };
        by_ratio && self.ours > before.ours * WORSE
    }
}

impl Display for Figure {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.ratio {
            Some(ratio) => write!(out, "{} ({ratio})", self.ours),
            None => write!(out, "{}", self.ours),
        }
    }
}

/// The figures of a table.json, by row. Without what went by the clock.
fn figures(path: &str) -> Result<BTreeMap<String, Figure>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let mut figures = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains("\"key\"")) {
        let of = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\": "))?;
            let end = rest.find([',', '}'])?;
            Some(rest[..end].trim_matches('"'))
        };
        let number = |name: &str| of(name).and_then(|text| text.parse().ok());
        let key = of("key").ok_or(format!("{path}: {line}"))?;
        let figure = Figure {
            ours: number("ours")
                .or_else(|| number("with"))
                .ok_or(format!("{path}: {line}"))?,
            ratio: number("ratio"),
        };
        figures.insert(key.to_string(), figure);
    }
    Ok(figures)
}

/// Fails if a figure of the table is worse than the one of the table that was kept, or is missing.
pub fn check(now: &str, kept: &str) -> Result<(), String> {
    let (now, kept) = (figures(now)?, figures(kept)?);
    let (mut passed, mut failed) = (0, 0);
    let is_judged = |key: &str| !NOT_JUDGED.contains(&key);
    for (key, before) in kept.iter().filter(|(key, _)| is_judged(key)) {
        match now.get(key) {
            Some(figure) if !figure.is_worse_than(before) => passed += 1,
            Some(figure) => {
                failed += 1;
                println!("worse: {key} was {before}, is {figure}");
            }
            None => {
                failed += 1;
                println!("gone: {key}");
            }
        }
    }
    println!("\n{passed} passed, {failed} failed");
    match failed {
        0 if passed > 0 => Ok(()),
        _ => Err("the figures are worse than those that were kept".into()),
    }
}
