// SPDX-License-Identifier: GPL-2.0

//! "Files": the files, their operations, and `user_events_max`.

use super::check::{delete_when_idle, expect, Check, Row, TEXT};
use crate::kit::abi::{Data, DATA, DIAG_IOCSREG, MULTI_FORMAT, PERSIST, STATUS};
use crate::kit::child;
use crate::kit::dynamic;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::max_events::{self, Limit, DEFAULT};
use crate::kit::memory::{Mapping, READ, READ_WRITE};
use crate::kit::os;
use crate::kit::poll::{self, poll_for, Epoll};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::wait;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, IoSliceMut, Read, Seek, SeekFrom, Write};
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
        MODES.cases(
            mode,
            &[
                ("data_is_0640", DATA, 0o640),
                ("status_is_0440", STATUS, 0o440),
                ("max_is_0644", max_events::PATH, 0o644),
            ],
        ),
        MODES.all(
            owner,
            (0, 0),
            &[
                ("data_belongs_to_root", DATA),
                ("status_belongs_to_root", STATUS),
                ("max_belongs_to_root", max_events::PATH),
            ],
        ),
        DATA_FILE.cases(
            on_data,
            &[
                (
                    "data_read_is_einval",
                    |mut file| file.read(&mut [0; 16]),
                    Err(Errno::EINVAL),
                ),
                (
                    "data_readv_is_einval",
                    |mut file| file.read_vectored(&mut [IoSliceMut::new(&mut [0; 16])]),
                    Err(Errno::EINVAL),
                ),
                (
                    "data_pread_is_einval",
                    |file| file.read_at(&mut [0; 16], 0),
                    Err(Errno::EINVAL),
                ),
                (
                    "data_seek_to_the_start_is_espipe",
                    |file| seek(file, SeekFrom::Start(0)),
                    Err(Errno::ESPIPE),
                ),
                (
                    "data_seek_forward_is_espipe",
                    |file| seek(file, SeekFrom::Current(4)),
                    Err(Errno::ESPIPE),
                ),
                (
                    "data_seek_to_the_end_is_espipe",
                    |file| seek(file, SeekFrom::End(0)),
                    Err(Errno::ESPIPE),
                ),
                (
                    "data_pwrite_at_1_is_efault",
                    |file| file.write_at(&[0; 8], 1),
                    Err(Errno::EFAULT),
                ),
                (
                    "data_pwrite_at_4096_is_efault",
                    |file| file.write_at(&[0; 8], 4096),
                    Err(Errno::EFAULT),
                ),
                // EBADF: the event has no consumer.
                (
                    "data_pwrite_at_0_is_a_write",
                    |file| file.write_at(&[0; 8], 0),
                    Err(Errno::EBADF),
                ),
            ],
        ),
        DATA_FILE.all(
            mmap,
            Err(Errno::ENODEV),
            &[
                (
                    "data_shared_mapping_is_enodev",
                    (DATA, READ, libc::MAP_SHARED),
                ),
                (
                    "data_private_mapping_is_enodev",
                    (DATA, READ_WRITE, libc::MAP_PRIVATE),
                ),
            ],
        ),
        DATA_FILE.scenarios(&[
            ("data_opens_many_times_at_once", many_opens),
            ("data_opens_for_writing_only", write_only),
            ("data_truncation_changes_nothing", truncation),
        ]),
        READY.cases(
            polled,
            &[
                ("data_can_be_read", poll::ALWAYS & 0x41, 0x41),
                ("data_can_be_written", poll::ALWAYS & 0x104, 0x104),
                ("data_has_nothing_else_to_report", 0x3fdf, poll::ALWAYS),
            ],
        ),
        WAITED_FOR.all(
            added,
            Ok(()),
            &[
                ("data_is_taken_by_a_set", poll::ALWAYS),
                ("data_is_taken_by_a_set_for_changes", poll::CHANGED),
                (
                    "data_is_taken_by_an_edge_triggered_set",
                    poll::CHANGED | poll::EDGE,
                ),
            ],
        ),
        CHANGE.all(
            changed,
            poll::CHANGED,
            &[
                ("data_reports_the_first_consumer", true),
                ("data_reports_the_last_consumer", false),
            ],
        ),
        IOCTLS.all(
            command,
            Err(Errno::ENOTTY),
            &[
                ("number_3_is_enotty", 0xc008_2a03),
                ("number_255_is_enotty", 0xc008_2aff),
                ("size_of_the_struct_is_enotty", 0xc01c_2a00),
                ("size_0_is_enotty", 0xc000_2a00),
                ("a_32_bit_programs_register_is_enotty", 0xc004_2a00),
                ("a_32_bit_programs_delete_is_enotty", 0x4004_2a01),
                ("a_32_bit_programs_unregister_is_enotty", 0x4004_2a02),
                ("write_only_register_is_enotty", 0x4008_2a00),
                ("both_ways_delete_is_enotty", 0xc008_2a01),
                ("another_magic_is_enotty", 0xc008_2b00),
                ("a_terminals_is_enotty", 0x5401),
                ("command_0_is_enotty", 0),
                ("command_of_all_ones_is_enotty", 0xffff_ffff),
            ],
        ),
        STATUS_FILE.cases(
            on_status,
            &[
                (
                    "status_seeks_back",
                    |file| seek(file, SeekFrom::Start(0)),
                    Ok(0),
                ),
                (
                    "status_write_is_einval",
                    |mut file| file.write(b"x"),
                    Err(Errno::EINVAL),
                ),
                (
                    "status_ioctl_is_enotty",
                    |file| {
                        let got = os::ioctl(file, DIAG_IOCSREG, 0);
                        got.map(|_| 0)
                            .map_err(|Errno(errno)| Error::from_raw_os_error(errno))
                    },
                    Err(Errno::ENOTTY),
                ),
            ],
        ),
        STATUS_FILE.all(
            mmap,
            Err(Errno::ENODEV),
            &[("status_mapping_is_enodev", (STATUS, READ, libc::MAP_SHARED))],
        ),
        LIMIT.all(
            set_max,
            Err(Errno::EINVAL),
            &[
                ("minus_1_is_einval", "-1"),
                ("minus_32768_is_einval", "-32768"),
                ("minus_hexadecimal_1_is_einval", "-0x1"),
                ("junk_is_einval", "junk"),
                ("junk_behind_a_number_is_einval", "12x"),
                ("a_fraction_is_einval", "1.5"),
                ("above_u32_is_einval", "4294967296"),
                ("above_u64_is_einval", "18446744073709551616"),
                ("far_above_u32_is_einval", "99999999999999999999"),
            ],
        ),
        LIMIT.all(
            set_max,
            Ok(()),
            &[
                ("0_is_taken", "0"),
                ("1_is_taken", "1"),
                ("the_largest_u32_is_taken", "4294967295"),
                ("a_newline_behind_is_taken", "100\n"),
                ("hexadecimal_is_taken", "0x10"),
            ],
        ),
        LIMIT.scenarios(&[
            ("is_32768_by_default", default_max),
            ("tells_what_was_set", tells_max),
            ("only_root_may_change_it", max_unprivileged),
            ("the_event_past_it_is_emfile", past_max),
            ("a_lower_one_takes_no_event_away", lower_max),
            ("an_event_that_goes_makes_room", room_at_max),
        ]),
    ]
}

fn mode(path: &str, want: u32) {
    let file = fs::metadata(path).expect(path);
    assert!(file.is_file());
    let octal = |mode: u32| format!("{:o}", mode & 0o7777);
    expect(octal(file.mode()), octal(want));
}

fn owner(path: &str, want: (u32, u32)) {
    let file = fs::metadata(path).expect(path);
    expect((file.uid(), file.gid()), want);
}

type Operation = fn(&File) -> std::io::Result<usize>;

fn seek(mut file: &File, to: SeekFrom) -> std::io::Result<usize> {
    file.seek(to).map(|at| at as usize)
}

fn on_data(operation: Operation, want: Result<usize>) {
    // An event with index 0, of which bytes of zeros are a record.
    let event = Event::new(TEXT);
    expect(operation(&event.data.file).map_err(Errno::from), want);
}

fn polled(asked: u32, want: u32) {
    let event = Event::new(TEXT);
    expect(poll_for(&event.data.file, asked, Duration::ZERO), want);
}

fn added(events: u32, want: Result<()>) {
    expect(Epoll::new().try_add(&Data::open().file, events), want);
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

fn on_status(operation: Operation, want: Result<usize>) {
    // Root can open the file against its mode.
    let file = OpenOptions::new().read(true).write(true).open(STATUS);
    expect(operation(&file.expect(STATUS)).map_err(Errno::from), want);
}

fn mmap((path, protection, flags): (&str, i32, i32), want: Result<()>) {
    let writable = path == DATA;
    let file = OpenOptions::new().read(true).write(writable).open(path);
    let got = Mapping::of_file(&file.expect(path), 1, protection, flags);
    expect(got.map(drop), want);
}

fn many_opens() {
    let page = Mapping::kept(1);
    let files: Vec<_> = (0..100).map(|_| Data::open()).collect();
    for (i, data) in files.iter().enumerate() {
        expect(
            data.register_text(TEXT, page.address() + 4 * i as u64, 0),
            Ok(0),
        );
    }
    expect(tracefs::count_of_events(), 1);
}

fn write_only() {
    let file = OpenOptions::new().write(true).open(DATA).expect(DATA);
    let data = Data { file };
    let page = Mapping::kept(1);
    expect(data.register_text(TEXT, page.address(), 0), Ok(0));
    expect(data.write(0, &[0; 4]), Err(Errno::EBADF));
}

fn truncation() {
    let _event = Event::new(TEXT);
    let file = OpenOptions::new().write(true).truncate(true).open(DATA);
    drop(file.expect(DATA));
    expect(tracefs::count_of_events(), 1);
}

fn command(command: u64, want: Result<()>) {
    let data = Data::open();
    expect(os::ioctl(&data.file, command, 0).map(drop), want);
}

fn set_max(value: &str, want: Result<()>) {
    let _limit = Limit::new(1000);
    expect(max_events::set(value), want);
    if want.is_err() {
        expect(max_events::get(), 1000);
    }
}

fn default_max() {
    expect(max_events::get(), DEFAULT);
}

fn tells_max() {
    let limit = Limit::new(4711);
    for most in [0, 1, DEFAULT, u32::MAX] {
        limit.set(most);
    }
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

    /// Registers the event with this number.
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
    limit.set(0);
    expect(events.register(5), Err(Errno::EMFILE));
    drop(limit);
    expect(events.register(5), Ok(4));

    other.unregister(3);
    drop(other);
    expect(delete_when_idle(&events.data, "st_max_3"), Ok(()));
}

fn lower_max() {
    let events = Numbered::new();
    for number in 0..3 {
        expect(events.register(number), Ok(number.into()));
    }
    let limit = Limit::new(1);
    expect(tracefs::count_of_events(), 3);
    expect(events.register(3), Err(Errno::EMFILE));
    // Existing events can still be used.
    for number in 0..3 {
        events.unregister(number);
        expect(events.register(number), Ok(number.into()));
    }
    // A limit above the number of events admits more.
    limit.set(4);
    expect(events.register(3), Ok(3));
    expect(events.register(4), Err(Errno::EMFILE));
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
        let mut last = Ok(0);
        wait::until("room for one more event", || {
            last = going.register(number);
            last != Err(Errno::EMFILE)
        });
        expect(last, Ok(0));
        expect(kept.register(20), Err(Errno::EMFILE));
        going.unregister(number);
    }
    // A deleted event goes at once.
    for _ in 0..10 {
        wait::until("room for one more event", || {
            dynamic::run("u:st_max_dynamic u32 a") != Err(Errno::EMFILE)
        });
        expect(kept.register(20), Err(Errno::EMFILE));
        expect(dynamic::run("-:st_max_dynamic u32 a"), Ok(()));
    }
}
