// SPDX-License-Identifier: GPL-2.0

//! Mappings. 7.x: `kernel::mm::virt`. C: `struct vm_area_struct` (linux/mm_types.h).

use crate::bindings;
use tree::types::Opaque;

/// A mapping, while the mmap lock is held.
#[repr(transparent)]
pub struct VmaRef {
    vma: Opaque<bindings::vm_area_struct>,
}

impl VmaRef {
    /// # Safety
    ///
    /// The mapping must exist for `'a`, with the mmap lock held.
    pub unsafe fn from_raw<'a>(vma: *const bindings::vm_area_struct) -> &'a Self {
        // SAFETY: By the safety requirement. The layouts are the same.
        unsafe { &*vma.cast() }
    }

    /// C's structure.
    pub fn as_ptr(&self) -> *mut bindings::vm_area_struct {
        self.vma.get()
    }

    /// See [`flags`].
    pub fn flags(&self) -> usize {
        // SAFETY: The mmap lock is held while `self` exists, and keeps the mapping from changing.
        // All members of the union are the flags.
        unsafe { (*self.as_ptr()).__bindgen_anon_2.vm_flags as usize }
    }
}

/// Flags of mappings. C: `VM_WRITE` and others (linux/mm.h).
pub mod flags {
    /// Writes are allowed.
    pub const WRITE: usize = crate::bindings::VM_WRITE as usize;
}
