// SPDX-License-Identifier: GPL-2.0

//! Shared values in an order, in little memory: eight to sixteen bytes each.
//!
//! A tree of nodes takes as much for a node as a registration takes itself. Here values lie in short
//! leaves, and the leaves in a row. A leaf is found by halving, and what is behind a new value, in its
//! leaf and in the row, is moved.

use core::cmp::Ordering;
use core::marker::PhantomData;
use kernel::alloc::{AllocError, Allocator, Vec};
use kernel::prelude::*;
use kernel::sync::Arc;

/// How many values a leaf has at most.
const LEAF: usize = 64;

/// An order of values.
pub(crate) trait Order<T> {
    /// Which of two comes first. Never changes for values that are in an [`Ordered`].
    fn compare(one: &Arc<T>, other: &Arc<T>) -> Ordering;
}

/// Values in an order, no two of them equal in it.
///
/// One is looked for with a function that says how a value compares to it.
pub(crate) struct Ordered<T, O> {
    /// None is empty, and each is behind the one before.
    leaves: KVVec<KVec<Arc<T>>>,
    order: PhantomData<O>,
}

/// Where a value is, or would be: the number of its leaf, and its number in that.
type Place = (usize, usize);

impl<T, O: Order<T>> Ordered<T, O> {
    /// No values.
    pub(crate) const fn new() -> Self {
        Self {
            leaves: KVVec::new(),
            order: PhantomData,
        }
    }

    fn place(&self, compare: &impl Fn(&Arc<T>) -> Ordering) -> Place {
        let begins_in_time =
            |leaf: &KVec<Arc<T>>| leaf.first().is_some_and(|first| compare(first).is_le());
        let behind = self.leaves.partition_point(begins_in_time);
        let number = behind.saturating_sub(1);
        let leaf = self.leaves.get(number);
        let at = leaf.map_or(0, |leaf| {
            leaf.partition_point(|value| compare(value).is_lt())
        });
        (number, at)
    }

    /// The one value that is equal.
    pub(crate) fn get(&self, compare: impl Fn(&Arc<T>) -> Ordering) -> Option<&Arc<T>> {
        self.get_from(&compare)
            .filter(|value| compare(value).is_eq())
    }

    /// The first value that is equal or greater.
    pub(crate) fn get_from(&self, compare: impl Fn(&Arc<T>) -> Ordering) -> Option<&Arc<T>> {
        self.values_from(compare).next()
    }

    /// All values that are equal or greater, in their order.
    pub(crate) fn values_from(
        &self,
        compare: impl Fn(&Arc<T>) -> Ordering,
    ) -> impl Iterator<Item = &Arc<T>> {
        let (number, at) = self.place(&compare);
        let leaf = self.leaves.get(number);
        let first = leaf.and_then(|leaf| leaf.get(at..)).unwrap_or_default();
        let others = self.leaves.get(number + 1..).unwrap_or_default();
        Iterator::chain(first.iter(), others.iter().flat_map(|leaf| leaf.iter()))
    }

    /// All values, in their order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.leaves.iter().flat_map(|leaf| leaf.iter())
    }

    /// Adds a value, to which none is equal. May sleep.
    ///
    /// # Errors
    ///
    /// Nothing has changed then.
    pub(crate) fn insert(&mut self, value: Arc<T>) -> Result<(), AllocError> {
        let (mut number, mut at) = self.place(&|other| O::compare(other, &value));
        let taken = self.leaves.get(number).map_or(0, |leaf| leaf.len());
        if taken >= LEAF && at < LEAF {
            self.split(number)?;
            (number, at) = self.place(&|other| O::compare(other, &value));
        } else if taken >= LEAF {
            // Most often what comes is behind all others: then the leaves stay full.
            number += 1;
            return self.insert_leaf(number, value);
        }
        match self.leaves.get_mut(number) {
            Some(leaf) => insert_at(leaf, at, value),
            None => self.insert_leaf(number, value),
        }
    }

    /// Adds a leaf with one value, to be the one with this number.
    fn insert_leaf(&mut self, number: usize, value: Arc<T>) -> Result<(), AllocError> {
        let mut leaf = KVec::new();
        leaf.push(value, GFP_KERNEL_ACCOUNT)?;
        insert_at(&mut self.leaves, number, leaf)
    }

    /// Moves the upper half of a leaf to one of its own.
    fn split(&mut self, number: usize) -> Result<(), AllocError> {
        let leaf = self.leaves.get(number);
        let upper = leaf.and_then(|leaf| leaf.get(LEAF / 2..));
        let mut moved = KVec::with_capacity(LEAF, GFP_KERNEL_ACCOUNT)?;
        for value in upper.unwrap_or_default() {
            moved.push(value.clone(), GFP_KERNEL_ACCOUNT)?;
        }
        insert_at(&mut self.leaves, number + 1, moved)?;
        if let Some(leaf) = self.leaves.get_mut(number) {
            leaf.truncate(LEAF / 2);
        }
        Ok(())
    }

    /// Takes the one value out that is equal.
    pub(crate) fn remove(&mut self, compare: impl Fn(&Arc<T>) -> Ordering) -> Option<Arc<T>> {
        let (number, at) = self.place(&compare);
        let leaf = self.leaves.get_mut(number)?;
        if !leaf.get(at).is_some_and(|value| compare(value).is_eq()) {
            return None;
        }
        let value = leaf.remove(at).ok();
        if leaf.is_empty() {
            // It holds nothing that would be dropped.
            let _ = self.leaves.remove(number);
        }
        value
    }
}

/// Adds a value to a vector, to be the one with this number, which is not behind the end.
fn insert_at<T, A: Allocator>(
    values: &mut Vec<T, A>,
    number: usize,
    value: T,
) -> Result<(), AllocError> {
    values.reserve(1, GFP_KERNEL_ACCOUNT)?;
    let inserted = values.insert_within_capacity(number, value);
    inserted.map_err(|_| AllocError)
}
