// SPDX-License-Identifier: GPL-2.0

//! A lock that is waited for asleep. 7.x: `kernel::sync::Mutex`, which can also be tried. C:
//! `struct mutex` (linux/mutex.h).

use super::LockClassKey;
use crate::bindings;
use crate::str::CStrExt;
use crate::types::NotThreadSafe;
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::ops::{
    Deref,
    DerefMut, //
};
use core::pin::Pin;
use tree::prelude::{
    pin_data,
    pin_init,
    PinInit, //
};
use tree::types::Opaque;

/// A value for one task at a time.
///
/// # Invariants
///
/// The mutex is initialized. Only a task that holds it uses the value.
#[pin_data]
pub struct Mutex<T> {
    #[pin]
    mutex: Opaque<bindings::mutex>,
    value: UnsafeCell<T>,
}

// SAFETY: The value goes where this goes.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: One task at a time uses the value, and may take it away.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// A value that no task holds. Name and class are for lockdep.
    pub fn new(
        value: T,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        // INVARIANT: Just initialized, and held by no task.
        pin_init!(Self {
            // SAFETY: The memory is there, and stays in place, as it is pinned.
            mutex <- Opaque::ffi_init(|mutex| unsafe {
                bindings::__mutex_init(mutex, name.as_char_ptr(), class.as_ptr());
            }),
            value: UnsafeCell::new(value),
        })
    }

    /// Waits until no other task holds it, and takes it. May sleep.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // SAFETY: By the invariant it is initialized.
        unsafe { bindings::mutex_lock(self.mutex.get()) };
        MutexGuard {
            mutex: self,
            _same_thread: NotThreadSafe,
        }
    }

    /// Takes it, unless another task holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        // SAFETY: By the invariant it is initialized.
        let is_taken = unsafe { bindings::mutex_trylock(self.mutex.get()) } != 0;
        is_taken.then(|| MutexGuard {
            mutex: self,
            _same_thread: NotThreadSafe,
        })
    }
}

/// The right to use the value of a mutex, until this is dropped.
///
/// # Invariants
///
/// The current task holds the mutex.
#[must_use]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    _same_thread: NotThreadSafe,
}

// SAFETY: A shared reference to this is one to the value.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: The mutex is held.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: The mutex is held, and the guard borrowed.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: The mutex is held.
        unsafe { bindings::mutex_unlock(self.mutex.mutex.get()) };
    }
}

/// Makes a [`Mutex`] with a name for lockdep.
#[macro_export]
macro_rules! new_mutex {
    ($value:expr, $name:literal $(,)?) => {
        $crate::sync::Mutex::new(
            $value,
            $crate::str::name(::core::concat!($name, "\0")),
            $crate::static_lock_class!(),
        )
    };
}
