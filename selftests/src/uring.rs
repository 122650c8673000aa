// SPDX-License-Identifier: GPL-2.0

//! Writes by io_uring, one at a time. C: linux/io_uring.h.

use crate::errno::{Errno, Result};
use crate::memory::{Mapping, PAGE};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Release};

/// `IORING_OFF_SQES`.
const SUBMISSIONS: i64 = 0x1000_0000;
/// `IORING_FEAT_SINGLE_MMAP`: both queues lie in one mapping.
const SINGLE_MMAP: u32 = 1;
/// `IORING_ENTER_GETEVENTS`.
const GET_EVENTS: u32 = 1;
/// `IORING_REGISTER_BUFFERS`.
const REGISTER_BUFFERS: u32 = 0;

/// How a record is handed over.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// `IORING_OP_WRITE`.
    Write = 23,
    /// `IORING_OP_WRITEV`.
    Writev = 2,
    /// `IORING_OP_WRITE_FIXED`: pages that were pinned before, and that the kernel reads as its own.
    WriteFixed = 5,
}

/// `struct io_sqring_offsets` and `struct io_cqring_offsets`, by their numbers.
#[repr(C)]
#[derive(Default)]
struct Offsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    /// Flags here, overflows there.
    fifth: u32,
    /// Dropped here, entries there.
    sixth: u32,
    /// The array of submissions here, flags there.
    seventh: u32,
    reserved: u32,
    address: u64,
}

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Parameters {
    submissions: u32,
    completions: u32,
    flags: u32,
    thread: [u32; 2],
    features: u32,
    workers: u32,
    reserved: [u32; 3],
    submission: Offsets,
    completion: Offsets,
}

/// An io_uring of one entry, and the one page that it reads from.
pub struct Ring {
    ring: OwnedFd,
    parameters: Parameters,
    queues: Mapping,
    submissions: Mapping,
    /// The record at its start, and what a `writev` is told of it behind.
    pub page: Mapping,
}

impl Ring {
    /// `None` on a kernel that was built without.
    pub fn new() -> Option<Ring> {
        let mut parameters = Parameters::default();
        // SAFETY: The kernel fills in the parameters, which have its layout.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, &raw mut parameters) };
        if ring < 0 {
            assert_eq!(Errno::last(), Errno::ENOSYS);
            return None;
        }
        // SAFETY: Nobody else has the new descriptor.
        let ring = unsafe { OwnedFd::from_raw_fd(ring as i32) };
        assert_ne!(parameters.features & SINGLE_MMAP, 0);
        let file = File::from(ring.try_clone().expect("dup"));
        let map = |offset| Mapping::of_file_at(&file, offset).expect("mmap");
        let (queues, submissions) = (map(0), map(SUBMISSIONS));
        let page = Mapping::new(1);
        let buffer = libc::iovec {
            iov_base: page.address() as *mut _,
            iov_len: PAGE,
        };
        // SAFETY: The kernel reads one iovec, and pins its page, which lives as long as the ring.
        let ret = unsafe {
            libc::syscall(
                libc::SYS_io_uring_register,
                ring.as_raw_fd(),
                REGISTER_BUFFERS,
                &raw const buffer,
                1,
            )
        };
        assert_eq!(ret, 0, "io_uring_register: {:?}", Errno::last());
        Some(Ring {
            ring,
            parameters,
            queues,
            submissions,
            page,
        })
    }

    /// Writes the first `length` bytes of the page, and waits for the result.
    pub fn write(&self, file: &File, how: How, length: usize) -> Result<usize> {
        let (mut address, mut count) = (self.page.address(), length as u32);
        if let How::Writev = how {
            // Two parts: the index, and the rest.
            let index = length.min(4);
            let parts = [address, index as u64, address + 4, (length - index) as u64];
            for (number, word) in parts.into_iter().enumerate() {
                self.page.put(PAGE / 2 + 8 * number, &word.to_ne_bytes());
            }
            (address, count) = (address + PAGE as u64 / 2, 2);
        }
        self.submit(file, how, address, count)
    }

    /// Writes no parts at all, and waits for the result.
    pub fn write_no_parts(&self, file: &File) -> Result<usize> {
        self.submit(file, How::Writev, self.page.address(), 0)
    }

    fn submit(&self, file: &File, how: How, address: u64, count: u32) -> Result<usize> {
        let mut entry = [0; 64];
        entry[0] = how as u8;
        entry[4..8].copy_from_slice(&file.as_raw_fd().to_ne_bytes());
        entry[16..24].copy_from_slice(&address.to_ne_bytes());
        entry[24..28].copy_from_slice(&count.to_ne_bytes());
        self.submissions.put(0, &entry);

        let queue = &self.parameters.submission;
        self.queues.put(queue.seventh as usize, &0u32.to_ne_bytes());
        let tail = self.queues.word(queue.tail as usize);
        tail.store(tail.load(Acquire).wrapping_add(1), Release);
        // SAFETY: What the kernel reads lives until it is done, which is waited for.
        let ret = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.ring.as_raw_fd(),
                1,
                1,
                GET_EVENTS,
                std::ptr::null::<u8>(),
                0,
            )
        };
        assert_eq!(ret, 1, "io_uring_enter: {:?}", Errno::last());

        let queue = &self.parameters.completion;
        let head = self.queues.word(queue.head as usize);
        let number = head.load(Acquire);
        assert_ne!(number, self.queues.word(queue.tail as usize).load(Acquire));
        let mask = self.queues.word(queue.mask as usize).load(Acquire);
        let at = queue.sixth + 16 * (number & mask) + 8;
        let result = self.queues.word(at as usize).load(Acquire) as i32;
        head.store(number.wrapping_add(1), Release);
        match usize::try_from(result) {
            Ok(written) => Ok(written),
            Err(_) => Err(Errno(-result)),
        }
    }
}
