// SPDX-License-Identifier: GPL-2.0

//! Bits in the memory of a process, the current one or another.
//!
//! C: `fixup_user_fault()` (linux/mm.h), `arch_futex_atomic_op_inuser()` (asm/futex.h).
//! [`locked_mm`] finds the page of a bit in any process, and [`page`] reads and writes the page.

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

/// The address of a bit's word, a multiple of four without a tag, and the bit's number in the word,
/// below 64. Ordered by address, then by number.
///
/// Packed: the lower six bits are the bit's number, the next one is 0, and the others are the
/// address, of which the lowest two bits are left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BitAddr(u64);

/// A bit of a naturally aligned 32- or 64-bit word at a user address.
///
/// Packed, as there may be very many: a [`BitAddr`], of which the seventh bit is set for a 64-bit
/// word.
///
/// # Invariants
///
/// The address is a multiple of the word's size, the word is in the user's half of the address
/// space, and the bit is below the word's width.
#[derive(Clone, Copy)]
pub(crate) struct UserBit(u64);

/// The number of bits by which an address is shifted, and of its upper bits that must be clear. No
/// architecture has a larger half for users.
const ADDRESS_SHIFT: u32 = 5;

/// Mask of the bit's number.
const BIT: u64 = (1 << 6) - 1;

/// Set for a 64-bit word.
const IS_WIDE: u64 = 1 << 6;

/// Removes the tag that the current task may put into an address (arm64's top byte, x86's LAM). C:
/// `untagged_addr()`.
pub(crate) fn untagged_addr(address: usize) -> usize {
    // SAFETY: Computes with numbers only.
    unsafe { bindings::user_events_untagged_addr(address) }
}

impl BitAddr {
    /// Before all other places.
    pub(crate) const FIRST: Self = Self(0);

    /// The place of a bit; `None` if the address is not aligned or too large, or the number is.
    pub(crate) fn new(address: usize, bit: u8) -> Option<Self> {
        // The rotation moves upper bits that are not clear into the lower ones.
        let place = (address as u64).rotate_left(ADDRESS_SHIFT);
        let is_place = place & (IS_WIDE | BIT) == 0 && u64::from(bit) <= BIT;
        is_place.then_some(Self(place | u64::from(bit)))
    }

    /// Address of the word.
    pub(crate) fn address(self) -> usize {
        ((self.0 & !(IS_WIDE | BIT)) >> ADDRESS_SHIFT) as usize
    }

    /// Number of the bit in the word.
    pub(crate) fn bit(self) -> u8 {
        (self.0 & BIT) as u8
    }

    /// A lower bound for all places after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl UserBit {
    /// A bit of the word of `size` bytes at `address`, without the tag that `address` may have.
    ///
    /// # Errors
    ///
    /// `EINVAL` when the size is neither 4 nor 8, the address is not a multiple of it, or the word
    /// has no such bit; otherwise `EFAULT` when the word is not in user space.
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

    /// The place of the bit.
    pub(crate) fn addr(&self) -> BitAddr {
        BitAddr(self.0 & !IS_WIDE)
    }

    /// Width of the word in bits.
    pub(crate) fn width(&self) -> u32 {
        if self.is_wide() {
            u64::BITS
        } else {
            u32::BITS
        }
    }

    /// Address of the word.
    pub(crate) fn address(&self) -> usize {
        self.addr().address()
    }

    fn is_wide(&self) -> bool {
        self.0 & IS_WIDE != 0
    }

    /// Number of the bit in the word.
    pub(crate) fn bit(&self) -> u8 {
        self.addr().bit()
    }

    /// The aligned 32 bits with the bit, a half of a 64-bit word: their address, and the mask of
    /// the bit.
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

    /// Address of the word's page.
    pub(crate) fn page(&self) -> usize {
        self.address() & !(PAGE_SIZE - 1)
    }

    /// Clears the bit in `mm` by an atomic operation on user memory, if `mm` is that of the current
    /// task; faster than [`LockedMm::write_page`]. Returns `false` for another `mm`, and for a page
    /// that is not present or not writable, which is left alone. Does not sleep.
    pub(crate) fn clear_current(&self, mm: &MmWithUser) -> bool {
        let current = current!();
        // A kernel thread has no mm, or a borrowed one.
        if !current.mm().is_some_and(|own| ptr::eq(own, mm)) {
            return false;
        }
        let (address, mask) = self.half();
        // SAFETY: By the invariant the word is in the user's half of the address space, which is
        // that of the current task, as just checked, and which the task itself may change. Page
        // faults are disabled.
        unsafe { bindings::user_events_clear_current(address as *mut u32, mask) == 0 }
    }

    /// Faults in the word's page for writing, in the address space of the current task. Waits for
    /// the mmap lock, and for the page, until the task is killed.
    ///
    /// # Errors
    ///
    /// `EFAULT` when the mapping does not allow writes; `EINTR` when the task is killed; `ENOMEM`.
    pub(crate) fn fault_in(&self, mm: &MmWithUser) -> Result {
        let _locked = mm.mmap_read_lock();
        let mut unlocked = false;
        let flags = bindings::fault_flag_FAULT_FLAG_WRITE | bindings::fault_flag_FAULT_FLAG_REMOTE;
        // SAFETY: The address space is alive, and its mmap lock is held. The function may drop the
        // lock meanwhile, and holds it again on return; nothing here depends on it.
        kernel::error::to_result(unsafe {
            bindings::fixup_user_fault(mm.as_raw(), self.address(), flags, &mut unlocked)
        })
    }
}
