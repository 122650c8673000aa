// SPDX-License-Identifier: GPL-2.0

//! The program that tools start, such as behind `perf record --`: this binary with `--write`.

use crate::kit::event::Event;
use crate::kit::wait;
use std::env;
use std::path::Path;
use std::process::ExitCode;

/// The option that makes this binary the writer. Its arguments are a file to wait for, a
/// description, and payloads.
pub const OPTION: &str = "--write";

/// A command line that registers an event by `description`, waits until a consumer is attached and
/// the file `start` exists, and writes a record for each payload.
pub fn command(start: &str, description: &str, payloads: &[&[u8]]) -> Vec<String> {
    let program = env::current_exe().expect("this program's path");
    let program = program.to_str().expect("a path that is text");
    let mut words = [program, OPTION, start, description]
        .map(String::from)
        .to_vec();
    for payload in payloads {
        let digits = payload.iter().map(|byte| format!("{byte:02x}"));
        words.push(digits.collect());
    }
    words
}

fn bytes(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|two| std::str::from_utf8(two).expect("ASCII"))
        .map(|two| u8::from_str_radix(two, 16).expect("hexadecimal digits"))
        .collect()
}

/// Runs the writer; `words` are the arguments behind the option.
// Not inlined, as a test looks for it in the writer's stack.
#[inline(never)]
pub fn main(words: &[String]) -> ExitCode {
    let [start, description, payloads @ ..] = words else {
        panic!("{OPTION} START DESCRIPTION PAYLOAD...");
    };
    let event = Event::new(description);
    event.wait_set();
    wait::until("the file that starts it", || Path::new(start).exists());
    for payload in payloads {
        let payload = bytes(payload);
        assert_eq!(event.write(&payload), Ok(4 + payload.len()));
    }
    ExitCode::SUCCESS
}
