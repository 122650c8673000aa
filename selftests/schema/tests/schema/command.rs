// SPDX-License-Identifier: GPL-2.0

//! `user-events check`, which implements the grammar in awk: its verdicts are the schema's, in the
//! words of `error.rs`.

use crate::corpus::DESCRIPTIONS;
use crate::entries;
use crate::event::Description;
use crate::properties::{
    any_text,
    config, //
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{
    Command,
    Stdio, //
};
use std::thread;

const COMMAND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/commands/check");

/// Returns the words of `error.rs` for each error.
fn words() -> HashMap<&'static str, String> {
    let (mut words, mut text) = (HashMap::new(), String::new());
    let all = include_str!("../../../../src/schema/error.rs");
    let (_, cases) = all.split_once("pub enum Error {").expect("the errors");
    for line in cases.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("/// ") {
            text.extend([if text.is_empty() { "" } else { " " }, more]);
        } else if let Some(name) = line.strip_suffix(',') {
            words.insert(name, std::mem::take(&mut text));
        } else if line == "}" {
            break;
        }
    }
    words
}

/// Returns the command's verdicts on these texts, without its notes.
fn verdicts(texts: &[&[u8]]) -> Vec<String> {
    let mut command = Command::new(COMMAND)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("tools/commands/check");
    let mut input = command.stdin.take().expect("its input");
    let lines: Vec<u8> = texts
        .iter()
        .flat_map(|text| [text, &b"\n"[..]].concat())
        .collect();
    let writer = thread::spawn(move || input.write_all(&lines));
    let output = command.wait_with_output().expect("its output");
    writer.join().expect("a thread").expect("all was read");
    lines_of(&output.stdout)
}

fn lines_of(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let lines = text.lines().filter(|line| !line.starts_with("note: "));
    lines.map(str::to_string).collect()
}

/// Checks that a verdict is the schema's.
fn check(text: &[u8], verdict: &str, words: &HashMap<&str, String>) {
    let shown = text.escape_ascii();
    match Description::parse(text) {
        Ok(description) => {
            let (count, bytes) = description.fields().fold((0, 0), |(count, bytes), field| {
                (count + 1, bytes + field.size())
            });
            let plural = |number, what: &str| match number {
                1 => format!("1 {what}"),
                _ => format!("{number} {what}s"),
            };
            let good = format!(
                "good: {}, {}",
                plural(count, "field"),
                plural(bytes, "byte")
            );
            assert_eq!(verdict, good, "{shown}");
        }
        Err(error) => {
            let expected = &words[format!("{error:?}").as_str()];
            let is_said = verdict.starts_with("wrong: ") && verdict.contains(expected.as_str());
            assert!(is_said, "{shown}: {verdict}, and not: {expected}");
        }
    }
}

/// Checks the texts that can be a line.
fn check_all(texts: &[Vec<u8>]) {
    let is_line = |text: &&[u8]| !text.contains(&b'\n') && !text.contains(&0);
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).filter(is_line).collect();
    let (verdicts, words) = (verdicts(&texts), words());
    assert_eq!(verdicts.len(), texts.len());
    for (text, verdict) in texts.iter().zip(&verdicts) {
        check(text, verdict, &words);
    }
}

#[test]
fn the_corpus() {
    let entries = DESCRIPTIONS.into_iter().flat_map(entries::lines);
    let texts: Vec<Vec<u8>> = entries.filter_map(entries::read).collect();
    assert!(texts.len() > 250);
    check_all(&texts);
}

/// Only an argument can contain a newline. The status is 1 if a description is wrong.
#[test]
fn an_argument() {
    let words = words();
    for text in [
        "e \n u8 a;\n u16 b",
        "e struct t a 4\n",
        "e struct t a 4\n\n",
        "e char[4\n] a",
        "a\nb",
        "e u8 a\\n",
        "",
        "-x u8 a",
    ] {
        let argument = OsStr::from_bytes(text.as_bytes());
        let output = Command::new(COMMAND).arg(argument).output().expect("it");
        let verdict = lines_of(&output.stdout).join("\n");
        check(text.as_bytes(), &verdict, &words);
        let status = i32::from(Description::parse(text.as_bytes()).is_err());
        assert_eq!(output.status.code(), Some(status), "{text:?}");
    }
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn random_texts(texts in vec(any_text(), 1..40)) {
        check_all(&texts);
    }
}
