// SPDX-License-Identifier: GPL-2.0

//! Where the bytes of a `write` or `writev` come from.

use super::bindings;
use super::record_bytes::{
    RecordBytes,
    Word, //
};
use core::mem::MaybeUninit;
use kernel::bindings::{
    iov_iter,
    iovec, //
};
use kernel::iov::IovIterSource;
use kernel::prelude::*;

/// Bytes of the index in front of a payload.
pub(crate) const INDEX_SIZE: usize = 4;

/// A write index and a payload behind it, most often in user memory, which may change meanwhile:
/// each is read once, the index first.
///
/// # Safety
///
/// `read_payload` must have written all of `out` if it succeeds, and `read_payload_now` if it
/// returns `true`.
pub(crate) unsafe trait Source {
    /// Bytes of both, before any is read; of what is shorter than an index, too.
    fn len(&self) -> usize;

    /// Reads the bits of the index. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` when it is not there, or cannot be read.
    fn read_index(&mut self) -> Result<u32>;

    /// Fills `out` from the start of the payload, after the index was read. May sleep. To be called
    /// once.
    ///
    /// # Errors
    ///
    /// `EFAULT` when not all of it can be read.
    fn read_payload(&mut self, out: &mut [MaybeUninit<u8>]) -> Result;

    /// Fills `out` from the start of the payload, and returns whether all of that is in memory.
    /// Does not sleep. `read_payload` reads from the start again.
    fn read_payload_now(&self, out: &mut [MaybeUninit<u8>]) -> bool;

    /// Reads the first bytes of the payload to where a record is made of them. May sleep. To be
    /// called once.
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

/// The longest payload that is read by words: that takes less than to begin with a copy. What reads
/// them leaves a gap in what is longer.
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
    // SAFETY: `out` has that much room, and is no longer than is read without a gap. The address is
    // checked, and a fault there is an error.
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

/// What a `write` is given, or a `writev` of the index and the payload: where in user memory they
/// are.
pub(crate) struct UserBytes {
    index: *const u8,
    payload: *const u8,
    len: usize,
}

impl UserBytes {
    /// Both are behind each other. Whatever `from` is, reading from it does no harm.
    #[inline]
    pub(super) fn new(from: *const u8, len: usize) -> Self {
        Self {
            index: from,
            payload: from.wrapping_add(INDEX_SIZE),
            len,
        }
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
        read_index(self.index)
    }

    #[inline]
    fn read_payload(&mut self, out: &mut [MaybeUninit<u8>]) -> Result {
        read_user(self.payload, out)
    }

    #[inline]
    fn read_payload_now(&self, out: &mut [MaybeUninit<u8>]) -> bool {
        let (to, len) = (out.as_mut_ptr().cast(), out.len());
        // SAFETY: `out` has that much room. The address is checked, and a fault there is an error.
        let error =
            unsafe { kernel::bindings::copy_from_user_nofault(to, self.payload.cast(), len) };
        error == 0
    }
}

/// Where the bytes of an iterator are. C: `struct iov_iter` (linux/uio.h).
pub(super) enum IterSource<'a> {
    /// In user memory, in one part, or the index in a part of its own. A `writev` of these two
    /// parts to ftrace takes 1593 instructions by the kernel's iterator, and 1437 so.
    User(UserBytes),
    /// Anywhere else: memory of the kernel, as for a buffer that io_uring knows, and more parts.
    Other(&'a mut IovIterSource<'a>),
}

impl<'a> IterSource<'a> {
    /// # Safety
    ///
    /// `iter` must be a valid iterator to read from, and used by nothing else for `'a`.
    #[inline]
    pub(super) unsafe fn from_raw(iter: *mut iov_iter) -> Self {
        // SAFETY: Valid, says the caller. The unions are of pointers and of numbers, all of which
        // are as long: any of them can be read. Only the one that the type of the iterator tells of
        // is used. It has as many parts as it says, and `count` bytes in them, behind the first
        // `skip`.
        unsafe {
            let place = (*iter).__bindgen_anon_1.__bindgen_anon_1.as_ref();
            let (count, skip) = (place.count, (*iter).iov_offset);
            let kind = u32::from((*iter).iter_type);
            if kind == kernel::bindings::iter_type_ITER_UBUF {
                let from = place.__bindgen_anon_1.ubuf.cast::<u8>();
                return Self::User(UserBytes::new(from.wrapping_add(skip), count));
            }
            if kind == kernel::bindings::iter_type_ITER_IOVEC
                && (*iter).__bindgen_anon_2.nr_segs == 2
            {
                let [index, payload] = &*place.__bindgen_anon_1.__iov.cast::<[iovec; 2]>();
                if index.iov_len.wrapping_sub(skip) == INDEX_SIZE && count >= INDEX_SIZE {
                    return Self::User(UserBytes {
                        index: index.iov_base.cast::<u8>().wrapping_add(skip),
                        payload: payload.iov_base.cast(),
                        len: count,
                    });
                }
            }
            Self::Other(IovIterSource::from_raw(iter))
        }
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

    /// Not of many parts, nor of memory of the kernel's.
    #[cold]
    fn read_payload_now(&self, _out: &mut [MaybeUninit<u8>]) -> bool {
        false
    }
}
