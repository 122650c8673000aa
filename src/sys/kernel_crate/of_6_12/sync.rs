// SPDX-License-Identifier: GPL-2.0

//! Locks, and what tasks share. 7.x: `kernel::sync`.

use crate::bindings;
use core::pin::Pin;
use tree::types::Opaque;

mod arc;
pub mod aref;
pub mod atomic;
mod mutex;
pub mod rcu;
mod set_once;

pub use self::arc::ArcExt;
pub use self::mutex::{
    Mutex,
    MutexGuard, //
};
pub use self::set_once::SetOnce;
pub use tree::sync::*;

/// A class of locks, for lockdep. C: `struct lock_class_key` (linux/lockdep.h).
#[repr(transparent)]
pub struct LockClassKey(Opaque<bindings::lock_class_key>);

// SAFETY: Rust code takes only the address. lockdep serialises its own accesses.
unsafe impl Sync for LockClassKey {}

impl LockClassKey {
    /// A class, to be made by [`static_lock_class`](crate::static_lock_class).
    #[doc(hidden)]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(Opaque::uninit())
    }

    /// The structure.
    pub fn as_ptr(self: Pin<&Self>) -> *mut bindings::lock_class_key {
        self.get_ref().0.get()
    }
}

/// A class of its own for each place of a call.
#[macro_export]
macro_rules! static_lock_class {
    () => {{
        static CLASS: $crate::sync::LockClassKey = $crate::sync::LockClassKey::new();
        ::core::pin::Pin::static_ref(&CLASS)
    }};
}
