// SPDX-License-Identifier: GPL-2.0

//! `dynamic_events`: events made, listed and deleted by lines of text.

use crate::kit::errno::Result;
use crate::kit::tracefs;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

fn path() -> PathBuf {
    Path::new(tracefs::ROOT).join("dynamic_events")
}

/// Writes text to the file, in one piece.
pub fn run(text: &str) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(path())?;
    let length = file.write(format!("{text}\n").as_bytes())?;
    assert_eq!(length, text.len() + 1, "took a part of {text:?}");
    Ok(())
}

/// Opens it as a shell's `>` does: that deletes all events.
pub fn truncate() -> Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path())?;
    Ok(())
}

/// What it lists, of all kinds of events.
pub fn lines() -> Vec<String> {
    let text = fs::read_to_string(path()).expect("read dynamic_events");
    text.lines().map(String::from).collect()
}

/// What it lists of user events.
pub fn user_lines() -> Vec<String> {
    let mut lines = lines();
    lines.retain(|line| line.starts_with("u:"));
    lines
}
