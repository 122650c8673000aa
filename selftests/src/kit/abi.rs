// SPDX-License-Identifier: GPL-2.0

//! The ABI as numbers and bytes, independent of the header that the tests check.

use crate::kit::errno::Result;
use crate::kit::group::Group;
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::os;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Write};
use std::path::Path;

pub const DATA: &str = "/sys/kernel/tracing/user_events_data";
pub const STATUS: &str = "/sys/kernel/tracing/user_events_status";
pub const PROFILE: &str = "/sys/kernel/tracing/user_events_profile";
pub const REGISTRATIONS: &str = "/sys/kernel/tracing/user_events_registrations";

/// An ioctl number for a pointer and the magic `*`; a direction of 1 is write, 3 is both.
const fn request(direction: u64, number: u64) -> u64 {
    (direction << 30) | (8 << 16) | (0x2a << 8) | number
}

/// `_IOWR('*', 0, void *)`
pub const DIAG_IOCSREG: u64 = request(3, 0);
/// `_IOW('*', 1, void *)`
pub const DIAG_IOCSDEL: u64 = request(1, 1);
/// `_IOW('*', 2, void *)`
pub const DIAG_IOCSUNREG: u64 = request(1, 2);

/// `USER_EVENT_REG_PERSIST`
pub const PERSIST: u16 = 1;
/// `USER_EVENT_REG_MULTI_FORMAT`
pub const MULTI_FORMAT: u16 = 2;

/// A value of `write_index` that shows whether the kernel wrote it.
pub const NO_INDEX: u32 = 0xdead_beef;

/// `struct user_reg`, and any bytes behind it.
#[derive(Clone)]
pub struct Register {
    pub size: u32,
    pub enable_bit: u8,
    pub enable_size: u8,
    pub flags: u16,
    pub enable_addr: u64,
    pub name_args: u64,
    pub write_index: u32,
    pub tail: Vec<u8>,
}

impl Register {
    /// A valid request, for bit 0 of a 32-bit word. `name_args` is an address.
    pub fn new(enable_addr: u64, name_args: u64) -> Register {
        Register {
            size: 28,
            enable_bit: 0,
            enable_size: 4,
            flags: 0,
            enable_addr,
            name_args,
            write_index: NO_INDEX,
            tail: Vec::new(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.size.to_ne_bytes());
        bytes.extend([self.enable_bit, self.enable_size]);
        bytes.extend(self.flags.to_ne_bytes());
        bytes.extend(self.enable_addr.to_ne_bytes());
        bytes.extend(self.name_args.to_ne_bytes());
        bytes.extend(self.write_index.to_ne_bytes());
        assert_eq!(bytes.len(), 28);
        bytes.extend(&self.tail);
        bytes
    }
}

/// `struct user_unreg`, and any bytes behind it.
#[derive(Clone)]
pub struct Unregister {
    pub size: u32,
    pub disable_bit: u8,
    pub reserved: u8,
    pub reserved2: u16,
    pub disable_addr: u64,
    pub tail: Vec<u8>,
}

impl Unregister {
    pub fn new(disable_addr: u64, disable_bit: u8) -> Unregister {
        Unregister {
            size: 16,
            disable_bit,
            reserved: 0,
            reserved2: 0,
            disable_addr,
            tail: Vec::new(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.size.to_ne_bytes());
        bytes.extend([self.disable_bit, self.reserved]);
        bytes.extend(self.reserved2.to_ne_bytes());
        bytes.extend(self.disable_addr.to_ne_bytes());
        assert_eq!(bytes.len(), 16);
        bytes.extend(&self.tail);
        bytes
    }
}

/// An open `user_events_data`, of the first group or of another.
pub struct Data {
    pub file: File,
}

impl Data {
    /// Opens the file of the first group for reading and writing.
    #[track_caller]
    pub fn open() -> Data {
        Data::try_open().unwrap_or_else(|errno| panic!("open {DATA}: {errno:?}"))
    }

    /// The same, with the error if there is no such file.
    pub fn try_open() -> Result<Data> {
        Data::at(Path::new(DATA))
    }

    /// Opens the file of another group.
    #[track_caller]
    pub fn open_in(group: &Group) -> Data {
        Data::try_open_in(group).unwrap_or_else(|errno| panic!("open {}: {errno:?}", group.name))
    }

    /// The same, with the error if there is no such file.
    pub fn try_open_in(group: &Group) -> Result<Data> {
        Data::at(&group.data())
    }

    pub fn at(path: &Path) -> Result<Data> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Data { file })
    }

    /// Opens the file of the first group for reading only.
    pub fn open_read_only() -> Data {
        let file = File::open(DATA).expect(DATA);
        Data { file }
    }

    /// An ioctl on a copy of `argument`. Returns the copy as the kernel left it.
    fn ioctl(&self, command: u64, argument: &[u8]) -> (Result<i32>, Vec<u8>) {
        let mut bytes = argument.to_vec();
        let result = os::ioctl(&self.file, command, bytes.as_mut_ptr() as u64);
        (result, bytes)
    }

    /// Registers. Returns the write index; panics if a failure changed it.
    pub fn register(&self, request: &Register) -> Result<u32> {
        let (result, bytes) = self.ioctl(DIAG_IOCSREG, &request.bytes());
        let index = u32::from_ne_bytes(bytes[24..28].try_into().unwrap());
        if result.is_err() {
            assert_eq!(
                index, request.write_index,
                "a failed register wrote write_index"
            );
        } else {
            assert_eq!(result, Ok(0));
        }
        result.map(|_| index)
    }

    /// Registers a description with a bit of a 32-bit word.
    pub fn register_text(&self, text: &str, address: u64, bit: u8) -> Result<u32> {
        self.register_flags(text, address, bit, 0)
    }

    /// Registers a description with a bit of a 32-bit word, and with flags.
    pub fn register_flags(&self, text: &str, address: u64, bit: u8, flags: u16) -> Result<u32> {
        let text = CString::new(text).unwrap();
        let request = Register::new(address, text.as_ptr() as u64);
        self.register(&Register {
            enable_bit: bit,
            flags,
            ..request
        })
    }

    /// Registers a description with the same bit of the first word of each page. Returns the write
    /// index, the same for all.
    #[track_caller]
    pub fn register_pages(&self, text: &str, pages: &Mapping, bit: u8) -> u32 {
        let register = |address| self.register_text(text, address, bit).expect("register");
        let mut addresses = (pages.address()..pages.end()).step_by(PAGE);
        let index = register(addresses.next().expect("a page"));
        addresses.for_each(|address| assert_eq!(register(address), index));
        index
    }

    pub fn unregister(&self, request: &Unregister) -> Result<()> {
        self.ioctl(DIAG_IOCSUNREG, &request.bytes()).0.map(drop)
    }

    pub fn unregister_bit(&self, address: u64, bit: u8) -> Result<()> {
        self.unregister(&Unregister::new(address, bit))
    }

    pub fn delete(&self, name: &str) -> Result<()> {
        let name = CString::new(name).unwrap();
        os::ioctl(&self.file, DIAG_IOCSDEL, name.as_ptr() as u64).map(drop)
    }

    /// Writes an index and a payload in one buffer.
    pub fn write(&self, index: u32, payload: &[u8]) -> Result<usize> {
        let record = [&index.to_ne_bytes(), payload].concat();
        Ok((&self.file).write(&record)?)
    }

    /// Writes a record that is split over several buffers.
    pub fn writev(&self, parts: &[&[u8]]) -> Result<usize> {
        let parts: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        Ok((&self.file).write_vectored(&parts)?)
    }
}

/// The value of a `__data_loc` or `__rel_loc` field, as bytes.
pub fn location(offset: u32, size: u32) -> [u8; 4] {
    ((size << 16) | offset).to_ne_bytes()
}
