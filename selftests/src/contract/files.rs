// SPDX-License-Identifier: GPL-2.0

//! "Files": the files, what may be done with them, and `user_events_max`.

use super::check::{expect, Check, Row, TEXT};
use super::listing;
use crate::kit::abi::{Data, DATA, DIAG_IOCSREG, STATUS};
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, READ, READ_WRITE};
use crate::kit::os;
use crate::kit::tracefs;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

const MAX: &str = "/proc/sys/kernel/user_events_max";

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
                ("max_is_0644", MAX, 0o644),
            ],
        ),
        MODES.all(
            owner,
            (0, 0),
            &[
                ("data_belongs_to_root", DATA),
                ("status_belongs_to_root", STATUS),
                ("max_belongs_to_root", MAX),
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
                // Nothing listens.
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
        IOCTLS.all(
            command,
            Err(Errno::ENOTTY),
            &[
                ("number_3_is_enotty", 0xc008_2a03),
                ("number_255_is_enotty", 0xc008_2aff),
                ("size_of_the_struct_is_enotty", 0xc01c_2a00),
                ("size_0_is_enotty", 0xc000_2a00),
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
                ("junk_is_einval", "junk"),
                ("junk_behind_a_number_is_einval", "12x"),
                ("a_fraction_is_einval", "1.5"),
                ("above_u32_is_einval", "4294967296"),
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
            ("the_event_past_it_is_emfile", past_max),
            ("a_format_past_it_is_emfile", format_past_max),
            ("a_dynamic_event_past_it_is_emfile", dynamic_past_max),
            ("an_event_that_exists_is_shared_at_the_limit", shared_at_max),
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
    // With an event whose index is 0, so that bytes of zeros are a record of it.
    let event = Event::new(TEXT);
    expect(operation(&event.data.file).map_err(Errno::from), want);
}

fn on_status(operation: Operation, want: Result<usize>) {
    // Root may open what the mode forbids.
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

/// Puts `user_events_max` back when dropped.
struct Restored(String);

impl Restored {
    fn new() -> Restored {
        Restored(fs::read_to_string(MAX).expect(MAX))
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        fs::write(MAX, &self.0).expect(MAX);
    }
}

fn set_max(value: &str, want: Result<()>) {
    let restored = Restored::new();
    let got = fs::write(MAX, value).map_err(Errno::from);
    let now = fs::read_to_string(MAX).expect(MAX);
    expect(got, want);
    if want.is_err() {
        expect(now, restored.0.clone());
    }
}

fn default_max() {
    expect(fs::read_to_string(MAX).expect(MAX).trim(), "32768");
}

fn tells_max() {
    let _restored = Restored::new();
    fs::write(MAX, "4711").expect(MAX);
    expect(fs::read_to_string(MAX).expect(MAX).trim(), "4711");
}

/// With one event there, and room for as many.
fn full() -> (Restored, Event) {
    let restored = Restored::new();
    let event = Event::new(TEXT);
    fs::write(MAX, "1").expect(MAX);
    (restored, event)
}

fn past_max() {
    let (_restored, event) = full();
    let got = event
        .data
        .register_text("st_other", event.page.address(), 1);
    expect(got, Err(Errno::EMFILE));
    expect(tracefs::count_of_events(), 1);
}

fn format_past_max() {
    let (_restored, event) = full();
    let request = crate::kit::abi::Register {
        enable_bit: 1,
        flags: 2,
        ..crate::kit::abi::Register::new(event.page.address(), c"st_other".as_ptr() as u64)
    };
    expect(event.data.register(&request), Err(Errno::EMFILE));
}

fn dynamic_past_max() {
    let (_restored, _event) = full();
    expect(listing::command("u:st_other"), Err(Errno::EMFILE));
}

fn shared_at_max() {
    let (_restored, event) = full();
    let got = event.data.register_text(TEXT, event.page.address(), 1);
    expect(got, Ok(event.index));
}

fn lower_max() {
    let (_restored, event) = full();
    fs::write(MAX, "0").expect(MAX);
    expect(tracefs::count_of_events(), 1);
    let got = event.data.register_text(TEXT, event.page.address(), 1);
    expect(got, Ok(event.index));
}

fn room_at_max() {
    let (_restored, event) = full();
    expect(event.unregister(), Ok(()));
    drop(event);
    crate::kit::event::wait_gone(super::check::NAME);
    let _other = Event::new("st_other");
}
