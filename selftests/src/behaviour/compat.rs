// SPDX-License-Identifier: GPL-2.0

//! 32-bit programs on a 64-bit kernel: `selftests/c/compat.c`.

use crate::harness::tests;
use crate::kit::tool;
use std::path::PathBuf;
use std::process::Command;

tests!("compat":
    a_32_bit_program_gets_what_others_get.skip_if(something_is_missing).limit(300),
);

/// The program compiled for 32 bits, and its peer: the same for 64.
fn programs() -> [PathBuf; 2] {
    ["compat-32", "compat-64"].map(tool::built_program)
}

fn something_is_missing() -> Option<String> {
    let missing = programs().into_iter().find(|program| !program.exists())?;
    let path = missing.display();
    Some(format!(
        "there is no {path}: selftests/machine/build programs makes it"
    ))
}

fn a_32_bit_program_gets_what_others_get() {
    let [program, peer] = programs();
    let output = Command::new(program).arg(peer).output();
    let output = output.expect("start the 32-bit program");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("ok "))
        .collect();
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        lines.join("; ")
    );
}
