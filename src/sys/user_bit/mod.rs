// SPDX-License-Identifier: GPL-2.0

//! Bits in the memory of a process, the caller's or another's.
//!
//! C: `fixup_user_fault()` (linux/mm.h), `arch_futex_atomic_op_inuser()` (asm/futex.h). How the
//! page that a bit lies in is found, in the memory of any process, is in [`locked_mm`], and how it
//! is read and written to in [`page`].

mod locked_mm;
mod page;

pub(crate) use locked_mm::{
    Backing,
    BitWriteError,
    FaultIn,
    LockedMm,
    Written, //
};

use super::bindings;
use core::ffi::c_void;
use core::ptr;
use kernel::mm::MmWithUser;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// Where a bit is: the address of its word, a multiple of four without a tag, and its number in
/// that, below 64. In the order of both.
///
/// One number: the lower six bits are the bit's, the next is 0, and the others are the address, the
/// lowest two bits of which are none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BitAddr(u64);

/// A naturally aligned 32- or 64-bit word at a user address, and a bit in it.
///
/// There may be very many, so it is one number: a [`BitAddr`], the seventh bit of which says
/// whether the word is wide.
///
/// # Invariants
///
/// The address is a multiple of the word's size, the word lies in the user's half of the address
/// space, and the bit is less than the word has bits.
#[derive(Clone, Copy)]
pub(crate) struct UserBit(u64);

/// How far up the address begins, and so how many of its upper bits have to be clear. No
/// architecture has that large a half for its users.
const ADDRESS_SHIFT: u32 = 5;

/// The bit's number.
const BIT: u64 = (1 << 6) - 1;

/// What says that the word is wide.
const IS_WIDE: u64 = 1 << 6;

/// An address without the tag that the current task may give it (arm64's top byte, x86's LAM). C:
/// `untagged_addr()`.
pub(crate) fn untagged_addr(address: usize) -> usize {
    // SAFETY: Computes with numbers only.
    unsafe { bindings::user_events_untagged_addr(address) }
}

impl BitAddr {
    /// Before all others.
    pub(crate) const FIRST: Self = Self(0);

    /// The place of a bit. `None` if no bit can be there.
    pub(crate) fn new(address: usize, bit: u8) -> Option<Self> {
        // Upper bits that are not clear come in below.
        let place = (address as u64).rotate_left(ADDRESS_SHIFT);
        let is_place = place & (IS_WIDE | BIT) == 0 && u64::from(bit) <= BIT;
        is_place.then_some(Self(place | u64::from(bit)))
    }

    /// The address of the word.
    pub(crate) fn address(self) -> usize {
        ((self.0 & !(IS_WIDE | BIT)) >> ADDRESS_SHIFT) as usize
    }

    /// The number of the bit in the word.
    pub(crate) fn bit(self) -> u8 {
        (self.0 & BIT) as u8
    }

    /// A place from which on those behind this one are found.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
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
        if !unsafe { bindings::user_events_access_ok(address as *const c_void, size.into()) } {
            return Err(EFAULT);
        }
        let BitAddr(place) = BitAddr::new(untagged_addr(address), bit).ok_or(EFAULT)?;
        let is_wide = if is_wide { IS_WIDE } else { 0 };
        // INVARIANT: Checked above.
        Ok(Self(place | is_wide))
    }

    /// Where it is.
    pub(crate) fn addr(&self) -> BitAddr {
        BitAddr(self.0 & !IS_WIDE)
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
        self.addr().address()
    }

    fn is_wide(&self) -> bool {
        self.0 & IS_WIDE != 0
    }

    /// Which bit of the word it is.
    pub(crate) fn bit(&self) -> u8 {
        self.addr().bit()
    }

    /// The 32 bits that are changed to change it, the half of a wide word: their address, and the
    /// bit among them.
    #[inline]
    fn half(&self) -> (usize, u32) {
        let bit = u32::from(self.bit());
        let half = if cfg!(target_endian = "big") && self.is_wide() {
            1 - bit / 32
        } else {
            bit / 32
        };
        (self.address() + 4 * half as usize, 1 << (bit % 32))
    }

    /// The page that the word lies in, by its address.
    pub(crate) fn page(&self) -> usize {
        self.address() & !(PAGE_SIZE - 1)
    }

    /// Clears the bit, atomically, in `mm`, if that is the memory of the current task, by its own
    /// page tables: less work than [`LockedMm::write_page`]. Returns whether that was possible; a
    /// page that is not there, or that the task may not write now, is left alone. Does not sleep.
    pub(crate) fn clear_current(&self, mm: &MmWithUser) -> bool {
        let current = current!();
        // A kernel thread has none, or the one that it has taken on.
        if !current.mm().is_some_and(|own| ptr::eq(own, mm)) {
            return false;
        }
        let (address, mask) = self.half();
        // SAFETY: The word is in the user's half of the address space, by the invariant. The
        // current task has an address space, as just asked, so the page tables are that one's, and
        // the word is changed as the task itself could change it. Faults are refused, not taken.
        unsafe { bindings::user_events_clear_current(address as *mut u32, mask) == 0 }
    }

    /// Brings the word's page in, writable. Waits for the mmap lock and for the page, for the
    /// latter until the current task is killed. For the memory of the current task.
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
