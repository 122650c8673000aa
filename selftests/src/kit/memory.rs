// SPDX-License-Identifier: GPL-2.0

//! Memory that the kernel changes behind our back: mappings, seen through atomics only.

use crate::kit::errno::{Errno, Result};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes in a page.
pub const PAGE: usize = 4096;

/// Bytes in a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// What a mapping of no file says of its file, and where that begins.
const NO_FILE: (i32, i64) = (-1, 0);

/// `mseal()`, of the same number on all architectures.
const SYS_MSEAL: libc::c_long = 462;

/// `MAP_DROPPABLE`: memory that the kernel may empty, and a child gets empty.
pub const DROPPABLE: i32 = 0x08;

/// Where the kernel lies, whatever the machine.
pub const KERNEL: u64 = 0xffff_ffff_8100_0000;

/// Behind the last address of a program.
pub const USER_END: u64 = if cfg!(target_arch = "aarch64") {
    1 << 48
} else {
    0x7fff_ffff_f000
};

/// An address that no mode of the processor has: on arm64 the top byte may be a tag, and 52 bits are the most below it.
pub const NON_CANONICAL: u64 = if cfg!(target_arch = "aarch64") {
    1 << 54
} else {
    1 << 62
};

pub const READ: i32 = libc::PROT_READ;
pub const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping of whole pages.
///
/// It is unmapped when dropped, unless it was made to be kept: an address at which a bit is
/// registered must not come back as another mapping's.
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
        // SAFETY: Either the kernel chooses a free place, or `address` is one that this file's
        // callers have just unmapped or own.
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

    /// Zeroed private memory.
    pub fn new(pages: usize) -> Mapping {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Mapping::map(ptr::null_mut(), pages * PAGE, READ_WRITE, flags, NO_FILE).expect("mmap")
    }

    /// Zeroed private memory that stays mapped until the process ends.
    pub fn kept(pages: usize) -> Mapping {
        let mut mapping = Mapping::new(pages);
        mapping.kept = true;
        mapping
    }

    /// Zeroed private memory at an address where nothing is, and that stays mapped until the process
    /// ends.
    pub fn placed(address: u64, pages: usize) -> Mapping {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let place = ptr::without_provenance_mut(address as usize);
        let mut mapping =
            Mapping::map(place, pages * PAGE, READ_WRITE, flags, NO_FILE).expect("mmap");
        mapping.kept = true;
        mapping
    }

    /// The first `pages` of a file; `flags` is MAP_SHARED or MAP_PRIVATE.
    pub fn of_file(file: &File, pages: usize, protection: i32, flags: i32) -> Result<Mapping> {
        Mapping::map(
            ptr::null_mut(),
            pages * PAGE,
            protection,
            flags,
            (file.as_raw_fd(), 0),
        )
    }

    /// A shared page of a file, from where a multiple of the page's size tells.
    pub fn of_file_at(file: &File, offset: i64) -> Result<Mapping> {
        let place = (file.as_raw_fd(), offset);
        Mapping::map(ptr::null_mut(), PAGE, READ_WRITE, libc::MAP_SHARED, place)
    }

    /// Zeroed memory of huge pages; `sharing` is MAP_SHARED or MAP_PRIVATE.
    pub fn of_huge_pages(pages: usize, sharing: i32) -> Result<Mapping> {
        let flags = sharing | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
        Mapping::map(
            ptr::null_mut(),
            pages * HUGE_PAGE,
            READ_WRITE,
            flags,
            NO_FILE,
        )
    }

    /// Zeroed private memory of another kind; `flags` has what `mmap` is told beside that.
    pub fn of_kind(flags: i32, pages: usize) -> Result<Mapping> {
        let flags = flags | libc::MAP_ANONYMOUS;
        let mut mapping = Mapping::map(ptr::null_mut(), pages * PAGE, READ_WRITE, flags, NO_FILE)?;
        mapping.kept = true;
        Ok(mapping)
    }

    /// Zeroed memory that stays shared with the processes that are forked.
    pub fn shared(pages: usize) -> Mapping {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        Mapping::map(ptr::null_mut(), pages * PAGE, READ_WRITE, flags, NO_FILE).expect("mmap")
    }

    /// Where it starts.
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    /// Where it ends: the first byte past it.
    pub fn end(&self) -> u64 {
        self.address() + self.length as u64
    }

    fn at(&self, offset: usize, size: usize) -> *mut u8 {
        assert!(self.mapped && offset % size == 0 && offset + size <= self.length);
        // SAFETY: Just checked to lie within the mapping.
        unsafe { self.start.add(offset) }
    }

    /// The 32-bit word at an offset. To touch it while the page is protected kills the process.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: Aligned, within the mapping, which lives as long as `self`, and never seen but
        // as an atomic.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    /// The 64-bit word at an offset. To touch it while the page is protected kills the process.
    pub fn long(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: As in `word`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    /// Puts bytes at an offset that is a multiple of four; the last word is filled with zeros.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        for (i, chunk) in bytes.chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(offset + 4 * i)
                .store(u32::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    /// Changes the protection of all pages.
    pub fn protect(&self, protection: i32) {
        self.protect_from(0, protection);
    }

    /// Changes the protection of all pages from the one at this offset on.
    pub fn protect_from(&self, offset: usize, protection: i32) {
        assert!(offset % PAGE == 0 && offset < self.length);
        // SAFETY: The pages are ours. What reads them while they may not be read gets a signal.
        let ret = unsafe {
            libc::mprotect(
                self.start.add(offset).cast(),
                self.length - offset,
                protection,
            )
        };
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

    /// Asks for the pages to be swapped out.
    pub fn page_out(&self) {
        list_all_pages();
        self.advise(libc::MADV_PAGEOUT).expect("MADV_PAGEOUT");
    }

    /// How many of its pages are in memory.
    pub fn resident(&self) -> usize {
        let mut pages = vec![0u8; self.length / PAGE];
        // SAFETY: `pages` has a byte for each page.
        let ret = unsafe { libc::mincore(self.start.cast(), self.length, pages.as_mut_ptr()) };
        assert_eq!(ret, 0, "mincore: {:?}", Errno::last());
        pages.iter().filter(|&&page| page & 1 != 0).count()
    }

    /// Has the first page been swapped out? And is it in memory? Neither, if it has no contents.
    pub fn swapped_or_present(&self) -> (bool, bool) {
        let entry = page_map_entry(std::process::id() as i32, self.address());
        (entry & (1 << 62) != 0, entry & (1 << 63) != 0)
    }

    /// Is the first page, or what another process has at its address, in that process's memory? The page of zeros that
    /// all have counts.
    pub fn is_present_in(&self, pid: i32) -> bool {
        page_map_entry(pid, self.address()) & (1 << 63) != 0
    }

    /// Is it there, and that process's alone?
    pub fn is_own_in(&self, pid: i32) -> bool {
        page_map_entry(pid, self.address()) & (1 << 56) != 0
    }

    /// The number of the memory page that a process has at the first page's address, which must be present there.
    #[track_caller]
    pub fn frame_in(&self, pid: i32) -> u64 {
        let entry = page_map_entry(pid, self.address());
        let frame = entry & ((1 << 55) - 1);
        assert!(
            entry & (1 << 63) != 0 && frame != 0,
            "page map entry {entry:#x}"
        );
        frame
    }

    /// Kilobytes of a kind, by the kernel's own account of the area that the mapping is in.
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

    /// Has the kernel refuse to move, unmap or protect the pages ever again.
    pub fn seal(&self) {
        // SAFETY: Takes numbers; the memory stays as it is.
        let ret = unsafe { libc::syscall(SYS_MSEAL, self.start, self.length, 0) };
        assert_eq!(ret, 0, "mseal: {:?}", Errno::last());
    }

    /// Moves the pages to where nothing is, and remembers where they were; with `leaving`, empty pages stay
    /// there.
    pub fn move_away(&mut self, leaving: bool) -> Mapping {
        let to = Mapping::kept(self.length / PAGE);
        let mut flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        if leaving {
            flags |= libc::MREMAP_DONTUNMAP;
        }
        self.remap(&to, flags);
        self.mapped = leaving;
        to
    }

    /// Moves the pages to where those of another mapping, of the same size, are or were.
    pub fn move_to(mut self, other: &mut Mapping) {
        self.remap(other, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
        self.mapped = false;
        other.mapped = true;
    }

    fn remap(&mut self, to: &Mapping, flags: i32) {
        assert!(self.mapped && self.length == to.length);
        let length = self.length;
        let from = self.start.cast();
        // SAFETY: Both places are ours. `&mut` says that no reference into this one is alive; what is at the
        // other one is seen through atomics only, whose contents may change.
        let at = unsafe { libc::mremap(from, length, length, flags, to.start) };
        assert_eq!(at, to.start.cast(), "mremap: {:?}", Errno::last());
    }

    /// Maps the start of a file, shared, over all pages.
    pub fn cover(&self, file: &File, protection: i32) {
        assert!(self.mapped);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let place = (file.as_raw_fd(), 0);
        let new = Mapping::map(self.start, self.length, protection, flags, place).expect("mmap");
        // It is this one.
        std::mem::forget(new);
    }

    /// Locks the pages in memory, those only that come there by themselves if `flags` say so.
    pub fn lock(&self, flags: u32) {
        // SAFETY: The pages are ours, and stay what they are.
        let ret = unsafe { libc::mlock2(self.start.cast(), self.length, flags) };
        assert_eq!(ret, 0, "mlock2: {:?}", Errno::last());
    }

    /// Undoes that.
    pub fn unlock(&self) {
        // SAFETY: As in `lock`.
        let ret = unsafe { libc::munlock(self.start.cast(), self.length) };
        assert_eq!(ret, 0, "munlock: {:?}", Errno::last());
    }

    /// Gives the pages a protection key by which this thread may not write to them. The processor must have such keys.
    pub fn forbid_writes_by_key(&self) {
        const PKEY_DISABLE_WRITE: u32 = 2;
        // SAFETY: Takes a key that nothing uses.
        let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, PKEY_DISABLE_WRITE) };
        assert!(key >= 0, "pkey_alloc: {:?}", Errno::last());
        let (start, length) = (self.start, self.length);
        // SAFETY: The pages are ours, and stay what they are.
        let ret = unsafe { libc::syscall(libc::SYS_pkey_mprotect, start, length, READ_WRITE, key) };
        assert_eq!(ret, 0, "pkey_mprotect: {:?}", Errno::last());
        // SAFETY: The kernel is asked to write to our pages.
        let ret = unsafe { libc::syscall(libc::SYS_getrandom, start, 1, 0) };
        assert_eq!((ret, Errno::last()), (-1, Errno::EFAULT), "getrandom");
    }

    /// Unmaps the memory, and remembers where it was.
    pub fn unmap(&mut self) {
        assert!(self.mapped);
        // SAFETY: The mapping is ours, and `&mut` says that no reference into it is alive.
        unsafe { libc::munmap(self.start.cast(), self.length) };
        self.mapped = false;
    }

    /// Maps fresh zeroed memory where it was.
    pub fn map_again(&mut self) {
        assert!(!self.mapped);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let new = Mapping::map(self.start, self.length, READ_WRITE, flags, NO_FILE).expect("mmap");
        assert_eq!(new.start, self.start);
        let kept = self.kept;
        *self = new;
        self.kept = kept;
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.mapped && !self.kept {
            self.unmap();
        }
    }
}

/// Says so if the processor has no protection keys.
pub fn lacks_protection_keys() -> Option<String> {
    // SAFETY: Takes numbers only: a key that nothing uses, which is given back below.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, 0) };
    if key < 0 {
        return Some("the processor has no protection keys".into());
    }
    // SAFETY: As above.
    unsafe { libc::syscall(libc::SYS_pkey_free, key) };
    None
}

/// A file in memory that the kernel itself cannot see.
pub fn secret_file(length: u64) -> File {
    // SAFETY: Takes a number.
    let fd = unsafe { libc::syscall(libc::SYS_memfd_secret, 0) };
    assert!(fd >= 0, "memfd_secret: {:?}", Errno::last());
    // SAFETY: The descriptor is new, and this is its only owner.
    let file = unsafe { File::from_raw_fd(fd as i32) };
    file.set_len(length).expect("size of a file in memory");
    file
}

/// Has every page in the lists of pages that reclaim goes through: one that was brought in on another processor may wait
/// there for its place in them, and is passed over as long as it waits.
pub fn list_all_pages() {
    // 4: no messages about it from here on.
    for value in ["4", "1"] {
        std::fs::write("/proc/sys/vm/drop_caches", value).expect("drop_caches");
    }
}

/// The page map's entry for an address of a process: bit 63 is set if a page is there, bit 62 if it is swapped out, bit 61 if it
/// is one of a file or shared.
pub fn page_map_entry(pid: i32, address: u64) -> u64 {
    use std::os::unix::fs::FileExt;
    let mut entry = [0; 8];
    let pagemap = File::open(format!("/proc/{pid}/pagemap")).expect("open pagemap");
    pagemap
        .read_exact_at(&mut entry, address / PAGE as u64 * 8)
        .expect("read pagemap");
    u64::from_ne_bytes(entry)
}

/// Gives the kernel advice about a page of another process.
pub fn advise_process(pid: i32, address: u64, advice: i32) {
    // SAFETY: Takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    assert!(fd >= 0, "pidfd_open: {:?}", Errno::last());
    // SAFETY: The descriptor is new, and this is its only owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let part = libc::iovec {
        iov_base: ptr::without_provenance_mut(address as usize),
        iov_len: PAGE,
    };
    let (fd, part) = (fd.as_raw_fd(), &raw const part);
    // SAFETY: The kernel reads one iovec; it names memory of another process.
    let ret = unsafe { libc::syscall(libc::SYS_process_madvise, fd, part, 1, advice, 0) };
    assert_eq!(ret, PAGE as i64, "process_madvise: {:?}", Errno::last());
}
