// SPDX-License-Identifier: GPL-2.0

//! The data of a `write()` or `writev()`: a `u32`, and the rest.

use super::bindings;
use super::record_buf::{
    RecordBuf,
    Word, //
};
use core::mem::MaybeUninit;
use kernel::bindings::{
    iov_iter,
    iovec, //
};
use kernel::iov::IovIterSource;
use kernel::prelude::*;

/// Bytes of the `u32` at the start.
const HEAD_SIZE: usize = size_of::<u32>();

/// A `u32` and the rest behind it, mostly in user memory, which may change during the write: each
/// is read once, the `u32` first.
///
/// # Safety
///
/// `read_rest` must initialise all of `out` if it returns `Ok`, and `read_rest_nofault` if it
/// returns `true`.
pub(crate) unsafe trait WriteSource {
    /// Bytes of the `u32` and the rest, before any is read. May be less than a `u32` has.
    fn len(&self) -> usize;

    /// Reads the `u32`. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` when there are fewer bytes, or they cannot be read.
    fn read_u32(&mut self) -> Result<u32>;

    /// Fills `out` from the start of the rest. To be called once, after `read_u32`. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` when not all of it can be read.
    fn read_rest(&mut self, out: &mut [MaybeUninit<u8>]) -> Result;

    /// Fills `out` from the start of the rest without sleeping, and returns whether all of `out`
    /// was filled: not if a page is missing. `read_rest` starts at the same place afterwards.
    fn read_rest_nofault(&self, out: &mut [MaybeUninit<u8>]) -> bool;

    /// As [`Self::read_rest`], to where the payload of a record is in `memory`.
    ///
    /// # Errors
    ///
    /// `EFAULT` when not all of it can be read; `E2BIG` when `memory` is too small.
    #[inline(always)]
    fn read_record<'b>(
        &mut self,
        memory: &'b mut [Word],
        payload_len: usize,
    ) -> Result<RecordBuf<'b>> {
        // SAFETY: By the safety requirement of the trait all bytes are initialised.
        unsafe { RecordBuf::read(memory, payload_len, |payload| self.read_rest(payload)) }
    }
}

/// The longest rest that is read word by word, which is faster than the setup of a copy.
/// `user_events_read_words()` leaves a gap in a longer one.
const MAX_BY_WORDS: usize = 128;

/// Reads a `u32` at any user address. May sleep.
#[inline]
fn read_u32(from: *const u8) -> Result<u32> {
    // SAFETY: The function checks the address, and returns an error for a fault.
    let read = unsafe { bindings::user_events_read_u32(from.cast()) };
    if read < 0 {
        return Err(EFAULT);
    }
    Ok(read as u32)
}

/// Fills `out` from any user address. May sleep.
///
/// # Errors
///
/// `EFAULT` when not all of it can be read. All of `out` is initialised otherwise.
#[inline]
fn read_user(from: *const u8, out: &mut [MaybeUninit<u8>]) -> Result {
    if !cfg!(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS) || out.len() > MAX_BY_WORDS {
        return copy_from_user(from, out);
    }
    let (to, len) = (out.as_mut_ptr().cast(), out.len());
    // SAFETY: `out` has `len` bytes, of which the function leaves no gap as `len` is at most
    // `MAX_BY_WORDS`. It checks the address, and returns an error for a fault.
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
    // SAFETY: `out` has `len` bytes. The function checks the address, and returns what a fault
    // leaves.
    let left = unsafe { kernel::bindings::copy_from_user(to, from.cast(), len) };
    if left == 0 {
        Ok(())
    } else {
        Err(EFAULT)
    }
}

/// User memory: the buffer of a `write()`, or the two of a `writev()`, of which the first is the
/// `u32`.
pub(crate) struct UserBuf {
    head: *const u8,
    rest: *const u8,
    len: usize,
}

impl UserBuf {
    /// One buffer of `len` bytes at any user address.
    #[inline]
    pub(super) fn new(from: *const u8, len: usize) -> Self {
        Self {
            head: from,
            rest: from.wrapping_add(HEAD_SIZE),
            len,
        }
    }
}

// SAFETY: `read_user` and `copy_from_user_nofault()` report success only if all bytes are written.
unsafe impl WriteSource for UserBuf {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn read_u32(&mut self) -> Result<u32> {
        if self.len < HEAD_SIZE {
            return Err(EFAULT);
        }
        read_u32(self.head)
    }

    #[inline]
    fn read_rest(&mut self, out: &mut [MaybeUninit<u8>]) -> Result {
        read_user(self.rest, out)
    }

    #[inline]
    fn read_rest_nofault(&self, out: &mut [MaybeUninit<u8>]) -> bool {
        let (to, len) = (out.as_mut_ptr().cast(), out.len());
        // SAFETY: `out` has `len` bytes. The function checks the address, and returns an error for
        // a fault.
        let error = unsafe { kernel::bindings::copy_from_user_nofault(to, self.rest.cast(), len) };
        error == 0
    }
}

/// The source that an iterator is. C: `struct iov_iter` (linux/uio.h).
pub(super) enum IterSource<'a> {
    /// One segment of user memory, or two of which the first is the `u32`. A `writev()` of such two
    /// to ftrace takes 1593 instructions by the kernel's iterator, and 1437 without.
    User(UserBuf),
    /// Kernel memory, as of a registered buffer of io_uring, or other segments.
    Other(&'a mut IovIterSource<'a>),
}

impl<'a> IterSource<'a> {
    /// # Safety
    ///
    /// `iter` must be a valid iterator to read from, and used by nothing else for `'a`.
    #[inline]
    pub(super) unsafe fn from_raw(iter: *mut iov_iter) -> Self {
        // SAFETY: The iterator is valid by the safety requirement. The members of its unions are
        // pointers, or numbers, of one size, so any of them can be read; only that of the
        // iterator's type is used. There are `nr_segs` segments, with `count` bytes behind the
        // first `skip`.
        unsafe {
            let place = (*iter).__bindgen_anon_1.__bindgen_anon_1.as_ref();
            let (count, skip) = (place.count, (*iter).iov_offset);
            let kind = u32::from((*iter).iter_type);
            if kind == kernel::bindings::iter_type_ITER_UBUF {
                let from = place.__bindgen_anon_1.ubuf.cast::<u8>();
                return Self::User(UserBuf::new(from.wrapping_add(skip), count));
            }
            if kind == kernel::bindings::iter_type_ITER_IOVEC
                && (*iter).__bindgen_anon_2.nr_segs == 2
            {
                let [head, rest] = &*place.__bindgen_anon_1.__iov.cast::<[iovec; 2]>();
                if head.iov_len.wrapping_sub(skip) == HEAD_SIZE && count >= HEAD_SIZE {
                    return Self::User(UserBuf {
                        head: head.iov_base.cast::<u8>().wrapping_add(skip),
                        rest: rest.iov_base.cast(),
                        len: count,
                    });
                }
            }
            Self::Other(IovIterSource::from_raw(iter))
        }
    }
}

// SAFETY: The kernel's copy returns the number of bytes that it has written.
unsafe impl WriteSource for &mut IovIterSource<'_> {
    #[inline]
    fn len(&self) -> usize {
        IovIterSource::len(self)
    }

    #[cold]
    fn read_u32(&mut self) -> Result<u32> {
        let mut head = [0; HEAD_SIZE];
        if self.copy_from_iter(&mut head) < HEAD_SIZE {
            return Err(EFAULT);
        }
        Ok(u32::from_ne_bytes(head))
    }

    #[cold]
    fn read_rest(&mut self, out: &mut [MaybeUninit<u8>]) -> Result {
        let len = out.len();
        let copied = self.copy_from_iter_raw(out).len();
        (copied == len).then_some(()).ok_or(EFAULT)
    }

    /// Always fails: not worth the code for many segments, or kernel memory.
    #[cold]
    fn read_rest_nofault(&self, _out: &mut [MaybeUninit<u8>]) -> bool {
        false
    }
}
