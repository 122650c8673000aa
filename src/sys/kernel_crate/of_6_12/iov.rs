// SPDX-License-Identifier: GPL-2.0

//! Iterators over memory. 7.x: `kernel::iov`. C: linux/uio.h.

use crate::bindings;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::slice;
use tree::types::Opaque;

/// An iterator to read from, over memory that lives for `'data`.
///
/// # Invariants
///
/// The iterator is valid.
#[repr(transparent)]
pub struct IovIterSource<'data> {
    iov: Opaque<bindings::iov_iter>,
    _source: PhantomData<&'data [u8]>,
}

impl<'data> IovIterSource<'data> {
    /// # Safety
    ///
    /// `ptr` must be a valid iterator to read from, used by nothing else for `'iov`, and its memory
    /// live for `'data`.
    pub unsafe fn from_raw<'iov>(ptr: *mut bindings::iov_iter) -> &'iov mut Self {
        // SAFETY: By the safety requirement. The layouts are the same.
        unsafe { &mut *ptr.cast() }
    }

    /// The number of remaining bytes.
    pub fn len(&self) -> usize {
        // SAFETY: Valid by the invariant. All members of the union have the number there.
        unsafe {
            (*self.iov.get())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .as_ref()
                .count
        }
    }

    /// Reads bytes, and returns how many: fewer than `out` has at a fault or at the end.
    pub fn copy_from_iter(&mut self, out: &mut [u8]) -> usize {
        // SAFETY: The iterator is valid by the invariant, and `out` has that many bytes.
        unsafe { bindings::_copy_from_iter(out.as_mut_ptr().cast(), out.len(), self.iov.get()) }
    }

    /// As [`Self::copy_from_iter`], and returns the bytes.
    pub fn copy_from_iter_raw(&mut self, out: &mut [MaybeUninit<u8>]) -> &mut [u8] {
        let (to, room) = (out.as_mut_ptr().cast::<u8>(), out.len());
        // SAFETY: As above. `len` bytes are initialised, and `out` is borrowed with the result.
        unsafe {
            let len = bindings::_copy_from_iter(to.cast(), room, self.iov.get());
            slice::from_raw_parts_mut(to, len)
        }
    }
}
