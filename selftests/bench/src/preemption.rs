// SPDX-License-Identifier: GPL-2.0

//! How long preemption is off, of what the plugin `preemption.c` printed.

use crate::rows::table::in_full;
use std::collections::BTreeMap;
use std::fs;

/// A time with preemption off.
struct Section<'a> {
    /// In instructions.
    length: u64,
    begin: &'a str,
}

/// Of a row: of all times, and of those in which code of a module ran.
struct Longest<'a> {
    of_all: Section<'a>,
    of_modules: Section<'a>,
}

/// Reads "off LENGTH BEGIN END module LENGTH BEGIN END".
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
    Some(Longest { of_all, of_modules })
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

    /// The function that an address is in.
    fn at(&self, address: &str) -> &'a str {
        let address = u64::from_str_radix(address, 16).unwrap_or(0);
        let below = self.0.range(..=address).next_back();
        below.map_or("?", |(_, name)| name)
    }
}

/// Prints a table of what a machine printed.
///
/// # Errors
///
/// That it did not come to its end, or measured nothing.
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
    println!(
        "{:<58} {:>8} {:>8}  begins in",
        "instructions with preemption off", "module", "all"
    );
    let mut is_empty = true;
    for (row, title) in in_full() {
        // Some are taken several times.
        let taken = rows.get(row.key).into_iter().flatten();
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
            "{:<58} {:>8} {:>8}  {begins}, {}",
            title,
            of_modules.length,
            of_all.length,
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
            "off 120 ffffffff81000010 ffffffff81000020 module 90 ffffffffc0000010 ffffffffc0000020",
        );
        let longest = longest.expect("a line");
        assert_eq!(
            (longest.of_all.length, longest.of_modules.length),
            (120, 90)
        );
        assert_eq!(longest.of_modules.begin, "ffffffffc0000010");
        for line in ["", "off 1 2 3", "off 1 2 3 modules 1 2 3", "bench off 1"] {
            assert!(parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let symbols = Symbols::of("sym ffffffff81000000 first\nsym ffffffff81000100 second\n");
        assert_eq!(symbols.at("ffffffff810000ff"), "first");
        assert_eq!(symbols.at("ffffffff81000100"), "second");
        assert_eq!(symbols.at("10"), "?");
    }
}
