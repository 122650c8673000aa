// SPDX-License-Identifier: GPL-2.0

//! The stored figures of a table: table.json has a line for each row.

use crate::rows::alternatives;
use crate::rows::table::{ALONE, EACH_SECOND, ROWS, UNUSED};
use std::collections::BTreeMap;
use std::fs;

/// The first line of each file.
pub const LICENCE: &str = "SPDX-License-Identifier: GPL-2.0";

/// Reads a file, which need not be valid UTF-8: a console shows any bytes.
pub fn read(path: &str) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub fn write(path: &str, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{path}: {error}"))
}

/// A row's figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    pub ours: u64,
    /// C's figure, or the one without the module.
    pub other: Option<u64>,
    /// The floor of both.
    pub floor: Option<u64>,
}

/// Costs on the stock kernel and on the small one. They are not compared with C.
pub type OnBoth = [u64; 2];

pub fn ratio(ours: u64, other: u64) -> f64 {
    ours as f64 / other.max(1) as f64
}

impl Figure {
    /// A figure without a floor.
    pub fn new(ours: u64, other: Option<u64>) -> Figure {
        Figure {
            ours,
            other,
            floor: None,
        }
    }

    /// Returns the module's figure divided by the other.
    pub fn ratio(&self) -> Option<f64> {
        self.other.map(|other| ratio(self.ours, other))
    }

    /// Returns the parts of C and of the module above the floor.
    pub fn own(&self) -> Option<(u64, u64)> {
        let (other, floor) = (self.other?, self.floor?);
        Some((other.saturating_sub(floor), self.ours.saturating_sub(floor)))
    }

    /// Returns the module's own part divided by C's.
    pub fn own_ratio(&self) -> Option<f64> {
        self.own().map(|(other, ours)| ratio(ours, other))
    }

    /// Returns the module's figure above the floor, or all of it if there is no floor.
    pub fn own_part(&self) -> u64 {
        self.ours.saturating_sub(self.floor.unwrap_or(0))
    }
}

/// The figures of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Identifies the two kernels. If None, no other table is of the same kernels.
    pub kernel: Option<String>,
    /// The groups that were measured, if not all.
    pub groups: Option<String>,
    /// By rows, also those that were timed.
    pub figures: BTreeMap<String, Figure>,
    /// Other ways to record.
    pub alternatives: BTreeMap<String, OnBoth>,
}

impl Table {
    /// Whether this group was measured.
    pub fn has(&self, group: &str) -> bool {
        let groups = self.groups.as_ref();
        groups.is_none_or(|groups| groups.split(',').any(|has| has == group))
    }

    pub fn ours(&self, key: &str) -> Option<u64> {
        self.figures.get(key).map(|figure| figure.ours)
    }

    /// Whether the figures of the rows are comparable with another table's.
    pub fn is_of_the_kernel_of(&self, other: &Table) -> bool {
        self.kernel.is_some() && self.kernel == other.kernel
    }

    pub fn read(path: &str) -> Result<Table, String> {
        Table::parse(&read(path)?).map_err(|line| format!("{path}: {line}"))
    }

    /// Parses the text of table.json. The error is the first invalid line.
    pub fn parse(text: &str) -> Result<Table, String> {
        let mut table = Table::default();
        let is_row = |line: &&str| !matches!(line.trim(), "[" | "]" | "");
        for line in text.lines().filter(is_row) {
            let of = |name: &str| {
                let (_, rest) = line.split_once(&format!("\"{name}\": "))?;
                let end = match rest.strip_prefix('"') {
                    Some(rest) => 1 + rest.find('"')?,
                    None => rest.find([',', '}'])?,
                };
                Some(rest[..end].trim_matches('"'))
            };
            let number = |name: &str| of(name).and_then(|text| text.parse().ok());
            let figure = number("ours").map(|ours| Figure {
                ours,
                other: number("c"),
                floor: number("floor"),
            });
            let on_both = number("stock").zip(number("small"));
            if let (Some(key), Some(figure)) = (of("key").or(of("timed")), figure) {
                table.figures.insert(key.into(), figure);
            } else if let (Some(key), Some((stock, small))) = (of("alternative"), on_both) {
                table.alternatives.insert(key.into(), [stock, small]);
            } else if let Some(kernel) = of("kernel") {
                table.kernel = Some(kernel.into());
            } else if let Some(groups) = of("groups") {
                table.groups = Some(groups.into());
            } else if of("license").is_none() {
                return Err(line.into());
            }
        }
        Ok(table)
    }

    /// The text of table.json.
    pub fn json(&self) -> String {
        let mut lines = vec![format!("{{\"license\": \"{LICENCE}\"}}")];
        for (name, value) in [("kernel", &self.kernel), ("groups", &self.groups)] {
            lines.extend(
                value
                    .iter()
                    .map(|value| format!("{{\"{name}\": \"{value}\"}}")),
            );
        }
        let keys = ROWS.iter().map(|row| row.key);
        let keys = keys.chain(UNUSED.iter().map(|(key, ..)| *key));
        let keys = keys.chain(ALONE.iter().map(|(key, _)| *key));
        lines.extend(keys.filter_map(|key| Some(json_row("key", key, self.figures.get(key)?))));
        let timed = EACH_SECOND.iter().map(|(key, _)| key);
        lines.extend(timed.filter_map(|key| Some(json_row("timed", key, self.figures.get(*key)?))));
        lines.extend(alternatives::keys().iter().filter_map(|key| {
            let [stock, small] = self.alternatives.get(key)?;
            Some(format!(
                "{{\"alternative\": \"{key}\", \"stock\": {stock}, \"small\": {small}}}"
            ))
        }));
        format!("[\n  {}\n]\n", lines.join(",\n  "))
    }
}

/// Formats a row as JSON, with `key` in the field `kind`.
fn json_row(kind: &str, key: &str, figure: &Figure) -> String {
    let mut fields = vec![format!("\"{kind}\": \"{key}\"")];
    if let Some(other) = figure.other {
        fields.push(format!("\"c\": {other}"));
    }
    fields.push(format!("\"ours\": {}", figure.ours));
    if let Some(ratio) = figure.ratio() {
        fields.push(format!("\"ratio\": {ratio:.4}"));
    }
    if let Some(floor) = figure.floor {
        fields.push(format!("\"floor\": {floor}"));
    }
    if let Some(ratio) = figure.own_ratio() {
        fields.push(format!("\"own_ratio\": {ratio:.4}"));
    }
    format!("{{{}}}", fields.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_written() {
        let kept = include_str!("../figures/table.json");
        let mut table = Table::parse(kept).expect("the figures that are kept");
        assert_eq!(table.json(), kept);
        table.groups = Some("numbers,module".into());
        assert_eq!(Table::parse(&table.json()), Ok(table));
        for line in [
            r#"{"alternative": "lttng.12", "stock": 3}"#,
            r#"{"key": "call", "c": 3}"#,
            r#"{"timed": "writers.1"}"#,
            "{}",
        ] {
            assert_eq!(Table::parse(line), Err(line.into()));
        }
    }
}
