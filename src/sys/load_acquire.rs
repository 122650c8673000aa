// SPDX-License-Identifier: GPL-2.0

//! Loads on the path of a write. The kernel crate calls a function of the kernel's for each.

use core::arch::asm;
use kernel::sync::atomic::{
    Acquire,
    Atomic, //
};

/// What can be loaded so that no later access comes first.
pub(super) trait LoadAcquire {
    /// What is loaded.
    type Value;

    /// What [`Atomic::load`] with [`Acquire`] does. Any context. C: `smp_load_acquire()`
    /// (asm/barrier.h).
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
                // SAFETY: The value lives as long as `self`, and is only stored to as a whole.
                let value = unsafe { self.as_ptr().read_volatile() };
                // The processor makes no later access before a load: it is the compiler that must
                // not either. C: `barrier()`.
                // SAFETY: No instruction, which may have read or written any memory for all that
                // the compiler knows.
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
