// SPDX-License-Identifier: GPL-2.0

//! Pages of user memory, mapped into the kernel.
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

/// A mapped page of user memory.
///
/// User programs change the words concurrently. So there are no references to plain data, only
/// atomic operations: the kernel's, or Rust's, whose memory model is that of the programs'
/// languages.
///
/// # Invariants
///
/// For `'a` the page at the user address `address`, a multiple of the page size, is mapped at
/// `base` in the current context.
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
    /// `page`, which contains the user address `address`, must be held for the call.
    pub(super) unsafe fn with<T>(
        page: *mut bindings::page,
        address: usize,
        call: impl FnOnce(&Page<'_>) -> T,
    ) -> T {
        // SAFETY: The page is held by the safety requirement. Calls nest, so the last mapping is
        // unmapped first.
        let base = unsafe { kernel::bindings::kmap_local_page(page).cast::<u8>() };
        // INVARIANT: Mapped until the call returns.
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

    /// The mapped 32 bits with `bit`, and its mask; `None` if it is in another page.
    #[inline]
    fn word(&self, bit: &UserBit) -> Option<(&AtomicU32, u32)> {
        if bit.page() != self.address {
            return None;
        }
        let (address, mask) = bit.half();
        // SAFETY: The 32 bits are aligned, so they are all in this page, which is mapped while
        // `self` is borrowed.
        let word = unsafe { AtomicU32::from_ptr(self.base.add(address % PAGE_SIZE).cast()) };
        Some((word, mask))
    }

    /// Whether a bit is set; `None` if it is in another page.
    pub(super) fn load(&self, bit: &UserBit) -> Option<bool> {
        let (word, mask) = self.word(bit)?;
        Some(word.load(Ordering::Relaxed) & mask != 0)
    }
}

/// Access to bits of a mapped page, or a dry run.
///
/// # Invariants
///
/// If `is_writable`, the page is pinned for writing.
pub(crate) struct BitPage<'a> {
    page: &'a Page<'a>,
    is_writable: bool,
    /// Bits are also written if they have the right value.
    force: bool,
    /// A bit was written, or, in a dry run, would have been.
    is_changed: Cell<bool>,
}

impl BitPage<'_> {
    /// Maps a page that is pinned for writing for a call, and unpins it. With `force` bits are also
    /// written if they have the right value.
    ///
    /// # Errors
    ///
    /// [`BitWriteError::Busy`] when the page was written, but not marked dirty: another task has
    /// locked it, or it has no mapping and `is_there` returns `false`, so it was dropped from the
    /// address. A driver's page without mapping is still there.
    ///
    /// # Safety
    ///
    /// `page`, which contains the user address `address`, must be pinned for writing. This function
    /// takes over the pin.
    pub(super) unsafe fn write(
        page: *mut bindings::page,
        address: usize,
        force: bool,
        call: impl FnOnce(&BitPage<'_>),
        is_there: impl FnOnce() -> bool,
    ) -> Result<Written, BitWriteError> {
        // SAFETY: The page is pinned until it is unpinned below.
        let is_changed = unsafe {
            Page::with(page, address, |page| {
                // INVARIANT: Pinned for writing by the safety requirement.
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
        // SAFETY: This function owns the pin, and the page is not mapped any more.
        unsafe {
            if is_changed {
                unpin_written(page, is_there)?;
                return Ok(Written::Changed);
            }
            bindings::unpin_user_page(page);
        }
        Ok(Written::Unchanged)
    }

    /// Whether all bits that `call` sets have the right value already. Writes nothing.
    pub(super) fn bits_match(page: &Page<'_>, call: impl FnOnce(&BitPage<'_>)) -> bool {
        // INVARIANT: Not writable.
        let bits = BitPage {
            page,
            is_writable: false,
            force: false,
            is_changed: Cell::new(false),
        };
        call(&bits);
        !bits.is_changed.get()
    }

    /// Sets or clears a bit, unless it has the right value. Returns whether its value has changed.
    /// Ignores bits of other pages.
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

/// Sets or clears a bit of writable user memory atomically, ordered after all previous accesses: a
/// task that sees the bit set also sees the consumer.
///
/// On arm64 by the kernel's operations, which are single instructions if the processor has them
/// (LSE). The compiler's are loops, which a program that changes the word all the time could keep
/// running, with the trace core's locks held. On x86 the compiler's are single instructions, as the
/// old value is not used, and the kernel's are loops.
#[inline]
fn store(word: &AtomicU32, mask: u32, on: bool) {
    match (cfg!(CONFIG_ARM64), on) {
        (false, true) => _ = word.fetch_or(mask, Ordering::SeqCst),
        (false, false) => _ = word.fetch_and(!mask, Ordering::SeqCst),
        (true, _) => {
            let (word, mask) = (word.as_ptr().cast(), mask as i32);
            // SAFETY: The word is borrowed, aligned, and only accessed atomically. An `atomic_t` is
            // a number of its size.
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

/// Unpins a page that was just written.
///
/// A page that is dirty now is written back with the new bits: writeback clears the mark, with a
/// full barrier, before it reads the page. The atomic operations of arm64 do not order their writes
/// before a later read.
///
/// # Errors
///
/// See [`BitPage::write`].
///
/// # Safety
///
/// The page must be pinned. This function takes over the pin.
unsafe fn unpin_written(
    page: *mut bindings::page,
    is_there: impl FnOnce() -> bool,
) -> Result<(), BitWriteError> {
    // SAFETY: The page is pinned by the safety requirement until it is unpinned last, so it belongs
    // to its folio, which exists.
    unsafe {
        let folio = bindings::user_events_page_folio(page);
        // Pairs with the exchange in `folio_clear_dirty_for_io()`.
        kernel::bindings::smp_mb();
        let mut marked = Ok(());
        if !bindings::user_events_folio_test_dirty(folio) {
            // While pinned, so that the page is not reused elsewhere.
            marked = mark_dirty(folio, is_there);
        }
        bindings::unpin_user_page(page);
        marked
    }
}

/// Marks a folio dirty, without waiting.
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
    // SAFETY: The folio is held by the safety requirement, and locked for its mapping and its mark.
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
