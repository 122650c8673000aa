// SPDX-License-Identifier: GPL-2.0

//! Makes the table from the output of two machines.

use crate::alternatives;
use crate::figures::{ratio, read, write, Figure, Table, LICENCE};
use crate::judge;
use crate::rows::exceeded::{Exceeded, EXCEEDED};
use crate::rows::row::Row;
use crate::rows::table::{ALONE, EACH_SECOND, MODULE, ROWS, UNUSED, UNUSED_LIMIT};
use crate::rows::{has_c, ALTERNATIVES, BY_THE_CLOCK, GROUPS, WITHOUT_C};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::fs;

/// Returns the path and the text of the output of each machine whose name is asked for.
pub fn consoles(
    directory: &str,
    is_asked: impl Fn(&str) -> bool,
) -> Result<Vec<(String, String)>, String> {
    let entries = fs::read_dir(directory).map_err(|error| format!("{directory}: {error}"))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_console = |name: &String| name.strip_suffix(".console").is_some_and(&is_asked);
    let paths = names
        .filter(is_console)
        .map(|name| format!("{directory}/{name}"));
    paths.map(|path| Ok((path.clone(), read(&path)?))).collect()
}

/// The counts of one kernel's machines, by row.
#[derive(Default)]
pub struct Counts(BTreeMap<String, Vec<u64>>);

impl Counts {
    /// Reads the output of a kernel's machines: of the one that counts, and of those that time.
    pub fn of_kernel(directory: &str, kernel: &str) -> Result<Counts, String> {
        let mut counts = Counts::default();
        let is_of_it = |name: &str| {
            let rest = name.strip_prefix(kernel);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("-writers-"))
        };
        for (path, text) in consoles(directory, is_of_it)? {
            counts.add(&text).map_err(|why| format!("{path}: {why}"))?;
        }
        Ok(counts)
    }

    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("bench "));
        let mut ended = false;
        for line in lines {
            match line.split_once(' ') {
                Some((key, count)) => {
                    let count: u64 = count.parse().map_err(|_| format!("bench {line}"))?;
                    self.0.entry(key.to_string()).or_default().push(count);
                }
                None => ended = line == "ended",
            }
        }
        match ended {
            true => Ok(()),
            false => Err("the measurement did not come to its end".into()),
        }
    }

    /// The least, the median and the most of repeated counts.
    fn spread(&self, key: &str) -> Result<[u64; 3], String> {
        let counts = self.0.get(key);
        let mut counts = counts
            .cloned()
            .ok_or(format!("nothing was counted for {key}"))?;
        counts.sort_unstable();
        Ok([0, counts.len() / 2, counts.len() - 1].map(|at| counts[at]))
    }

    /// Returns the least of repeated counts: other work only adds to a count.
    pub fn least(&self, key: &str) -> Result<u64, String> {
        self.spread(key).map(|[least, ..]| least)
    }

    fn is_time(row: &Row) -> bool {
        row.key.starts_with("time.")
    }

    fn of(&self, row: &Row) -> Result<u64, String> {
        let [least, median, _] = self.spread(row.key)?;
        Ok(if Counts::is_time(row) { median } else { least })
    }

    /// The floor of a row, if measured.
    fn floor(&self, row: &Row) -> Option<u64> {
        if row.floor.is_empty() {
            return None;
        }
        row.floor.iter().map(|key| self.least(key).ok()).sum()
    }
}

fn figures(c: &Counts, ours: &Counts, kernel: &str, groups: &str) -> Result<Table, String> {
    let mut table = Table {
        kernel: Some(kernel.into()),
        groups: (groups != "all").then(|| groups.into()),
        ..Table::default()
    };
    for row in ROWS {
        if !table.has(row.group) {
            continue;
        }
        // The lesser floor, so that neither implementation hides its own work in the floor.
        let floor = c.floor(row).zip(ours.floor(row));
        let other = has_c(row.group).then(|| c.of(row)).transpose()?;
        let figure = Figure {
            floor: floor.map(|(theirs, own)| theirs.min(own)),
            ..Figure::new(ours.of(row)?, other)
        };
        table.figures.insert(row.key.into(), figure);
    }
    if table.has(MODULE) {
        for (without, with, _) in UNUSED {
            let figure = Figure::new(ours.least(with)?, Some(ours.least(without)?));
            table.figures.insert((*without).into(), figure);
        }
        for (key, _) in ALONE {
            let figure = Figure::new(ours.least(key)?, None);
            table.figures.insert((*key).into(), figure);
        }
    }
    if table.has(BY_THE_CLOCK.0) {
        for (key, _) in EACH_SECOND {
            let figure = Figure::new(ours.spread(key)?[1], Some(c.spread(key)?[1]));
            table.figures.insert((*key).into(), figure);
        }
    }
    Ok(table)
}

/// Adds a line, without the blanks at its end.
pub fn add_line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Adds a line of a table with two figures and their ratio.
fn line(text: &mut String, what: &str, cells: [impl Display; 3], rest: &str) {
    let [first, second, ratio] = cells;
    add_line(
        text,
        &format!("{what:<52} {first:>11} {second:>11} {ratio:>7}  {rest}"),
    );
}

/// The cells of two figures and their ratio, with a dash for what was not measured.
fn cells(first: Option<u64>, second: u64) -> [String; 3] {
    let ratio = first.map(|first| format!("{:.3}", ratio(second, first)));
    let dash = || "-".to_string();
    let first = first.map_or_else(dash, |first| first.to_string());
    [first, second.to_string(), ratio.unwrap_or_else(dash)]
}

fn verdict(is_exceeded: bool) -> &'static str {
    match is_exceeded {
        true => " EXCEEDED",
        false => "",
    }
}

fn limits(table: &Table, row: &Row) -> String {
    let limits = row.limits.iter().filter_map(|limit| {
        let (times, most) = judge::times(table, row, *limit)?;
        let verdict = verdict(judge::is_beyond(row, times, most));
        Some(format!("{}{verdict}", limit.text()))
    });
    limits.collect::<Vec<_>>().join(", ")
}

/// The range of a row that was measured several times.
fn spread(c: &Counts, ours: &Counts, key: &str) -> Result<String, String> {
    let [[least_c, _, most_c], [least, _, most]] = [c.spread(key)?, ours.spread(key)?];
    Ok(format!("C {least_c} to {most_c}, ours {least} to {most}"))
}

/// The part of the table that compares with C.
fn compared(c: &Counts, ours: &Counts, table: &Table, text: &mut String) -> Result<(), String> {
    let _ = writeln!(
        text,
        "{:<52} {:>11} {:>11} {:>7} {:>11} {:>11} {:>7}  ours at most",
        "instructions", "C", "ours", "ratio", "C's own", "our own", "ratio"
    );
    for row in ROWS.iter().filter(|row| has_c(row.group)) {
        let Some(figure) = table.figures.get(row.key) else {
            continue;
        };
        let mark = if row.is_copy { " [1]" } else { "" };
        let what = format!("{}{mark}", row.text);
        let [theirs, own_figure, mut ratio] = cells(figure.other, figure.ours);
        let mut own = String::new();
        if let (Some((theirs, ours)), Some(ratio)) = (figure.own(), figure.own_ratio()) {
            own = format!("{theirs:>11} {ours:>11} {ratio:>7.3}");
        }
        let rest = match row.unlike {
            Some(why) => {
                (ratio, own) = ("-".into(), String::new());
                format!("no ratio: {why}")
            }
            None if Counts::is_time(row) => spread(c, ours, row.key)?,
            None => limits(table, row),
        };
        let line = format!("{what:<52} {theirs:>11} {own_figure:>11} {ratio:>7} {own:>31}  {rest}");
        add_line(text, &line);
    }
    text.push_str(
        "\nC's own, our own: without what either kernel does for it anyway, as counted of what has no part in \
         user_events.\n[1] Mostly a copy, counted on a processor without ERMS and FSRM, where the kernel copies by eight bytes: \
         no ratio of times.\n",
    );
    Ok(())
}

/// The part without C: each row beside another row of the module.
fn without_c(table: &Table, text: &mut String) {
    let what = "instructions, where there are none of C's";
    text.push('\n');
    line(text, what, ["beside", "this", "ratio"], "at most");
    for row in ROWS {
        if let (Some(ours), Some(beside)) = (table.ours(row.key), row.beside) {
            let cells = cells(table.ours(beside), ours);
            line(text, row.text, cells, &limits(table, row));
        }
    }
}

fn excused(table: &Table, text: &mut String) {
    let is_measured = |entry: &&Exceeded| table.figures.contains_key(entry.row);
    let measured: Vec<_> = EXCEEDED.iter().filter(is_measured).collect();
    if !measured.is_empty() {
        text.push_str("\nlimits known to be exceeded\n");
    }
    for entry in measured {
        let what = format!("{}, {}", entry.row, entry.limit.text());
        let _ = writeln!(
            text,
            "{what:<40} {:.3} since {}: {}",
            entry.measured, entry.since, entry.why
        );
    }
}

fn unused(table: &Table, text: &mut String) {
    let what = "a process that uses no user_events";
    text.push('\n');
    line(text, what, ["no module", "module", "ratio"], "at most");
    for (key, _, what) in UNUSED {
        let figure = table.figures.get(*key).copied().unwrap_or_default();
        let is_exceeded = figure
            .ratio()
            .is_some_and(|ratio| ratio > UNUSED_LIMIT * judge::NOISE);
        let limit = format!("{UNUSED_LIMIT}{}", verdict(is_exceeded));
        line(text, what, cells(figure.other, figure.ours), &limit);
    }
    text.push('\n');
    for (key, what) in ALONE {
        let count = table.ours(key).unwrap_or(0).to_string();
        line(text, what, ["", &count, ""], "");
    }
}

fn by_the_clock(c: &Counts, ours: &Counts, table: &Table, text: &mut String) -> Result<(), String> {
    let what = "records in a second, 12 bytes, ftrace, two CPUs";
    text.push('\n');
    line(text, what, ["C", "ours", "ratio"], "");
    for (key, what) in EACH_SECOND {
        let figure = table.figures.get(*key).copied().unwrap_or_default();
        let cells = cells(figure.other, figure.ours);
        line(text, what, cells, &spread(c, ours, key)?);
    }
    text.push_str("\n[2] The emulator takes its time for REP MOVSB, too, byte by byte.\n\
         [3] In the emulator, by the clock: each of its two CPUs is a thread of the host, of whose processors others take their part. \
         It has no caches, so it does not show what it costs that two CPUs write to one line.\n");
    Ok(())
}

/// Whether `groups` lists existing groups, or is `all`.
fn are_groups(groups: &str) -> bool {
    let is_group = |name: &str| {
        let mut counting = GROUPS.iter().chain(WITHOUT_C);
        [MODULE, BY_THE_CLOCK.0, ALTERNATIVES.0].contains(&name)
            || counting.any(|(group, _)| *group == name)
    };
    groups == "all" || groups.split(',').all(is_group)
}

/// Prints the table of some groups, or of all, and writes table.txt and table.json. `kernel`
/// identifies the kernels.
pub fn make(directory: &str, kernel: &str, groups: &str) -> Result<(), String> {
    if !are_groups(groups) {
        return Err(format!("there are no such groups: {groups}"));
    }
    let c = Counts::of_kernel(directory, "c")?;
    let ours = Counts::of_kernel(directory, "custom")?;
    let mut table = figures(&c, &ours, kernel, groups)?;
    if table.has(ALTERNATIVES.0) {
        table.alternatives = alternatives::read(directory)?;
    }
    let mut text = String::new();
    compared(&c, &ours, &table, &mut text)?;
    excused(&table, &mut text);
    if WITHOUT_C.iter().any(|(group, _)| table.has(group)) {
        without_c(&table, &mut text);
    }
    if table.has(MODULE) {
        unused(&table, &mut text);
    }
    if table.has(BY_THE_CLOCK.0) {
        by_the_clock(&c, &ours, &table, &mut text)?;
    }
    if table.has(ALTERNATIVES.0) {
        text.push_str(&alternatives::text(&table.alternatives));
    }
    print!("{text}");
    // The files that a run with KEEP=1 stores.
    write(
        &format!("{directory}/table.txt"),
        &format!("{LICENCE}\n\n{text}"),
    )?;
    write(&format!("{directory}/table.json"), &table.json())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Counts {
        let mut counts = Counts::default();
        counts.add(text).expect("what a machine printed");
        counts
    }

    /// A count for all rows of a group.
    fn printed(groups: &[&str], count: u64) -> String {
        let rows = ROWS.iter().filter(|row| groups.contains(&row.group));
        let lines = rows.map(|row| format!("bench {} {count}\r\n", row.key));
        lines.collect::<String>() + "bench ended\r\n"
    }

    #[test]
    fn the_least_counts_and_the_median_of_times() {
        let counts = counts("bench a 5\nbench a 3\nbench a 100\n[ 1.0] other\nbench ended\n");
        assert_eq!(counts.least("a"), Ok(3));
        assert_eq!(counts.spread("a"), Ok([3, 5, 100]));
        assert!(counts.least("b").is_err());
    }

    #[test]
    fn a_machine_that_does_not_end_fails() {
        for text in ["bench a 5\n", "bench a 5\nbench failed\n", ""] {
            assert!(Counts::default().add(text).is_err(), "{text}");
        }
        assert!(Counts::default().add("bench a b\nbench ended").is_err());
    }

    #[test]
    fn the_floor_is_the_lesser_of_two_kernels() {
        let groups = ["nothing", "core", "numbers", "instead"];
        let mut c = counts(&printed(&groups, 100));
        let mut ours = counts(&printed(&groups, 90));
        for (counts, null, core) in [(&mut c, 31, 32), (&mut ours, 30, 34)] {
            counts.0.insert("null.write".into(), vec![null]);
            counts.0.insert("core.ftrace".into(), vec![core]);
        }
        let table = figures(&c, &ours, "1-a", &groups.join(",")).expect("a table");
        let figure = table.figures["ftrace.write"];
        assert_eq!((figure.floor, figure.own()), (Some(63), Some((37, 27))));
    }

    #[test]
    fn what_c_has_not_is_set_beside_the_first_group() {
        let groups = ["numbers", "groups"];
        let c = counts(&printed(&groups[..1], 100));
        let ours = counts(&(printed(&groups, 90) + "bench group.perf.write 99\nbench ended"));
        let mut table = figures(&c, &ours, "1-a", &groups.join(",")).expect("a table");
        let figure = |ours| Figure::new(ours, None);
        assert_eq!(table.figures["group.ftrace.write"], figure(90));
        table.figures.insert("group.perf.write".into(), figure(99));
        let mut text = String::new();
        without_c(&table, &mut text);
        let line = text.lines().find(|line| line.contains("perf"));
        let words: Vec<&str> = line.expect("a row").split_whitespace().collect();
        assert_eq!(words[5..9], ["90", "99", "1.100", "1.01"], "{text}");
        assert!(
            text.ends_with("1.000\n") && text.contains("EXCEEDED"),
            "{text}"
        );
        // The comparison with C omits a row that C lacks.
        let mut text = String::new();
        compared(&c, &ours, &table, &mut text).expect("a table");
        assert!(!text.contains("bytes_per_second"), "{text}");
    }

    #[test]
    fn a_row_that_was_not_counted_fails() {
        let [c, mut ours] = [100, 90].map(|count| counts(&printed(&["numbers"], count)));
        assert!(figures(&c, &ours, "1-a", "numbers").is_ok());
        ours.0.remove("perf.writev");
        assert!(figures(&c, &ours, "1-a", "numbers").is_err());
        assert!(
            !are_groups("numbers,letters") && are_groups("numbers,module") && are_groups("all")
        );
    }
}
