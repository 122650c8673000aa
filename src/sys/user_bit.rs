// SPDX-License-Identifier: GPL-2.0

//! Bits in the memory of a process, the caller's or another's.
//!
//! C: `pin_user_pages_remote()`, `unpin_user_page()`, `fixup_user_fault()`, `handle_mm_fault()`
//! (linux/mm.h).

use super::bindings;
use core::marker::PhantomData;
use core::mem::{self, size_of};
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel::alloc::AllocError;
use kernel::mm::{MmWithUser, MmapReadGuard};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

/// A naturally aligned 32- or 64-bit word at a user address, and a bit in it.
///
/// There may be very many, so it is one number: the lower six bits are the bit's, the next says whether
/// the word is wide, and the others are the address, the lowest two bits of which are none.
///
/// # Invariants
///
/// The address is a multiple of the word's size, the word lies in the user's half of the address
/// space, and the bit is less than the word has bits.
#[derive(Clone, Copy)]
pub(crate) struct UserBit(u64);

/// How far up the address begins, and so how many of its upper bits have to be clear. No architecture has
/// that large a half for its users.
const ADDRESS_SHIFT: u32 = 5;

/// The bit's number.
const BIT: u64 = (1 << 6) - 1;

/// What says that the word is wide.
const IS_WIDE: u64 = 1 << 6;

/// Why bits could not be written right now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BitWriteError {
    /// The page is not present, or not writable.
    NotPresent,
    /// The page may come: what it takes was begun, or is locked.
    NotYet,
    /// Another task has locked the page. The bits have been written, but may get lost with the page.
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

/// An address without the tag that the current task may give it (arm64's top byte, x86's LAM). C:
/// `untagged_addr()`.
pub(crate) fn untagged(address: usize) -> usize {
    // SAFETY: Computes with numbers only.
    unsafe { bindings::user_events_untagged(address) }
}

impl UserBit {
    /// A bit in the word of `size` bytes at `address`, which may have a tag: it is kept without.
    ///
    /// # Errors
    ///
    /// `EINVAL` when the size is neither 4 nor 8, the address is not a multiple of it, or the word
    /// has no such bit; then `EFAULT` when the word is not in user space.
    pub(crate) fn new(address: u64, bit: u8, size: u8) -> Result<Self> {
        let is_wide = match size {
            4 => false,
            8 if usize::BITS == 64 => true,
            _ => return Err(EINVAL),
        };
        if address % u64::from(size) != 0 || u32::from(bit) >= 8 * u32::from(size) {
            return Err(EINVAL);
        }
        let address = usize::try_from(address).map_err(|_| EFAULT)?;
        // SAFETY: Compares numbers only.
        if !unsafe { bindings::user_events_access_ok(address, size.into()) } {
            return Err(EFAULT);
        }
        // Upper bits that are not clear come in below.
        let place = (untagged(address) as u64).rotate_left(ADDRESS_SHIFT);
        if place & (IS_WIDE | BIT) != 0 {
            return Err(EFAULT);
        }
        let is_wide = if is_wide { IS_WIDE } else { 0 };
        // INVARIANT: Checked above. The address is a multiple of four.
        Ok(Self(place | is_wide | u64::from(bit)))
    }

    /// How many bits the word has.
    pub(crate) fn width(&self) -> u32 {
        if self.is_wide() {
            u64::BITS
        } else {
            u32::BITS
        }
    }

    /// Where the word is.
    pub(crate) fn address(&self) -> usize {
        ((self.0 & !(IS_WIDE | BIT)) >> ADDRESS_SHIFT) as usize
    }

    fn is_wide(&self) -> bool {
        self.0 & IS_WIDE != 0
    }

    /// Which bit of the word it is.
    pub(crate) fn bit(&self) -> u8 {
        (self.0 & BIT) as u8
    }

    /// The page that the word lies in, by its address.
    pub(crate) fn page(&self) -> usize {
        self.address() & !(PAGE_SIZE - 1)
    }

    /// Clears the bit, atomically, in `mm`, if that is the memory of the current task, by its own page
    /// tables: less work than [`WritablePage::store`]. Returns whether that was possible; a page that is not
    /// there, or that the task may not write now, is left alone. Does not sleep.
    pub(crate) fn clear_own(&self, mm: &MmWithUser) -> bool {
        let current = current!();
        // A kernel thread has none, or the one that it has taken on.
        if !current.mm().is_some_and(|own| ptr::eq(own, mm)) {
            return false;
        }
        let bit = u32::from(self.bit());
        // Of a wide word the half with the bit.
        let half = match (self.is_wide(), cfg!(target_endian = "big")) {
            (true, false) => bit / 32,
            (true, true) => 1 - bit / 32,
            (false, _) => 0,
        };
        let address = self.address() + 4 * half as usize;
        // SAFETY: The word is in the user's half of the address space, by the invariant. The current task
        // has an address space, as just asked, so the page tables are that one's, and the word is changed as
        // the task itself could change it. Faults are refused, not taken.
        unsafe { bindings::user_events_clear_own(address, 1 << (bit % 32)) == 0 }
    }

    /// Brings the word's page in, writable. Waits for the mmap lock and for the page, for the latter
    /// until the current task is killed. For the memory of the current task.
    ///
    /// # Errors
    ///
    /// `EFAULT` when the page can never be written as things are; `EINTR` when the current task is
    /// being killed; `ENOMEM`.
    pub(crate) fn fault_in(&self, mm: &MmWithUser) -> Result {
        let _locked = mm.mmap_read_lock();
        let mut unlocked = false;
        let flags = bindings::fault_flag_FAULT_FLAG_WRITE | bindings::fault_flag_FAULT_FLAG_REMOTE;
        // SAFETY: The address space is alive and its mmap lock is held. The function may drop the
        // lock meanwhile, which nothing here minds, and holds it again on return.
        kernel::error::to_result(unsafe {
            bindings::fixup_user_fault(mm.as_raw(), self.address(), flags, &mut unlocked)
        })
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

    /// Calls `write` with the page at `address`, which is pinned once for it. Waits for nothing that
    /// a task does, but `write` may. Returns what it returns.
    ///
    /// # Errors
    ///
    /// What the page lacks; `write` was not called then, or the error is [`BitWriteError::Busy`].
    pub(crate) fn write_page(
        &self,
        address: usize,
        fault_in: FaultIn,
        write: impl FnOnce(&WritablePage<'_>),
    ) -> Result<(), BitWriteError> {
        let how = match fault_in {
            FaultIn::Never => bindings::FOLL_NOFAULT,
            FaultIn::NoWait => bindings::FOLL_NOWAIT,
        };
        let mut page = ptr::null_mut();
        // SAFETY: The address space is alive and its mmap lock is held for reading, by `self`. One page
        // is asked for, and `page` has room for one. None of the flags lets the lock go.
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
        const NO_MEMORY: c_long = -(kernel::bindings::ENOMEM as c_long);
        match pinned {
            1 => {}
            0 => return Err(BitWriteError::NotYet),
            NO_MEMORY => return Err(BitWriteError::NoMemory),
            _ => return Err(BitWriteError::NotPresent),
        }
        // INVARIANT: The page is pinned for writing until the unpin below.
        // SAFETY: As just said.
        unsafe { Page::with(page, address, |page| write(&WritablePage(page))) };
        // SAFETY: Pinned above, and not used any more.
        if unsafe { bindings::user_events_unpin_written(page) } {
            Ok(())
        } else {
            Err(BitWriteError::Busy)
        }
    }

    /// Calls `read` with the page at `address`, if that is present; else returns `None`. Waits for
    /// nothing that a task does, but `read` may.
    pub(crate) fn read_page<T>(
        &self,
        address: usize,
        read: impl FnOnce(&Page<'_>) -> T,
    ) -> Option<T> {
        let mut page = ptr::null_mut();
        // SAFETY: As in `write_page`.
        let found = unsafe {
            bindings::get_user_pages_remote(
                self.mm.as_raw(),
                address,
                1,
                bindings::FOLL_NOFAULT,
                &mut page,
                ptr::null_mut(),
            )
        };
        if found != 1 {
            return None;
        }
        let mut result = None;
        // SAFETY: We hold a reference to the page until the put below.
        unsafe { Page::with(page, address, |page| result = Some(read(page))) };
        // SAFETY: Got above, and not used any more.
        unsafe { bindings::user_events_put_page(page) };
        result
    }

    /// Is the page at `address` the address space's own, so that a child gets a copy of it, if it is mapped
    /// at all?
    pub(crate) fn is_private(&self, address: usize) -> bool {
        let vma = self.guard.vma_lookup(address);
        vma.is_none_or(|vma| vma.flags() & kernel::mm::virt::flags::SHARED == 0)
    }

    /// What backs the page at `address`, if it is to be brought in and written to. `None` if it cannot
    /// be, as things are.
    pub(crate) fn backing_of(&self, address: usize) -> Option<Backing> {
        let vma = self.guard.vma_lookup(address)?;
        if vma.flags() & kernel::mm::virt::flags::WRITE == 0 {
            return None;
        }
        // SAFETY: The mapping stays as it is while the mmap lock is held.
        let (is_guarded, file_system) = unsafe {
            (
                bindings::user_events_vma_is_guarded(vma.as_ptr()),
                bindings::user_events_vma_file_system(vma.as_ptr()),
            )
        };
        const TMPFS: usize = bindings::TMPFS_MAGIC as usize;
        const HUGETLBFS: usize = bindings::HUGETLBFS_MAGIC as usize;
        // The file system decides first: userfaultfd can guard writes to the pages of any (WP_ASYNC), and
        // what they take is no less for that.
        Some(match file_system {
            0 | TMPFS | HUGETLBFS if is_guarded => Backing::Userfaultfd,
            0 | TMPFS | HUGETLBFS => Backing::Memory,
            _ => Backing::FileSystem,
        })
    }

    /// Has a handler of userfaultfd asked for the page at `address`, to be written, and waits for `ms`
    /// milliseconds or a little longer for it. Whether it came is to be looked at. Does nothing if no
    /// handler is asked there.
    pub(crate) fn ask_handler(self, address: usize, ms: u32) {
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
        // SAFETY: The mmap lock is held, so the mapping is there, and may be written to, as was just
        // asked. What is left of the lock afterwards is told by the result, and dealt with below.
        let result = unsafe {
            bindings::user_events_fault_once(vma.as_ptr(), address & !(PAGE_SIZE - 1), flags, ms)
        };
        const LET_GO: u32 =
            bindings::vm_fault_reason_VM_FAULT_RETRY | bindings::vm_fault_reason_VM_FAULT_COMPLETED;
        if result & LET_GO != 0 {
            // The fault has let the mmap lock go.
            mem::forget(self);
        }
    }
}

/// A page of user memory, while it is held.
///
/// The words are user memory, changed concurrently by user programs with the atomics of their own
/// languages, hence Rust's own here, whose model is the same. No reference to plain data is made.
///
/// # Invariants
///
/// `base` is where the page at the user address `address`, a multiple of its size, is mapped for `'a`
/// in the current context.
pub(crate) struct Page<'a> {
    base: *mut u8,
    address: usize,
    _held: PhantomData<&'a u8>,
    _same_thread: NotThreadSafe,
}

impl Page<'_> {
    /// Maps a page for a call.
    ///
    /// # Safety
    ///
    /// `page`, in which the user address `address` lies, must be held for the call.
    unsafe fn with(page: *mut bindings::page, address: usize, call: impl FnOnce(&Page<'_>)) {
        // SAFETY: The page is held, says the caller. What is mapped last is unmapped first, as calls
        // nest.
        let base = unsafe { kernel::bindings::kmap_local_page(page).cast::<u8>() };
        // INVARIANT: Mapped until the call has returned.
        call(&Page {
            base,
            address: address & !(PAGE_SIZE - 1),
            _held: PhantomData,
            _same_thread: NotThreadSafe,
        });
        // SAFETY: Mapped above.
        unsafe { kernel::bindings::kunmap_local(base.cast()) };
    }

    /// Where the word of `bit` is mapped, if it lies in this page.
    fn word(&self, bit: &UserBit) -> Option<*mut u8> {
        // The word is aligned, so it lies in one page.
        (bit.page() == self.address).then(|| self.base.wrapping_add(bit.address() % PAGE_SIZE))
    }

    /// Is a bit set? `None` for one that does not lie in this page.
    pub(crate) fn load(&self, bit: &UserBit) -> Option<bool> {
        let word = self.word(bit)?;
        // SAFETY: By the invariants the word lies in the mapped page, and is aligned.
        let value = unsafe {
            if bit.is_wide() {
                AtomicU64::from_ptr(word.cast()).load(Ordering::Relaxed)
            } else {
                AtomicU32::from_ptr(word.cast())
                    .load(Ordering::Relaxed)
                    .into()
            }
        };
        Some(value & (1 << bit.bit()) != 0)
    }
}

/// A page of user memory that may be written to.
///
/// # Invariants
///
/// The page is pinned for writing while this exists.
pub(crate) struct WritablePage<'a>(&'a Page<'a>);

impl WritablePage<'_> {
    /// Sets or clears a bit, atomically. Does nothing for one that does not lie in this page.
    pub(crate) fn store(&self, bit: &UserBit, on: bool) {
        let Some(word) = self.0.word(bit) else {
            return;
        };
        // SAFETY: By the invariants the word lies in the mapped page, which is pinned for writing, and is aligned.
        unsafe {
            if bit.is_wide() {
                let word = AtomicU64::from_ptr(word.cast());
                let mask = 1u64 << bit.bit();
                if on {
                    word.fetch_or(mask, Ordering::SeqCst);
                } else {
                    word.fetch_and(!mask, Ordering::SeqCst);
                }
            } else {
                let word = AtomicU32::from_ptr(word.cast());
                let mask = 1u32 << bit.bit();
                if on {
                    word.fetch_or(mask, Ordering::SeqCst);
                } else {
                    word.fetch_and(!mask, Ordering::SeqCst);
                }
            }
        }
    }
}

const _: () = assert!(PAGE_SIZE % size_of::<u64>() == 0);
