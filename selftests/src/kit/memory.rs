// SPDX-License-Identifier: GPL-2.0

//! Mappings that the kernel changes asynchronously, accessed through atomics only.

use crate::kit::errno::{Errno, Result};
use crate::kit::os;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub const PAGE: usize = 4096;

pub const HUGE_PAGE: usize = 2 << 20;

/// `mseal()`, with the same number on all architectures.
const SYS_MSEAL: libc::c_long = 462;

/// `MAP_DROPPABLE`: the kernel may drop the pages, and a child inherits none.
pub const DROPPABLE: i32 = 0x08;

/// An address of the kernel on all architectures.
pub const KERNEL: u64 = 0xffff_ffff_8100_0000;

/// The end of user addresses.
pub const USER_END: u64 = if cfg!(target_arch = "aarch64") {
    1 << 48
} else {
    0x7fff_ffff_f000
};

/// A non-canonical address: on arm64 the top byte may be a tag, and 52 bits are the most below it.
pub const NON_CANONICAL: u64 = if cfg!(target_arch = "aarch64") {
    1 << 54
} else {
    1 << 62
};

pub const READ: i32 = libc::PROT_READ;
pub const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping of whole pages.
///
/// It is unmapped when dropped, unless it is kept: the address of a registered bit must not be
/// reused for another mapping.
///
/// Invariant: while `mapped`, `start..start + length` is a mapping that this value alone made and
/// that nothing in Rust refers to but through this value, and then as atomics only.
pub struct Mapping {
    start: *mut u8,
    length: usize,
    mapped: bool,
    kept: bool,
}

// SAFETY: All access to the memory is through atomics, or takes `&mut self`.
unsafe impl Sync for Mapping {}
// SAFETY: A mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn map(
        address: *mut u8,
        length: usize,
        protection: i32,
        flags: i32,
        (fd, offset): (i32, i64),
    ) -> Result<Self> {
        assert_eq!(length % PAGE, 0);
        // SAFETY: Either the kernel chooses a free place, or the callers, all in this file, own
        // `address` or have just unmapped it.
        let start = unsafe { libc::mmap(address.cast(), length, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        Ok(Mapping {
            start: start.cast(),
            length,
            mapped: true,
            kept: false,
        })
    }

    /// Zeroed memory, by more `flags` of `mmap`.
    fn anonymous(address: *mut u8, length: usize, flags: i32) -> Result<Mapping> {
        let flags = flags | libc::MAP_ANONYMOUS;
        Mapping::map(address, length, READ_WRITE, flags, (-1, 0))
    }

    /// The same mapping, which stays until the process ends.
    fn keep(mut self) -> Mapping {
        self.kept = true;
        self
    }

    /// Zeroed private memory.
    pub fn new(pages: usize) -> Mapping {
        Mapping::anonymous(ptr::null_mut(), pages * PAGE, libc::MAP_PRIVATE).expect("mmap")
    }

    /// Zeroed private memory that stays mapped until the process ends.
    pub fn kept(pages: usize) -> Mapping {
        Mapping::new(pages).keep()
    }

    /// The same at a free address.
    pub fn placed(address: u64, pages: usize) -> Mapping {
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
        let place = ptr::without_provenance_mut(address as usize);
        let mapping = Mapping::anonymous(place, pages * PAGE, flags).expect("mmap");
        mapping.keep()
    }

    /// The first `pages` of a file; `flags` is MAP_SHARED or MAP_PRIVATE.
    pub fn of_file(file: &File, pages: usize, protection: i32, flags: i32) -> Result<Mapping> {
        let place = (file.as_raw_fd(), 0);
        Mapping::map(ptr::null_mut(), pages * PAGE, protection, flags, place)
    }

    /// The first `pages` of a file, shared, to be read and written.
    pub fn of_shared(file: &File, pages: usize) -> Mapping {
        Mapping::of_file(file, pages, READ_WRITE, libc::MAP_SHARED).expect("mmap")
    }

    /// A shared page of a file, at an offset that is a multiple of the page size.
    pub fn of_file_at(file: &File, offset: i64) -> Result<Mapping> {
        let place = (file.as_raw_fd(), offset);
        Mapping::map(ptr::null_mut(), PAGE, READ_WRITE, libc::MAP_SHARED, place)
    }

    /// Zeroed memory of huge pages; `sharing` is MAP_SHARED or MAP_PRIVATE.
    pub fn of_huge_pages(pages: usize, sharing: i32) -> Result<Mapping> {
        let flags = sharing | libc::MAP_HUGETLB;
        Mapping::anonymous(ptr::null_mut(), pages * HUGE_PAGE, flags)
    }

    /// Zeroed private memory of another kind, by the `flags` of `mmap`.
    pub fn of_kind(flags: i32, pages: usize) -> Result<Mapping> {
        Mapping::anonymous(ptr::null_mut(), pages * PAGE, flags).map(Mapping::keep)
    }

    /// Zeroed memory shared with children.
    pub fn shared(pages: usize) -> Mapping {
        Mapping::anonymous(ptr::null_mut(), pages * PAGE, libc::MAP_SHARED).expect("mmap")
    }

    pub fn address(&self) -> u64 {
        self.start as u64
    }

    pub fn end(&self) -> u64 {
        self.address() + self.length as u64
    }

    fn at(&self, offset: usize, size: usize) -> *mut u8 {
        assert!(self.mapped && offset % size == 0 && offset + size <= self.length);
        // SAFETY: Just checked to lie within the mapping.
        unsafe { self.start.add(offset) }
    }

    /// The 32-bit word at an offset. Accessing it while the page is protected kills the process.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: Aligned, within the mapping, which lives as long as `self`, and never seen but
        // as an atomic.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    /// The value of the 32-bit word at an offset.
    pub fn get(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Relaxed)
    }

    /// Stores to the 32-bit word at an offset.
    pub fn set(&self, offset: usize, value: u32) {
        self.word(offset).store(value, Ordering::Relaxed);
    }

    /// The 64-bit word at an offset. Accessing it while the page is protected kills the process.
    pub fn long(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: As in `word`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    /// Writes bytes at an offset that is a multiple of four, padded with zeros to whole words.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        for (i, chunk) in bytes.chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            self.set(offset + 4 * i, u32::from_ne_bytes(word));
        }
    }

    pub fn protect(&self, protection: i32) {
        self.protect_from(0, protection);
    }

    /// Changes the protection of all pages from an offset on.
    pub fn protect_from(&self, offset: usize, protection: i32) {
        assert!(offset % PAGE == 0 && offset < self.length);
        let length = self.length - offset;
        // SAFETY: The pages are ours. A forbidden access raises a signal.
        let ret = unsafe { libc::mprotect(self.start.add(offset).cast(), length, protection) };
        assert_eq!(ret, 0, "mprotect: {:?}", Errno::last());
    }

    /// Gives the kernel advice about all pages: MADV_DONTNEED, MADV_PAGEOUT...
    pub fn advise(&self, advice: i32) -> Result<()> {
        self.advise_part(0, self.length, advice)
    }

    /// Gives the kernel advice about some pages.
    pub fn advise_part(&self, offset: usize, length: usize, advice: i32) -> Result<()> {
        assert!(self.mapped && offset % PAGE == 0 && offset + length <= self.length);
        // SAFETY: The pages are ours, and atomics stay valid whatever value they take.
        match unsafe { libc::madvise(self.start.add(offset).cast(), length, advice) } {
            0 => Ok(()),
            _ => Err(Errno::last()),
        }
    }

    /// Drops the pages: an access brings each in again, with zeros or what its file has.
    #[track_caller]
    pub fn discard(&self) {
        self.advise(libc::MADV_DONTNEED).expect("MADV_DONTNEED");
    }

    /// Swaps the pages out, if the kernel agrees.
    pub fn page_out(&self) {
        list_all_pages();
        self.advise(libc::MADV_PAGEOUT).expect("MADV_PAGEOUT");
    }

    /// The number of pages in memory.
    pub fn resident(&self) -> usize {
        let mut pages = vec![0u8; self.length / PAGE];
        // SAFETY: `pages` has a byte for each page.
        let ret = unsafe { libc::mincore(self.start.cast(), self.length, pages.as_mut_ptr()) };
        assert_eq!(ret, 0, "mincore: {:?}", Errno::last());
        pages.iter().filter(|&&page| page & 1 != 0).count()
    }

    /// Returns whether the first page is swapped out, and whether it is in memory. Neither if it
    /// was never populated.
    pub fn swapped_or_present(&self) -> (bool, bool) {
        let entry = page_map_entry(std::process::id() as i32, self.address());
        (entry & (1 << 62) != 0, entry & (1 << 63) != 0)
    }

    /// Returns whether the page is there and exclusive to that process.
    pub fn is_own_in(&self, pid: i32) -> bool {
        page_map_entry(pid, self.address()) & (1 << 56) != 0
    }

    /// The page frame number at the address of the first page in another process, where a page must
    /// be present.
    #[track_caller]
    pub fn frame_in(&self, pid: i32) -> u64 {
        let entry = page_map_entry(pid, self.address());
        let frame = entry & ((1 << 55) - 1);
        assert!(entry >> 63 != 0 && frame != 0, "entry {entry:#x}");
        frame
    }

    /// A value in kB of the VMA with the mapping, from smaps.
    pub fn kilobytes(&self, kind: &str) -> u64 {
        let text = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
        let mut inside = false;
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or("");
            if let Some(kind_here) = first.strip_suffix(':') {
                if inside && kind_here == kind {
                    return words.next().and_then(|kb| kb.parse().ok()).expect("kB");
                }
            } else if let Some((start, end)) = first.split_once('-') {
                let parse = |hex| u64::from_str_radix(hex, 16).expect("an address");
                inside = (parse(start)..parse(end)).contains(&self.address());
            }
        }
        panic!("{kind} in smaps");
    }

    /// Seals the pages, so that they cannot be moved, unmapped or protected.
    pub fn seal(&self) {
        // SAFETY: Takes numbers; the memory stays as it is.
        let ret = unsafe { libc::syscall(SYS_MSEAL, self.start, self.length, 0) };
        assert_eq!(ret, 0, "mseal: {:?}", Errno::last());
    }

    /// Moves the pages to another place, and remembers their address. With `leaving`, the old place
    /// stays mapped, without pages.
    pub fn move_away(&mut self, leaving: bool) -> Mapping {
        assert!(self.mapped);
        let to = Mapping::kept(self.length / PAGE);
        let mut flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        if leaving {
            flags |= libc::MREMAP_DONTUNMAP;
        }
        let (from, length) = (self.start.cast(), self.length);
        // SAFETY: Both places are ours. By `&mut` there is no reference into this one; the other
        // one is accessed through atomics only, which allow for changes.
        let at = unsafe { libc::mremap(from, length, length, flags, to.start) };
        assert_eq!(at, to.start.cast(), "mremap: {:?}", Errno::last());
        self.mapped = leaving;
        to
    }

    /// Maps the start of a file, shared, over all pages.
    pub fn cover(&self, file: &File, protection: i32) {
        assert!(self.mapped);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let place = (file.as_raw_fd(), 0);
        let new = Mapping::map(self.start, self.length, protection, flags, place).expect("mmap");
        // `self` owns the place already.
        std::mem::forget(new);
    }

    /// Locks the pages in memory, with the `flags` of `mlock2`.
    pub fn lock(&self, flags: u32) {
        // SAFETY: The pages are ours, and stay what they are.
        let ret = unsafe { libc::mlock2(self.start.cast(), self.length, flags) };
        assert_eq!(ret, 0, "mlock2: {:?}", Errno::last());
    }

    pub fn unlock(&self) {
        // SAFETY: As in `lock`.
        let ret = unsafe { libc::munlock(self.start.cast(), self.length) };
        assert_eq!(ret, 0, "munlock: {:?}", Errno::last());
    }

    /// Gives the pages a protection key that denies writes by this thread. The processor must have
    /// protection keys.
    pub fn forbid_writes_by_key(&self) {
        const PKEY_DISABLE_WRITE: u32 = 2;
        // SAFETY: Takes a key that nothing uses.
        let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, PKEY_DISABLE_WRITE) };
        assert!(key >= 0, "pkey_alloc: {:?}", Errno::last());
        let (start, length) = (self.start, self.length);
        // SAFETY: The pages are ours, and stay what they are.
        let ret = unsafe { libc::syscall(libc::SYS_pkey_mprotect, start, length, READ_WRITE, key) };
        assert_eq!(ret, 0, "pkey_mprotect: {:?}", Errno::last());
        // SAFETY: The kernel may write to our pages.
        let ret = unsafe { libc::syscall(libc::SYS_getrandom, start, 1, 0) };
        assert_eq!((ret, Errno::last()), (-1, Errno::EFAULT), "getrandom");
    }

    /// Unmaps the memory, and remembers its address.
    pub fn unmap(&mut self) {
        assert!(self.mapped);
        // SAFETY: The mapping is ours, and by `&mut` there is no reference into it.
        unsafe { libc::munmap(self.start.cast(), self.length) };
        self.mapped = false;
    }

    /// Maps fresh zeroed memory at the old address.
    pub fn map_again(&mut self) {
        assert!(!self.mapped);
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
        let new = Mapping::anonymous(self.start, self.length, flags).expect("mmap");
        assert_eq!(new.start, self.start);
        std::mem::forget(new);
        self.mapped = true;
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.mapped && !self.kept {
            self.unmap();
        }
    }
}

/// Returns whether the processor lacks protection keys, as the obstacle of a test.
pub fn lacks_protection_keys() -> Option<String> {
    // SAFETY: Takes numbers only: an unused key, which is freed below.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, 0) };
    if key < 0 {
        return Some("the processor has no protection keys".into());
    }
    // SAFETY: As above.
    unsafe { libc::syscall(libc::SYS_pkey_free, key) };
    None
}

/// A file in memory that the kernel itself cannot access.
pub fn secret_file(length: u64) -> File {
    // SAFETY: Takes a number.
    let fd = unsafe { libc::syscall(libc::SYS_memfd_secret, 0) };
    assert!(fd >= 0, "memfd_secret: {:?}", Errno::last());
    // SAFETY: The descriptor is new, and this is its only owner.
    let file = unsafe { File::from_raw_fd(fd as i32) };
    file.set_len(length).expect("size of a file in memory");
    file
}

/// Drains the per-CPU LRU batches: reclaim skips a page that is still in the batch of another CPU.
pub fn list_all_pages() {
    // 4: no log messages about further writes.
    for value in ["4", "1"] {
        std::fs::write("/proc/sys/vm/drop_caches", value).expect("drop_caches");
    }
}

/// The pagemap entry for an address of a process: bit 63 is set if a page is present, bit 62 if it
/// is swapped out, bit 61 if it is shared or of a file.
pub fn page_map_entry(pid: i32, address: u64) -> u64 {
    let mut entry = [0; 8];
    let pagemap = File::open(format!("/proc/{pid}/pagemap")).expect("open pagemap");
    let read = pagemap.read_exact_at(&mut entry, address / PAGE as u64 * 8);
    read.expect("read pagemap");
    u64::from_ne_bytes(entry)
}

/// Gives the kernel advice about a page of another process.
pub fn advise_process(pid: i32, address: u64, advice: i32) {
    let process = os::process(pid).expect("pidfd_open");
    let part = libc::iovec {
        iov_base: ptr::without_provenance_mut(address as usize),
        iov_len: PAGE,
    };
    let (fd, part) = (process.as_raw_fd(), &raw const part);
    // SAFETY: The kernel reads one iovec; it names memory of another process.
    let ret = unsafe { libc::syscall(libc::SYS_process_madvise, fd, part, 1, advice, 0) };
    assert_eq!(ret, PAGE as i64, "process_madvise: {:?}", Errno::last());
}
