// SPDX-License-Identifier: GPL-2.0

//! "Files": the files, their operations, and `user_events_max`.

use super::check::{delete_when_idle, expect, Check, Row, TEXT};
use crate::kit::abi::{Data, DATA, DIAG_IOCSREG, MULTI_FORMAT, PERSIST, STATUS};
use crate::kit::child;
use crate::kit::dynamic;
use crate::kit::errno::{fails, Errno, Result};
use crate::kit::event::Event;
use crate::kit::max_events::{self, Limit, DEFAULT};
use crate::kit::memory::{Mapping, READ, READ_WRITE};
use crate::kit::os;
use crate::kit::poll::{self, poll_for, Epoll};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::wait;
use std::fs::{self, OpenOptions};
use std::io::{IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

const MODES: Row = Row::new(
    "files",
    "user_events_data (tracefs root) 0640 root:root; user_events_status 0440 root:root; \
     /proc/sys/kernel/user_events_max 0644",
);
const DATA_FILE: Row = Row::new(
    "files",
    "user_events_data: open, write, writev, ioctl, release. read → EINVAL, mmap → ENODEV, \
     lseek → ESPIPE, pwrite at an offset ≠ 0 → EFAULT",
);
const READY: Row = Row::new(
    "files",
    "user_events_data can be read and written at any time, says poll(): POLLIN, POLLRDNORM, POLLOUT, POLLWRNORM",
);
const WAITED_FOR: Row = Row::better_than_c(
    19,
    "files",
    "user_events_data: an epoll set takes it",
    "got Err(EPERM)",
);
const CHANGE: Row = Row::better_than_c(
    19,
    "files",
    "user_events_data: poll() reports POLLPRI when an event registered by that file has got its first consumer, or lost its \
     last one, since it was polled last",
    "got 0",
);
const IOCTLS: Row = Row::new("ioctls", "magic '*', numbers 0, 1 and 2");
const STATUS_FILE: Row = Row::new("files", "user_events_status: text");
const LIMIT: Row = Row::new(
    "max",
    "most events on the whole system, default 32768; the event past it → EMFILE; negative, junk or \
     > u32 → EINVAL",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        MODES.table(
            "belong_to_root_with_their_modes",
            mode,
            &[(DATA, 0o640), (STATUS, 0o440), (max_events::PATH, 0o644)],
        ),
        DATA_FILE.each(
            "no_file_of_a_group_is_mapped",
            mmap,
            Err(Errno::ENODEV),
            &[
                (DATA, READ, libc::MAP_SHARED),
                (DATA, READ_WRITE, libc::MAP_PRIVATE),
                (STATUS, READ, libc::MAP_SHARED),
            ],
        ),
        DATA_FILE.scenarios(&[
            ("data_is_no_file_to_read_or_to_seek_in", on_data),
            (
                "data_opens_for_writing_only_and_is_not_truncated",
                write_only,
            ),
        ]),
        READY.table(
            "data_can_always_be_read_and_written",
            polled,
            &[(0x41, 0x41), (0x104, 0x104), (0x3fdf, poll::ALWAYS)],
        ),
        WAITED_FOR.scenarios(&[("data_is_taken_by_a_set", || {
            expect(
                Epoll::new().try_add(&Data::open().file, poll::CHANGED),
                Ok(()),
            )
        })]),
        CHANGE.all(
            changed,
            poll::CHANGED,
            &[
                ("data_reports_the_first_consumer", true),
                ("data_reports_the_last_consumer", false),
            ],
        ),
        IOCTLS.each(
            "any_other_command_is_enotty",
            command,
            Err(Errno::ENOTTY),
            &[
                // Other numbers, sizes (also those of 32-bit programs), directions and letters than
                // those of the three commands.
                0xc008_2a03,
                0xc008_2aff,
                0xc01c_2a00,
                0xc000_2a00,
                0xc004_2a00,
                0x4004_2a01,
                0x4004_2a02,
                0x4008_2a00,
                0xc008_2a01,
                0xc008_2b00,
                0x5401,
                0,
                0xffff_ffff,
            ],
        ),
        STATUS_FILE.scenarios(&[("status_is_a_file_to_read_only", on_status)]),
        LIMIT.table(
            "a_number_of_32_bits_is_taken_and_all_else_einval",
            set_max,
            &[
                ("0", Ok(0)),
                ("1", Ok(1)),
                ("4294967295", Ok(u32::MAX)),
                ("100\n", Ok(100)),
                ("0x10", Ok(16)),
                ("-1", Err(Errno::EINVAL)),
                ("-32768", Err(Errno::EINVAL)),
                ("-0x1", Err(Errno::EINVAL)),
                ("junk", Err(Errno::EINVAL)),
                ("12x", Err(Errno::EINVAL)),
                ("1.5", Err(Errno::EINVAL)),
                ("4294967296", Err(Errno::EINVAL)),
                ("18446744073709551616", Err(Errno::EINVAL)),
                ("99999999999999999999", Err(Errno::EINVAL)),
            ],
        ),
        LIMIT.scenarios(&[
            (
                "is_32768_by_default_and_only_root_may_change_it",
                max_unprivileged,
            ),
            ("the_event_past_it_is_emfile", past_max),
            ("an_event_that_goes_makes_room", room_at_max),
        ]),
    ]
}

fn mode(path: &str, want: u32) {
    let file = fs::metadata(path).expect(path);
    assert!(file.is_file());
    let octal = |mode: u32| format!("{:o}", mode & 0o7777);
    expect(octal(file.mode()), octal(want));
    expect((file.uid(), file.gid()), (0, 0));
}

fn on_data() {
    // An event with index 0, of which bytes of zeros are a record.
    let event = Event::new(TEXT);
    let mut file = &event.data.file;
    let mut seek = |to| file.seek(to).map(|at| at as usize);
    for (case, got, want) in [
        ("seek to the start", seek(SeekFrom::Start(0)), Errno::ESPIPE),
        ("seek forward", seek(SeekFrom::Current(4)), Errno::ESPIPE),
        ("seek to the end", seek(SeekFrom::End(0)), Errno::ESPIPE),
        ("read", file.read(&mut [0; 16]), Errno::EINVAL),
        (
            "readv",
            file.read_vectored(&mut [IoSliceMut::new(&mut [0; 16])]),
            Errno::EINVAL,
        ),
        ("pread", file.read_at(&mut [0; 16], 0), Errno::EINVAL),
        ("pwrite at 1", file.write_at(&[0; 8], 1), Errno::EFAULT),
        (
            "pwrite at 4096",
            file.write_at(&[0; 8], 4096),
            Errno::EFAULT,
        ),
        // A write: the event has no consumer.
        ("pwrite at 0", file.write_at(&[0; 8], 0), Errno::EBADF),
    ] {
        fails(DATA, case, got.map_err(Errno::from), want);
    }
}

fn polled(asked: u32, want: u32) {
    let event = Event::new(TEXT);
    expect(poll_for(&event.data.file, asked, Duration::ZERO), want);
}

fn changed(on: bool, want: u32) {
    let event = Event::new(TEXT);
    let top = TraceInstance::top();
    let is_reported = || poll_for(&event.data.file, poll::CHANGED, Duration::ZERO);
    top.enable(&event.name);
    let first = is_reported();
    top.disable(&event.name);
    expect(if on { first } else { is_reported() }, want);
}

fn on_status() {
    // Root can open the file against its mode.
    let file = OpenOptions::new().read(true).write(true).open(STATUS);
    let mut file = file.expect(STATUS);
    expect(file.rewind().map_err(Errno::from), Ok(()));
    let written = file.write(b"x").map_err(Errno::from);
    fails(STATUS, "write", written, Errno::EINVAL);
    let got = os::ioctl(&file, DIAG_IOCSREG, 0);
    fails(STATUS, "ioctl", got, Errno::ENOTTY);
}

fn mmap((path, protection, flags): (&str, i32, i32), want: Result<()>) {
    let writable = path == DATA;
    let file = OpenOptions::new().read(true).write(writable).open(path);
    let got = Mapping::of_file(&file.expect(path), 1, protection, flags);
    expect(got.map(drop), want);
}

fn write_only() {
    let event = Event::new(TEXT);
    let file = OpenOptions::new().write(true).truncate(true).open(DATA);
    let data = Data {
        file: file.expect(DATA),
    };
    expect(tracefs::count_of_events(), 1);
    expect(data.register_text(TEXT, event.page.address(), 1), Ok(0));
    expect(data.write(0, &[0; 4]), Err(Errno::EBADF));
}

fn command(command: u64, want: Result<()>) {
    let data = Data::open();
    expect(os::ioctl(&data.file, command, 0).map(drop), want);
}

fn set_max(value: &str, want: Result<u32>) {
    let _limit = Limit::new(1000);
    expect(max_events::set(value), want.map(drop));
    expect(max_events::get(), want.unwrap_or(1000));
}

fn max_unprivileged() {
    child::fork(|_| {
        os::become_unprivileged();
        // All users can read the limit.
        expect(max_events::get(), DEFAULT);
        expect(max_events::set("1"), Err(Errno::EACCES));
    })
    .join();
    expect(max_events::get(), DEFAULT);
}

/// Events of one file, each with its own bit of the same word.
struct Numbered {
    data: Data,
    page: Mapping,
}

impl Numbered {
    fn new() -> Numbered {
        Numbered {
            data: Data::open(),
            page: Mapping::kept(1),
        }
    }

    fn register(&self, number: u8) -> Result<u32> {
        self.register_flags(number, 0)
    }

    fn register_flags(&self, number: u8, flags: u16) -> Result<u32> {
        let (text, address) = (format!("st_max_{number} u32 a"), self.page.address());
        self.data.register_flags(&text, address, number, flags)
    }

    fn unregister(&self, number: u8) {
        let got = self.data.unregister_bit(self.page.address(), number);
        expect(got, Ok(()));
    }
}

fn past_max() {
    let limit = Limit::new(4);
    let (events, other) = (Numbered::new(), Numbered::new());
    // Events of all kinds count.
    for (number, flags) in [(0, 0), (1, MULTI_FORMAT), (2, 0)] {
        expect(events.register_flags(number, flags), Ok(number.into()));
    }
    expect(dynamic::run("u:st_max_3 u32 a"), Ok(()));
    for flags in [0, PERSIST, MULTI_FORMAT, PERSIST | MULTI_FORMAT] {
        expect(events.register_flags(4, flags), Err(Errno::EMFILE));
    }
    expect(dynamic::run("u:st_max_4 u32 a"), Err(Errno::EMFILE));
    expect(tracefs::count_of_events(), 4);

    // The limit is on events, not on their users.
    expect(other.register(0), Ok(0));
    expect(other.register(3), Ok(1));
    expect(dynamic::run("u:st_max_3 u32 a"), Ok(()));
    // Another format is another event.
    let (text, address) = ("st_max_1 u64 a", other.page.address());
    let got = other.data.register_flags(text, address, 1, MULTI_FORMAT);
    expect(got, Err(Errno::EMFILE));
    // A bad description is refused before the limit is checked.
    expect(dynamic::run("u:st_max_4 long a"), Err(Errno::EINVAL));

    // Failed registrations did not take indices of the file.
    limit.set(5);
    expect(events.register(4), Ok(3));
    expect(events.register(5), Err(Errno::EMFILE));
    // A lower limit takes no event away, and each can still be used.
    limit.set(0);
    expect(events.register(5), Err(Errno::EMFILE));
    expect(tracefs::count_of_events(), 5);
    other.unregister(0);
    expect(other.register(0), Ok(0));
    drop(limit);
    expect(events.register(5), Ok(4));

    other.unregister(3);
    drop(other);
    expect(delete_when_idle(&events.data, "st_max_3"), Ok(()));
}

fn room_at_max() {
    let _limit = Limit::new(3);
    let kept = Numbered::new();
    for number in 0..2 {
        expect(kept.register(number), Ok(number.into()));
    }
    for number in 2..12 {
        let going = Numbered::new();
        // The previous event goes with a delay after its last use.
        let register = || going.register(number).map(|index| expect(index, 0));
        expect(wait::until_idle(&[Errno::EMFILE], register), Ok(()));
        expect(kept.register(20), Err(Errno::EMFILE));
        going.unregister(number);
    }
    // A deleted event goes at once.
    for _ in 0..10 {
        let make = || dynamic::run("u:st_max_dynamic u32 a");
        expect(wait::until_idle(&[Errno::EMFILE], make), Ok(()));
        expect(kept.register(20), Err(Errno::EMFILE));
        expect(dynamic::run("-:st_max_dynamic u32 a"), Ok(()));
    }
}
