// SPDX-License-Identifier: GPL-2.0

//! Runs the program as the scripts do.

use std::{
    fs,
    path::PathBuf,
    process::Command, //
};

const CLEAN: &str =
    "[    0.000000] Linux version 7\n[    1.200000] user_events: loaded, version 1.0.0\n";

/// Makes a file of this name for one test.
fn file(name: &str, text: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
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
    let log = file("clean", CLEAN.as_bytes());
    let log = log.to_str().unwrap();
    assert_eq!(run(&["check", log]), (Some(0), String::new()));
    assert_eq!(run(&["check", log, log]), (Some(0), String::new()));
}

/// The test of faults parses the lines with `|` before them.
#[test]
fn a_report_is_status_1_and_shown_with_its_line() {
    let clean = file("clean-beside-reports", CLEAN.as_bytes());
    let log = file(
        "reports",
        format!("{CLEAN}[    2.000000] Oops: one\n").as_bytes(),
    );
    let (clean, log) = (clean.to_str().unwrap(), log.to_str().unwrap());
    let shown = format!("  unexpected in the kernel's log ({log}):\n    | 3:Oops: one\n");
    assert_eq!(run(&["check", log]), (Some(1), shown.clone()));
    assert_eq!(run(&["check", log, clean]), (Some(1), shown.clone()));
    assert_eq!(run(&["check", clean, log]), (Some(1), shown));
}

#[test]
fn a_log_that_is_missing_or_empty_is_status_1() {
    let empty = file("empty", b"");
    let empty = empty.to_str().unwrap();
    for log in [empty, "/nothing/here"] {
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
        ("--with-faults", file("with-faults", faults.as_bytes())),
        ("--of-c", file("of-c", of_c.as_bytes())),
        (
            "--part",
            file("part", b"user_events: loaded, version 1.0.0\n"),
        ),
    ];
    for (option, log) in &logs {
        let log = log.to_str().unwrap();
        assert_eq!(run(&["check", log]).0, Some(1), "{option}");
        for (other, _) in &logs {
            let expected = if other == option { 0 } else { 1 };
            assert_eq!(
                run(&["check", other, log]).0,
                Some(expected),
                "{other} {option}"
            );
        }
    }
}

#[test]
fn bytes_that_are_no_utf8_are_read() {
    let log = file(
        "bytes",
        &[CLEAN.as_bytes(), b"\xff\xfe\nOops\xff\n"].concat(),
    );
    let (status, said) = run(&["check", log.to_str().unwrap()]);
    assert_eq!(status, Some(1));
    assert!(said.contains("| 4:Oops"), "{said}");
}

#[test]
fn the_emulators_fault_is_status_0() {
    let report = "Oops: int3: 0000 [#1] SMP\r\nRIP: 0010:one+0x1/0x2\r\n";
    let console = file("console", report.as_bytes());
    let console = console.to_str().unwrap();
    let (status, said) = run(&["emulator-fault", console]);
    assert_eq!(status, Some(0));
    assert!(said.contains("(Oops: int3)"), "{said}");
    let other = file("other-console", CLEAN.as_bytes());
    let other = other.to_str().unwrap();
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
