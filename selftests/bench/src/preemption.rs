// SPDX-License-Identifier: GPL-2.0

//! The table of times with preemption and interrupts off, from the output of the plugin
//! `preemption.c`.

use crate::figures::read;
use crate::rows::table::in_full;
use crate::rows::writing::LONG_TO_PERF;
use std::collections::BTreeMap;

/// The longest times of a row, in instructions, and the addresses at which they begin: of all, of
/// those in which a module's code ran, and of a module with interrupts off.
type Longest<'a> = [(u64, &'a str); 3];

/// Reads "off LENGTH BEGIN END module LENGTH BEGIN END interrupts LENGTH BEGIN END".
fn parse(line: &str) -> Option<Longest<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["off", all, of_all, _, "module", module, of_module, _, "interrupts", off, of_off, _] =
        words[..]
    else {
        return None;
    };
    let section = |length: &str, begin| Some((length.parse().ok()?, begin));
    Some([
        section(all, of_all)?,
        section(module, of_module)?,
        section(off, of_off)?,
    ])
}

/// The kernel's functions by their addresses.
type Symbols<'a> = BTreeMap<u64, &'a str>;

fn symbols(text: &str) -> Symbols<'_> {
    let symbols = text.lines().filter_map(|line| {
        let (address, name) = line.trim().strip_prefix("sym ")?.split_once(' ')?;
        Some((u64::from_str_radix(address, 16).ok()?, name))
    });
    symbols.collect()
}

/// Returns the function that begins at or before an address.
fn function_at<'a>(symbols: &Symbols<'a>, address: &str) -> &'a str {
    let address = u64::from_str_radix(address, 16).unwrap_or(0);
    let below = symbols.range(..=address).next_back();
    below.map_or("?", |(_, name)| name)
}

/// Returns the longest time allowed for this stored one. A length is exact to one basic block, and
/// the kernel's state varies.
fn allowed(kept: u64) -> u64 {
    match kept {
        0 => 0,
        _ => kept + kept / 50 + 50,
    }
}

/// Parses a line of the table: title, and the module's instructions with preemption and with
/// interrupts off.
fn row(line: &str) -> Option<(String, [u64; 2])> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [title @ .., module, _, interrupts, _, _] = &words[..] else {
        return None;
    };
    Some((
        title.join(" "),
        [module.parse().ok()?, interrupts.parse().ok()?],
    ))
}

/// Returns the rows that are worse than in the stored table, or missing there.
fn worse(now: &str, kept: &str) -> Vec<String> {
    let kept: BTreeMap<String, [u64; 2]> = kept.lines().filter_map(row).collect();
    let judge = |(title, lengths): (String, [u64; 2])| {
        let Some(kept) = kept.get(&title) else {
            return Some(format!("{title}: no figure is kept"));
        };
        let mut all = lengths.iter().zip(kept).zip(["preemption", "interrupts"]);
        let ((length, kept), what) = all.find(|((length, kept), _)| **length > allowed(**kept))?;
        Some(format!(
            "{title}: {length} instructions with {what} off, and {kept} are kept"
        ))
    };
    now.lines().filter_map(row).filter_map(judge).collect()
}

/// Prints the rows that are worse than in the stored table.
///
/// # Errors
///
/// If there are such rows, or no rows at all.
pub fn check(now: &str, kept: &str) -> Result<(), String> {
    let now = read(now)?;
    let worse = worse(&now, &read(kept)?);
    for row in &worse {
        println!("  FAILED  {row}");
    }
    let rows = now.lines().filter_map(row).count();
    println!("\n{} passed, {} failed", rows - worse.len(), worse.len());
    match (rows, worse.len()) {
        (0, _) => Err("the table has no rows".into()),
        (_, 0) => Ok(()),
        (_, count) => Err(format!("{count} rows are worse than what is kept")),
    }
}

/// Prints the table of a machine's output.
///
/// # Errors
///
/// If the output has no end, or no measurement.
pub fn table(console: &str) -> Result<(), String> {
    let text = read(console)?;
    if !text.lines().any(|line| line.trim() == "bench ended") {
        return Err(format!(
            "{console}: the measurement did not come to its end"
        ));
    }
    let symbols = symbols(&text);
    let mut key = None;
    let mut rows = BTreeMap::<&str, Vec<Longest>>::new();
    for line in text.lines().map(str::trim) {
        if let ["bench", told, _] = line.split(' ').collect::<Vec<_>>()[..] {
            key = Some(told);
        } else if let (Some(key), Some(longest)) = (key, parse(line)) {
            rows.entry(key).or_default().push(longest);
        }
    }
    println!("SPDX-License-Identifier: GPL-2.0\n");
    println!(
        "{:<58} {:>8} {:>8} {:>10}  begins in",
        "instructions with preemption off", "module", "all", "interrupts"
    );
    let mut is_empty = true;
    let of_perf = LONG_TO_PERF.map(|(key, title, _)| (key, title.to_string()));
    let all = in_full().into_iter().map(|(row, title)| (row.key, title));
    for (key, title) in all.chain(of_perf) {
        // Some rows are measured several times.
        let taken = rows.get(key).into_iter().flatten();
        let least = taken.min_by_key(|[_, (of_modules, _), _]| of_modules);
        let Some([(all, in_all), (of_modules, in_module), (interrupts, _)]) = least else {
            continue;
        };
        is_empty &= *all == 0;
        let begins = match of_modules {
            0 => "-",
            _ => function_at(&symbols, in_module),
        };
        let in_all = function_at(&symbols, in_all);
        println!("{title:<58} {of_modules:>8} {all:>8} {interrupts:>10}  {begins}, {in_all}");
    }
    match is_empty {
        true => Err(format!(
            "{console}: preemption was never off: the plugin did not see the kernel's count"
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_plugin_is_read() {
        let longest = parse("off 120 f10 f20 module 90 c10 c20 interrupts 30 c14 c18");
        assert_eq!(longest, Some([(120, "f10"), (90, "c10"), (30, "c14")]));
        for line in [
            "",
            "off 1 2 3",
            "off 1 2 3 module 1 2 3",
            "off 1 2 3 modules 1 2 3 interrupts 1 2 3",
            "bench off 1",
        ] {
            assert!(parse(line).is_none(), "{line}");
        }
    }

    const KEPT: &str = "instructions with preemption off  module  all  interrupts  begins in\n\
        fork                      0    300   0  -, schedule\n\
        write of 12 bytes       682    682  90  lock, lock\n";

    #[test]
    fn what_takes_longer_is_told() {
        let now = |fork: u64, write: u64| {
            let rows = KEPT.replace("    0    300", &format!("    {fork} 300"));
            worse(&rows.replace("682    682", &format!("{write} 682")), KEPT)
        };
        assert!(now(0, 682).is_empty() && now(0, 745).is_empty());
        assert_eq!(
            now(0, 746),
            ["write of 12 bytes: 746 instructions with preemption off, and 682 are kept"]
        );
        assert_eq!(
            now(1, 1),
            ["fork: 1 instructions with preemption off, and 0 are kept"]
        );
        assert_eq!(
            worse(&KEPT.replace("  90  ", " 142  "), KEPT),
            ["write of 12 bytes: 142 instructions with interrupts off, and 90 are kept"]
        );
        assert_eq!(worse("exit 0 1 0 -, a", KEPT), ["exit: no figure is kept"]);
    }

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let symbols = symbols("sym ffffffff81000000 first\nsym ffffffff81000100 second\n");
        let found = ["ffffffff810000ff", "ffffffff81000100", "10"];
        let found = found.map(|address| function_at(&symbols, address));
        assert_eq!(found, ["first", "second", "?"]);
    }
}
