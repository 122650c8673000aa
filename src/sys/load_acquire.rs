// SPDX-License-Identifier: GPL-2.0

//! Inlined acquire loads for the path of a write: the kernel crate calls a function for each.

use core::arch::asm;
use kernel::sync::atomic::{
    Acquire,
    Atomic, //
};

/// Values with an inlined acquire load.
pub(super) trait LoadAcquire {
    /// The type of the value.
    type Value;

    /// [`Atomic::load`] with [`Acquire`]. Any context. C: `smp_load_acquire()` (asm/barrier.h).
    fn load_acquire(&self) -> Self::Value;
}

macro_rules! impl_load_acquire {
    ($(($($generics:tt)*) $type:ty,)*) => {$(
        impl<$($generics)*> LoadAcquire for Atomic<$type> {
            type Value = $type;

            #[inline(always)]
            fn load_acquire(&self) -> $type {
                if !cfg!(target_arch = "x86_64") {
                    return self.load(Acquire);
                }
                // SAFETY: The value lives as long as `self`, and is stored by single accesses only.
                let value = unsafe { self.as_ptr().read_volatile() };
                // The processor does not reorder later accesses before a load, and this keeps the
                // compiler from it. C: `barrier()`.
                // SAFETY: No instructions. The compiler assumes that all memory may have been
                // accessed.
                unsafe { asm!("", options(nostack, preserves_flags)) };
                value
            }
        }
    )*};
}

impl_load_acquire! {
    () i8,
    () u32,
    (T) *mut T,
}
