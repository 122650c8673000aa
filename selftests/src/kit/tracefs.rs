// SPDX-License-Identifier: GPL-2.0

//! tracefs: events, and the instances that trace them.

use crate::kit::abi::{Data, STATUS};
use crate::kit::errno::{Errno, Result};
use crate::kit::ring::{self, Record};
use crate::kit::{dynamic, machine, os};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub const ROOT: &str = "/sys/kernel/tracing";

/// The prefix of all events and instances of the tests.
pub const PREFIX: &str = "st_";

fn read(path: &Path) -> String {
    let mut file = open(path, 0);
    let (mut bytes, mut part) = (Vec::new(), vec![0; 1 << 16]);
    // In large parts: some files return no more than fits into the first read.
    loop {
        match file.read(&mut part) {
            Ok(0) => return String::from_utf8_lossy(&bytes).into_owned(),
            Ok(length) => bytes.extend(&part[..length]),
            Err(error) => panic!("read {}: {error}", path.display()),
        }
    }
}

/// Appends text to a file in the root of tracefs, in one piece. Returns the number of bytes taken.
pub fn append(file: &str, text: &str) -> Result<usize> {
    let path = Path::new(ROOT).join(file);
    let mut file = File::options().append(true).open(path)?;
    Ok(file.write(text.as_bytes())?)
}

/// Appends a line, or several, all of which must be taken.
pub fn append_line(file: &str, line: &str) -> Result<()> {
    let length = append(file, &format!("{line}\n"))?;
    assert_eq!(length, line.len() + 1, "took a part of {line:?}");
    Ok(())
}

/// Returns whether larger sub-buffers allow longer records. Before 7.3 a ring buffer keeps the
/// limit of its creation.
pub fn sub_buffers_set_the_limit() -> bool {
    os::kernel_version() >= (7, 3)
}

/// Returns whether an instance is limited to records of a page, as the obstacle of a test.
pub fn lacks_long_records() -> Option<String> {
    (!sub_buffers_set_the_limit()).then(|| "this kernel's records are no longer than a page".into())
}

/// Writes a control file as a shell does, but without O_CREAT: with it, the error for a file that
/// was removed with its event is EACCES, not ENOENT.
pub fn replace(path: &Path, value: &str) -> Result<()> {
    let mut file = File::options().write(true).truncate(true).open(path)?;
    Ok(file.write_all(value.as_bytes())?)
}

/// The system of the events that are alone with their name.
pub const GROUP: &str = "user_events";

/// The system of the events that share their name with other formats.
pub const MULTI_GROUP: &str = "user_events_multi";

pub fn group_dir(group: &str) -> PathBuf {
    Path::new(ROOT).join("events").join(group)
}

/// The directory of an event in an instance. The event is `NAME` if in [`GROUP`], else
/// `GROUP/NAME`.
fn event_dir(tracer: &Path, event: &str) -> PathBuf {
    let events = tracer.join("events");
    match event.contains('/') {
        true => events.join(event),
        false => events.join(GROUP).join(event),
    }
}

fn top_dir(event: &str) -> PathBuf {
    event_dir(Path::new(ROOT), event)
}

pub fn event_exists(name: &str) -> bool {
    top_dir(name).join("id").exists()
}

/// The event's id for perf and the ring buffer.
pub fn event_id(name: &str) -> u64 {
    let id = read(&top_dir(name).join("id"));
    id.trim().parse().expect("an event's id")
}

pub fn event_format(name: &str) -> String {
    read(&top_dir(name).join("format"))
}

/// The number of events of the first group, of any name and format.
pub fn count_of_events() -> usize {
    machine::number_in(STATUS, "Active") as usize
}

/// The systems of user events: those of the first group, then those of other groups.
pub fn systems() -> Vec<String> {
    let mut systems = names_starting_with(GROUP, &Path::new(ROOT).join("events"));
    systems.sort();
    systems
}

pub fn events_of_tests() -> Vec<String> {
    let named = |system: String| {
        let names = names_in(&group_dir(&system)).into_iter();
        names.map(move |name| match system == GROUP {
            true => name,
            false => format!("{system}/{name}"),
        })
    };
    systems().into_iter().flat_map(named).collect()
}

/// The formats of a name of the first group, by age.
pub fn formats_of(name: &str) -> Vec<String> {
    formats_in(MULTI_GROUP, name)
}

/// The formats of a name in a system, by age.
pub fn formats_in(system: &str, name: &str) -> Vec<String> {
    let start = format!("{name}.");
    let with_id = |full: String| {
        let id = u64::from_str_radix(full.strip_prefix(&start)?, 16).ok()?;
        Some((id, format!("{system}/{full}")))
    };
    let names = names_in(&group_dir(system)).into_iter();
    let mut found: Vec<_> = names.filter_map(with_id).collect();
    found.sort();
    found.into_iter().map(|(_, event)| event).collect()
}

fn names_in(dir: &Path) -> Vec<String> {
    names_starting_with(PREFIX, dir)
}

/// The names in a directory that start with `start`.
pub fn names_starting_with(start: &str, dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with(start)).collect()
}

/// Detaches everything that a failed test left attached.
pub fn detach_everything() {
    let instances = Path::new(ROOT).join("instances");
    for name in names_in(&instances) {
        let _ = fs::remove_dir(instances.join(name));
    }
    for name in events_of_tests() {
        let top = TraceInstance::top();
        let triggers = fs::read_to_string(top.file(&name, "trigger")).unwrap_or_default();
        for line in triggers.lines().filter(|line| !line.starts_with('#')) {
            let trigger = line.split(" [").next().unwrap();
            let _ = fs::write(top.file(&name, "trigger"), format!("!{trigger}"));
        }
        let _ = fs::write(top.file(&name, "enable"), "0");
    }
    // Other kinds of events, too, so that all unused dynamic events can be deleted.
    let _ = fs::write(Path::new(ROOT).join("events/enable"), "0");
    let _ = dynamic::truncate();
}

/// Deletes the persistent events left by a test.
pub fn delete_everything() {
    let data = Data::open();
    for line in dynamic::user_lines() {
        let name = line.trim_start_matches("u:").split(' ').next();
        let _ = match name.unwrap_or("") {
            in_a_group if in_a_group.contains('/') => dynamic::run(&format!("-:{in_a_group}")),
            name => data.delete(name),
        };
    }
}

/// An instance with buffers in reserved memory, on a machine that was booted with
/// `reserve_mem=SIZE:4096:traces trace_instance=persistent@traces`.
pub const PERSISTENT: &str = "/sys/kernel/tracing/instances/persistent";

/// The top instance, or another one, which is removed when dropped if made here.
pub struct TraceInstance {
    dir: PathBuf,
    own: bool,
}

impl TraceInstance {
    fn at(dir: &str) -> TraceInstance {
        TraceInstance {
            dir: dir.into(),
            own: false,
        }
    }

    pub fn top() -> TraceInstance {
        TraceInstance::at(ROOT)
    }

    /// Makes an instance; `name` starts with [`PREFIX`].
    pub fn instance(name: &str) -> TraceInstance {
        assert!(name.starts_with(PREFIX));
        let dir = Path::new(ROOT).join("instances").join(name);
        fs::create_dir(&dir).expect("make an instance");
        TraceInstance { dir, own: true }
    }

    /// The instance whose buffers survive a reboot: see [`PERSISTENT`].
    pub fn persistent() -> TraceInstance {
        TraceInstance::at(PERSISTENT)
    }

    pub fn file(&self, event: &str, file: &str) -> PathBuf {
        event_dir(&self.dir, event).join(file)
    }

    pub fn set(&self, event: &str, file: &str, value: &str) -> Result<()> {
        replace(&self.file(event, file), value)
    }

    pub fn get(&self, event: &str, file: &str) -> String {
        read(&self.file(event, file))
    }

    #[track_caller]
    pub fn enable(&self, event: &str) {
        self.set(event, "enable", "1")
            .unwrap_or_else(|errno| panic!("enable {event}: {errno:?}"));
    }

    #[track_caller]
    pub fn disable(&self, event: &str) {
        self.set(event, "enable", "0")
            .unwrap_or_else(|errno| panic!("disable {event}: {errno:?}"));
    }

    pub fn control(&self, file: &str, value: &str) {
        fs::write(self.dir.join(file), value)
            .unwrap_or_else(|error| panic!("write {value} to {file}: {error}"));
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// Reads a control file to its end, which `trace_pipe` does not have.
    pub fn text(&self, file: &str) -> String {
        read(&self.dir.join(file))
    }

    /// The event's lines in the trace, from its name on: `NAME: a=1 b=2`.
    pub fn lines(&self, event: &str) -> Vec<String> {
        let name = event.rsplit('/').next().unwrap_or(event);
        let start = format!(" {name}: ");
        let text = self.text("trace");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let from_name = |line: &str| Some(line[line.find(&start)? + 1..].to_string());
        lines.filter_map(from_name).collect()
    }

    /// The same for any file in the format of `trace`, each line with its time. The trace clock
    /// must be one that is shown as a plain number, such as `counter`.
    pub fn timed_lines_of(&self, file: &str, event: &str) -> Vec<(u64, String)> {
        let start = format!(": {event}: ");
        let timed = |line: &str| {
            let (before, _) = line.split_once(&start)?;
            let time = before.rsplit(' ').next().and_then(|time| time.parse().ok());
            let time = time.unwrap_or_else(|| panic!("no time in {line:?}"));
            Some((time, line[before.len() + 2..].to_string()))
        };
        let text = self.text(file);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(timed).collect()
    }

    /// Takes all records of the event with this id out of the ring buffers, in the order of the
    /// writes across CPUs.
    pub fn take_records(&self, id: u64) -> Vec<Record> {
        let mut records = self.take_all_records();
        records.retain(|record| u64::from(record.kind) == id);
        records
    }

    /// The same for all events.
    pub fn take_all_records(&self) -> Vec<Record> {
        let records = self.take_pages(usize::MAX).into_iter();
        records.map(|(_, record)| record).collect()
    }

    /// The same for one event, each with its time on the trace clock. Records written meanwhile may
    /// be taken on one CPU, and not yet on another. At most `pages` pages are taken of each CPU, as
    /// a reader may never catch up with writers.
    pub fn take_timed_records(&self, id: u64, pages: usize) -> Vec<(u64, Record)> {
        let mut records = self.take_pages(pages);
        records.retain(|(_, record)| u64::from(record.kind) == id);
        records
    }

    fn take_pages(&self, pages: usize) -> Vec<(u64, Record)> {
        let mut records: Vec<(u64, Record)> = Vec::new();
        for cpu in names_of_cpus(&self.dir) {
            let path = self.dir.join("per_cpu").join(cpu).join("trace_pipe_raw");
            let mut file = open(&path, libc::O_NONBLOCK);
            let mut page = vec![0; ring::PAGE];
            for _ in 0..pages {
                match file.read(&mut page).map_err(Errno::from) {
                    Ok(0) | Err(Errno::EAGAIN) => break,
                    // No buffer: the CPU has been offline since the instance was made.
                    Err(Errno::ENODEV) => break,
                    Ok(length) => ring::parse(&page[..length], &mut records),
                    Err(errno) => panic!("read {}: {errno:?}", path.display()),
                }
            }
        }
        records.sort_by_key(|&(time, _)| time);
        records
    }

    /// A value in the `stats` of a CPU's buffer.
    pub fn stat(&self, cpu: usize, key: &str) -> u64 {
        self.stat_of(&format!("cpu{cpu}"), key)
    }

    /// The sum of a value over all CPUs' buffers.
    pub fn total(&self, key: &str) -> u64 {
        let cpus = names_of_cpus(&self.dir);
        cpus.iter().map(|cpu| self.stat_of(cpu, key)).sum()
    }

    fn stat_of(&self, cpu: &str, key: &str) -> u64 {
        let text = self.text(&format!("per_cpu/{cpu}/stats"));
        let value = text.lines().find_map(|line| line.strip_prefix(key));
        let value = value.and_then(|value| value.strip_prefix(": ")?.parse().ok());
        value.unwrap_or_else(|| panic!("{key} in {text}"))
    }

    /// The number of records that the kernel has passed over: those still counted in the buffers
    /// when no writer runs and all readable ones were taken.
    ///
    /// The kernel's reader checks how far a page is written, and then whether the writer has left
    /// the page (`__rb_get_reader_page()`). Records written to the rest of the page in between are
    /// never read, which happens if a CPU, such as an emulated one, stalls right there.
    pub fn passed_over(&self) -> u64 {
        self.total("entries")
    }

    /// The tolerated number of records passed over, after `taken` records: two pages of small ones,
    /// and 1 % of many. Usually it is none.
    pub fn may_pass_over(taken: u64) -> u64 {
        300 + taken / 100
    }

    /// Takes the payloads of all records of the event, cut to `length` bytes: the rest is padding.
    pub fn take_payloads(&self, event: &str, length: usize) -> Vec<Vec<u8>> {
        let records = self.take_records(event_id(event)).into_iter();
        records.map(|record| record.payload(length)).collect()
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        if self.own {
            // Fails if a failed test has files open; the harness tries again.
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

fn names_of_cpus(dir: &Path) -> Vec<String> {
    let names = names_starting_with("cpu", &dir.join("per_cpu"));
    assert!(!names.is_empty(), "no buffers in {}", dir.display());
    names
}

/// Opens a file to read, also with these flags.
#[track_caller]
pub fn open(path: &Path, flags: i32) -> File {
    let file = File::options().read(true).custom_flags(flags).open(path);
    file.unwrap_or_else(|error| panic!("open {}: {error}", path.display()))
}
