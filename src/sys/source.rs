// SPDX-License-Identifier: GPL-2.0

//! Where the bytes of a `write` or `writev` come from.

use super::bindings;
use core::mem::MaybeUninit;
use kernel::iov::IovIterSource;
use kernel::prelude::*;

/// Bytes of the index in front of a payload.
const INDEX: usize = 4;

/// A write index and a payload behind it, most often in user memory, which may change meanwhile: each
/// is read once.
///
/// # Safety
///
/// `read_payload` must have written all of `out` if it succeeds.
pub(crate) unsafe trait Source {
    /// Bytes of both; of what is shorter than an index, too.
    fn len(&self) -> usize;

    /// Reads the bits of the index. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` when it is not there, or cannot be read.
    fn read_index(&mut self) -> Result<u32>;

    /// Fills `out` from the start of the payload, which is as long at least. May sleep. To be called
    /// once.
    ///
    /// # Errors
    ///
    /// `EFAULT` when not all of it can be read.
    fn read_payload(&mut self, out: &mut [MaybeUninit<u8>]) -> Result;

    /// Fills `out` from the start of the payload, but for a NUL at the end. May sleep. To be called once.
    ///
    /// # Errors
    ///
    /// `EFAULT` when not all of it can be read.
    #[inline]
    fn read_payload_and_nul<'b>(&mut self, out: &'b mut [MaybeUninit<u8>]) -> Result<&'b [u8]> {
        let Some((nul, payload)) = out.split_last_mut() else {
            return Ok(&[]);
        };
        self.read_payload(payload)?;
        nul.write(0);
        // SAFETY: By the trait's promise all bytes but the last are written, and that one has just
        // been.
        Ok(unsafe { &*(core::ptr::from_ref(out) as *const [u8]) })
    }
}

/// Tells the bits of an index from an error of the C functions that read one.
#[inline]
fn index(read: i64) -> Result<u32> {
    u32::try_from(read).map_err(|_| EFAULT)
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

    /// Where the payload begins.
    #[inline]
    fn payload(&self) -> *const u8 {
        self.from.wrapping_add(INDEX)
    }
}

// SAFETY: The kernel's copy tells whether it has written all bytes.
unsafe impl Source for UserBytes {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn read_index(&mut self) -> Result<u32> {
        if self.len < INDEX {
            return Err(EFAULT);
        }
        // SAFETY: Where it comes from is checked.
        index(unsafe { bindings::user_events_read_index(self.from.cast()) })
    }

    #[inline]
    fn read_payload(&mut self, out: &mut [MaybeUninit<u8>]) -> Result {
        let (to, len) = (out.as_mut_ptr().cast(), out.len());
        // SAFETY: `out` has that much room. Where it comes from is checked.
        let is_read = unsafe { bindings::user_events_read_user(to, self.payload().cast(), len) };
        is_read.then_some(()).ok_or(EFAULT)
    }
}

// SAFETY: The C function tells whether it has written all bytes.
unsafe impl Source for &mut IovIterSource<'_> {
    #[inline]
    fn len(&self) -> usize {
        IovIterSource::len(self)
    }

    #[inline]
    fn read_index(&mut self) -> Result<u32> {
        // What has no bytes may have no part that could be looked at.
        if IovIterSource::len(self) < INDEX {
            return Err(EFAULT);
        }
        // SAFETY: The iterator is valid, by its type. It is as it was after this.
        index(unsafe { bindings::user_events_peek_index(self.as_raw()) })
    }

    #[inline]
    fn read_payload(&mut self, out: &mut [MaybeUninit<u8>]) -> Result {
        let (to, len) = (out.as_mut_ptr().cast(), out.len());
        if len > IovIterSource::len(self).saturating_sub(INDEX) {
            return Err(EFAULT);
        }
        // SAFETY: The iterator is valid, by its type, and holds that much behind an index. `out` has
        // that much room.
        let is_read = unsafe { bindings::user_events_read_payload(to, self.as_raw(), len) };
        is_read.then_some(()).ok_or(EFAULT)
    }
}
