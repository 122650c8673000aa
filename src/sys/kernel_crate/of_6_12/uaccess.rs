// SPDX-License-Identifier: GPL-2.0

//! User memory. 7.x: `kernel::uaccess`, which has a type for a user address, and reads strings.

use crate::bindings;
use core::ffi::{
    c_void,
    CStr, //
};
use core::mem::MaybeUninit;
use tree::error::code::*;
use tree::error::Result;
use tree::types::{
    AsBytes,
    FromBytes, //
};

/// An unchecked user address.
#[derive(Clone, Copy)]
pub struct UserPtr(usize);

impl UserPtr {
    /// From a number.
    pub const fn from_addr(addr: usize) -> Self {
        Self(addr)
    }

    /// From a pointer.
    pub fn from_ptr(ptr: *mut c_void) -> Self {
        Self(ptr as usize)
    }

    /// Adds `bytes`, and wraps around.
    pub const fn wrapping_byte_add(self, bytes: usize) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

/// A range of user memory.
pub struct UserSlice(UserPtr, usize);

impl UserSlice {
    /// The range of `length` bytes at `ptr`.
    pub const fn new(ptr: UserPtr, length: usize) -> Self {
        Self(ptr, length)
    }

    /// A reader that starts at the first byte.
    pub const fn reader(self) -> UserSliceReader {
        UserSliceReader(self.0, self.1)
    }

    /// A writer that starts at the first byte.
    pub const fn writer(self) -> UserSliceWriter {
        UserSliceWriter(self.0, self.1)
    }
}

/// Reads user memory.
pub struct UserSliceReader(UserPtr, usize);

impl UserSliceReader {
    /// The number of remaining bytes.
    pub const fn len(&self) -> usize {
        self.1
    }

    /// Whether no bytes remain.
    pub const fn is_empty(&self) -> bool {
        self.1 == 0
    }

    /// Another reader of the same range, whose bytes may have changed by then.
    pub const fn clone_reader(&self) -> Self {
        Self(self.0, self.1)
    }

    /// Skips bytes. `EFAULT` if fewer remain.
    pub fn skip(&mut self, bytes: usize) -> Result {
        let left = self.1.checked_sub(bytes).ok_or(EFAULT)?;
        *self = Self(self.0.wrapping_byte_add(bytes), left);
        Ok(())
    }

    /// Fills `out`. `EFAULT` if fewer bytes remain, or at a fault.
    fn read_raw(&mut self, out: &mut [MaybeUninit<u8>]) -> Result {
        let len = out.len();
        if len > self.1 {
            return Err(EFAULT);
        }
        // SAFETY: `out` has `len` bytes. The function checks the address, and returns how many
        // bytes a fault has left out.
        let left = unsafe {
            bindings::copy_from_user(out.as_mut_ptr().cast(), self.0 .0 as *const c_void, len)
        };
        if left != 0 {
            return Err(EFAULT);
        }
        self.skip(len)
    }

    /// Fills `out`. `EFAULT` if fewer bytes remain, or at a fault.
    pub fn read_slice(&mut self, out: &mut [u8]) -> Result {
        let (to, len) = (out.as_mut_ptr().cast(), out.len());
        // SAFETY: `out` is borrowed mutably, and `read_raw` writes only initialised bytes.
        self.read_raw(unsafe { core::slice::from_raw_parts_mut(to, len) })
    }

    /// Reads a value. `EFAULT` as for [`Self::read_slice`].
    pub fn read<T: FromBytes>(&mut self) -> Result<T> {
        let mut value = MaybeUninit::<T>::uninit();
        let (to, len) = (value.as_mut_ptr().cast(), size_of::<T>());
        // SAFETY: These are the bytes of `value`, which nothing else uses meanwhile.
        self.read_raw(unsafe { core::slice::from_raw_parts_mut(to, len) })?;
        // SAFETY: All bytes are written, and by `FromBytes` all values of them are valid.
        Ok(unsafe { value.assume_init() })
    }

    /// Reads a string, or as much of it as the range or `buf`, with its NUL, can have. `EFAULT` at
    /// a fault. C: `strncpy_from_user()`.
    pub fn strcpy_into_buf<'buf>(self, buf: &'buf mut [u8]) -> Result<&'buf CStr> {
        let room = buf.len().checked_sub(1).ok_or(EINVAL)?.min(self.1);
        // SAFETY: `buf` has more than `room` bytes. The function checks the address, and returns an
        // error for a fault.
        let len = unsafe {
            bindings::strncpy_from_user(
                buf.as_mut_ptr().cast(),
                self.0 .0 as *const crate::ffi::c_char,
                room as isize,
            )
        };
        let len = usize::try_from(len).map_err(|_| EFAULT)?;
        *buf.get_mut(len).ok_or(EFAULT)? = 0;
        CStr::from_bytes_until_nul(buf).map_err(|_| EFAULT)
    }
}

/// Writes user memory. The crate's own type calls a function that arm64 does not export.
pub struct UserSliceWriter(UserPtr, usize);

impl UserSliceWriter {
    /// Writes a value. `EFAULT` if fewer bytes remain, or at a fault.
    pub fn write<T: AsBytes>(&mut self, value: &T) -> Result {
        let len = size_of::<T>();
        let left = self.1.checked_sub(len).ok_or(EFAULT)?;
        let from = core::ptr::from_ref(value).cast();
        // SAFETY: By `AsBytes` all bytes of the value are initialised. The function checks the
        // address, and returns how many bytes a fault has left out.
        if unsafe { bindings::copy_to_user(self.0 .0 as *mut c_void, from, len) } != 0 {
            return Err(EFAULT);
        }
        *self = Self(self.0.wrapping_byte_add(len), left);
        Ok(())
    }
}
