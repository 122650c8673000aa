// SPDX-License-Identifier: GPL-2.0

//! Where the bytes of a `write` or `writev` come from.

use super::bindings;
use super::record_bytes::{
    RecordBytes,
    Word, //
};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use kernel::bindings::{
    iov_iter,
    iovec, //
};
use kernel::iov::IovIterSource;
use kernel::prelude::*;

/// Bytes of the index in front of a payload.
pub(crate) const INDEX_SIZE: usize = 4;

/// A write index and a payload behind it, most often in user memory, which may change meanwhile: each
/// is read once, the index first.
///
/// # Safety
///
/// `read_payload` must have written all of `out` if it succeeds.
pub(crate) unsafe trait Source {
    /// Bytes of both, before any is read; of what is shorter than an index, too.
    fn len(&self) -> usize;

    /// Reads the bits of the index. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` when it is not there, or cannot be read.
    fn read_index(&mut self) -> Result<u32>;

    /// Fills `out` from the start of the payload, after the index was read. May sleep. To be called once.
    ///
    /// # Errors
    ///
    /// `EFAULT` when not all of it can be read.
    fn read_payload(&mut self, out: &mut [MaybeUninit<u8>]) -> Result;

    /// Reads the first bytes of the payload to where a record is made of them. May sleep. To be called once.
    ///
    /// # Errors
    ///
    /// `EFAULT` when not all of it can be read; `E2BIG` when the memory has no room for them.
    #[inline(always)]
    fn read_record<'b>(
        &mut self,
        memory: &'b mut [Word],
        payload_len: usize,
    ) -> Result<RecordBytes<'b>> {
        // SAFETY: By the trait's promise all bytes are written.
        unsafe { RecordBytes::read(memory, payload_len, |payload| self.read_payload(payload)) }
    }
}

/// The longest payload that is read by words: that takes less than to begin with a copy. What reads them leaves a gap in
/// what is longer.
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
    // SAFETY: `out` has that much room, and is no longer than is read without a gap. The address is checked, and a fault
    // there is an error.
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
    let (to, len) = (out.as_mut_ptr().cast(), out.len());
    // SAFETY: `out` has that much room. The address is checked, and a fault there is an error.
    let left = unsafe { kernel::bindings::copy_from_user(to, from.cast(), len) };
    if left == 0 {
        Ok(())
    } else {
        Err(EFAULT)
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

/// What a `writev` is given: parts of user memory, from an array of the kernel's.
///
/// # Invariants
///
/// The array has parts from `part` on whose bytes, but for the first `skip`, are `left` at least. It is there for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct UserParts<'a> {
    part: *const iovec,
    skip: usize,
    left: usize,
    _array: PhantomData<&'a [iovec]>,
}

impl UserParts<'_> {
    /// The address and the number of what is left of the first part, if there are `wanted` bytes in all parts, and that is
    /// not 0.
    #[inline]
    fn first(&self, wanted: usize) -> Option<(*const u8, usize)> {
        if wanted == 0 || wanted > self.left {
            return None;
        }
        // SAFETY: By the invariant there is a part, as there are bytes left.
        let (base, len) = unsafe { ((*self.part).iov_base.cast::<u8>(), (*self.part).iov_len) };
        Some((base.wrapping_add(self.skip), len.wrapping_sub(self.skip)))
    }

    /// The same but for the first bytes, of which there are `count` in the first part.
    #[inline]
    fn behind(self, count: usize, first_len: usize) -> Self {
        // INVARIANT: So many bytes are left, and in the first part. If they are all of it, the rest is in those behind it.
        let (part, skip) = if count == first_len {
            (self.part.wrapping_add(1), 0)
        } else {
            (self.part, self.skip.wrapping_add(count))
        };
        Self {
            part,
            skip,
            left: self.left.wrapping_sub(count),
            _array: PhantomData,
        }
    }

    /// The same but for the first bytes, of several parts.
    ///
    /// # Errors
    ///
    /// `EFAULT` when there are not so many.
    #[cold]
    fn behind_across(mut self, mut count: usize) -> Result<Self> {
        while count > 0 {
            let (_, len) = self.first(count).ok_or(EFAULT)?;
            let here = count.min(len);
            count = count.wrapping_sub(here);
            self = self.behind(here, len);
        }
        Ok(self)
    }

    /// Fills `out` with the next bytes, of several parts. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` when there are not so many, or not all can be read. All of `out` is written otherwise.
    #[cold]
    #[inline(never)]
    fn read_across(mut self, mut out: &mut [MaybeUninit<u8>]) -> Result {
        while !out.is_empty() {
            let (from, len) = self.first(out.len()).ok_or(EFAULT)?;
            let here = out.len().min(len);
            let (now, later) = out.split_at_mut_checked(here).ok_or(EFAULT)?;
            if !now.is_empty() {
                read_user(from, now)?;
            }
            out = later;
            self = self.behind(here, len);
        }
        Ok(())
    }

    /// The index, in several parts.
    #[cold]
    #[inline(never)]
    fn read_index_across(self) -> Result<u32> {
        let mut index = [MaybeUninit::uninit(); INDEX_SIZE];
        self.read_across(&mut index)?;
        // SAFETY: All of it was written.
        let index = index.map(|byte| unsafe { byte.assume_init() });
        Ok(u32::from_ne_bytes(index))
    }
}

// SAFETY: `read_user` and `read_across` tell whether they have written all bytes.
unsafe impl Source for UserParts<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.left
    }

    #[inline]
    fn read_index(&mut self) -> Result<u32> {
        let (from, len) = self.first(INDEX_SIZE).ok_or(EFAULT)?;
        if len < INDEX_SIZE {
            return (*self).read_index_across();
        }
        read_index(from)
    }

    #[inline]
    fn read_payload(&mut self, out: &mut [MaybeUninit<u8>]) -> Result {
        let behind_index = match self.first(INDEX_SIZE) {
            Some((_, len)) if len >= INDEX_SIZE => (*self).behind(INDEX_SIZE, len),
            _ => (*self).behind_across(INDEX_SIZE)?,
        };
        match behind_index.first(out.len()) {
            Some((from, len)) if out.len() <= len => read_user(from, out),
            _ => behind_index.read_across(out),
        }
    }
}

/// Where the bytes of an iterator are. C: `struct iov_iter` (linux/uio.h).
pub(super) enum IterSource<'a> {
    /// In user memory.
    Parts(UserParts<'a>),
    /// In memory of the kernel, as for a buffer that io_uring knows.
    Other(&'a mut IovIterSource<'a>),
}

impl<'a> IterSource<'a> {
    /// # Safety
    ///
    /// `iter` must be a valid iterator to read from, and used by nothing else for `'a`.
    #[inline]
    pub(super) unsafe fn from_raw(iter: *mut iov_iter) -> Self {
        // SAFETY: Valid, says the caller. The union is one of pointers, all of which are as long: any of them can be
        // read. Only the one that the type of the iterator tells of is used.
        let (kind, skip, parts, left) = unsafe {
            let place = (*iter).__bindgen_anon_1.__bindgen_anon_1.as_ref();
            let parts = place.__bindgen_anon_1.__iov;
            ((*iter).iter_type, (*iter).iov_offset, parts, place.count)
        };
        let kind = u32::from(kind);
        let part = if kind == kernel::bindings::iter_type_ITER_IOVEC {
            parts
        } else if kind == kernel::bindings::iter_type_ITER_UBUF && skip == 0 {
            // Where nothing was taken yet, the iterator holds its address and length as a part does.
            // SAFETY: Valid, says the caller.
            unsafe { (&raw const (*iter).__bindgen_anon_1.__ubuf_iovec).cast() }
        } else {
            // SAFETY: Promised by the caller.
            return Self::Other(unsafe { IovIterSource::from_raw(iter) });
        };
        // INVARIANT: A valid iterator has so many bytes in the parts, but for the first of them.
        Self::Parts(UserParts {
            part,
            skip,
            left,
            _array: PhantomData,
        })
    }
}

// SAFETY: The kernel's copy tells how many bytes it has written.
unsafe impl Source for &mut IovIterSource<'_> {
    #[inline]
    fn len(&self) -> usize {
        IovIterSource::len(self)
    }

    #[cold]
    fn read_index(&mut self) -> Result<u32> {
        let mut index = [0; INDEX_SIZE];
        if self.copy_from_iter(&mut index) < INDEX_SIZE {
            return Err(EFAULT);
        }
        Ok(u32::from_ne_bytes(index))
    }

    #[cold]
    fn read_payload(&mut self, out: &mut [MaybeUninit<u8>]) -> Result {
        let len = out.len();
        let copied = self.copy_from_iter_raw(out).len();
        (copied == len).then_some(()).ok_or(EFAULT)
    }
}
