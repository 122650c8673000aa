// SPDX-License-Identifier: GPL-2.0

//! The arguments of the ioctls, as user space gives them.
//!
//! C: `struct user_reg`, `struct user_unreg` (include/uapi/linux/user_events.h). Both are packed,
//! begin with their size and may be longer than we know them, as long as what we do not know is 0.

use crate::events::RegFlags;
use crate::schema::MAX_DESCRIPTION;
use crate::sys::user_bit::UserBit;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::uaccess::{
    UserPtr,
    UserSlice,
    UserSliceReader, //
};

/// Keep the event when there is no reference to it. C: `USER_EVENT_REG_PERSIST`.
const PERSIST: u16 = 1;
/// Other events may have the same name, with other fields. C: `USER_EVENT_REG_MULTI_FORMAT`.
const MULTI_FORMAT: u16 = 2;

/// Bytes of `struct user_reg`.
const USER_REG_SIZE: usize = 28;
/// Where in it the write index goes.
const WRITE_INDEX: usize = 24;
/// Bytes of `struct user_unreg`.
const USER_UNREG_SIZE: usize = 16;

/// Reads a structure whose first `N` bytes we know.
///
/// # Errors
///
/// `EFAULT`; `EINVAL` when it is shorter; `E2BIG` when it is longer than a page, or something
/// behind those bytes is not 0.
fn read_struct<const N: usize>(address: usize) -> Result<[u8; N]> {
    let at = UserPtr::from_addr(address);
    let size: u32 = UserSlice::new(at, 4).reader().read()?;
    let size = size as usize;
    if size > PAGE_SIZE {
        return Err(E2BIG);
    }
    if size < N {
        return Err(EINVAL);
    }
    let mut reader = UserSlice::new(at, size).reader();
    let mut known = [0; N];
    reader.read_slice(&mut known)?;
    must_be_zero(reader)?;
    Ok(known)
}

/// Checks that all that is left is 0.
fn must_be_zero(mut reader: UserSliceReader) -> Result {
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

/// The `SIZE` bytes at `OFFSET`. Both are constants that fit `N`, or it does not compile.
fn part<const OFFSET: usize, const SIZE: usize, const N: usize>(bytes: &[u8; N]) -> [u8; SIZE] {
    const { assert!(OFFSET + SIZE <= N) };
    core::array::from_fn(|i| bytes.get(OFFSET + i).copied().unwrap_or_default())
}

/// `struct user_reg`: what to register.
pub(crate) struct UserReg {
    address: usize,
    /// Where the event's state is to be shown.
    pub(crate) bit: UserBit,
    /// How the event is to be registered.
    pub(crate) flags: RegFlags,
    /// Where the description is.
    pub(crate) description: usize,
}

impl UserReg {
    /// Reads the structure at a user address.
    ///
    /// # Errors
    ///
    /// `EFAULT` when it cannot be read or the bit is not in user space; `E2BIG` when it asks for
    /// something we do not know; `EINVAL` when it makes no sense.
    pub(crate) fn read(address: usize) -> Result<Self> {
        let bytes: [u8; USER_REG_SIZE] = read_struct(address)?;
        let [bit] = part::<4, 1, USER_REG_SIZE>(&bytes);
        let [bit_size] = part::<5, 1, USER_REG_SIZE>(&bytes);
        let flags = u16::from_ne_bytes(part::<6, 2, USER_REG_SIZE>(&bytes));
        let bit_address = u64::from_ne_bytes(part::<8, 8, USER_REG_SIZE>(&bytes));
        let description = u64::from_ne_bytes(part::<16, 8, USER_REG_SIZE>(&bytes));
        if flags & !(PERSIST | MULTI_FORMAT) != 0 {
            return Err(EINVAL);
        }
        Ok(Self {
            address,
            bit: UserBit::new(bit_address, bit, bit_size)?,
            flags: RegFlags {
                persistent: flags & PERSIST != 0,
                multi_format: flags & MULTI_FORMAT != 0,
            },
            description: usize::try_from(description).map_err(|_| EFAULT)?,
        })
    }

    /// Tells user space the write index.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn write_index(&self, index: u32) -> Result {
        let at = UserPtr::from_addr(self.address).wrapping_byte_add(WRITE_INDEX);
        UserSlice::new(at, 4).writer().write(&index)
    }
}

/// `struct user_unreg`: which bit is not to be written any more.
pub(crate) struct UserUnreg {
    /// The number of the bit.
    pub(crate) bit: u8,
    /// The address of its word.
    pub(crate) address: u64,
}

impl UserUnreg {
    /// Reads the structure at a user address.
    ///
    /// # Errors
    ///
    /// As [`UserReg::read`].
    pub(crate) fn read(address: usize) -> Result<Self> {
        let bytes: [u8; USER_UNREG_SIZE] = read_struct(address)?;
        let [bit] = part::<4, 1, USER_UNREG_SIZE>(&bytes);
        if part::<5, 3, USER_UNREG_SIZE>(&bytes) != [0; 3] {
            return Err(EINVAL);
        }
        let address = u64::from_ne_bytes(part::<8, 8, USER_UNREG_SIZE>(&bytes));
        Ok(Self { bit, address })
    }
}

/// A buffer for a description and the NUL that ends it.
pub(crate) struct DescriptionBuffer([u8; MAX_DESCRIPTION + 1]);

impl DescriptionBuffer {
    /// An empty buffer.
    pub(crate) fn new() -> Self {
        Self([0; MAX_DESCRIPTION + 1])
    }

    /// Reads the NUL-terminated text at a user address; returns it without the NUL.
    ///
    /// # Errors
    ///
    /// `EFAULT`; `EINVAL` when it is longer than a description can be.
    pub(crate) fn read(&mut self, address: usize) -> Result<&[u8]> {
        let at = UserPtr::from_addr(address);
        let text = UserSlice::new(at, self.0.len())
            .reader()
            .strcpy_into_buf(&mut self.0)?
            .to_bytes();
        if text.len() == MAX_DESCRIPTION {
            // A text that is too long was cut off here. Is there a NUL?
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
