// SPDX-License-Identifier: GPL-2.0

//! The generated parts of performance.rst: the quoted rows, among them all in which C is cheaper,
//! and the charts.

use crate::alternatives;
use crate::chart;
use crate::figures::{read, write, Figure, Table};
use crate::report::add_line;
use crate::rows::row::Row;
use crate::rows::table::{in_full, EACH_SECOND, THE_KERNELS};
use std::fmt::Write;
use std::path::Path;

const BEGIN: &str = ".. of selftests/bench/figures, by make bench KEEP=1\n\n";
const BEGIN_ALTERNATIVES: &str =
    ".. what one would use instead, of selftests/bench/figures, by make bench KEEP=1\n\n";
const END: &str = ".. end\n";

/// Longest line of a document.
const MAX_COLUMNS: usize = 100;

/// C counts as cheaper from this ratio on, in the table's precision.
const DEARER: f64 = 1.0005;

const COPY: &str = "
[1] Mostly a copy, counted on a processor without ``ERMS`` and ``FSRM``, where the kernel copies by
eight bytes; others copy by the line: no ratio of times.
";

const COPY_IN_TIME: &str =
    "\n[2] Mostly a copy, which the emulator makes byte by byte, in time as well.\n";

/// Whether a row compares the two implementations. Timed rows do, too.
pub fn is_compared(row: &Row) -> bool {
    row.unlike.is_none() && row.judged != THE_KERNELS
}

/// Adds a row to the page's table, with its first cell in two lines if one is too long.
fn line(text: &mut String, what: &str, figure: &Figure) {
    let own = figure.own_ratio();
    let own = own.map_or(String::new(), |ratio| format!("{ratio:.2}"));
    let figures = format!(
        "| {} | {} | {:.3} | {own}",
        figure.other.unwrap_or(0),
        figure.ours,
        figure.ratio().unwrap_or(0.0)
    );
    let line = format!("   {what} {figures}");
    let line = match what.rsplit_once(", ") {
        Some((first, rest)) if line.trim_end().len() > MAX_COLUMNS => {
            format!("   \"{first},\n   {rest}\"{figures}")
        }
        _ => line,
    };
    add_line(text, &line);
}

/// The beginning of a table whose cells are separated by `|`.
pub fn table_head(head: &str) -> String {
    format!(".. csv-table::\n   :header-rows: 1\n   :delim: |\n\n   {head}\n")
}

fn quoted(table: &Table) -> String {
    let (mut quoted, mut dearer, mut slower) = (String::new(), String::new(), String::new());
    for (row, what) in in_full() {
        let Some(figure) = table.figures.get(row.key) else {
            continue;
        };
        if !is_compared(row) {
            continue;
        }
        let what = match row.is_copy {
            true => format!("{what} [1]"),
            false => what.to_string(),
        };
        if figure.ratio().is_some_and(|ratio| ratio >= DEARER) {
            line(&mut dearer, &what, figure);
        } else if row.is_quoted {
            line(&mut quoted, &what, figure);
        }
    }
    // More records in a second are better.
    for (key, what) in EACH_SECOND {
        let figure = table.figures.get(*key).copied().unwrap_or_default();
        let is_slower = figure.ratio().is_some_and(|ratio| ratio <= 1.0 / DEARER);
        if is_slower && !key.ends_with(".percent") {
            line(&mut slower, what, &figure);
        }
    }
    let mut text = table_head("instructions, or bytes of memory | C | module | ratio | own part");
    text += &quoted;
    let mut add = |title: &str, rows: &str| {
        if !rows.is_empty() {
            let _ = write!(text, "   **{title}**\n{rows}");
        }
    };
    add(
        "where C is cheaper: all such rows, times in ns as well",
        &dearer,
    );
    add(
        "records in a second, two CPUs: where C writes more",
        &slower,
    );
    for (mark, footnote) in [("[1]", COPY), ("[2]", COPY_IN_TIME)] {
        if text.contains(mark) {
            text.push_str(footnote);
        }
    }
    text
}

/// The page with the quoted rows of a table.
fn with_quoted(page: &str, table: &Table) -> Result<String, String> {
    let page = with_text(page, BEGIN, &quoted(table))?;
    with_text(
        &page,
        BEGIN_ALTERNATIVES,
        &alternatives::quoted(&table.alternatives),
    )
}

/// The page with this text after `begin`.
fn with_text(page: &str, begin: &str, text: &str) -> Result<String, String> {
    let place = || {
        let (before, rest) = page.split_once(begin)?;
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    };
    let (before, after) = place().ok_or("the page has no place for the figures")?;
    Ok(format!("{before}{begin}{text}\n{END}{after}"))
}

/// Writes the quoted rows of a table into the page, and its charts beside the table.
pub fn quote(path: &str, page: &str) -> Result<(), String> {
    let table = Table::read(path)?;
    write(page, &with_quoted(&read(page)?, &table)?)?;
    chart::all(&table).iter().try_for_each(|(name, svg)| {
        let chart = Path::new(path).with_file_name(name);
        write(&chart.to_string_lossy(), svg)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/figures/table.json");
    const PAGE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../Documentation/performance.rst"
    );

    #[test]
    fn the_page_quotes_and_draws_the_figures_that_are_kept() {
        let page = read(PAGE).expect("the page");
        let kept = Table::read(KEPT).expect("the figures that are kept");
        assert_eq!(with_quoted(&page, &kept).as_ref(), Ok(&page));
        for (name, svg) in chart::all(&kept) {
            let drawn = read(&KEPT.replace("table.json", name));
            assert!(drawn == Ok(svg), "{name} is of others");
        }
    }

    #[test]
    fn rows_in_which_c_is_cheaper_are_all_quoted() {
        let text = r#"[
            {"key": "filter.write", "c": 1000, "ours": 1001, "ratio": 1.0010},
            {"key": "hist.write", "c": 1000, "ours": 999, "ratio": 0.9990}
            {"timed": "writers.1", "c": 1000, "ours": 1100, "ratio": 1.1000},
            {"timed": "writers.2", "c": 1000, "ours": 900, "ratio": 0.9000}
        ]"#;
        let text = quoted(&Table::parse(text).expect("a table"));
        for line in [
            "a filter drops it | 1000 | 1001 | 1.001",
            "   two writers | 1000 | 900 | 0.900 |",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        for absent in ["hist", "1100", "[2]"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
    }

    #[test]
    fn other_figures_are_no_longer_those_of_the_page() {
        let page = format!("a\n{BEGIN}old\n{END}c\n{BEGIN_ALTERNATIVES}older\n{END}b\n");
        let table = r#"{"key": "life.8000", "c": 2000, "ours": 300, "ratio": 0.1500}
            {"alternative": "lttng.12", "stock": 1057, "small": 1052}"#;
        let now = with_quoted(&page, &Table::parse(table).expect("a table"));
        let now = now.expect("a place");
        assert!(now.starts_with("a\n") && now.ends_with("b\n") && !now.contains("old"));
        for line in [
            " | 2000 | 300 | 0.150 |",
            "   LTTng-UST |  | 1057 |  |  | 1052 |\n",
            "\nc\n",
        ] {
            assert!(now.contains(line), "{line}: {now}");
        }
        let half = format!("{BEGIN}{END}");
        assert!(with_quoted(&half, &Table::default()).is_err());
        assert!(with_quoted("no place", &Table::default()).is_err());
    }
}
