// SPDX-License-Identifier: GPL-2.0

//! A page of user memory, mapped into the kernel.
//!
//! C: `kmap_local_page()` (linux/highmem.h), `unpin_user_page()`, `folio_mark_dirty()`
//! (linux/mm.h).

use super::super::bindings;
use super::{
    BitWriteError,
    UserBit,
    Written, //
};
use core::cell::Cell;
use core::marker::PhantomData;
use core::sync::atomic::{
    AtomicU32,
    Ordering, //
};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

/// A page of user memory, while it is held.
///
/// The words are user memory, changed concurrently by user programs with the atomics of their own
/// languages, hence Rust's own here, whose model is the same, or the kernel's. No reference to
/// plain data is made.
///
/// # Invariants
///
/// `base` is where the page at the user address `address`, a multiple of its size, is mapped for
/// `'a` in the current context.
pub(super) struct Page<'a> {
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
    pub(super) unsafe fn with<T>(
        page: *mut bindings::page,
        address: usize,
        call: impl FnOnce(&Page<'_>) -> T,
    ) -> T {
        // SAFETY: The page is held, says the caller. What is mapped last is unmapped first, as
        // calls nest.
        let base = unsafe { kernel::bindings::kmap_local_page(page).cast::<u8>() };
        // INVARIANT: Mapped until the call has returned.
        let result = call(&Page {
            base,
            address: address & !(PAGE_SIZE - 1),
            _held: PhantomData,
            _same_thread: NotThreadSafe,
        });
        // SAFETY: Mapped above.
        unsafe { kernel::bindings::kunmap_local(base.cast()) };
        result
    }

    /// Where the 32 bits that `bit` is one of are mapped, if it lies in this page, and which it is.
    #[inline]
    fn word(&self, bit: &UserBit) -> Option<(&AtomicU32, u32)> {
        if bit.page() != self.address {
            return None;
        }
        let (address, mask) = bit.half();
        // SAFETY: The bits are aligned, so they lie in one page, this one, which is mapped by the
        // invariants while `self` is borrowed.
        let word = unsafe { AtomicU32::from_ptr(self.base.add(address % PAGE_SIZE).cast()) };
        Some((word, mask))
    }

    /// Is a bit set? `None` for one that does not lie in this page.
    pub(super) fn load(&self, bit: &UserBit) -> Option<bool> {
        let (word, mask) = self.word(bit)?;
        Some(word.load(Ordering::Relaxed) & mask != 0)
    }
}

/// What is done to bits of a page of user memory.
///
/// # Invariants
///
/// If `is_writable`, the page is pinned for writing while this exists.
pub(crate) struct BitPage<'a> {
    page: &'a Page<'a>,
    is_writable: bool,
    /// Are bits written also if they are right?
    force: bool,
    /// Has a bit been written, or, if the page may not be written to, would one have to be?
    is_changed: Cell<bool>,
}

impl BitPage<'_> {
    /// Maps a page that is pinned for writing for a call, and ends its pinning. With `force` bits
    /// are written also if they are right.
    ///
    /// # Errors
    ///
    /// [`BitWriteError::Busy`] when the page was written to, and could not be marked as such:
    /// another task has locked it; or no file has it, and `is_there`, which is asked then, says
    /// that it is not behind the address any more. A driver's page is.
    ///
    /// # Safety
    ///
    /// `page`, in which the user address `address` lies, must have been pinned for writing; the pin
    /// is this function's to end.
    pub(super) unsafe fn write(
        page: *mut bindings::page,
        address: usize,
        force: bool,
        call: impl FnOnce(&BitPage<'_>),
        is_there: impl FnOnce() -> bool,
    ) -> Result<Written, BitWriteError> {
        // SAFETY: The page is pinned until the unpin below.
        let is_changed = unsafe {
            Page::with(page, address, |page| {
                // INVARIANT: As just said.
                let bits = BitPage {
                    page,
                    is_writable: true,
                    force,
                    is_changed: Cell::new(false),
                };
                call(&bits);
                bits.is_changed.get()
            })
        };
        // SAFETY: The pin is ours, and the page is not mapped any more.
        unsafe {
            if is_changed {
                unpin_written(page, is_there)?;
                return Ok(Written::Changed);
            }
            bindings::unpin_user_page(page);
        }
        Ok(Written::Unchanged)
    }

    /// Would `call` change no bit of this page, to which nothing is written?
    pub(super) fn bits_match(page: &Page<'_>, call: impl FnOnce(&BitPage<'_>)) -> bool {
        // INVARIANT: It is not writable.
        let bits = BitPage {
            page,
            is_writable: false,
            force: false,
            is_changed: Cell::new(false),
        };
        call(&bits);
        !bits.is_changed.get()
    }

    /// Sets or clears a bit, unless it is right. Returns whether it was not, and is now. Does
    /// nothing for one that does not lie in this page.
    #[inline]
    pub(crate) fn set(&self, bit: &UserBit, on: bool) -> bool {
        let Some((word, mask)) = self.page.word(bit) else {
            return false;
        };
        let is_wrong = (word.load(Ordering::Relaxed) & mask != 0) != on;
        if is_wrong || self.force {
            self.is_changed.set(true);
            if self.is_writable {
                store(word, mask, on);
            }
        }
        is_wrong && self.is_writable
    }
}

/// Sets or clears a bit of user memory that may be written to, atomically, and after all that was
/// read and written before: a task that finds it set finds the consumer.
///
/// On arm64 by the kernel's own operations, which are single instructions where the processor has
/// them (LSE). Those that the compiler makes are loops there, which a program that changes the word
/// all the time could keep from coming to an end, with the trace core's locks held. On x86 it is
/// the other way round: the compiler's are single instructions, as it is not asked for the old
/// value.
#[inline]
fn store(word: &AtomicU32, mask: u32, on: bool) {
    match (cfg!(CONFIG_ARM64), on) {
        (false, true) => _ = word.fetch_or(mask, Ordering::SeqCst),
        (false, false) => _ = word.fetch_and(!mask, Ordering::SeqCst),
        (true, _) => {
            let (word, mask) = (word.as_ptr().cast(), mask as i32);
            // SAFETY: An `atomic_t` is a number and no more.
            unsafe {
                if on {
                    kernel::bindings::atomic_fetch_or_release(mask, word);
                } else {
                    kernel::bindings::atomic_fetch_andnot_release(mask, word);
                }
            }
        }
    }
}

/// Ends the pinning of a page that was just written to.
///
/// # Errors
///
/// See [`BitPage::write`].
///
/// A page that is dirty now is written back after now, with what was written: writeback clears the
/// mark, with a full barrier, before it reads the page. The atomic operations of arm64 do not order
/// what they have written before a later read by themselves.
///
/// # Safety
///
/// The page must be pinned, and the pin the caller's to end.
unsafe fn unpin_written(
    page: *mut bindings::page,
    is_there: impl FnOnce() -> bool,
) -> Result<(), BitWriteError> {
    // SAFETY: The page is pinned, says the caller, so it belongs to its folio, which stays. The pin
    // is ended last.
    unsafe {
        let folio = bindings::user_events_page_folio(page);
        // Pairs with the exchange in `folio_clear_dirty_for_io()`.
        kernel::bindings::smp_mb();
        let mut marked = Ok(());
        if !bindings::user_events_folio_test_dirty(folio) {
            // While it is pinned: no other page is this one.
            marked = mark_dirty(folio, is_there);
        }
        bindings::unpin_user_page(page);
        marked
    }
}

/// Marks a folio as written to, if that takes no waiting.
///
/// # Errors
///
/// See [`BitPage::write`].
///
/// # Safety
///
/// The folio must be held.
unsafe fn mark_dirty(
    folio: *mut bindings::folio,
    is_there: impl FnOnce() -> bool,
) -> Result<(), BitWriteError> {
    // SAFETY: The folio is held, says the caller. It is locked where that is asked for.
    unsafe {
        if !bindings::user_events_folio_trylock(folio) {
            return Err(BitWriteError::Busy);
        }
        let has_file = bindings::user_events_folio_has_mapping(folio);
        if has_file {
            bindings::folio_mark_dirty(folio);
        }
        bindings::folio_unlock(folio);
        if has_file || is_there() {
            Ok(())
        } else {
            Err(BitWriteError::Busy)
        }
    }
}

const _: () = assert!(PAGE_SIZE % size_of::<u64>() == 0);
