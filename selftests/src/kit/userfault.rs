// SPDX-License-Identifier: GPL-2.0

//! Memory whose page faults are handled by a program, late or never.
//!
//! The numbers are those of linux/userfaultfd.h.

use crate::kit::child::{Child, Line};
use crate::kit::errno::Errno;
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::{os, tasks, wait};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

/// Exists if the kernel has userfaultfd.
pub const PATH: &str = "/proc/sys/vm/unprivileged_userfaultfd";

const API: u64 = 0xaa;

/// UFFD_FEATURE_WP_ASYNC: the kernel itself resolves and records guarded writes. It works for all
/// memory, also that of a file system.
const ASYNC: u64 = 1 << 15;

/// A command with an argument of `size` bytes, which it changes.
const fn command(number: u64, size: u64) -> u64 {
    (3 << 30) | (size << 16) | (0xaa << 8) | number
}

const UFFDIO_API: u64 = command(0x3f, 24);
const UFFDIO_REGISTER: u64 = command(0x00, 32);
const UFFDIO_COPY: u64 = command(0x03, 40);
const UFFDIO_MOVE: u64 = command(0x05, 40);
const UFFDIO_WRITEPROTECT: u64 = command(0x06, 24);

/// The kind of access to a page that is guarded.
#[derive(Clone, Copy)]
pub enum Guard {
    Missing = 1,
    Writes = 2,
}

#[repr(align(4096))]
struct Page([u32; PAGE / 4]);

/// A userfaultfd for the address space in which it was made.
pub struct Userfault {
    file: File,
}

impl Userfault {
    /// For faults that the test resolves.
    pub fn new() -> Userfault {
        Userfault::with(0)
    }

    /// The same, which guards all pages of a mapping of this process.
    pub fn on(pages: &Mapping, guard: Guard) -> Userfault {
        let new = Userfault::new();
        new.guard(pages, guard);
        new
    }

    /// For write faults that the kernel itself resolves.
    pub fn answered_by_the_kernel() -> Userfault {
        Userfault::with(ASYNC)
    }

    fn with(features: u64) -> Userfault {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: Takes a number.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        assert!(fd >= 0, "userfaultfd: {:?}", Errno::last());
        // SAFETY: The descriptor is new, and this is its only owner.
        let file = unsafe { File::from_raw_fd(fd as RawFd) };
        let new = Userfault { file };
        new.command(UFFDIO_API, &mut [API, features, 0]);
        new
    }

    /// Sends the descriptor and the address of the page, in a child.
    pub fn send(&self, line: &mut Line, page: &Mapping) {
        line.send(format!("{} {}", self.file.as_raw_fd(), page.address()));
    }

    /// Takes it from a child that [sends](Self::send) it. Returns it with the page's address.
    pub fn of_child(child: &mut Child) -> (Userfault, u64) {
        let said: String = child.line.receive();
        let (number, page) = said.split_once(' ').expect("two numbers");
        let file = tasks::take_file(child.pid, number.parse().unwrap());
        (Userfault { file }, page.parse().unwrap())
    }

    fn command<const WORDS: usize>(&self, command: u64, words: &mut [u64; WORDS]) {
        let result = os::ioctl(&self.file, command, words.as_mut_ptr() as u64);
        assert_eq!(result, Ok(0), "userfaultfd command {command:#x}");
    }

    /// Guards all pages of a mapping in the process that made this.
    pub fn guard(&self, mapping: &Mapping, guard: Guard) {
        let (start, length) = (mapping.address(), mapping.end() - mapping.address());
        self.command(UFFDIO_REGISTER, &mut [start, length, guard as u64, 0]);
        match guard {
            Guard::Missing => mapping.advise(libc::MADV_DONTNEED).unwrap(),
            Guard::Writes => self.command(UFFDIO_WRITEPROTECT, &mut [start, length, 1]),
        }
    }

    /// The address of the next unread fault, which stays unresolved.
    pub fn next_fault(&self) -> Option<u64> {
        let mut message = [0; 32];
        match (&self.file).read(&mut message).map_err(Errno::from) {
            Ok(_) => {
                assert_eq!(message[0], 0x12, "not a page fault");
                let address = u64::from_ne_bytes(message[16..24].try_into().unwrap());
                Some(address & !(PAGE as u64 - 1))
            }
            Err(Errno::EAGAIN) => None,
            Err(errno) => panic!("read a userfaultfd: {errno:?}"),
        }
    }

    /// Waits for the next fault, which stays unresolved.
    #[track_caller]
    pub fn wait_asked(&self) {
        wait::until("a page to be asked for", || self.next_fault().is_some());
    }

    /// Resolves the faults on a missing page, filled with `word`.
    pub fn fill(&self, address: u64, word: u32) {
        // Not mapped for this: mmap would wait for a thread that holds the mmap_lock.
        let page = Page([word; PAGE / 4]);
        let source = page.0.as_ptr().expose_provenance() as u64;
        let address = address & !(PAGE as u64 - 1);
        let mut words = [address, source, PAGE as u64, 0, 0];
        self.command(UFFDIO_COPY, &mut words);
    }

    /// Moves a page of this process to a missing page that is guarded.
    pub fn move_page(&self, from: u64, to: u64) {
        let mut words = [to, from, PAGE as u64, 0, 0];
        self.command(UFFDIO_MOVE, &mut words);
    }

    /// Resolves the faults on a page guarded against writes, by allowing them.
    pub fn allow_writes(&self, address: u64) {
        let address = address & !(PAGE as u64 - 1);
        self.command(UFFDIO_WRITEPROTECT, &mut [address, PAGE as u64, 0]);
    }
}
