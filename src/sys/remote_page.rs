// SPDX-License-Identifier: GPL-2.0

//! One bit in the memory of a process, the caller's or another's.
//!
//! C: `pin_user_pages_remote()`, `unpin_user_page()`, `fixup_user_fault()` (linux/mm.h).

use super::bindings;
use core::mem::size_of;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel::alloc::AllocError;
use kernel::mm::{MmWithUser, MmapReadGuard};
use kernel::prelude::*;

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

/// Why a bit could not be written right now.
pub(crate) enum NotWritten {
    /// The page is not present, or not writable.
    NotPresent,
    /// Somebody has locked the page. The bit may have been written, but may get lost with the page.
    Busy,
    /// There was no memory for what belongs to it.
    NoMemory,
}

impl From<AllocError> for NotWritten {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

/// How long to wait for somebody else's page.
const LONGEST_FAULT: u32 = 1000; // ms

impl UserBit {
    /// A bit in the word of `size` bytes at `address`.
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
        let place = (address as u64).rotate_left(ADDRESS_SHIFT);
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

    /// Sets or clears the bit, atomically and without faulting. May sleep, but does not wait for
    /// the process or its memory.
    pub(crate) fn store(
        &self,
        mm: &MmWithUser,
        _locked: &MmapReadGuard<'_>,
        on: bool,
    ) -> Result<(), NotWritten> {
        let mut page = ptr::null_mut();
        // SAFETY: The address space is alive and its mmap lock is held for reading, as the two
        // references show. One page is asked for, and `page` has room for one.
        let pinned = unsafe {
            bindings::pin_user_pages_remote(
                mm.as_raw(),
                self.address(),
                1,
                bindings::FOLL_WRITE | bindings::FOLL_NOFAULT,
                &mut page,
                ptr::null_mut(),
            )
        };
        if pinned != 1 {
            return Err(NotWritten::NotPresent);
        }
        // SAFETY: The page is pinned for writing until the unpin below, and mapped by this thread
        // until the unmap. By the invariant the word is aligned, so it lies within the page, and
        // the atomics are aligned too.
        //
        // The word is user memory, changed concurrently by user programs with the atomics of their
        // own languages, hence Rust's own here, whose model is the same. No reference to plain data
        // is made of it.
        let marked = unsafe {
            let base = kernel::bindings::kmap_local_page(page).cast::<u8>();
            let word = base.add(self.address() % kernel::page::PAGE_SIZE);
            if self.is_wide() {
                let word = AtomicU64::from_ptr(word.cast());
                let mask = 1u64 << self.bit();
                if on {
                    word.fetch_or(mask, Ordering::SeqCst);
                } else {
                    word.fetch_and(!mask, Ordering::SeqCst);
                }
            } else {
                let word = AtomicU32::from_ptr(word.cast());
                let mask = 1u32 << self.bit();
                if on {
                    word.fetch_or(mask, Ordering::SeqCst);
                } else {
                    word.fetch_and(!mask, Ordering::SeqCst);
                }
            }
            kernel::bindings::kunmap_local(base.cast());
            bindings::user_events_unpin_written(page)
        };
        if marked {
            Ok(())
        } else {
            Err(NotWritten::Busy)
        }
    }

    /// Clears the bit, atomically, in the memory of the current task, by its own page tables: less
    /// work than [`UserBit::store`]. Returns whether that was possible; a page that is not there, or
    /// that the task may not write now, is left alone. Does not sleep.
    pub(crate) fn clear_own(&self) -> bool {
        let bit = u32::from(self.bit());
        // Of a wide word the half with the bit.
        let half = match (self.is_wide(), cfg!(target_endian = "big")) {
            (true, false) => bit / 32,
            (true, true) => 1 - bit / 32,
            (false, _) => 0,
        };
        let address = self.address() + 4 * half as usize;
        // SAFETY: The word is in the user's half of the address space, by the invariant, and is
        // changed as the task itself could change it. Faults are refused, not taken.
        unsafe { bindings::user_events_clear_own(address, 1 << (bit % 32)) == 0 }
    }

    /// Is the bit set? `None` if that cannot be seen without bringing the page in. Does not wait for
    /// the process or its memory.
    pub(crate) fn load(&self, mm: &MmWithUser, _locked: &MmapReadGuard<'_>) -> Option<bool> {
        let mut page = ptr::null_mut();
        // SAFETY: As in `store`.
        let found = unsafe {
            bindings::get_user_pages_remote(
                mm.as_raw(),
                self.address(),
                1,
                bindings::FOLL_NOFAULT,
                &mut page,
                ptr::null_mut(),
            )
        };
        if found != 1 {
            return None;
        }
        // SAFETY: We hold a reference to the page until the put below. The rest is as in `store`.
        unsafe {
            let base = kernel::bindings::kmap_local_page(page).cast::<u8>();
            let word = base.add(self.address() % kernel::page::PAGE_SIZE);
            let value = if self.is_wide() {
                AtomicU64::from_ptr(word.cast()).load(Ordering::Relaxed)
            } else {
                AtomicU32::from_ptr(word.cast())
                    .load(Ordering::Relaxed)
                    .into()
            };
            kernel::bindings::kunmap_local(base.cast());
            bindings::user_events_put_page(page);
            Some(value & (1 << self.bit()) != 0)
        }
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

    /// As [`UserBit::fault_in`], but does not wait for the page for more than a second. For the
    /// work queue, and the memory of others.
    ///
    /// # Errors
    ///
    /// `EINTR` when the page did not come in time, else as [`UserBit::fault_in`].
    pub(crate) fn fault_in_briefly(&self, mm: &MmWithUser) -> Result {
        let _locked = mm.mmap_read_lock();
        let flags = bindings::fault_flag_FAULT_FLAG_WRITE | bindings::fault_flag_FAULT_FLAG_REMOTE;
        // SAFETY: As in `fault_in`. What the current task is, the function checks itself.
        kernel::error::to_result(unsafe {
            bindings::user_events_fault_in_within(mm.as_raw(), self.address(), flags, LONGEST_FAULT)
        })
    }
}

const _: () = assert!(kernel::page::PAGE_SIZE % size_of::<u64>() == 0);
