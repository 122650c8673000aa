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
    /// The mapping must stay for `'a`, and the mmap lock be held.
    pub unsafe fn from_raw<'a>(vma: *const bindings::vm_area_struct) -> &'a Self {
        // SAFETY: Promised by the caller. This type is laid out as that.
        unsafe { &*vma.cast() }
    }

    /// The structure.
    pub fn as_ptr(&self) -> *mut bindings::vm_area_struct {
        self.vma.get()
    }

    /// The mapping's flags, see [`flags`].
    pub fn flags(&self) -> usize {
        // SAFETY: The mapping does not change while the mmap lock is held. All of the union's
        // members are the flags.
        unsafe { (*self.as_ptr()).__bindgen_anon_2.vm_flags as usize }
    }
}

/// What a mapping can be. C: `VM_WRITE` and the like (linux/mm.h).
pub mod flags {
    /// It may be written to.
    pub const WRITE: usize = crate::bindings::VM_WRITE as usize;
}
