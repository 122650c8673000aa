// SPDX-License-Identifier: GPL-2.0

//! Hashes of names. C: `include/linux/stringhash.h`.

use kernel::bindings;

/// A hash of a name, the same while the system runs. Any context. C: `full_name_hash()`.
pub(crate) fn name_hash(name: &[u8]) -> u32 {
    // Longer names, of which there are none, may share one.
    let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
    // SAFETY: There are `len` bytes. Where it reads by words, it may read the rest of the last one,
    // by `load_unaligned_zeropad()`, for which there need be no memory, and ignores that. The salt
    // is a number only.
    unsafe { bindings::full_name_hash(core::ptr::null(), name.as_ptr(), len) }
}
