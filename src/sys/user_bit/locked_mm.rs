// SPDX-License-Identifier: GPL-2.0

//! An address space with its mmap lock held: its pages, and what is behind them.
//!
//! C: `pin_user_pages_remote()`, `get_user_pages_remote()`, `handle_mm_fault()` (linux/mm.h),
//! `userfaultfd_armed()` (linux/userfaultfd_k.h).

use super::super::bindings;
use super::super::wake_timer::WakeTimer;
use super::page::{
    BitPage,
    Page, //
};
use super::UserBit;
use core::mem;
use core::ptr;
use kernel::alloc::AllocError;
use kernel::mm::virt::VmaRef;
use kernel::mm::{
    MmWithUser,
    MmapReadGuard, //
};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// File systems whose files are in memory only. C: linux/magic.h.
const TMPFS_MAGIC: usize = bindings::TMPFS_MAGIC as usize;
const HUGETLBFS_MAGIC: usize = bindings::HUGETLBFS_MAGIC as usize;

/// What became of bits that were to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// All were right.
    Unchanged,
    /// One was not, and all are.
    Changed,
}

/// Why bits could not be written right now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BitWriteError {
    /// The page is not present, or not writable.
    NotPresent,
    /// The page may come: what it takes was begun, or is locked.
    NotYet,
    /// Another task has locked the page, or dropped it. The bits have been written, but may get
    /// lost with the page, or are lost.
    Busy,
    /// There was no memory for what belongs to it.
    NoMemory,
}

/// What is done about a page that is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultIn {
    /// It is not faulted in: it has to be there. C: `FOLL_NOFAULT`.
    Never,
    /// It is faulted in where that takes no waiting. For pages of memory: see [`Backing`]. C:
    /// `FOLL_NOWAIT`.
    NoWait,
}

/// What backs a mapping: what has to be asked when a page of it is brought in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Memory: anonymous, and files that are in memory only. The kernel asks nothing.
    Memory,
    /// Memory, with a handler of userfaultfd, in user space, that the kernel asks.
    Userfaultfd,
    /// A file system, which may be served by a program, a network or a device; or a driver.
    FileSystem,
}

impl From<AllocError> for BitWriteError {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

/// An address space, its mmap lock held for reading until this is dropped.
pub(crate) struct LockedMm<'a> {
    mm: &'a MmWithUser,
    guard: MmapReadGuard<'a>,
}

impl<'a> LockedMm<'a> {
    /// Takes the lock. Sleeps until it is free, which other tasks decide.
    pub(crate) fn lock(mm: &'a MmWithUser) -> Self {
        Self {
            mm,
            guard: mm.mmap_read_lock(),
        }
    }

    /// Takes the lock, if that takes no waiting.
    pub(crate) fn try_lock(mm: &'a MmWithUser) -> Option<Self> {
        let guard = mm.mmap_read_trylock()?;
        Some(Self { mm, guard })
    }

    /// Calls `write` with the page at `address`, which has to be present and writable, and is
    /// pinned for it. With `force` bits are written though they are right, as after
    /// [`BitWriteError::Busy`]. Waits for nothing that a task does, but `write` may.
    ///
    /// # Errors
    ///
    /// What the page lacks; `write` was not called then, or the error is [`BitWriteError::Busy`].
    pub(crate) fn write_page(
        &self,
        address: usize,
        force: bool,
        write: impl FnOnce(&BitPage<'_>),
    ) -> Result<Written, BitWriteError> {
        self.pin_page(address, bindings::FOLL_NOFAULT, force, write)
    }

    /// As [`Self::write_page`], unless the bits are right: then nothing is done to the page, which
    /// need not be writable. With `force` they are written all the same. `write` may be called
    /// several times, and the last one counts.
    ///
    /// # Errors
    ///
    /// As [`Self::write_page`].
    pub(crate) fn fix_page(
        &self,
        address: usize,
        fault_in: FaultIn,
        force: bool,
        write: impl Fn(&BitPage<'_>),
    ) -> Result<Written, BitWriteError> {
        let written = self.pin_page(address, bindings::FOLL_NOFAULT, force, &write);
        if written != Err(BitWriteError::NotPresent) {
            return written;
        }
        let how = match fault_in {
            FaultIn::Never => bindings::FOLL_NOFAULT,
            FaultIn::NoWait => bindings::FOLL_NOWAIT,
        };
        // A page may be one to be written only.
        let bits_match = |page: &Page<'_>| BitPage::bits_match(page, &write);
        if !force && self.get_page(address, how, bits_match) == Ok(true) {
            return Ok(Written::Unchanged);
        }
        match fault_in {
            FaultIn::Never => Err(BitWriteError::NotPresent),
            FaultIn::NoWait => self.pin_page(address, how, force, write),
        }
    }

    fn pin_page(
        &self,
        address: usize,
        how: u32,
        force: bool,
        write: impl FnOnce(&BitPage<'_>),
    ) -> Result<Written, BitWriteError> {
        let mut page = ptr::null_mut();
        // SAFETY: The address space is alive and its mmap lock is held for reading, by `self`. One
        // page is asked for, and `page` has room for one. None of the flags lets the lock go.
        let pinned = unsafe {
            bindings::pin_user_pages_remote(
                self.mm.as_raw(),
                address,
                1,
                bindings::FOLL_WRITE | how,
                &mut page,
                ptr::null_mut(),
            )
        };
        check_pinned(pinned)?;
        let is_there = || {
            let how = bindings::FOLL_WRITE | bindings::FOLL_NOFAULT;
            self.get_raw_page(address, how, |found| found == page) == Ok(true)
        };
        // SAFETY: The page is pinned for writing, and not used by this context after that.
        unsafe { BitPage::write(page, address, force, write, is_there) }
    }

    /// Is a bit set? `None` if its page is not present. Waits for nothing that a task does.
    pub(crate) fn load(&self, bit: &UserBit) -> Option<bool> {
        self.get_page(bit.address(), bindings::FOLL_NOFAULT, |page| page.load(bit))
            .ok()?
    }

    fn get_page<T>(
        &self,
        address: usize,
        how: u32,
        read: impl FnOnce(&Page<'_>) -> T,
    ) -> Result<T, BitWriteError> {
        self.get_raw_page(address, how, |page| {
            // SAFETY: The page is held for the call.
            unsafe { Page::with(page, address, read) }
        })
    }

    /// Calls `use_page` with the page at `address`, which is held for it.
    fn get_raw_page<T>(
        &self,
        address: usize,
        how: u32,
        use_page: impl FnOnce(*mut bindings::page) -> T,
    ) -> Result<T, BitWriteError> {
        let mut page = ptr::null_mut();
        // SAFETY: As in `pin_page`.
        let found = unsafe {
            bindings::get_user_pages_remote(
                self.mm.as_raw(),
                address,
                1,
                how,
                &mut page,
                ptr::null_mut(),
            )
        };
        check_pinned(found)?;
        let result = use_page(page);
        // SAFETY: Got above, and not used any more.
        unsafe { bindings::user_events_put_page(page) };
        Ok(result)
    }

    /// What backs the page at `address`, if it is to be brought in and written to. `None` if it
    /// cannot be, as things are.
    pub(crate) fn backing_of(&self, address: usize) -> Option<Backing> {
        let vma = self.guard.vma_lookup(address)?;
        if vma.flags() & kernel::mm::virt::flags::WRITE == 0 {
            return None;
        }
        if !is_memory(vma) {
            // Also where userfaultfd guards it: it can guard writes to the pages of any file system
            // (WP_ASYNC), and what they take is no less for that.
            return Some(Backing::FileSystem);
        }
        // SAFETY: The mapping stays as it is while the mmap lock is held.
        let is_guarded = unsafe { bindings::user_events_userfaultfd_armed(vma.as_ptr()) };
        Some(if is_guarded {
            Backing::Userfaultfd
        } else {
            Backing::Memory
        })
    }

    /// Has a handler of userfaultfd asked for the page at `address`, to be written, and waits for
    /// `ms` milliseconds or a little longer for it. Whether it came is to be looked at. Does
    /// nothing if no handler is asked there.
    pub(crate) fn fault_userfaultfd(self, address: usize, ms: u32) {
        if self.backing_of(address) != Some(Backing::Userfaultfd) {
            return;
        }
        let Some(vma) = self.guard.vma_lookup(address) else {
            return;
        };
        let flags = bindings::fault_flag_FAULT_FLAG_WRITE
            | bindings::fault_flag_FAULT_FLAG_REMOTE
            | bindings::fault_flag_FAULT_FLAG_ALLOW_RETRY
            | bindings::fault_flag_FAULT_FLAG_INTERRUPTIBLE;
        // `handle_mm_fault()` sleeps for the handler's answer once, and returns VM_FAULT_RETRY
        // whatever woke it. It may be woken before it sleeps, hence again and again.
        let Ok(timer) = WakeTimer::start(ms) else {
            return;
        };
        // SAFETY: The mmap lock is held, so the mapping is there, and may be written to, as was
        // just asked. What is left of the lock afterwards is told by the result, and dealt with
        // below.
        let result = unsafe {
            bindings::handle_mm_fault(
                vma.as_ptr(),
                address & !(PAGE_SIZE - 1),
                flags,
                ptr::null_mut(),
            )
        };
        drop(timer);
        const MMAP_LOCK_RELEASED: u32 =
            bindings::vm_fault_reason_VM_FAULT_RETRY | bindings::vm_fault_reason_VM_FAULT_COMPLETED;
        if result & MMAP_LOCK_RELEASED != 0 {
            // The fault has let the mmap lock go.
            mem::forget(self);
        }
    }
}

/// What `pin_user_pages_remote()` and `get_user_pages_remote()` return where one page is asked for.
fn check_pinned(pages: c_long) -> Result<(), BitWriteError> {
    const NO_MEMORY: c_long = -(kernel::bindings::ENOMEM as c_long);
    // The current task is killed.
    const INTERRUPTED: c_long = -(kernel::bindings::EINTR as c_long);
    match pages {
        1 => Ok(()),
        0 | INTERRUPTED => Err(BitWriteError::NotYet),
        NO_MEMORY => Err(BitWriteError::NoMemory),
        _ => Err(BitWriteError::NotPresent),
    }
}

/// Is it a mapping of memory: anonymous, also if it was had by way of a file (/dev/zero), or of a
/// file that is in memory only? All that is not of a regular file is served by a driver or a
/// device, wherever its node lies.
fn is_memory(vma: &VmaRef) -> bool {
    let vma = vma.as_ptr();
    // SAFETY: The mapping stays as it is while it is borrowed, and keeps its file, which keeps its
    // inode, which keeps its file system.
    unsafe {
        // C: `vma_is_anonymous()`.
        if (*vma).vm_ops.is_null() {
            return true;
        }
        let file = (*vma).vm_file;
        if file.is_null() {
            return false;
        }
        let inode = (*file).f_inode;
        let is_regular = u32::from((*inode).i_mode) & bindings::S_IFMT == bindings::S_IFREG;
        let magic = (*(*inode).i_sb).s_magic;
        is_regular && (magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC)
    }
}
