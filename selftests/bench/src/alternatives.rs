// SPDX-License-Identifier: GPL-2.0

//! Reads, prints and judges the costs of other ways to record beside this module's, counted on two
//! machines, each with its own kernel.

use crate::figures::{OnBoth, Table};
use crate::judge::Verdicts;
use crate::page::table_head;
use crate::report::{add_line, Counts};
use crate::rows::alternatives::{keys, Way, EXPERIMENTS, KERNELS, OFF, OURS, PAYLOADS, WAYS};
use crate::rows::ALTERNATIVES;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Largest allowed multiple of the stored count of the module's rows: with the same kernels, and
/// with others.
const SAME: f64 = 1.01;
const OTHER: f64 = 1.03;

/// Growth in instructions that is always allowed: another build has another memory layout.
const ANYWAY: f64 = 2.0;

/// Note on the two rows of probes.
const TRAP: &str = "\
An interrupt, as the 1-byte nop becomes one, is one instruction to the emulator, and takes a
processor the time of hundreds: the order of the two kinds of USDT is not that of their times.";

type Rows = BTreeMap<String, OnBoth>;

/// Reads the output of the two machines.
pub fn read(directory: &str) -> Result<Rows, String> {
    let [(stock, _), (small, _)] = KERNELS;
    let stock = Counts::of_kernel(directory, stock)?;
    rows(&stock, &Counts::of_kernel(directory, small)?)
}

fn rows(stock: &Counts, small: &Counts) -> Result<Rows, String> {
    let row = |key: String| Ok((key.clone(), [stock.least(&key)?, small.least(&key)?]));
    keys().into_iter().map(row).collect()
}

/// The measurements of each way to record.
fn columns() -> impl Iterator<Item = (&'static str, &'static str)> {
    let heads = ["12 bytes", "100 bytes"];
    let payloads = PAYLOADS.into_iter().zip(heads);
    [(OFF, "off")].into_iter().chain(payloads)
}

/// All figures of a way, kernel by kernel, as text.
fn cells(rows: &Rows, way: &Way) -> Vec<String> {
    let of_kernel = |kernel: usize| {
        columns().map(move |(what, _)| match rows.get(&way.row(what)) {
            Some(counts) => counts[kernel].to_string(),
            None => String::new(),
        })
    };
    (0..KERNELS.len()).flat_map(of_kernel).collect()
}

/// Formats the rows for table.txt.
pub fn text(rows: &Rows) -> String {
    let mut text = String::new();
    let [(_, stock), (_, small)] = KERNELS;
    let head = |text: &mut String, what: &str, cells: &[String]| {
        let cells = cells.iter().map(|cell| format!(" {cell:>11}"));
        add_line(text, &format!("{what:<52}{}", cells.collect::<String>()));
    };
    let titles = ["attached: no", "12 bytes", "100 bytes"].map(String::from);
    let _ = writeln!(
        text,
        "\n{:<52} {stock:<35} {small}",
        "what one would use instead"
    );
    head(&mut text, "", &[titles.clone(), titles].concat());
    for way in WAYS {
        head(&mut text, way.text, &cells(rows, way));
    }
    for way in WAYS {
        if let Some(off) = way.off {
            let _ = writeln!(text, "{:<52} nothing attached: {off}", way.text);
        }
    }
    let _ = writeln!(text, "{TRAP}");
    text.push('\n');
    let titles = KERNELS.map(|(_, kernel)| kernel.to_string());
    head(&mut text, "what a record could cost", &titles);
    for (key, what) in EXPERIMENTS {
        let counts = rows.get(*key).copied().unwrap_or_default();
        head(&mut text, what, &counts.map(|count| count.to_string()));
    }
    text
}

/// The way with the fewest instructions for a payload on a kernel.
fn least(rows: &Rows, payload: &str, kernel: usize) -> Option<&'static str> {
    let costs = WAYS
        .iter()
        .filter_map(|way| Some((rows.get(&way.row(payload))?[kernel], way)));
    costs.min_by_key(|(cost, _)| *cost).map(|(_, way)| way.text)
}

/// Formats the table that performance.rst quotes.
pub fn quoted(rows: &Rows) -> String {
    let mut heads = vec!["recorded by".to_string()];
    for (_, kernel) in KERNELS {
        let mut columns = columns().map(|(_, head)| head.to_string());
        heads.extend(columns.next().map(|first| format!("{kernel}, {first}")));
        heads.extend(columns);
    }
    let mut text = table_head(&heads.join(" | "));
    for way in WAYS {
        let cells = [vec![way.text.to_string()], cells(rows, way)].concat();
        add_line(&mut text, &format!("   {}", cells.join(" | ")));
    }
    text.push('\n');
    for (kernel, (_, name)) in KERNELS.iter().enumerate() {
        let payloads = PAYLOADS.iter().zip(["12 bytes", "a 100-byte string"]);
        let fewest = payloads.filter_map(|(payload, what)| {
            least(rows, payload, kernel).map(|way| format!("for {what}, {way}"))
        });
        let fewest = fewest.collect::<Vec<_>>().join("; ");
        let _ = writeln!(text, "Fewest, {name}: {fewest}.");
    }
    let _ = writeln!(text, "\n{TRAP}");
    text
}

/// Judges the module's rows by the stored ones. Other rows only need to be measured.
pub fn by_kept(now: &Table, kept: Option<&Table>) -> Verdicts {
    let mut verdicts = Verdicts::new();
    if !now.has(ALTERNATIVES.0) {
        return verdicts;
    }
    for key in keys() {
        let Some(counts) = now.alternatives.get(&key) else {
            verdicts.push(Some(format!("not measured: {key}")));
            continue;
        };
        let before = kept.and_then(|kept| Some((kept.alternatives.get(&key)?, kept)));
        let is_ours = key.split_once('.').is_some_and(|(way, _)| way == OURS);
        let (Some((before, kept)), true) = (before, is_ours) else {
            verdicts.push(None);
            continue;
        };
        let times = match now.is_of_the_kernel_of(kept) {
            true => SAME,
            false => OTHER,
        };
        for ((_, kernel), (count, before)) in KERNELS.iter().zip(counts.iter().zip(before)) {
            let most = (*before as f64 * times).max(*before as f64 + ANYWAY);
            let is_worse = *count as f64 > most;
            verdicts.push(
                is_worse.then(|| format!("worse: {key}, {kernel}: was {before}, is {count}")),
            );
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "1-a";

    /// All rows: recording costs the module 1000 and 500, all others 2000.
    fn table() -> Table {
        let row = |key: String| {
            let counts = match key.as_str() {
                "user_events.off" => [2, 2],
                "user_events.12" | "user_events.100" => [1000, 500],
                _ => [2000, 2000],
            };
            (key, counts)
        };
        Table {
            kernel: Some(KERNEL.into()),
            alternatives: keys().into_iter().map(row).collect(),
            ..Table::default()
        }
    }

    #[test]
    fn all_are_measured_on_both() {
        let counts = |lacking: &str| {
            let mut counts = Counts::default();
            let keys = keys().into_iter().filter(|key| key != lacking);
            let lines = keys.map(|key| format!("bench {key} 7\n"));
            let text = lines.collect::<String>() + "bench ended\n";
            counts.add(&text).expect("counts");
            counts
        };
        let (all, lacking) = (counts(""), counts("lttng.12"));
        assert_eq!(rows(&all, &all).expect("all rows").len(), keys().len());
        assert!(rows(&all, &lacking).is_err() && rows(&lacking, &all).is_err());
    }

    #[test]
    fn ours_are_judged_and_others_are_not() {
        let kept = table();
        for (key, counts, kernel, failing) in [
            ("user_events.12", [1010, 505], KERNEL, 0),
            ("user_events.12", [1011, 500], KERNEL, 1),
            ("user_events.12", [1000, 506], KERNEL, 1),
            ("user_events.100", [1100, 600], KERNEL, 2),
            ("user_events.off", [4, 4], KERNEL, 0),
            ("user_events.off", [5, 2], KERNEL, 1),
            ("lttng.12", [9000, 9000], KERNEL, 0),
            ("uring.16", [9000, 9000], KERNEL, 0),
            ("user_events.12", [1030, 515], "another", 0),
            ("user_events.12", [1031, 515], "another", 1),
        ] {
            let mut now = table();
            now.alternatives.insert(key.into(), counts);
            now.kernel = Some(kernel.into());
            let failures = by_kept(&now, Some(&kept)).into_iter().flatten();
            assert_eq!(failures.count(), failing, "{key} {counts:?} {kernel}");
        }
    }

    #[test]
    fn what_was_not_measured_fails_unless_it_was_not_asked_for() {
        let mut now = table();
        now.alternatives.remove("lttng.12");
        let failures = by_kept(&now, None).into_iter().flatten();
        assert!(failures.eq(["not measured: lttng.12"]));
        now.groups = Some("numbers".into());
        assert_eq!(by_kept(&now, None), []);
    }
}
