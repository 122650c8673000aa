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

/// An address space, which may have ended. Only its structure is kept. C: `mmgrab()`.
#[repr(transparent)]
pub struct Mm {
    mm: Opaque<bindings::mm_struct>,
}

// SAFETY: The structure may be given back from any thread.
unsafe impl Send for Mm {}
// SAFETY: What can be done with a shared reference can be done by several threads at once.
unsafe impl Sync for Mm {}

// SAFETY: The structure is not freed before the count that is changed here is 0.
unsafe impl AlwaysRefCounted for Mm {
    fn inc_ref(&self) {
        // SAFETY: The structure is valid, as the reference shows.
        unsafe { bindings::mmgrab(self.as_raw()) };
    }

    /// # Safety
    ///
    /// See the trait.
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a count.
        unsafe { bindings::mmdrop(obj.cast().as_ptr()) };
    }
}

impl Mm {
    /// The structure.
    pub fn as_raw(&self) -> *mut bindings::mm_struct {
        self.mm.get()
    }

    /// # Safety
    ///
    /// The structure must not be freed for `'a`.
    pub unsafe fn from_raw<'a>(ptr: *const bindings::mm_struct) -> &'a Self {
        // SAFETY: Promised by the caller. This type is laid out as that.
        unsafe { &*ptr.cast() }
    }

    /// Keeps the address space, if it has not ended. C: `mmget_not_zero()`.
    pub fn mmget_not_zero(&self) -> Option<ARef<MmWithUser>> {
        // SAFETY: The structure is valid, as the reference shows.
        if !unsafe { bindings::mmget_not_zero(self.as_raw()) } {
            return None;
        }
        // SAFETY: A count was just taken, which the result owns.
        Some(unsafe { ARef::from_raw(NonNull::from(self).cast()) })
    }
}

/// An address space that does not end meanwhile. C: `mmget()`.
#[repr(transparent)]
pub struct MmWithUser {
    mm: Mm,
}

// SAFETY: The address space does not end before the count that is changed here is 0.
unsafe impl AlwaysRefCounted for MmWithUser {
    fn inc_ref(&self) {
        // SAFETY: The address space has not ended, as the reference shows: so this succeeds.
        unsafe { bindings::mmget_not_zero(self.as_raw()) };
    }

    /// # Safety
    ///
    /// See the trait.
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a count.
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
        // SAFETY: Promised by the caller. This type is laid out as that.
        unsafe { &*ptr.cast() }
    }

    /// Has the last reference dropped by a work queue, where the address space is taken apart. C:
    /// `mmput_async()`.
    pub fn into_mmput_async(me: ARef<Self>) -> ARef<MmWithUserAsync> {
        // SAFETY: The count is passed on.
        unsafe { ARef::from_raw(ARef::into_raw(me).cast()) }
    }

    /// Takes the mmap lock for reading. Sleeps until it is free.
    pub fn mmap_read_lock(&self) -> MmapReadGuard<'_> {
        // SAFETY: The address space has not ended, as the reference shows.
        unsafe { bindings::mmap_read_lock(self.as_raw()) };
        MmapReadGuard {
            mm: self,
            _same_thread: NotThreadSafe,
        }
    }

    /// Takes the mmap lock for reading, if that takes no waiting.
    pub fn mmap_read_trylock(&self) -> Option<MmapReadGuard<'_>> {
        // SAFETY: As above.
        let taken = unsafe { bindings::mmap_read_trylock(self.as_raw()) };
        taken.then(|| MmapReadGuard {
            mm: self,
            _same_thread: NotThreadSafe,
        })
    }
}

/// As [`MmWithUser`], but the last reference may be dropped in any context.
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
        // SAFETY: The caller gives up a count.
        unsafe { bindings::mmput_async(obj.cast().as_ptr()) };
    }
}

impl Deref for MmWithUserAsync {
    type Target = MmWithUser;

    fn deref(&self) -> &MmWithUser {
        &self.mm
    }
}

/// The mmap lock, held for reading until this is dropped.
#[must_use]
pub struct MmapReadGuard<'a> {
    mm: &'a MmWithUser,
    _same_thread: NotThreadSafe,
}

impl MmapReadGuard<'_> {
    /// The mapping in which an address lies. C: `vma_lookup()`.
    pub fn vma_lookup(&self, vma_addr: usize) -> Option<&virt::VmaRef> {
        // SAFETY: The lock is held, and the mapping stays for as long.
        unsafe {
            let vma = bindings::vma_lookup(self.mm.as_raw(), vma_addr);
            NonNull::new(vma).map(|vma| virt::VmaRef::from_raw(vma.as_ptr()))
        }
    }
}

impl Drop for MmapReadGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: The lock is held.
        unsafe { bindings::mmap_read_unlock(self.mm.as_raw()) };
    }
}
