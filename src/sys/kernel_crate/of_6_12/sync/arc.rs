// SPDX-License-Identifier: GPL-2.0

//! Reference counted values. 7.x: `kernel::sync::Arc`.

use core::ptr;
use tree::sync::Arc;

/// Methods of a newer crate's [`Arc`].
pub trait ArcExt<T: ?Sized> {
    /// The pointer of `Arc::into_raw`.
    fn as_ptr(this: &Self) -> *const T;
}

impl<T: ?Sized> ArcExt<T> for Arc<T> {
    #[inline]
    fn as_ptr(this: &Self) -> *const T {
        // SAFETY: The copy owns no count, and is not dropped: `into_raw` consumes it.
        Arc::into_raw(unsafe { ptr::read(this) })
    }
}
