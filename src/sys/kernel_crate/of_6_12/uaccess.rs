// SPDX-License-Identifier: GPL-2.0

//! User memory. 7.x: `kernel::uaccess`, which has a type for an address there, and reads strings.

use crate::bindings;
use core::ffi::{
    c_void,
    CStr, //
};
use core::mem::{
    size_of,
    MaybeUninit, //
};
use tree::error::code::*;
use tree::error::Result;
use tree::types::{
    AsBytes,
    FromBytes, //
};

/// An address in user memory, not checked in any way.
#[derive(Clone, Copy)]
pub struct UserPtr(usize);

impl UserPtr {
    /// By a number.
    pub const fn from_addr(addr: usize) -> Self {
        Self(addr)
    }

    /// By a pointer.
    pub fn from_ptr(ptr: *mut c_void) -> Self {
        Self(ptr as usize)
    }

    /// So many bytes behind it, or at the start of the memory after its end.
    pub const fn wrapping_byte_add(self, bytes: usize) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

/// Bytes of user memory.
pub struct UserSlice(UserPtr, usize);

impl UserSlice {
    /// So many bytes at an address.
    pub const fn new(ptr: UserPtr, length: usize) -> Self {
        Self(ptr, length)
    }

    /// To read them from the first to the last.
    pub const fn reader(self) -> UserSliceReader {
        UserSliceReader(self.0, self.1)
    }

    /// To write them from the first to the last.
    pub const fn writer(self) -> UserSliceWriter {
        UserSliceWriter(self.0, self.1)
    }
}

/// Bytes of user memory that are left to be read.
pub struct UserSliceReader(UserPtr, usize);

impl UserSliceReader {
    /// How many are left.
    pub const fn len(&self) -> usize {
        self.1
    }

    /// Is none left?
    pub const fn is_empty(&self) -> bool {
        self.1 == 0
    }

    /// Another reader of the same bytes, which is to read what may be other ones by then.
    pub const fn clone_reader(&self) -> Self {
        Self(self.0, self.1)
    }

    /// Leaves so many out. `EFAULT`, when there are not so many.
    pub fn skip(&mut self, bytes: usize) -> Result {
        let left = self.1.checked_sub(bytes).ok_or(EFAULT)?;
        *self = Self(self.0.wrapping_byte_add(bytes), left);
        Ok(())
    }

    /// Reads as many as `out` has room for. `EFAULT`, when not all of them are there.
    fn read_raw(&mut self, out: &mut [MaybeUninit<u8>]) -> Result {
        let len = out.len();
        if len > self.1 {
            return Err(EFAULT);
        }
        // SAFETY: `out` has that much room. The address is checked, and a fault there is an error.
        let left = unsafe {
            bindings::copy_from_user(out.as_mut_ptr().cast(), self.0 .0 as *const c_void, len)
        };
        if left != 0 {
            return Err(EFAULT);
        }
        self.skip(len)
    }

    /// As above, where there are bytes already.
    pub fn read_slice(&mut self, out: &mut [u8]) -> Result {
        let (to, len) = (out.as_mut_ptr().cast(), out.len());
        // SAFETY: Only bytes are written there.
        self.read_raw(unsafe { core::slice::from_raw_parts_mut(to, len) })
    }

    /// Reads a value.
    pub fn read<T: FromBytes>(&mut self) -> Result<T> {
        let mut value = MaybeUninit::<T>::uninit();
        let (to, len) = (value.as_mut_ptr().cast(), size_of::<T>());
        // SAFETY: The memory of the value.
        self.read_raw(unsafe { core::slice::from_raw_parts_mut(to, len) })?;
        // SAFETY: All of its bytes are written, and any make a value.
        Ok(unsafe { value.assume_init() })
    }

    /// Reads a string, or as much of it as there are bytes, or as there is room for in `buf` in
    /// front of a NUL. C: `strncpy_from_user()`.
    pub fn strcpy_into_buf<'buf>(self, buf: &'buf mut [u8]) -> Result<&'buf CStr> {
        let room = buf.len().checked_sub(1).ok_or(EINVAL)?.min(self.1);
        // SAFETY: `buf` has that much room. The address is checked, and a fault there is an error.
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

/// Bytes of user memory that are left to be written. The tree's own calls what arm64 does not
/// export.
pub struct UserSliceWriter(UserPtr, usize);

impl UserSliceWriter {
    /// Writes a value.
    pub fn write<T: AsBytes>(&mut self, value: &T) -> Result {
        let len = size_of::<T>();
        let left = self.1.checked_sub(len).ok_or(EFAULT)?;
        let from = core::ptr::from_ref(value).cast();
        // SAFETY: All bytes of the value are there. The address is checked, and a fault there is an
        // error.
        if unsafe { bindings::copy_to_user(self.0 .0 as *mut c_void, from, len) } != 0 {
            return Err(EFAULT);
        }
        *self = Self(self.0.wrapping_byte_add(len), left);
        Ok(())
    }
}
