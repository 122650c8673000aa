// SPDX-License-Identifier: GPL-2.0

//! Runs the program as the scripts do.

use std::{
    fs,
    process::Command, //
};

const CLEAN: &str =
    "[    0.000000] Linux version 7\n[    1.200000] user_events: loaded, version 1.0.0\n";

/// Makes a file of this name for one test, and returns its path.
fn file(name: &str, text: impl AsRef<[u8]>) -> String {
    let path = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
    fs::write(&path, text).unwrap();
    path
}

/// Returns the exit status and the standard output.
fn run(words: &[&str]) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_kernel-log");
    let output = Command::new(program).args(words).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), said)
}

#[test]
fn a_clean_log_is_status_0_and_silence() {
    let log = &file("clean", CLEAN);
    assert_eq!(run(&["check", log]), (Some(0), String::new()));
    assert_eq!(run(&["check", log, log]), (Some(0), String::new()));
}

/// The test of faults parses the lines with `|` before them.
#[test]
fn a_report_is_status_1_and_shown_with_its_line() {
    let clean = &file("clean-beside-reports", CLEAN);
    let log = &file("reports", format!("{CLEAN}[    2.000000] Oops: one\n"));
    let shown = format!("  unexpected in the kernel's log ({log}):\n    | 3:Oops: one\n");
    assert_eq!(run(&["check", log]), (Some(1), shown.clone()));
    assert_eq!(run(&["check", log, clean]), (Some(1), shown.clone()));
    assert_eq!(run(&["check", clean, log]), (Some(1), shown));
}

#[test]
fn a_log_that_is_missing_or_empty_is_status_1() {
    for log in [&file("empty", ""), "/nothing/here"] {
        let shown = format!("  there is no kernel log: {log}\n");
        assert_eq!(run(&["check", log]), (Some(1), shown.clone()));
        assert_eq!(run(&["check", "--part", log]), (Some(1), shown));
    }
}

#[test]
fn each_option_allows_what_it_is_for() {
    let faults = format!("{CLEAN}Could not create directory for event one\n");
    let of_c = format!("{CLEAN}user_events: Fault for mm: 0x1 @ 0x2 event: one\n");
    let logs = [
        ("--with-faults", file("with-faults", faults)),
        ("--of-c", file("of-c", of_c)),
        ("--part", file("part", "user_events: unloaded\n")),
    ];
    for (option, log) in &logs {
        assert_eq!(run(&["check", log]).0, Some(1), "{option}");
        for (other, _) in &logs {
            let status = run(&["check", other, log]).0;
            assert_eq!(status, Some(i32::from(other != option)), "{other} {option}");
        }
    }
}

#[test]
fn bytes_that_are_no_utf8_are_read() {
    let bytes = [CLEAN.as_bytes(), b"\xff\xfe\nOops\xff\n"].concat();
    let (status, said) = run(&["check", &file("bytes", bytes)]);
    assert_eq!(status, Some(1));
    assert!(said.contains("| 4:Oops"), "{said}");
}

#[test]
fn the_emulators_fault_is_status_0() {
    let report = "Oops: int3: 0000 [#1] SMP\r\nRIP: 0010:one+0x1/0x2\r\n";
    let (status, said) = run(&["emulator-fault", &file("console", report)]);
    assert_eq!(status, Some(0));
    assert!(said.contains("(Oops: int3)"), "{said}");
    let other = &file("other-console", CLEAN);
    assert_eq!(run(&["emulator-fault", other]), (Some(1), String::new()));
    assert_eq!(run(&["emulator-fault", "/nothing/here"]).0, Some(2));
}

#[test]
fn what_it_does_not_know_is_status_2() {
    for words in [
        &[][..],
        &["check"],
        &["check", "--part"],
        &["check", "--other", "one"],
        &["emulator-fault"],
        &["emulator-fault", "one", "two"],
        &["one"],
    ] {
        assert_eq!(run(words), (Some(2), String::new()), "{words:?}");
    }
}
