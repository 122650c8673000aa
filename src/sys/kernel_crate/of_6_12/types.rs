// SPDX-License-Identifier: GPL-2.0

//! Basic types. 7.x: `kernel::types`.

use core::marker::PhantomData;

pub use tree::types::*;

/// Makes a type stay on its thread.
pub type NotThreadSafe = PhantomData<*mut ()>;

/// See the type.
#[allow(non_upper_case_globals)]
pub const NotThreadSafe: NotThreadSafe = PhantomData;

/// Methods of a newer crate's [`Opaque`].
pub trait OpaqueExt<T> {
    /// All bytes are 0.
    fn zeroed() -> Self;

    /// Casts a pointer from C.
    fn cast_from(ptr: *const T) -> *const Self;
}

impl<T> OpaqueExt<T> for Opaque<T> {
    fn zeroed() -> Self {
        // SAFETY: An `Opaque` allows any bytes.
        unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
    }

    fn cast_from(ptr: *const T) -> *const Self {
        ptr.cast()
    }
}

/// The structure that contains a field. 7.x: `kernel::container_of`, which preserves mutability.
#[macro_export]
macro_rules! container_of {
    ($field_ptr:expr, $container:ty, $($fields:tt)*) => {
        $field_ptr
            .byte_sub(::core::mem::offset_of!($container, $($fields)*))
            .cast::<$container>()
    };
}
