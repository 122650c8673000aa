// SPDX-License-Identifier: GPL-2.0

//! `event_mutex`, the lock of the trace core over all trace events, and data it protects.
//!
//! C: kernel/trace/trace.h. It is the outermost lock of this module: the trace core holds it when
//! it calls us.

use super::symbols::{
    self,
    CheckedSymbols, //
    KernelMutexGuard,
};
use core::cell::UnsafeCell;
use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::types::NotThreadSafe;

/// Proof that the current context holds `event_mutex`.
///
/// Exclusive access to it (`&mut`) is what stands for the lock: data that [`EventMutexLocked`]
/// lends borrows from it, and every function that can make the trace core call back into us takes
/// it `&mut`, so that no such loan is alive during the call.
///
/// A call of the trace core gets it, too. What must not be done in the middle of one takes an
/// [`EventMutexGuard`].
///
/// # Invariants
///
/// While a value of this type exists, the current context holds `event_mutex`. Where two exist in
/// one context, the older one is mutably borrowed for as long as the younger one lives.
pub(crate) struct EventMutexHeld(NotThreadSafe);

impl EventMutexHeld {
    /// For callbacks that the trace core makes with `event_mutex` held.
    ///
    /// # Safety
    ///
    /// `event_mutex` must be held by the current context while the returned value lives. If the
    /// current context has another value of this type, that one must be mutably borrowed for as
    /// long (that is: the trace core was called through a function of `sys` that takes it `&mut`).
    pub(super) unsafe fn assume() -> Self {
        // INVARIANT: Promised by the caller.
        Self(NotThreadSafe)
    }
}

/// Holds `event_mutex` until dropped. The trace core, which locks it itself, is not in the middle
/// of anything in the current context.
///
/// # Invariants
///
/// The current context has locked the mutex by [`EventMutexGuard::lock`].
pub(crate) struct EventMutexGuard {
    held: EventMutexHeld,
    _lock: KernelMutexGuard,
}

impl EventMutexGuard {
    /// Locks `event_mutex`; sleeps until it is free. No other lock of this module may be held.
    pub(crate) fn lock(_: CheckedSymbols) -> Self {
        // SAFETY: `CheckedSymbols` proves that the mutex was found.
        let lock = unsafe { KernelMutexGuard::lock(symbols::event_mutex()) };
        // INVARIANT: Just locked. The context has no other value of either type, as each shows that
        // the mutex was locked already: then this would not have returned, since it is not
        // recursive.
        Self {
            held: EventMutexHeld(NotThreadSafe),
            _lock: lock,
        }
    }
}

impl Deref for EventMutexGuard {
    type Target = EventMutexHeld;

    fn deref(&self) -> &EventMutexHeld {
        &self.held
    }
}

impl DerefMut for EventMutexGuard {
    fn deref_mut(&mut self) -> &mut EventMutexHeld {
        &mut self.held
    }
}

/// Data that only the holder of `event_mutex` reaches.
pub(crate) struct EventMutexLocked<T>(UnsafeCell<T>);

// SAFETY: Sending the cell sends the `T`.
unsafe impl<T: Send> Send for EventMutexLocked<T> {}
// SAFETY: All access goes through `event_mutex`, so a shared cell hands its `T` from one context
// to another, never to two at once.
unsafe impl<T: Send> Sync for EventMutexLocked<T> {}

impl<T> EventMutexLocked<T> {
    /// Puts a value under the protection of `event_mutex`.
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Reads.
    pub(crate) fn get<'a>(&'a self, _held: &'a EventMutexHeld) -> &'a T {
        // SAFETY: `_held` shows that this context holds the lock, and, being borrowed for `'a`,
        // that no `get_mut` is in progress: that one would borrow it mutably.
        unsafe { &*self.0.get() }
    }

    /// Changes.
    pub(crate) fn get_mut<'a>(&'a self, _held: &'a mut EventMutexHeld) -> &'a mut T {
        // SAFETY: `_held` shows that this context holds the lock, and, being mutably borrowed for
        // `'a`, that this context has no other reference to anything the lock protects.
        unsafe { &mut *self.0.get() }
    }
}
