// SPDX-License-Identifier: GPL-2.0

//! The corpus of the fuzzer: every claim is checked with every entry, of any kind.

use crate::{
    claims,
    entries, //
};
use std::panic::catch_unwind;

/// Checks the claims with the entries in files of the corpus, and prints all that break one.
fn replay(files: [&str; 2]) {
    let mut broken = Vec::new();
    for file in files {
        assert!(lines_of(file) > 0);
        for line in entries::lines(file) {
            let entry = entries::read(line).unwrap_or_else(|| panic!("no entry: {line}"));
            for claim in [claims::description, claims::line, claims::record] {
                if catch_unwind(|| claim(&entry)).is_err() {
                    broken.push(line);
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn descriptions() {
    replay([
        include_str!("../../fuzz/corpus/descriptions"),
        include_str!("../../fuzz/corpus/descriptions.found"),
    ]);
}

#[test]
fn lines() {
    replay([
        include_str!("../../fuzz/corpus/lines"),
        include_str!("../../fuzz/corpus/lines.found"),
    ]);
}

#[test]
fn records() {
    replay([
        include_str!("../../fuzz/corpus/records"),
        include_str!("../../fuzz/corpus/records.found"),
    ]);
}

/// Entries preserve all bytes, and other lines are no entries.
#[test]
fn entries_hold_any_bytes() {
    let all: Vec<u8> = (0..=255).collect();
    for bytes in [&all[..], b"", b"# x ", b"#", b" ", b"x ", b" x", b"\\x20"] {
        let line = entries::write(bytes);
        assert_eq!(entries::read(&line).as_deref(), Some(bytes), "{line}");
        assert_eq!(lines_of(&line), usize::from(!bytes.is_empty()), "{line}");
        assert_eq!(line.trim_end(), line);
    }
    for line in ["\\", "\\y", "\\x", "\\x1", "\\xg0", "\\x+1", "\t", "ü"] {
        assert_eq!(entries::read(line), None, "{line}");
    }
    assert_eq!(lines_of("# comment\n\nentry\n"), 1);
}

fn lines_of(text: &str) -> usize {
    entries::lines(text).count()
}
