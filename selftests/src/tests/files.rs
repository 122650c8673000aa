// SPDX-License-Identifier: GPL-2.0

//! The two files, and which operations they have.

use crate::abi::{Data, DATA, STATUS};
use crate::errno::Errno;
use crate::event::Event;
use crate::harness::tests;
use crate::memory::{Mapping, READ, READ_WRITE};
use crate::os;
use crate::rows::Rows;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

tests!("files":
    data_is_0640_and_status_0440_of_root,
    data_read_is_einval,
    data_mmap_is_enodev,
    data_lseek_is_espipe,
    data_pwrite_at_an_offset_is_efault,
    data_unknown_ioctl_is_enotty,
    status_cannot_be_written,
);

fn data_is_0640_and_status_0440_of_root() {
    for (path, mode) in [(DATA, 0o640), (STATUS, 0o440)] {
        let file = fs::metadata(path).unwrap();
        assert!(file.is_file(), "{path}");
        assert_eq!(
            format!("{:o}", file.mode() & 0o7777),
            format!("{mode:o}"),
            "mode of {path}"
        );
        assert_eq!((file.uid(), file.gid()), (0, 0), "owner of {path}");
    }
}

fn data_read_is_einval() {
    let got = (&Data::open().file).read(&mut [0; 16]);
    assert_eq!(got.map_err(Errno::from), Err(Errno::EINVAL));
}

fn data_mmap_is_enodev() {
    let data = Data::open();
    for (protection, flags) in [(READ, libc::MAP_SHARED), (READ_WRITE, libc::MAP_PRIVATE)] {
        let got = Mapping::of_file(&data.file, 1, protection, flags).map(drop);
        assert_eq!(got, Err(Errno::ENODEV));
    }
}

fn data_lseek_is_espipe() {
    let data = Data::open();
    for to in [SeekFrom::Start(0), SeekFrom::Current(4), SeekFrom::End(0)] {
        let got = (&data.file).seek(to).map_err(Errno::from);
        assert_eq!(got, Err(Errno::ESPIPE), "{to:?}");
    }
}

fn data_pwrite_at_an_offset_is_efault() {
    let event = Event::new("st_files_pwrite u32 a");
    let record = [event.index, 7].map(u32::to_ne_bytes).concat();
    let pwrite = |offset| {
        event
            .data
            .file
            .write_at(&record, offset)
            .map_err(Errno::from)
    };
    assert_eq!(pwrite(1), Err(Errno::EFAULT));
    assert_eq!(pwrite(4096), Err(Errno::EFAULT));
    // At 0 it is a write: nothing listens.
    assert_eq!(pwrite(0), Err(Errno::EBADF));
}

fn data_unknown_ioctl_is_enotty() {
    let data = Data::open();
    let mut rows = Rows::new();
    // The next number; right number and wrong size; wrong direction; wrong magic; TCGETS.
    for command in [
        0xc008_2a03,
        0xc01c_2a00,
        0x4008_2a00,
        0xc008_2b00,
        0x5401,
        0,
        u64::MAX >> 32,
    ] {
        let got = os::ioctl(&data.file, command, 0);
        rows.fails(
            "unknown ioctl",
            &format!("{command:#x}"),
            got,
            Errno::ENOTTY,
        );
    }
    rows.finish();
}

fn status_cannot_be_written() {
    // Root may open what the mode forbids; but there is nothing that would take what it writes.
    if let Ok(mut file) = fs::OpenOptions::new().write(true).open(STATUS) {
        let got = file.write(b"x").map_err(Errno::from);
        assert!(got.is_err(), "wrote to the status file");
    }
}
