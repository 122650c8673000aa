// SPDX-License-Identifier: GPL-2.0

//! Memory. 7.x: `kernel::alloc`, whose vectors have more methods.

use core::mem;
use core::ptr;

pub use tree::alloc::*;

/// Methods of a newer crate's vectors.
pub trait VecExt<T> {
    /// Removes the last value.
    fn pop(&mut self) -> Option<T>;

    /// Removes the value at `at`, and moves those behind it.
    fn remove(&mut self, at: usize) -> Result<T, NoSuchValue>;

    /// Appends a value. Without capacity for it, returns it as the error.
    fn push_within_capacity(&mut self, value: T) -> Result<(), T>;

    /// Inserts a value at `at`, and moves those from there on. Without capacity, or if `at` is
    /// beyond the end, returns the value as the error.
    fn insert_within_capacity(&mut self, at: usize, value: T) -> Result<(), T>;

    /// Removes the values for which `keep` returns `false`.
    fn retain(&mut self, keep: impl FnMut(&mut T) -> bool);

    /// Removes all values.
    fn drain_all(&mut self) -> impl Iterator<Item = T>;
}

/// The vector is not that long.
#[derive(Debug)]
pub struct NoSuchValue;

impl<T, A: Allocator> VecExt<T> for Vec<T, A> {
    fn pop(&mut self) -> Option<T> {
        self.remove(self.len().checked_sub(1)?).ok()
    }

    fn remove(&mut self, at: usize) -> Result<T, NoSuchValue> {
        let behind = self.len().checked_sub(at + 1).ok_or(NoSuchValue)?;
        // SAFETY: The vector has `at + 1 + behind` values. The one at `at` is moved out, and the
        // `behind` values after it move down, so each place below the new length has a value.
        unsafe {
            let place = self.as_mut_ptr().add(at);
            let value = place.read();
            ptr::copy(place.add(1), place, behind);
            self.set_len(at + behind);
            Ok(value)
        }
    }

    fn push_within_capacity(&mut self, value: T) -> Result<(), T> {
        self.insert_within_capacity(self.len(), value)
    }

    fn insert_within_capacity(&mut self, at: usize, value: T) -> Result<(), T> {
        let len = self.len();
        if at > len || len >= self.capacity() {
            return Err(value);
        }
        // SAFETY: As just checked, `at` is not beyond the end, and there is capacity for one more
        // value. Those from `at` on move up, so each place below the new length has a value.
        unsafe {
            let place = self.as_mut_ptr().add(at);
            ptr::copy(place, place.add(1), len - at);
            place.write(value);
            self.set_len(len + 1);
        }
        Ok(())
    }

    fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        let mut at = 0;
        while let Some(value) = self.get_mut(at) {
            if keep(value) {
                at += 1;
            } else {
                drop(self.remove(at));
            }
        }
    }

    fn drain_all(&mut self) -> impl Iterator<Item = T> {
        mem::replace(self, Vec::new()).into_iter()
    }
}
