// SPDX-License-Identifier: GPL-2.0

//! Other ways to record the same two payloads, 12 bytes and a string of 100 bytes; and the cost of
//! io_uring.
//!
//! The key of a row is the way to record and the payload: `off`, `12`, `100`. A separate program
//! counts the rows of LTTng-UST (`lttng/lttng.c`), with the daemons that a user would start.

use super::tell;
use super::writing::{Writer, TIMES};
use crate::attach::{has_calls_for_probes, Probe};
use crate::events::{Switch, TRACING};
use crate::{count, sys};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

pub struct Way {
    pub key: &'static str,
    pub text: &'static str,
    /// The program's work with nothing attached.
    pub off: Option<&'static str>,
    pub payloads: &'static [&'static str],
}

/// Both payloads, in keys.
pub const PAYLOADS: [&str; 2] = ["12", "100"];

/// The key of rows without a consumer.
pub const OFF: &str = "off";

const fn way(key: &'static str, text: &'static str) -> Way {
    Way {
        key,
        text,
        off: None,
        payloads: &PAYLOADS,
    }
}

impl Way {
    pub fn row(&self, what: &str) -> String {
        format!("{}.{what}", self.key)
    }

    const fn off(mut self, off: &'static str) -> Way {
        self.off = Some(off);
        self
    }

    const fn only(mut self, payloads: &'static [&'static str]) -> Way {
        self.payloads = payloads;
        self
    }
}

/// This module is the first.
pub const WAYS: &[Way] = &[
    way(OURS, "user_events, this module").off("a test of the event's bit"),
    way("lttng", "LTTng-UST").off("a test of the tracepoint's state"),
    way("lttng-bytes", "LTTng-UST, the string as a sequence").only(&["100"]),
    way("call", "USDT, the 10-byte nop").off("the nop"),
    way("trap", "USDT, the 1-byte nop").off("the nop"),
    way("semaphore", "USDT with a semaphore")
        .off("a test of the semaphore")
        .only(&[]),
    way("marker", "trace_marker").off("a write that fails, tracing is off"),
    way("marker-raw", "trace_marker_raw"),
];

/// The way whose rows are judged.
pub const OURS: &str = "user_events";

/// The two kernels: name of the machine, and text.
pub const KERNELS: [(&str, &str); 2] = [
    ("alternatives-stock", "stock kernel"),
    ("alternatives-custom", "small kernel"),
];

/// Measurements of how little a record could cost: keys and texts.
pub const EXPERIMENTS: &[(&str, &str)] = &[
    ("null.call", "a system call that does nothing"),
    ("null.write", "write of 16 bytes to /dev/null"),
    (
        "uring.null.1",
        "io_uring, 1 write of 16 bytes to /dev/null in a call",
    ),
    ("uring.null.128", "io_uring, 128 of them in a call, each"),
    ("uring.1", "io_uring, 1 record of 12 bytes in a call"),
    ("uring.16", "io_uring, 16 records in a call, each"),
    ("uring.128", "io_uring, 128 records in a call, each"),
];

pub fn keys() -> Vec<String> {
    let of_way = |way: &'static Way| {
        let off = way.off.map(|_| OFF);
        let what = off.into_iter().chain(way.payloads.iter().copied());
        what.map(|what| way.row(what))
    };
    let experiments = EXPERIMENTS.iter().map(|(key, _)| key.to_string());
    WAYS.iter().flat_map(of_way).chain(experiments).collect()
}

const NUMBERS: [u64; 3] = [1, 2, 3];

const TEXT: &[u8; 100] = &{
    let mut text = [b'x'; 100];
    text[99] = 0;
    text
};

pub fn measure() {
    user_events();
    probes();
    markers();
    rings();
    lttng();
}

fn user_events() {
    let numbers = Writer::of_numbers(None);
    let nothing = count::median(TIMES, || ());
    tell("user_events.off", numbers.tested() - nothing);
    tell("user_events.12", recorded(numbers));
    tell("user_events.100", recorded(Writer::of_string(TEXT.len())));
}

fn recorded(writer: Writer) -> u64 {
    let count = writer.in_ftrace(Writer::write);
    writer.end();
    count
}

/// The median cost of a probed instruction, without the call of its function and the return.
fn pass(place: sys::ProbePlace, arguments: [u64; 3]) -> u64 {
    let of = |place: sys::ProbePlace| count::median(TIMES, || place.pass(arguments));
    of(place) - of(sys::ProbePlace::NONE)
}

fn probes() {
    let text = [TEXT.as_ptr() as u64, 0, 0];
    let seen = format!("text=\"{}\"", "x".repeat(99));
    tell(
        "semaphore.off",
        pass(sys::ProbePlace::BEHIND_SEMAPHORE, NUMBERS),
    );
    for (key, place) in [
        ("trap", sys::ProbePlace::BYTE),
        ("call", sys::ProbePlace::LONG),
    ] {
        tell(&format!("{key}.off"), pass(place, NUMBERS));
        let probe = Probe::on_place(
            place,
            "a=%di:u32 b=%si:u32 c=%dx:u32",
            NUMBERS,
            "a=1 b=2 c=3",
        );
        tell(&format!("{key}.12"), pass(place, NUMBERS));
        drop(probe);
        let probe = Probe::on_place(place, "text=+0(%di):string", text, &seen);
        tell(&format!("{key}.100"), pass(place, text));
        assert_eq!(
            has_calls_for_probes(),
            key == "call",
            "which instruction the kernel calls"
        );
        drop(probe);
    }
}

fn markers() {
    let open = |name: &str| sys::open_to_write(&format!("{TRACING}/{name}"));
    let cost = |file: &File, bytes: &[u8], returned: isize| {
        count::median(TIMES, || assert_eq!(sys::write(file, bytes), returned))
    };
    let marker = open("trace_marker");
    tell("marker.12", cost(&marker, &TEXT[..12], 12));
    tell("marker.100", cost(&marker, &TEXT[..100], 100));
    let switch = format!("{TRACING}/tracing_on");
    fs::write(&switch, "0").expect("turn tracing off");
    tell("marker.off", cost(&marker, &TEXT[..12], -1));
    fs::write(&switch, "1").expect("turn tracing on");
    // The first four bytes identify the record.
    let raw = open("trace_marker_raw");
    let record = [&[1, 0, 0, 0], &TEXT[..]].concat();
    tell("marker-raw.12", cost(&raw, &record[..16], 16));
    tell("marker-raw.100", cost(&raw, &record, 104));
}

/// Measures writes by io_uring. All are complete when the call returns, whichever task does them.
fn rings() {
    static NOTHING: [u8; 16] = [0; 16];
    let each = |entries: u32, file: &File, bytes: &'static [u8]| {
        let uring = sys::Uring::new(entries).expect("io_uring");
        uring.prepare(file, bytes);
        let check = || {
            let results = uring.results();
            let are_right = results.iter().all(|result| *result == bytes.len() as i32);
            assert!(
                results.len() == entries as usize && are_right,
                "io_uring: {results:?}"
            );
        };
        count::median_then(101, || uring.run(), check) / u64::from(entries)
    };
    tell("null.call", count::median(TIMES, sys::getppid));
    let null = sys::open_to_write("/dev/null");
    tell(
        "null.write",
        count::median(TIMES, || assert_eq!(sys::write(&null, &NOTHING), 16)),
    );
    for entries in [1, 128] {
        tell(
            &format!("uring.null.{entries}"),
            each(entries, &null, &NOTHING),
        );
    }
    let writer = Writer::of_numbers(None);
    let ftrace = Switch::new(&writer.name);
    ftrace.turn(true);
    let (file, record) = writer.file_and_record();
    let record: &'static [u8] = record.to_vec().leak();
    for entries in [1, 16, 128] {
        tell(&format!("uring.{entries}"), each(entries, file, record));
    }
    ftrace.turn(false);
    drop(ftrace);
    writer.end();
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs([
            ("PATH", "/usr/bin"),
            ("HOME", "/root"),
            // No timeout: programs wait for the list of enabled events.
            ("LTTNG_UST_REGISTER_TIMEOUT", "-1"),
        ])
        .status();
    assert!(
        status.as_ref().is_ok_and(|status| status.success()),
        "{program} {arguments:?}: {status:?}"
    );
}

/// Measures a flight recorder: the newest records stay in the buffers, until a snapshot reads them.
fn lttng() {
    const SNAPSHOT: &str = "/tmp/snapshot";
    fs::create_dir("/dev/shm").expect("make /dev/shm");
    sys::mount(c"tmpfs", c"/dev/shm");
    run("/usr/bin/lttng-sessiond", &["--daemonize", "--no-kernel"]);
    let lttng = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        run("/usr/bin/lttng", &arguments);
    };
    lttng(&format!("-q create bench --snapshot --output={SNAPSHOT}"));
    lttng("-q enable-event --userspace bench:numbers,bench:string,bench:bytes");
    lttng("-q start");
    run("/lttng", &[]);
    lttng("-q stop");
    lttng("-q snapshot record");
    assert!(
        holds_text(Path::new(SNAPSHOT)),
        "the snapshot has no record of the string"
    );
    lttng("-q destroy");
}

fn holds_text(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).expect("the snapshot");
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.any(|path| match path.is_dir() {
        true => holds_text(&path),
        false => {
            let content = fs::read(&path).expect("a file of the snapshot");
            content.windows(TEXT.len()).any(|bytes| bytes == TEXT)
        }
    })
}
