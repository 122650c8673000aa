// SPDX-License-Identifier: GPL-2.0

//! Hashes of names. C: `include/linux/stringhash.h`.

use kernel::bindings;

/// A hash of a name, which is constant until the next boot. Any context. C: `full_name_hash()`.
pub(crate) fn name_hash(name: &[u8]) -> u32 {
    // No name is longer.
    let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
    // SAFETY: The name has `len` bytes. The function may read beyond them, to the end of the last
    // word, by `load_unaligned_zeropad()`, which needs no memory there, and ignores these bytes.
    // The salt is only a number.
    unsafe { bindings::full_name_hash(core::ptr::null(), name.as_ptr(), len) }
}
