// SPDX-License-Identifier: GPL-2.0

//! Where the bytes of a `write` or `writev` come from, and a place for them on the stack.

use core::mem::MaybeUninit;
use kernel::iov::IovIterSource;
use kernel::prelude::*;
use kernel::uaccess::UserSliceReader;

/// Bytes in user memory that are read once, front to back.
pub(crate) trait Source {
    /// Bytes that are left.
    fn len(&self) -> usize;

    /// Reads the next `out.len()` bytes; the returned slice is all of `out`. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` when not all of them can be read.
    fn read<'b>(&mut self, out: &'b mut [MaybeUninit<u8>]) -> Result<&'b [u8]>;

    /// As [`Source::read`], but reads one byte less and puts a NUL into the last.
    ///
    /// # Errors
    ///
    /// `EFAULT` as above; `EINVAL` when `out` is empty.
    fn read_with_nul<'b>(&mut self, out: &'b mut [MaybeUninit<u8>]) -> Result<&'b [u8]> {
        let (last, bytes) = out.split_last_mut().ok_or(EINVAL)?;
        self.read(bytes)?;
        last.write(0);
        // SAFETY: `read` has written all bytes but the last, and that one has just been written.
        Ok(unsafe { &*(core::ptr::from_ref(out) as *const [u8]) })
    }

    /// Reads all that is left behind what `out` has already. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` as above, `ENOMEM`.
    fn read_rest(self, out: &mut KVVec<u8>) -> Result;
}

impl Source for UserSliceReader {
    #[inline]
    fn len(&self) -> usize {
        UserSliceReader::len(self)
    }

    #[inline]
    fn read<'b>(&mut self, out: &'b mut [MaybeUninit<u8>]) -> Result<&'b [u8]> {
        self.read_raw(out)?;
        // SAFETY: Success means that every byte of `out` was written.
        Ok(unsafe { &*(core::ptr::from_ref(out) as *const [u8]) })
    }

    fn read_rest(self, out: &mut KVVec<u8>) -> Result {
        self.read_all(out, GFP_KERNEL)
    }
}

impl Source for &mut IovIterSource<'_> {
    #[inline]
    fn len(&self) -> usize {
        IovIterSource::len(self)
    }

    #[inline]
    fn read<'b>(&mut self, out: &'b mut [MaybeUninit<u8>]) -> Result<&'b [u8]> {
        let wanted = out.len();
        if self.copy_from_iter_raw(out).len() < wanted {
            return Err(EFAULT);
        }
        // SAFETY: As many bytes as `out` has were written to it.
        Ok(unsafe { &*(core::ptr::from_ref(out) as *const [u8]) })
    }

    fn read_rest(self, out: &mut KVVec<u8>) -> Result {
        let wanted = self.len();
        if self.copy_from_iter_vec(out, GFP_KERNEL)? < wanted {
            return Err(EFAULT);
        }
        Ok(())
    }
}
