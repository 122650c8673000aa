// SPDX-License-Identifier: GPL-2.0

//! Memory. 7.x: `kernel::alloc`, whose vectors do more.

use core::mem;
use core::ptr;

pub use tree::alloc::*;

/// What vectors of a newer crate do.
pub trait VecExt<T> {
    /// Takes the last value.
    fn pop(&mut self) -> Option<T>;

    /// Takes the value at a place; those behind move up. An error if there is none.
    fn remove(&mut self, at: usize) -> Result<T, NoSuchValue>;

    /// Adds a value behind the others. Without room for it the value is the error.
    fn push_within_capacity(&mut self, value: T) -> Result<(), T>;

    /// Adds a value at a place; those from there on move. Without such a place, or room, the value
    /// is the error.
    fn insert_within_capacity(&mut self, at: usize, value: T) -> Result<(), T>;

    /// Keeps those values only for which `keep` returns `true`, in their order.
    fn retain(&mut self, keep: impl FnMut(&mut T) -> bool);

    /// Takes all values, the first one first.
    fn drain_all(&mut self) -> impl Iterator<Item = T>;
}

/// There is no value at that place.
#[derive(Debug)]
pub struct NoSuchValue;

impl<T, A: Allocator> VecExt<T> for Vec<T, A> {
    fn pop(&mut self) -> Option<T> {
        self.remove(self.len().checked_sub(1)?).ok()
    }

    fn remove(&mut self, at: usize) -> Result<T, NoSuchValue> {
        let behind = self.len().checked_sub(at + 1).ok_or(NoSuchValue)?;
        // SAFETY: There is a value at that place, which is taken, and so many behind, which take
        // its place; so the vector has one value less.
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
        // SAFETY: There is room for one more. The values from that place on move by one.
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
