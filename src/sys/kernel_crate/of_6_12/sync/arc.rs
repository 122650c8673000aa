// SPDX-License-Identifier: GPL-2.0

//! Counted values. 7.x: `kernel::sync::Arc`.

use core::ptr;
use tree::sync::Arc;

/// What an [`Arc`] of a newer crate does.
pub trait ArcExt<T: ?Sized> {
    /// Where the value lies, as `Arc::into_raw` tells it.
    fn as_ptr(this: &Self) -> *const T;
}

impl<T: ?Sized> ArcExt<T> for Arc<T> {
    #[inline]
    fn as_ptr(this: &Self) -> *const T {
        // SAFETY: What is made of the copy does not count, and so does not drop what `this` has.
        Arc::into_raw(unsafe { ptr::read(this) })
    }
}
