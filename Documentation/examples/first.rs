// SPDX-License-Identifier: GPL-2.0

//! Registers an event and writes three records while a consumer is attached. Needs std alone.

use std::ffi::{c_int, c_ulong, CStr};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// C: `struct user_reg`.
#[repr(C, packed)]
struct UserReg {
    size: u32,
    enable_bit: u8,
    enable_size: u8,
    flags: u16,
    enable_addr: u64,
    name_args: u64,
    write_index: u32,
}

/// C: `_IOWR('*', 0, struct user_reg *)`, as encoded on all but a few old architectures.
const DIAG_IOCSREG: c_ulong =
    3 << 30 | (size_of::<*mut UserReg>() as c_ulong) << 16 | (b'*' as c_ulong) << 8;

const EBADF: c_int = 9;

extern "C" {
    fn ioctl(fd: c_int, request: c_ulong, ...) -> c_int;
}

/// The kernel sets bit 0 of this word while a consumer is attached.
static ENABLED: AtomicU32 = AtomicU32::new(0);

fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed) & 1 != 0
}

/// Registers an event with bit 0 of `word`. Returns the write index.
fn register(data: &File, word: &'static AtomicU32, description: &CStr) -> io::Result<u32> {
    let mut reg = UserReg {
        size: size_of::<UserReg>() as u32,
        enable_bit: 0,
        enable_size: size_of::<AtomicU32>() as u8,
        flags: 0,
        enable_addr: word.as_ptr() as u64,
        name_args: description.as_ptr() as u64,
        write_index: 0,
    };
    // SAFETY: The ioctl reads and writes `reg`, and reads the description up to its NUL. The word
    // is a static that is accessed by atomics only.
    if unsafe { ioctl(data.as_raw_fd(), DIAG_IOCSREG, &mut reg) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(reg.write_index)
}

fn main() -> io::Result<()> {
    let mut data = OpenOptions::new()
        .write(true)
        .open("/sys/kernel/tracing/user_events_data")?;
    let description = c"first_rust u32 count; __rel_loc char[] unit";
    let index = register(&data, &ENABLED, description)?.to_ne_bytes();

    let unit = c"pears".to_bytes_with_nul();
    // Size, and offset 0 from the end of the field, which is the last one.
    let unit_location = ((unit.len() as u32) << 16).to_ne_bytes();

    let mut count = 0u32;
    while count < 3 {
        // A real program does its work here.
        thread::sleep(Duration::from_millis(10));
        if !is_enabled() {
            continue;
        }
        count += 1;
        let count = count.to_ne_bytes();
        // One system call per record, which is never written in part.
        let written = data.write_vectored(&[
            IoSlice::new(&index),
            IoSlice::new(&count),
            IoSlice::new(&unit_location),
            IoSlice::new(unit),
        ]);
        match written {
            // The consumer detached after the test of the bit.
            Err(error) if error.raw_os_error() == Some(EBADF) => {}
            written => _ = written?,
        }
    }
    Ok(())
}
