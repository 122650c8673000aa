// SPDX-License-Identifier: GPL-2.0

//! `dynamic_events`: events made, listed and deleted by lines of text.

use crate::kit::errno::Result;
use crate::kit::status::Status;
use crate::kit::{tracefs, wait};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub fn path() -> PathBuf {
    Path::new(tracefs::ROOT).join("dynamic_events")
}

/// Writes a line to the file, in one piece.
pub fn run(text: &str) -> Result<()> {
    tracefs::append_line("dynamic_events", text)
}

/// The event of a kprobe; deleted when dropped, as soon as it is unused.
pub struct Probe(String);

impl Probe {
    /// `kind` is `p` or `r`, `name` is `GROUP/NAME`, and `what` has the function and its arguments.
    #[track_caller]
    pub fn new(kind: char, name: &str, what: &str) -> Probe {
        let line = format!("{kind}:{name} {what}");
        let made = tracefs::append_line("kprobe_events", &line);
        made.unwrap_or_else(|errno| panic!("{line}: {errno:?}"));
        Probe(name.into())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // The kernel releases a perf event shortly after the close.
        wait::eventually(|| run(&format!("-:{}", self.0)).is_ok());
    }
}

/// Opens the file with O_TRUNC, as a shell's `>` does, which deletes all events.
pub fn truncate() -> Result<()> {
    File::options().write(true).truncate(true).open(path())?;
    Ok(())
}

pub fn lines() -> Vec<String> {
    let text = fs::read_to_string(path()).expect("read dynamic_events");
    text.lines().map(String::from).collect()
}

pub fn user_lines() -> Vec<String> {
    let mut lines = lines();
    lines.retain(|line| line.starts_with("u:"));
    lines
}

/// The events that [`make_all_kinds`] makes, in tracefs: of a kprobe, a synthetic one, and a user
/// event.
pub const OF_EACH_KIND: [&str; 3] = [
    "st_kinds/st_trunc_probe",
    "synthetic/st_trunc_synthetic",
    "st_trunc_ours",
];

/// Makes an event of each kind, attached to nothing. Panics if the kernel lacks a kind.
#[track_caller]
pub fn make_all_kinds() {
    assert_eq!(lines(), [""; 0], "events of another test");
    for line in [
        "p:st_kinds/st_trunc_probe vfs_fsync",
        "s:st_trunc_synthetic u64 delay; pid_t pid",
        "u:st_trunc_ours u32 a",
    ] {
        run(line).unwrap_or_else(|errno| panic!("{line}: {errno:?}"));
    }
    assert_eq!(lines().len(), 3);
}

/// Returns which of these events have a directory in tracefs.
pub fn kinds_there() -> [bool; 3] {
    OF_EACH_KIND.map(tracefs::event_exists)
}

/// Checks that no dynamic event is left.
#[track_caller]
pub fn no_kind_is_left() {
    assert_eq!(kinds_there(), [false; 3]);
    assert_eq!(lines(), [""; 0]);
    assert_eq!(Status::now().active, 0);
}
