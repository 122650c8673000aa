// SPDX-License-Identifier: GPL-2.0

//! Mutexes. 7.x: `kernel::sync::Mutex`, which also has `try_lock()`. C: `struct mutex`
//! (linux/mutex.h).

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

/// A value that one task at a time can use.
///
/// # Invariants
///
/// The mutex is initialised. Only the task that holds it uses the value.
#[pin_data]
pub struct Mutex<T> {
    #[pin]
    mutex: Opaque<bindings::mutex>,
    value: UnsafeCell<T>,
}

// SAFETY: Sending the mutex sends its value. Any thread may use a mutex.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: One task at a time uses the value, and may move it.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex. Name and class are for lockdep.
    pub fn new(
        value: T,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        // INVARIANT: Just initialised, and unlocked.
        pin_init!(Self {
            // SAFETY: The memory is valid and pinned.
            mutex <- Opaque::ffi_init(|mutex| unsafe {
                bindings::__mutex_init(mutex, name.as_char_ptr(), class.as_ptr());
            }),
            value: UnsafeCell::new(value),
        })
    }

    /// Locks the mutex. May sleep.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // SAFETY: Initialised by the invariant.
        unsafe { bindings::mutex_lock(self.mutex.get()) };
        MutexGuard {
            mutex: self,
            _same_thread: NotThreadSafe,
        }
    }

    /// Locks the mutex, unless it is locked.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        // SAFETY: Initialised by the invariant.
        let is_taken = unsafe { bindings::mutex_trylock(self.mutex.get()) } != 0;
        is_taken.then(|| MutexGuard {
            mutex: self,
            _same_thread: NotThreadSafe,
        })
    }
}

/// Holds a mutex until dropped.
///
/// # Invariants
///
/// The current task holds the mutex.
#[must_use]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    _same_thread: NotThreadSafe,
}

// SAFETY: A shared guard lends a shared reference to the value.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the invariants the mutex is held, so only this task uses the value.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the invariants the mutex is held, so only this task uses the value. The guard
        // is mutably borrowed.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the invariant the current task holds the mutex.
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
