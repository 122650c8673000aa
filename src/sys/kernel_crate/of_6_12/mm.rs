// SPDX-License-Identifier: GPL-2.0

//! Address spaces. 7.x: `kernel::mm`. C: `struct mm_struct` (linux/mm_types.h).

use crate::bindings;
use crate::types::NotThreadSafe;
use core::ops::Deref;
use core::ptr::NonNull;
use tree::types::{
    ARef,
    AlwaysRefCounted,
    Opaque, //
};

pub mod virt;

/// An `mm_struct`, whose address space may have ended. C: `mmgrab()`.
#[repr(transparent)]
pub struct Mm {
    mm: Opaque<bindings::mm_struct>,
}

// SAFETY: Any thread may drop the structure.
unsafe impl Send for Mm {}
// SAFETY: All methods may be called by several threads at once.
unsafe impl Sync for Mm {}

// SAFETY: The structure is freed when the count is 0.
unsafe impl AlwaysRefCounted for Mm {
    fn inc_ref(&self) {
        // SAFETY: The reference keeps the structure valid.
        unsafe { bindings::mmgrab(self.as_raw()) };
    }

    /// # Safety
    ///
    /// See the trait.
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: By the safety requirement the caller owns a count.
        unsafe { bindings::mmdrop(obj.cast().as_ptr()) };
    }
}

impl Mm {
    /// C's structure.
    pub fn as_raw(&self) -> *mut bindings::mm_struct {
        self.mm.get()
    }

    /// # Safety
    ///
    /// The structure must not be freed for `'a`.
    pub unsafe fn from_raw<'a>(ptr: *const bindings::mm_struct) -> &'a Self {
        // SAFETY: By the safety requirement. The layouts are the same.
        unsafe { &*ptr.cast() }
    }

    /// Takes a reference to the address space, if it has not ended. C: `mmget_not_zero()`.
    pub fn mmget_not_zero(&self) -> Option<ARef<MmWithUser>> {
        // SAFETY: The reference keeps the structure valid.
        if !unsafe { bindings::mmget_not_zero(self.as_raw()) } {
            return None;
        }
        // SAFETY: The result owns the count that was just taken.
        Some(unsafe { ARef::from_raw(NonNull::from(self).cast()) })
    }
}

/// An address space that cannot end. C: `mmget()`.
#[repr(transparent)]
pub struct MmWithUser {
    mm: Mm,
}

// SAFETY: The address space ends when the count is 0.
unsafe impl AlwaysRefCounted for MmWithUser {
    fn inc_ref(&self) {
        // SAFETY: The reference keeps the address space, so this succeeds.
        unsafe { bindings::mmget_not_zero(self.as_raw()) };
    }

    /// # Safety
    ///
    /// See the trait.
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: By the safety requirement the caller owns a count.
        unsafe { bindings::mmput(obj.cast().as_ptr()) };
    }
}

impl Deref for MmWithUser {
    type Target = Mm;

    fn deref(&self) -> &Mm {
        &self.mm
    }
}

impl MmWithUser {
    /// # Safety
    ///
    /// The address space must not end for `'a`.
    pub unsafe fn from_raw<'a>(ptr: *const bindings::mm_struct) -> &'a Self {
        // SAFETY: By the safety requirement. The layouts are the same.
        unsafe { &*ptr.cast() }
    }

    /// Lets a work queue drop the last reference, and take the address space apart. C:
    /// `mmput_async()`.
    pub fn into_mmput_async(me: ARef<Self>) -> ARef<MmWithUserAsync> {
        // SAFETY: The count is passed on. Both types have the layout of C's structure.
        unsafe { ARef::from_raw(ARef::into_raw(me).cast()) }
    }

    /// Takes the mmap lock for reading. Sleeps until it is free.
    pub fn mmap_read_lock(&self) -> MmapReadGuard<'_> {
        // SAFETY: The reference keeps the address space.
        unsafe { bindings::mmap_read_lock(self.as_raw()) };
        MmapReadGuard {
            mm: self,
            _same_thread: NotThreadSafe,
        }
    }

    /// Takes the mmap lock for reading, unless that needs waiting.
    pub fn mmap_read_trylock(&self) -> Option<MmapReadGuard<'_>> {
        // SAFETY: As above.
        let taken = unsafe { bindings::mmap_read_trylock(self.as_raw()) };
        taken.then(|| MmapReadGuard {
            mm: self,
            _same_thread: NotThreadSafe,
        })
    }
}

/// As [`MmWithUser`], but any context may drop the last reference.
#[repr(transparent)]
pub struct MmWithUserAsync {
    mm: MmWithUser,
}

// SAFETY: As for `MmWithUser`.
unsafe impl AlwaysRefCounted for MmWithUserAsync {
    fn inc_ref(&self) {
        self.mm.inc_ref();
    }

    /// # Safety
    ///
    /// See the trait.
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: By the safety requirement the caller owns a count.
        unsafe { bindings::mmput_async(obj.cast().as_ptr()) };
    }
}

impl Deref for MmWithUserAsync {
    type Target = MmWithUser;

    fn deref(&self) -> &MmWithUser {
        &self.mm
    }
}

/// The mmap lock, held for reading until dropped.
#[must_use]
pub struct MmapReadGuard<'a> {
    mm: &'a MmWithUser,
    _same_thread: NotThreadSafe,
}

impl MmapReadGuard<'_> {
    /// The mapping of an address. C: `vma_lookup()`.
    pub fn vma_lookup(&self, vma_addr: usize) -> Option<&virt::VmaRef> {
        // SAFETY: The lock is held as long as the result borrows `self`, and keeps the mapping.
        unsafe {
            let vma = bindings::vma_lookup(self.mm.as_raw(), vma_addr);
            NonNull::new(vma).map(|vma| virt::VmaRef::from_raw(vma.as_ptr()))
        }
    }
}

impl Drop for MmapReadGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: The guard holds the lock, and is on the thread that took it.
        unsafe { bindings::mmap_read_unlock(self.mm.as_raw()) };
    }
}
