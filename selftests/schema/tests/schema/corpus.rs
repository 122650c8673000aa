// SPDX-License-Identifier: GPL-2.0

//! The corpus of the fuzzer: every claim is checked with every entry, of any kind.

use crate::{
    claims,
    entries, //
};
use std::panic::catch_unwind;

pub const DESCRIPTIONS: [&str; 2] = [
    include_str!("../../fuzz/corpus/descriptions"),
    include_str!("../../fuzz/corpus/descriptions.found"),
];
const LINES: [&str; 2] = [
    include_str!("../../fuzz/corpus/lines"),
    include_str!("../../fuzz/corpus/lines.found"),
];
const RECORDS: [&str; 2] = [
    include_str!("../../fuzz/corpus/records"),
    include_str!("../../fuzz/corpus/records.found"),
];

/// All entries that break a claim are printed.
#[test]
fn every_entry() {
    let mut broken = Vec::new();
    for file in [DESCRIPTIONS, LINES, RECORDS].concat() {
        assert!(entries::lines(file).count() > 0);
        for line in entries::lines(file) {
            let entry = entries::read(line).unwrap_or_else(|| panic!("no entry: {line}"));
            let again = entries::read(&entries::write(&entry));
            assert_eq!(again.as_ref(), Some(&entry), "{line}");
            for claim in [claims::description, claims::line, claims::record] {
                if catch_unwind(|| claim(&entry)).is_err() {
                    broken.push(line);
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
