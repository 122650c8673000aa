// SPDX-License-Identifier: GPL-2.0

//! Events as a program uses them: registered on a file with a bit, switched on and off in tracefs.

use crate::sys;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub const TRACING: &str = "/sys/kernel/tracing";

/// `_IOWR('*', 0, void *)` and `_IOW('*', 2, void *)`
const DIAG_IOCSREG: u64 = (3 << 30) | (8 << 16) | (0x2a << 8);
const DIAG_IOCSUNREG: u64 = (1 << 30) | (8 << 16) | (0x2a << 8) | 2;

/// `struct user_reg`
#[repr(C, packed)]
struct Register {
    size: u32,
    enable_bit: u8,
    enable_size: u8,
    flags: u16,
    enable_addr: u64,
    name_args: u64,
    write_index: u32,
}

/// `struct user_unreg`
#[repr(C, packed)]
struct Unregister {
    size: u32,
    disable_bit: u8,
    reserved: u8,
    reserved2: u16,
    disable_addr: u64,
}

/// Opens the file on which events are registered.
pub fn data() -> File {
    data_named("user_events_data")
}

fn data_named(name: &str) -> File {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("{TRACING}/{name}"));
    file.unwrap_or_else(|error| panic!("open {name}: {error}"))
}

/// A group of events other than the first. C has no groups.
pub struct Group(String);

impl Group {
    /// Makes a group. `limits` is the part of its line after the name.
    pub fn new(name: &str, limits: &str) -> Group {
        Group::line(&format!("g:{name} {limits}\n"))
            .unwrap_or_else(|error| panic!("make the group {name} {limits}: {error}"));
        Group(name.into())
    }

    /// Opens the file on which its events are registered.
    pub fn data(&self) -> File {
        data_named(&format!("user_events_data.{}", self.0))
    }

    /// The name in tracefs of an event of the group.
    pub fn event(&self, name: &str) -> String {
        format!("user_events_{}/{name}", self.0)
    }

    /// Removes the group after its users have ended. Retries, as their last events are freed with a
    /// delay.
    pub fn remove(self) {
        for _ in 0..1000 {
            match Group::line(&format!("-:{}\n", self.0)) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                removed => return removed.expect("remove a group"),
            }
        }
        panic!("the group {} stays in use", self.0);
    }

    fn line(line: &str) -> io::Result<()> {
        sys::open_to_write(&format!("{TRACING}/user_events_groups")).write_all(line.as_bytes())
    }
}

/// Words for one bit each, present in memory.
pub struct Words(Vec<AtomicU32>);

impl Words {
    pub fn new(count: usize) -> Words {
        Words((0..count).map(|_| AtomicU32::new(0)).collect())
    }

    fn address(&self, at: usize) -> u64 {
        &raw const self.0[at] as u64
    }

    /// Returns the index of the first word that begins a page.
    pub fn first_of_page(&self) -> usize {
        let into_page = self.address(0) as usize % 4096;
        (4096 - into_page) % 4096 / 4
    }

    pub fn word(&self, at: usize) -> &AtomicU32 {
        &self.0[at]
    }

    pub fn is_set(&self, at: usize) -> bool {
        self.0[at].load(Ordering::Relaxed) & 1 == 1
    }
}

pub struct Request {
    register: Register,
    unregister: Unregister,
    _text: CString,
}

impl Request {
    /// Requests an event of this description, with bit 0 of a word.
    pub fn new(text: &str, words: &Words, at: usize) -> Request {
        let text = CString::new(text).expect("a description");
        Request {
            register: Register {
                size: 28,
                enable_bit: 0,
                enable_size: 4,
                flags: 0,
                enable_addr: words.address(at),
                name_args: text.as_ptr() as u64,
                write_index: 0,
            },
            unregister: Unregister {
                size: 16,
                disable_bit: 0,
                reserved: 0,
                reserved2: 0,
                disable_addr: words.address(at),
            },
            _text: text,
        }
    }

    /// Registers an event of this description on a file, with bit 0 of a word.
    pub fn registered(file: &File, text: &str, words: &Words, at: usize) -> Request {
        let mut request = Request::new(text, words, at);
        assert_eq!(request.register(file), 0, "register {text}");
        request
    }

    pub fn set_bit(&mut self, words: &Words, at: usize, bit: u8) {
        let address = words.address(at);
        (self.register.enable_addr, self.register.enable_bit) = (address, bit);
        (self.unregister.disable_addr, self.unregister.disable_bit) = (address, bit);
    }

    /// Registers; returns the result of the ioctl.
    #[inline]
    pub fn register(&mut self, file: &File) -> i32 {
        sys::ioctl(file, DIAG_IOCSREG, &mut self.register)
    }

    /// Unregisters; returns the result of the ioctl.
    #[inline]
    pub fn unregister(&mut self, file: &File) -> i32 {
        sys::ioctl(file, DIAG_IOCSUNREG, &mut self.unregister)
    }

    pub fn index(&self) -> u32 {
        self.register.write_index
    }
}

/// Describes an event with 12 bytes of payload, like the kernel's sample.
pub fn described(name: &str) -> String {
    format!("{name} u32 a; u32 b; u32 c")
}

pub fn numbered(number: usize) -> String {
    described(&format!("bench_{number}"))
}

/// The path of a file of an event of the first group, or of `SYSTEM/NAME`.
pub fn path(name: &str, file: &str) -> String {
    let system = if name.contains('/') {
        ""
    } else {
        "user_events/"
    };
    format!("{TRACING}/events/{system}{name}/{file}")
}

pub fn set(name: &str, file: &str, value: &str) {
    fs::write(path(name, file), value)
        .unwrap_or_else(|error| panic!("{value} to {file} of {name}: {error}"));
}

/// The file `enable` of an event.
pub struct Switch(File);

impl Switch {
    pub fn new(name: &str) -> Switch {
        Switch(sys::open_to_write(&path(name, "enable")))
    }

    pub fn turn(&self, on: bool) {
        let written = sys::write(&self.0, if on { b"1" } else { b"0" });
        assert_eq!(written, 1, "turning an event on or off");
    }
}

/// Waits until no event is left: events of ended users are freed with a delay.
///
/// Does not read the status file: C lists events there without the lock under which it frees them,
/// and reads freed memory.
pub fn wait_until_none() {
    wait_until_none_by(Duration::from_millis(10));
}

/// Like [`wait_until_none`], with this interval. Returns the number of polls.
pub fn wait_until_none_by(interval: Duration) -> u64 {
    let none = || {
        let listing = File::open(format!("{TRACING}/dynamic_events"));
        // The first lines show whether there are any.
        let mut lines = [0; 4096];
        let read = listing.and_then(|mut listing| listing.read(&mut lines));
        let lines = &lines[..read.expect("the listing of dynamic events")];
        !lines
            .split(|&byte| byte == b'\n')
            .any(|line| line.starts_with(b"u:"))
    };
    for looked in 1..60_000 {
        if none() {
            return looked;
        }
        std::thread::sleep(interval);
    }
    panic!("events are left behind");
}
