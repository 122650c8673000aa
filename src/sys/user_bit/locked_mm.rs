// SPDX-License-Identifier: GPL-2.0

//! An address space with its mmap lock held: its pages and mappings.
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

/// File systems in memory. C: linux/magic.h.
const TMPFS_MAGIC: usize = bindings::TMPFS_MAGIC as usize;
const HUGETLBFS_MAGIC: usize = bindings::HUGETLBFS_MAGIC as usize;

/// The result of a write of bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// All bits had the right value.
    Unchanged,
    /// Bits have changed, and all have the right value.
    Changed,
}

/// The reason for which bits could not be written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BitWriteError {
    /// The page is not present, or not writable.
    NotPresent,
    /// The page may come: its fault was started, or a lock is busy.
    NotYet,
    /// Another task has locked or dropped the page. The bits were written, but may be lost with the
    /// page.
    Busy,
    /// No memory for the page or its page tables.
    NoMemory,
}

/// The handling of a page that is not present.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultIn {
    /// No fault. C: `FOLL_NOFAULT`.
    Never,
    /// A fault that does not wait. For [`Backing::Memory`] only. C: `FOLL_NOWAIT`.
    NoWait,
}

/// The source of a mapping's pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Anonymous memory, and files in memory. The kernel alone provides the pages.
    Memory,
    /// Memory with a userfaultfd, whose handler in user space provides the pages.
    Userfaultfd,
    /// A file system, which may depend on a program, a network or a device; or a driver.
    FileSystem,
}

impl From<AllocError> for BitWriteError {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

/// An address space with its mmap lock held for reading until dropped.
pub(crate) struct LockedMm<'a> {
    mm: &'a MmWithUser,
    guard: MmapReadGuard<'a>,
}

impl<'a> LockedMm<'a> {
    /// Takes the lock. Sleeps until other tasks release it.
    pub(crate) fn lock(mm: &'a MmWithUser) -> Self {
        Self {
            mm,
            guard: mm.mmap_read_lock(),
        }
    }

    /// Takes the lock if that needs no waiting.
    pub(crate) fn try_lock(mm: &'a MmWithUser) -> Option<Self> {
        let guard = mm.mmap_read_trylock()?;
        Some(Self { mm, guard })
    }

    /// Calls `write` with the page at `address`, pinned, which must be present and writable. With
    /// `force`, as after [`BitWriteError::Busy`], bits are also written if they have the right
    /// value. Waits for no task, unless `write` does.
    ///
    /// # Errors
    ///
    /// `write` was not called, unless the error is [`BitWriteError::Busy`].
    pub(crate) fn write_page(
        &self,
        address: usize,
        force: bool,
        write: impl FnOnce(&BitPage<'_>),
    ) -> Result<Written, BitWriteError> {
        self.pin_page(address, bindings::FOLL_NOFAULT, force, write)
    }

    /// As [`Self::write_page`], but a page whose bits have the right value need not be writable,
    /// and is not changed, unless `force` is set. `write` may be called several times, the last of
    /// which counts.
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
        // The page may be write-only.
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
        // SAFETY: The address space is alive, and `self` holds its mmap lock for reading. The call
        // is for one page, for which `page` has room. No flag lets it drop the lock.
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
        // SAFETY: The page is pinned for writing. Its pin is passed on.
        unsafe { BitPage::write(page, address, force, write, is_there) }
    }

    /// Whether a bit is set; `None` if its page is not present. Waits for no task.
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

    /// Calls `use_page` with the page at `address`, which is held for the call.
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
        // SAFETY: The reference is from above, and the page is not used any more.
        unsafe { bindings::user_events_put_page(page) };
        Ok(result)
    }

    /// The backing of the page at `address`; `None` if the mapping does not allow writes.
    pub(crate) fn backing_of(&self, address: usize) -> Option<Backing> {
        let vma = self.guard.vma_lookup(address)?;
        if vma.flags() & kernel::mm::virt::flags::WRITE == 0 {
            return None;
        }
        if !is_memory(vma) {
            // Also with a userfaultfd: one that only write-protects (WP_ASYNC) works on any file
            // system, and the page still depends on that.
            return Some(Backing::FileSystem);
        }
        // SAFETY: The mapping does not change while the mmap lock is held.
        let is_guarded = unsafe { bindings::user_events_userfaultfd_armed(vma.as_ptr()) };
        Some(if is_guarded {
            Backing::Userfaultfd
        } else {
            Backing::Memory
        })
    }

    /// Requests the page at `address` from the handler of a userfaultfd, for writing, and waits for
    /// `ms` milliseconds or a little longer. The caller has to check whether the page has come.
    /// Does nothing if the mapping has no userfaultfd.
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
        // `handle_mm_fault()` sleeps once for the handler's answer, and returns VM_FAULT_RETRY
        // after any wake-up. A wake-up may come before it sleeps, so the timer is periodic.
        let Ok(timer) = WakeTimer::start(ms) else {
            return;
        };
        // SAFETY: The mmap lock is held, so the mapping exists, and allows writes, as `backing_of`
        // has checked. The result shows whether the lock was dropped, see below.
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
            // The fault has dropped the mmap lock.
            mem::forget(self);
        }
    }
}

/// Converts the result of `pin_user_pages_remote()` or `get_user_pages_remote()` for one page.
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

/// Whether a mapping is of memory: anonymous, also by way of a file (/dev/zero), or of a file in
/// memory. A file that is not regular belongs to a driver or a device, on any file system.
fn is_memory(vma: &VmaRef) -> bool {
    let vma = vma.as_ptr();
    // SAFETY: The mapping does not change while it is borrowed. It holds its file, the file its
    // inode, and the inode its file system.
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
