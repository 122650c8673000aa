// SPDX-License-Identifier: GPL-2.0

//! The table of times with preemption and interrupts off, from the output of the plugin
//! `preemption.c`.

use crate::rows::table::in_full;
use crate::rows::writing::LONG_TO_PERF;
use std::collections::BTreeMap;
use std::fs;

/// A time with preemption or interrupts off.
struct Section<'a> {
    /// In instructions.
    length: u64,
    begin: &'a str,
}

/// The longest times of a row: of all, of those in which a module's code ran, and of a module with
/// interrupts off.
struct Longest<'a> {
    of_all: Section<'a>,
    of_modules: Section<'a>,
    of_interrupts: Section<'a>,
}

/// Reads "off LENGTH BEGIN END module LENGTH BEGIN END interrupts LENGTH BEGIN END".
fn parse(line: &str) -> Option<Longest<'_>> {
    let mut words = line.split_whitespace();
    let mut section = |word| {
        let is_it = words.next()? == word;
        let length = words.next()?.parse().ok()?;
        let begin = words.next()?;
        words.next()?;
        is_it.then_some(Section { length, begin })
    };
    let of_all = section("off")?;
    let of_modules = section("module")?;
    let of_interrupts = section("interrupts")?;
    Some(Longest {
        of_all,
        of_modules,
        of_interrupts,
    })
}

/// The kernel's functions by their addresses.
struct Symbols<'a>(BTreeMap<u64, &'a str>);

impl<'a> Symbols<'a> {
    fn of(text: &'a str) -> Symbols<'a> {
        let symbols = text.lines().filter_map(|line| {
            let (address, name) = line.trim().strip_prefix("sym ")?.split_once(' ')?;
            Some((u64::from_str_radix(address, 16).ok()?, name))
        });
        Symbols(symbols.collect())
    }

    fn at(&self, address: &str) -> &'a str {
        let address = u64::from_str_radix(address, 16).unwrap_or(0);
        let below = self.0.range(..=address).next_back();
        below.map_or("?", |(_, name)| name)
    }
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
    let read = |file: &str| fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
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
    let text = fs::read(console).map_err(|error| format!("{console}: {error}"))?;
    let text = String::from_utf8_lossy(&text);
    if !text.lines().any(|line| line.trim() == "bench ended") {
        return Err(format!(
            "{console}: the measurement did not come to its end"
        ));
    }
    let symbols = Symbols::of(&text);
    let mut key = None;
    let mut rows = BTreeMap::<&str, Vec<Longest>>::new();
    for line in text.lines().map(str::trim) {
        if let Some((told, _)) = line
            .strip_prefix("bench ")
            .and_then(|line| line.split_once(' '))
        {
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
        let Some(least) = taken.min_by_key(|longest| longest.of_modules.length) else {
            continue;
        };
        is_empty &= least.of_all.length == 0;
        let (of_modules, of_all) = (&least.of_modules, &least.of_all);
        let begins = match of_modules.length {
            0 => "-",
            _ => symbols.at(of_modules.begin),
        };
        println!(
            "{:<58} {:>8} {:>8} {:>10}  {begins}, {}",
            title,
            of_modules.length,
            of_all.length,
            least.of_interrupts.length,
            symbols.at(of_all.begin)
        );
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
        let longest = parse(
            "off 120 ffffffff81000010 ffffffff81000020 module 90 ffffffffc0000010 ffffffffc0000020 \
             interrupts 30 ffffffffc0000014 ffffffffc0000018",
        );
        let longest = longest.expect("a line");
        assert_eq!(
            (longest.of_all.length, longest.of_modules.length),
            (120, 90)
        );
        assert_eq!(longest.of_interrupts.length, 30);
        assert_eq!(longest.of_modules.begin, "ffffffffc0000010");
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
        let symbols = Symbols::of("sym ffffffff81000000 first\nsym ffffffff81000100 second\n");
        assert_eq!(symbols.at("ffffffff810000ff"), "first");
        assert_eq!(symbols.at("ffffffff81000100"), "second");
        assert_eq!(symbols.at("10"), "?");
    }
}
