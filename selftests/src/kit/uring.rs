// SPDX-License-Identifier: GPL-2.0

//! Writes and polls by io_uring, one at a time. C: linux/io_uring.h.

use crate::kit::errno::{Errno, Result};
use crate::kit::memory::{Mapping, PAGE};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

/// Exists if the kernel has io_uring.
pub const PATH: &str = "/proc/sys/kernel/io_uring_disabled";

const IORING_OFF_SQES: i64 = 0x1000_0000;
/// Both queues lie in one mapping.
const IORING_FEAT_SINGLE_MMAP: u32 = 1;
const IORING_ENTER_GETEVENTS: u32 = 1;
const IORING_ENTER_SQ_WAKEUP: u32 = 2;
const IORING_SETUP_SQPOLL: u32 = 2;
const IORING_REGISTER_BUFFERS: u32 = 0;
const IORING_REGISTER_FILES: u32 = 2;
const IORING_UNREGISTER_FILES: u32 = 3;
const IOSQE_FIXED_FILE: u8 = 1;
const IOSQE_ASYNC: u8 = 16;
const IORING_OP_POLL_ADD: u8 = 6;

/// The task that executes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The submitter.
    Caller,
    /// A worker of a pool (`IOSQE_ASYNC`).
    Worker,
    /// A kernel thread that polls for requests (`IORING_SETUP_SQPOLL`).
    Poller,
}

/// The operation that writes a record.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// `IORING_OP_WRITE`.
    Write = 23,
    /// `IORING_OP_WRITEV`.
    Writev = 2,
    /// `IORING_OP_WRITE_FIXED`: a registered buffer, which the kernel reads through pinned pages.
    WriteFixed = 5,
}

/// `struct io_sqring_offsets` and `struct io_cqring_offsets`, and the numbers of their members.
type Offsets = [u32; 10];
const HEAD: usize = 0;
const TAIL: usize = 1;
const MASK: usize = 2;
const COMPLETIONS: usize = 5;
const ARRAY: usize = 6;

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

/// An io_uring of one entry, with one page of data.
pub struct Ring {
    ring: OwnedFd,
    parameters: Parameters,
    queues: Mapping,
    submissions: Mapping,
    by: By,
    /// The record at the start, and the iovecs of a `writev` behind it.
    pub page: Mapping,
}

impl Ring {
    pub fn new() -> Ring {
        Ring::run_by(By::Caller)
    }

    /// Makes a ring whose requests are executed by a given task.
    pub fn run_by(by: By) -> Ring {
        let mut parameters = Parameters::default();
        if by == By::Poller {
            parameters.flags = IORING_SETUP_SQPOLL;
            // sq_thread_idle in milliseconds.
            parameters.thread[1] = 10;
        }
        // SAFETY: The kernel fills in the parameters, which have its layout.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, &raw mut parameters) };
        assert!(ring >= 0, "io_uring_setup: {:?}", Errno::last());
        // SAFETY: The descriptor is new, and this is its only owner.
        let ring = unsafe { OwnedFd::from_raw_fd(ring as i32) };
        assert_ne!(parameters.features & IORING_FEAT_SINGLE_MMAP, 0);
        let file = File::from(ring.try_clone().expect("dup"));
        let map = |offset| Mapping::of_file_at(&file, offset).expect("mmap");
        let (queues, submissions) = (map(0), map(IORING_OFF_SQES));
        let page = Mapping::new(1);
        let ring = Ring {
            ring,
            parameters,
            queues,
            submissions,
            by,
            page,
        };
        let buffer = libc::iovec {
            iov_base: ring.page.address() as *mut _,
            iov_len: PAGE,
        };
        ring.register(IORING_REGISTER_BUFFERS, &raw const buffer, 1);
        ring
    }

    /// A page shared with the kernel and allocated by it, the end of which is unused.
    pub fn shared(&self) -> &Mapping {
        &self.queues
    }

    /// Registers buffers or files. The page of a buffer, which the kernel pins, is the ring's own.
    fn register<T>(&self, what: u32, first: *const T, count: usize) {
        let ring = self.ring.as_raw_fd();
        // SAFETY: The kernel reads `count` values, which live through the call.
        let ret = unsafe { libc::syscall(libc::SYS_io_uring_register, ring, what, first, count) };
        assert_eq!(ret, 0, "io_uring_register: {:?}", Errno::last());
    }

    /// Registers a file, to which [`Self::write_held`] writes. One at a time.
    pub fn hold(&self, file: &File) {
        let descriptor = file.as_raw_fd();
        self.register(IORING_REGISTER_FILES, &raw const descriptor, 1);
    }

    /// Unregisters the file.
    pub fn let_go(&self) {
        self.register(IORING_UNREGISTER_FILES, std::ptr::null::<i32>(), 0);
    }

    /// Writes the first `length` bytes of the page to the registered file.
    pub fn write_held(&self, how: How, length: usize) -> Result<usize> {
        let (address, count) = self.parts(how, length);
        let mut entry = self.entry(how as u8, 0, address, count);
        entry[1] |= IOSQE_FIXED_FILE;
        self.submit(&entry)
    }

    /// Writes the first `length` bytes of the page, and waits for the result.
    pub fn write(&self, file: &File, how: How, length: usize) -> Result<usize> {
        let (address, count) = self.parts(how, length);
        self.submit(&self.entry(how as u8, file.as_raw_fd(), address, count))
    }

    /// Writes an empty iovec array, and waits for the result.
    pub fn write_no_parts(&self, file: &File) -> Result<usize> {
        let address = self.page.address();
        self.submit(&self.entry(How::Writev as u8, file.as_raw_fd(), address, 0))
    }

    /// Address and length of an entry for the first `length` bytes of the page.
    fn parts(&self, how: How, length: usize) -> (u64, u32) {
        let address = self.page.address();
        let How::Writev = how else {
            return (address, length as u32);
        };
        // Two parts: the index, and the rest.
        let index = length.min(4);
        let parts = [address, index as u64, address + 4, (length - index) as u64];
        for (number, word) in parts.into_iter().enumerate() {
            self.page.put(PAGE / 2 + 8 * number, &word.to_ne_bytes());
        }
        (address + PAGE as u64 / 2, 2)
    }

    /// `struct io_uring_sqe`.
    fn entry(&self, operation: u8, file: i32, address: u64, count: u32) -> [u8; 64] {
        let mut entry = [0; 64];
        entry[0] = operation;
        if self.by == By::Worker {
            entry[1] = IOSQE_ASYNC;
        }
        entry[4..8].copy_from_slice(&file.to_ne_bytes());
        entry[16..24].copy_from_slice(&address.to_ne_bytes());
        entry[24..28].copy_from_slice(&count.to_ne_bytes());
        entry
    }

    /// Starts to poll a file for events (`IORING_OP_POLL_ADD`), repeatedly if it `stays`.
    pub fn begin_poll(&self, file: &File, events: u32, stays: bool) {
        let mut entry = self.entry(IORING_OP_POLL_ADD, file.as_raw_fd(), 0, u32::from(stays));
        entry[28..32].copy_from_slice(&events.to_ne_bytes());
        self.hand_in(&entry, 0);
    }

    /// The next events reported by a poll, within a time.
    pub fn polled(&self, limit: Duration) -> Option<u32> {
        let start = Instant::now();
        loop {
            // Completions are posted when this thread returns from a system call.
            if let Some(result) = self.next_result() {
                return Some(result.expect("poll") as u32);
            }
            if start.elapsed() > limit {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Submits an entry, and waits for the result.
    fn submit(&self, entry: &[u8; 64]) -> Result<usize> {
        self.hand_in(entry, 1);
        self.next_result().expect("a result")
    }

    /// Submits an entry, and waits for `results` results.
    fn hand_in(&self, entry: &[u8; 64], results: u32) {
        self.submissions.put(0, entry);

        let queue = &self.parameters.submission;
        self.queues.set(queue[ARRAY] as usize, 0);
        let tail = self.queues.word(queue[TAIL] as usize);
        tail.store(tail.load(Acquire).wrapping_add(1), Release);
        let flags = match self.by {
            By::Poller => IORING_ENTER_GETEVENTS | IORING_ENTER_SQ_WAKEUP,
            _ => IORING_ENTER_GETEVENTS,
        };
        let (ring, mask) = (self.ring.as_raw_fd(), std::ptr::null::<u8>());
        // SAFETY: The memory read by the kernel lives until the completion, which is waited for.
        let ret =
            unsafe { libc::syscall(libc::SYS_io_uring_enter, ring, 1, results, flags, mask, 0) };
        assert_eq!(ret, 1, "io_uring_enter: {:?}", Errno::last());
    }

    /// Takes the next result, if there is one.
    fn next_result(&self) -> Option<Result<usize>> {
        let queue = &self.parameters.completion;
        let head = self.queues.word(queue[HEAD] as usize);
        let number = head.load(Acquire);
        if number == self.queues.word(queue[TAIL] as usize).load(Acquire) {
            return None;
        }
        let mask = self.queues.word(queue[MASK] as usize).load(Acquire);
        let at = queue[COMPLETIONS] + 16 * (number & mask) + 8;
        let result = self.queues.word(at as usize).load(Acquire) as i32;
        head.store(number.wrapping_add(1), Release);
        Some(usize::try_from(result).map_err(|_| Errno(-result)))
    }
}
