// SPDX-License-Identifier: GPL-2.0

//! `event_mutex`, the trace core's lock over all trace events, and data that it protects.
//!
//! C: kernel/trace/trace.h. The outermost lock of the module: the trace core holds it when it calls
//! the module.

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
/// Exclusive access (`&mut`) stands for the lock: data that [`EventMutexLocked`] lends borrows from
/// the proof, and every function from which the trace core may call back takes the proof `&mut`, so
/// that no such loan exists during the call.
///
/// Callbacks from the trace core get a proof, too. An operation that is not allowed in a callback
/// takes an [`EventMutexGuard`].
///
/// # Invariants
///
/// While a value exists, the current context holds `event_mutex`. Of two values in one context, the
/// older one is mutably borrowed while the younger one lives.
pub(crate) struct EventMutexHeld(NotThreadSafe);

impl EventMutexHeld {
    /// For callbacks from the trace core with `event_mutex` held.
    ///
    /// # Safety
    ///
    /// The current context must hold `event_mutex` while the returned value lives. If the context
    /// has another value of this type, that must be mutably borrowed as long: the trace core was
    /// called through a function of `sys` that takes it `&mut`.
    pub(super) unsafe fn assume() -> Self {
        // INVARIANT: By the safety requirement.
        Self(NotThreadSafe)
    }
}

/// Holds `event_mutex` until dropped. The current context is not in a callback of the trace core,
/// which locks the mutex itself.
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
        // INVARIANT: Just locked. The context has no other value of either type, which would prove
        // that the mutex was locked before: it is not recursive, and would not have been locked
        // again.
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

/// Data that only the holder of `event_mutex` can access.
pub(crate) struct EventMutexLocked<T>(UnsafeCell<T>);

// SAFETY: Sending the cell sends the `T`.
unsafe impl<T: Send> Send for EventMutexLocked<T> {}
// SAFETY: All access needs `event_mutex`, so a shared cell passes its `T` from one context to
// another, and never lends it to two at once.
unsafe impl<T: Send> Sync for EventMutexLocked<T> {}

impl<T> EventMutexLocked<T> {
    /// Protects a value by `event_mutex`.
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Borrows the value.
    pub(crate) fn get<'a>(&'a self, _held: &'a EventMutexHeld) -> &'a T {
        // SAFETY: `_held` proves that this context holds the lock. It is borrowed for `'a`, so no
        // result of `get_mut` exists, which borrows it mutably.
        unsafe { &*self.0.get() }
    }

    /// Borrows the value mutably.
    pub(crate) fn get_mut<'a>(&'a self, _held: &'a mut EventMutexHeld) -> &'a mut T {
        // SAFETY: `_held` proves that this context holds the lock. It is mutably borrowed for `'a`,
        // so this context has no other reference to data that the lock protects.
        unsafe { &mut *self.0.get() }
    }
}
