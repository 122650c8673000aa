// SPDX-License-Identifier: GPL-2.0

//! Where the bytes of a `write` or `writev` come from.

use super::bindings;
use core::mem::MaybeUninit;
use kernel::bindings::iovec;
use kernel::iov::IovIterSource;
use kernel::prelude::*;
use kernel::uaccess::{
    UserPtr,
    UserSlice, //
};

/// Bytes of the index in front of a payload.
pub(crate) const INDEX_SIZE: usize = 4;

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
    #[inline(always)]
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

/// The longest payload that is read by words: that takes less than to begin with a copy.
const MAX_BY_WORDS: usize = 128;

/// Reads an index at an address, which may be any. May sleep.
#[inline]
fn read_index(from: *const u8) -> Result<u32> {
    // SAFETY: The address is checked, and a fault there is an error.
    let read = unsafe { bindings::user_events_read_index(from.cast()) };
    if read < 0 {
        return Err(EFAULT);
    }
    // These are the 32 bits.
    Ok(read as u32)
}

/// Fills `out` from an address, which may be any. May sleep.
///
/// # Errors
///
/// `EFAULT` when not all can be read. All of `out` is written otherwise.
#[inline]
fn read_user(from: *const u8, out: &mut [MaybeUninit<u8>]) -> Result {
    if !cfg!(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS) || out.len() > MAX_BY_WORDS {
        return copy_from_user(from, out);
    }
    let (to, len) = (out.as_mut_ptr().cast(), out.len());
    // SAFETY: `out` has that much room. The address is checked, and a fault there is an error.
    let is_read = unsafe { bindings::user_events_read_words(to, from.cast(), len) };
    if is_read {
        Ok(())
    } else {
        Err(EFAULT)
    }
}

/// As [`read_user`]. C: `copy_from_user()`.
#[inline(never)]
fn copy_from_user(from: *const u8, out: &mut [MaybeUninit<u8>]) -> Result {
    let from = UserPtr::from_ptr(from.cast_mut().cast());
    UserSlice::new(from, out.len()).reader().read_raw(out)
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

// SAFETY: `read_user` tells whether it has written all bytes.
unsafe impl Source for UserBytes {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn read_index(&mut self) -> Result<u32> {
        if self.len < INDEX_SIZE {
            return Err(EFAULT);
        }
        read_index(self.from)
    }

    #[inline]
    fn read_payload(&mut self, out: &mut [MaybeUninit<u8>]) -> Result {
        read_user(self.from.wrapping_add(INDEX_SIZE), out)
    }
}

/// Where the bytes of an iterator lie in user memory. C: `iter_iov()` (linux/uio.h).
enum UserMemory {
    /// In one piece, at this address.
    Buffer(*const u8),
    /// In the parts of an array, but for so many bytes of the first.
    Parts(*const iovec, usize),
}

/// Where the bytes of an iterator lie, if that is in user memory.
#[inline]
fn user_memory(iter: &mut IovIterSource<'_>) -> Option<UserMemory> {
    // SAFETY: The iterator is valid, by its type, and not changed while it is borrowed here.
    let iter = unsafe { &*iter.as_raw() };
    // SAFETY: The union is one of pointers, all of which are as long: any of them can be read. Only
    // the one that the type of the iterator tells of is used.
    let (buffer, parts) = unsafe {
        let place = iter.__bindgen_anon_1.__bindgen_anon_1.as_ref();
        (place.__bindgen_anon_1.ubuf, place.__bindgen_anon_1.__iov)
    };
    match iter.iter_type.into() {
        kernel::bindings::iter_type_ITER_UBUF => {
            let at = buffer.cast::<u8>().wrapping_add(iter.iov_offset);
            Some(UserMemory::Buffer(at))
        }
        kernel::bindings::iter_type_ITER_IOVEC => Some(UserMemory::Parts(parts, iter.iov_offset)),
        _ => None,
    }
}

/// Fills `out` from the parts of an array, from `skip` bytes on. May sleep.
///
/// # Errors
///
/// `EFAULT` when not all can be read. All of `out` is written otherwise.
///
/// # Safety
///
/// The parts from `part` on must have `skip + out.len()` bytes.
#[inline]
unsafe fn read_parts(
    mut part: *const iovec,
    mut skip: usize,
    out: &mut [MaybeUninit<u8>],
) -> Result {
    if out.is_empty() {
        return Ok(());
    }
    loop {
        // SAFETY: There are bytes to be read, behind the ones to be skipped, so there is this part, says
        // the caller.
        let (base, len) = unsafe { ((*part).iov_base.cast::<u8>(), (*part).iov_len) };
        if skip < len {
            if out.len() <= len - skip {
                return read_user(base.wrapping_add(skip), out);
            }
            // SAFETY: The same bytes are left to be skipped and read.
            return unsafe { read_across(part, skip, out) };
        }
        skip -= len;
        part = part.wrapping_add(1);
    }
}

/// [`read_parts`], where it takes more than one.
///
/// # Safety
///
/// As for [`read_parts`].
#[inline(never)]
unsafe fn read_across(
    mut part: *const iovec,
    mut skip: usize,
    mut out: &mut [MaybeUninit<u8>],
) -> Result {
    while !out.is_empty() {
        // SAFETY: There are bytes left to be read, so there is this part, says the caller.
        let (base, len) = unsafe { ((*part).iov_base.cast::<u8>(), (*part).iov_len) };
        let here = out.len().min(len.wrapping_sub(skip));
        let (now, later) = out.split_at_mut_checked(here).ok_or(EFAULT)?;
        if !now.is_empty() {
            read_user(base.wrapping_add(skip), now)?;
        }
        out = later;
        skip = 0;
        part = part.wrapping_add(1);
    }
    Ok(())
}

/// The index at the start of what is not in user memory, or not in one piece.
#[cold]
fn copy_index(iter: &mut IovIterSource<'_>) -> Result<u32> {
    let mut index = [0; INDEX_SIZE];
    let copied = iter.copy_from_iter(&mut index);
    // SAFETY: It was advanced by so many bytes.
    unsafe { iter.revert(copied) };
    if copied < INDEX_SIZE {
        return Err(EFAULT);
    }
    Ok(u32::from_ne_bytes(index))
}

// SAFETY: `read_user`, `read_parts` and the kernel's copy tell whether they have written all bytes.
unsafe impl Source for &mut IovIterSource<'_> {
    #[inline]
    fn len(&self) -> usize {
        IovIterSource::len(self)
    }

    /// The iterator is as it was after this.
    #[inline]
    fn read_index(&mut self) -> Result<u32> {
        // What has no bytes may have no part that could be looked at.
        if IovIterSource::len(self) < INDEX_SIZE {
            return Err(EFAULT);
        }
        match user_memory(self) {
            Some(UserMemory::Buffer(at)) => return read_index(at),
            Some(UserMemory::Parts(part, skip)) => {
                // SAFETY: The iterator has bytes, so it has a part.
                let (base, len) = unsafe { ((*part).iov_base.cast::<u8>(), (*part).iov_len) };
                if len.wrapping_sub(skip) >= INDEX_SIZE {
                    return read_index(base.wrapping_add(skip));
                }
            }
            None => {}
        }
        copy_index(self)
    }

    /// Callers of `write_iter()` do not look how far the iterator was advanced when all of it was
    /// written: where that takes time, it is not.
    #[inline]
    fn read_payload(&mut self, out: &mut [MaybeUninit<u8>]) -> Result {
        if out.len() > IovIterSource::len(self).saturating_sub(INDEX_SIZE) {
            return Err(EFAULT);
        }
        match user_memory(self) {
            Some(UserMemory::Buffer(at)) => read_user(at.wrapping_add(INDEX_SIZE), out),
            // SAFETY: The iterator holds that much behind an index, as was just asked.
            Some(UserMemory::Parts(part, skip)) => unsafe {
                read_parts(part, skip.wrapping_add(INDEX_SIZE), out)
            },
            None => {
                let len = out.len();
                self.advance(INDEX_SIZE);
                let copied = self.copy_from_iter_raw(out).len();
                (copied == len).then_some(()).ok_or(EFAULT)
            }
        }
    }
}
