// SPDX-License-Identifier: GPL-2.0

//! Values that are set once. 7.x: `kernel::sync::SetOnce`.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{
    AtomicU32,
    Ordering, //
};

/// No value; a value is being written; a value exists.
const EMPTY: u32 = 0;
const BEING_SET: u32 = 1;
const SET: u32 = 2;

/// A value that is set once.
///
/// # Invariants
///
/// If `state` is [`SET`], the value exists, and nothing changes it.
pub struct SetOnce<T> {
    state: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: Sending the cell sends the value that it owns.
unsafe impl<T: Send> Send for SetOnce<T> {}
// SAFETY: One task writes the value before others read it. Another task may drop it.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}

impl<T> SetOnce<T> {
    /// No value.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        // INVARIANT: No value.
        Self {
            state: AtomicU32::new(EMPTY),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// The value, if it is set.
    pub fn as_ref(&self) -> Option<&T> {
        if self.state.load(Ordering::Acquire) != SET {
            return None;
        }
        // SAFETY: The value exists by the invariant. The acquire shows its whole content.
        Some(unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Sets the value, unless there is one. Returns whether it was set.
    pub fn populate(&self, value: T) -> bool {
        let order = Ordering::Relaxed;
        if (self.state.compare_exchange(EMPTY, BEING_SET, order, order)).is_err() {
            return false;
        }
        // SAFETY: Only the call that changed `EMPTY` comes here, and the value is not read before
        // the store below.
        unsafe { (*self.value.get()).write(value) };
        // INVARIANT: Just written.
        self.state.store(SET, Ordering::Release);
        true
    }
}

impl<T> Drop for SetOnce<T> {
    fn drop(&mut self) {
        if *self.state.get_mut() == SET {
            // SAFETY: The value exists by the invariant, and is dropped once, with the only
            // reference to it.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}
