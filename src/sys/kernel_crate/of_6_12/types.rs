// SPDX-License-Identifier: GPL-2.0

//! Types for all. 7.x: `kernel::types`.

use core::marker::PhantomData;

pub use tree::types::*;

/// Stays on the thread where it was made.
pub type NotThreadSafe = PhantomData<*mut ()>;

/// See the type.
#[allow(non_upper_case_globals)]
pub const NotThreadSafe: NotThreadSafe = PhantomData;

/// What an [`Opaque`] of a newer crate does.
pub trait OpaqueExt<T> {
    /// Bytes that are 0.
    fn zeroed() -> Self;

    /// Takes what C has for one.
    fn cast_from(ptr: *const T) -> *const Self;
}

impl<T> OpaqueExt<T> for Opaque<T> {
    fn zeroed() -> Self {
        // SAFETY: It may have any bytes, and none.
        unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
    }

    fn cast_from(ptr: *const T) -> *const Self {
        ptr.cast()
    }
}

/// What a field belongs to. 7.x: `kernel::container_of`, which keeps the pointer one to change by.
#[macro_export]
macro_rules! container_of {
    ($field_ptr:expr, $container:ty, $($fields:tt)*) => {
        $field_ptr
            .byte_sub(::core::mem::offset_of!($container, $($fields)*))
            .cast::<$container>()
    };
}
