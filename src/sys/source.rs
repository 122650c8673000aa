// SPDX-License-Identifier: GPL-2.0

//! Where the bytes of a `write` or `writev` come from.

use super::bindings;
use core::mem::MaybeUninit;
use kernel::iov::IovIterSource;
use kernel::prelude::*;
use kernel::uaccess::{UserPtr, UserSlice};

/// Bytes in user memory that are read once, front to back.
///
/// # Safety
///
/// As many bytes at the start of `out` as `fill` returns must be written then.
pub(crate) unsafe trait Source {
    /// Bytes that are left.
    fn len(&self) -> usize;

    /// Reads into `out`, from its start, as many bytes as it has room for and as can be read. Returns how many
    /// these are. May sleep.
    fn fill(&mut self, out: &mut [MaybeUninit<u8>]) -> usize;

    /// Reads all that is left behind what `out` has already. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` when not all of it can be read; `ENOMEM`.
    fn read_rest(self, out: &mut KVVec<u8>) -> Result;

    /// Reads as many bytes as `out` has room for less one, or as many of them as can be read, and puts a NUL
    /// behind these, which is the last byte of what is returned. May sleep.
    #[inline]
    fn read_and_nul<'b>(&mut self, out: &'b mut [MaybeUninit<u8>]) -> &'b [u8] {
        let Some((_, bytes)) = out.split_last_mut() else {
            return &[];
        };
        let read = self.fill(bytes);
        let Some((read, _)) = out.split_at_mut_checked(read.saturating_add(1)) else {
            return &[];
        };
        if let Some(last) = read.last_mut() {
            last.write(0);
        }
        // SAFETY: By the trait's promise `fill` has written all bytes of it but the last, and that one has
        // just been written.
        unsafe { &*(core::ptr::from_ref(read) as *const [u8]) }
    }
}

/// What a `write` is given: an address in user memory and a length.
pub(crate) struct UserBytes {
    from: *const u8,
    len: usize,
}

impl UserBytes {
    /// Whatever `from` is, reading from it does no harm.
    #[inline]
    pub(super) fn new(from: *const u8, len: usize) -> Self {
        Self { from, len }
    }
}

// SAFETY: The kernel's copy returns how many bytes it has written, from the start.
unsafe impl Source for UserBytes {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn fill(&mut self, out: &mut [MaybeUninit<u8>]) -> usize {
        let wanted = out.len().min(self.len);
        // SAFETY: `out` has room for `wanted` bytes. Where they come from is checked.
        let read = unsafe {
            bindings::user_events_read_user(out.as_mut_ptr().cast(), self.from.cast(), wanted)
        };
        self.from = self.from.wrapping_add(read);
        self.len = self.len.saturating_sub(read);
        read
    }

    fn read_rest(self, out: &mut KVVec<u8>) -> Result {
        let from = UserPtr::from_ptr(self.from.cast_mut().cast());
        UserSlice::new(from, self.len)
            .reader()
            .read_all(out, GFP_KERNEL)
    }
}

// SAFETY: The length of the slice that the kernel crate has initialised, which starts where `out` does.
unsafe impl Source for &mut IovIterSource<'_> {
    #[inline]
    fn len(&self) -> usize {
        IovIterSource::len(self)
    }

    #[inline]
    fn fill(&mut self, out: &mut [MaybeUninit<u8>]) -> usize {
        self.copy_from_iter_raw(out).len()
    }

    fn read_rest(self, out: &mut KVVec<u8>) -> Result {
        let wanted = self.len();
        if self.copy_from_iter_vec(out, GFP_KERNEL)? < wanted {
            return Err(EFAULT);
        }
        Ok(())
    }
}
