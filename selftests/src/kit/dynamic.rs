// SPDX-License-Identifier: GPL-2.0

//! `dynamic_events`: events made, listed and deleted by lines of text.

use crate::kit::errno::Result;
use crate::kit::status::Status;
use crate::kit::{tracefs, wait};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where it is.
pub fn path() -> PathBuf {
    Path::new(tracefs::ROOT).join("dynamic_events")
}

/// Writes text to the file, in one piece.
pub fn run(text: &str) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(path())?;
    let length = file.write(format!("{text}\n").as_bytes())?;
    assert_eq!(length, text.len() + 1, "took a part of {text:?}");
    Ok(())
}

/// A kprobe's event; deleted when dropped, once it is not used.
pub struct Probe(String);

impl Probe {
    /// `kind` is `p` or `r`, `name` has a group and a name, and `what` is the function with what is to be recorded.
    #[track_caller]
    pub fn new(kind: char, name: &str, what: &str) -> Probe {
        let line = format!("{kind}:{name} {what}");
        tracefs::append("kprobe_events", &line).unwrap_or_else(|errno| panic!("{line}: {errno:?}"));
        Probe(name.into())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // The kernel lets go of a perf event a moment after it is closed.
        wait::eventually(|| run(&format!("-:{}", self.0)).is_ok());
    }
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

/// What [`make_all_kinds`] makes, as tracers know it: a kprobe event, a synthetic event and ours.
pub const OF_EACH_KIND: [&str; 3] = [
    "st_kinds/st_trunc_probe",
    "synthetic/st_trunc_synthetic",
    "st_trunc_ours",
];

/// Makes an event of each kind, none of which is attached anywhere. Panics if the kernel lacks a kind.
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

/// Which of them the trace core shows, by the events' directories.
pub fn kinds_there() -> [bool; 3] {
    OF_EACH_KIND.map(tracefs::event_exists)
}

/// None of them is left, nor any other dynamic event.
#[track_caller]
pub fn no_kind_is_left() {
    assert_eq!(kinds_there(), [false; 3]);
    assert_eq!(lines(), [""; 0]);
    assert_eq!(Status::now().active, 0);
}
