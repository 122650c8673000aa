// SPDX-License-Identifier: GPL-2.0

//! The arguments of the ioctls.
//!
//! C: `struct user_reg`, `struct user_unreg` (include/uapi/linux/user_events.h). Both begin with
//! their size, and may be larger than the module's own if the rest is 0.

use crate::events::RegFlags;
use crate::schema::MAX_DESCRIPTION;
use crate::sys::uapi::{
    user_reg,
    user_unreg,
    USER_EVENT_REG_MULTI_FORMAT,
    USER_EVENT_REG_PERSIST, //
};
use crate::sys::user_bit::UserBit;
use core::mem::offset_of;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::transmute::FromBytes;
use kernel::uaccess::{
    UserPtr,
    UserSlice,
    UserSliceReader, //
};

/// Reads a structure that begins with its size, which may be larger than that of `T`. May sleep. C:
/// `copy_struct_from_user()`.
///
/// # Errors
///
/// `EFAULT`; `EINVAL` when it is shorter than `T`; `E2BIG` when it is longer than a page, or a byte
/// behind `T` is not 0.
fn copy_struct_from_user<T: FromBytes>(address: usize) -> Result<T> {
    let at = UserPtr::from_addr(address);
    let size: u32 = UserSlice::new(at, size_of::<u32>()).reader().read()?;
    let size = size as usize;
    if size > PAGE_SIZE {
        return Err(E2BIG);
    }
    if size < size_of::<T>() {
        return Err(EINVAL);
    }
    let mut reader = UserSlice::new(at, size).reader();
    let known = reader.read()?;
    check_zeroed(reader)?;
    Ok(known)
}

/// Checks that all remaining bytes are 0.
fn check_zeroed(mut reader: UserSliceReader) -> Result {
    let mut piece = [0; 64];
    while !reader.is_empty() {
        let len = reader.len().min(piece.len());
        let piece = piece.get_mut(..len).ok_or(EINVAL)?;
        reader.read_slice(piece)?;
        if piece.iter().any(|byte| *byte != 0) {
            return Err(E2BIG);
        }
    }
    Ok(())
}

/// `struct user_reg`: a registration.
pub(crate) struct UserReg {
    address: usize,
    /// The bit that is to show the event's state.
    pub(crate) bit: UserBit,
    pub(crate) flags: RegFlags,
    /// The address of the description.
    pub(crate) description: usize,
}

impl UserReg {
    /// Reads the structure at a user address. May sleep.
    ///
    /// # Errors
    ///
    /// As [`copy_struct_from_user`]; `EFAULT` when the bit is not in user space; `EINVAL` when a
    /// field is not valid.
    pub(crate) fn read(address: usize) -> Result<Self> {
        let reg: user_reg = copy_struct_from_user(address)?;
        let has = |flag| u32::from(reg.flags) & flag != 0;
        if u32::from(reg.flags) & !(USER_EVENT_REG_PERSIST | USER_EVENT_REG_MULTI_FORMAT) != 0 {
            return Err(EINVAL);
        }
        Ok(Self {
            address,
            bit: UserBit::new(reg.enable_addr, reg.enable_bit, reg.enable_size)?,
            flags: RegFlags {
                persistent: has(USER_EVENT_REG_PERSIST),
                multi_format: has(USER_EVENT_REG_MULTI_FORMAT),
            },
            description: usize::try_from(reg.name_args).map_err(|_| EFAULT)?,
        })
    }

    /// Writes the write index to the structure in user memory. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn write_index(&self, index: u32) -> Result {
        let at = offset_of!(user_reg, write_index);
        let at = UserPtr::from_addr(self.address).wrapping_byte_add(at);
        UserSlice::new(at, size_of::<u32>()).writer().write(&index)
    }
}

/// `struct user_unreg`: which bit to unregister.
pub(crate) struct UserUnreg {
    /// Number of the bit in its word.
    pub(crate) bit: u8,
    /// The address of the word, unchecked.
    pub(crate) address: u64,
}

impl UserUnreg {
    /// Reads the structure at a user address. May sleep.
    ///
    /// # Errors
    ///
    /// As [`copy_struct_from_user`]; `EINVAL` when a reserved member is not 0.
    pub(crate) fn read(address: usize) -> Result<Self> {
        let unreg: user_unreg = copy_struct_from_user(address)?;
        if unreg.__reserved != 0 || unreg.__reserved2 != 0 {
            return Err(EINVAL);
        }
        Ok(Self {
            bit: unreg.disable_bit,
            address: unreg.disable_addr,
        })
    }
}

/// A buffer for a description with its NUL.
pub(crate) struct DescriptionBuffer([u8; MAX_DESCRIPTION + 1]);

impl DescriptionBuffer {
    pub(crate) fn new() -> Self {
        Self([0; MAX_DESCRIPTION + 1])
    }

    /// Reads the NUL-terminated text at a user address, and returns it without the NUL. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`; `EINVAL` when the text is longer than a description can be.
    pub(crate) fn read(&mut self, address: usize) -> Result<&[u8]> {
        let at = UserPtr::from_addr(address);
        let text = UserSlice::new(at, self.0.len())
            .reader()
            .strcpy_into_buf(&mut self.0)?
            .to_bytes();
        if text.len() == MAX_DESCRIPTION {
            // `strcpy_into_buf()` cuts a longer text to this length: only a NUL may follow.
            let mut end = [0];
            UserSlice::new(at.wrapping_byte_add(MAX_DESCRIPTION), 1)
                .reader()
                .read_slice(&mut end)?;
            if end != [0] {
                return Err(EINVAL);
            }
        }
        Ok(text)
    }
}
