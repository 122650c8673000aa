// SPDX-License-Identifier: GPL-2.0

//! Shared values in an order, in little memory: eight to sixteen bytes each.
//!
//! A tree of nodes takes as much for a node as an enabler takes itself. Here values lie in short
//! leaves, and the leaves in a row. A leaf is found by halving, and what is behind a new value, in its
//! leaf and in the row, is moved. A single value lies in the [`SortedArcs`] itself: most events have
//! one enabler.

use core::cmp::Ordering;
use core::marker::PhantomData;
use core::{
    iter,
    mem, //
};
use kernel::alloc::{
    flags::__GFP_NOWARN,
    AllocError,
    Allocator,
    Vec, //
};
use kernel::prelude::*;
use kernel::sync::Arc;

/// How many values a leaf has at most.
pub(crate) const MAX_LEAF_LEN: usize = 64;

/// An order of values.
pub(crate) trait Order<T> {
    /// Which of two comes first. Never changes for values that are in a [`SortedArcs`].
    fn compare(one: &Arc<T>, other: &Arc<T>) -> Ordering;
}

/// Values in an order, no two of them equal in it.
///
/// One is looked for with a function that says how a value compares to it.
pub(crate) struct SortedArcs<T, O> {
    values: Values<T>,
    order: PhantomData<O>,
}

enum Values<T> {
    /// One at most.
    One(Option<Arc<T>>),
    /// Leaves, of which none is empty, and each is behind the one before.
    Many(KVVec<KVec<Arc<T>>>),
}

/// Where a value is, or would be: the number of its leaf, and its number in that.
type Place = (usize, usize);

impl<T, O: Order<T>> SortedArcs<T, O> {
    /// No values.
    pub(crate) const fn new() -> Self {
        Self {
            values: Values::One(None),
            order: PhantomData,
        }
    }

    /// Are there no more values than go into one leaf?
    pub(crate) fn is_short(&self) -> bool {
        match &self.values {
            Values::One(_) => true,
            Values::Many(leaves) => leaves.len() <= 1,
        }
    }

    /// Are there no values?
    pub(crate) fn is_empty(&self) -> bool {
        match &self.values {
            Values::One(value) => value.is_none(),
            Values::Many(leaves) => leaves.is_empty(),
        }
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        let (leaf, others) = self.leaves_from(0);
        others
            .iter()
            .fold(leaf.len(), |count, leaf| count + leaf.len())
    }

    fn place(&self, compare: &impl Fn(&Arc<T>) -> Ordering) -> Place {
        let number = match &self.values {
            Values::One(_) => 0,
            Values::Many(leaves) => {
                // What is added, or asked for before it is, most often is behind all others.
                let last_is_less =
                    |leaf: &&KVec<Arc<T>>| leaf.last().is_some_and(|last| compare(last).is_lt());
                if let Some(leaf) = leaves.last().filter(last_is_less) {
                    return (leaves.len().saturating_sub(1), leaf.len());
                }
                let begins_in_time =
                    |leaf: &KVec<Arc<T>>| leaf.first().is_some_and(|first| compare(first).is_le());
                leaves.partition_point(begins_in_time).saturating_sub(1)
            }
        };
        let (leaf, _) = self.leaves_from(number);
        let at = leaf.partition_point(|value| compare(value).is_lt());
        (number, at)
    }

    /// The leaf with this number, and those behind it.
    fn leaves_from(&self, number: usize) -> (&[Arc<T>], &[KVec<Arc<T>>]) {
        match &self.values {
            Values::One(value) => (value.as_slice(), &[]),
            Values::Many(leaves) => {
                let leaves = leaves.get(number..).unwrap_or_default();
                leaves
                    .split_first()
                    .map_or((&[], &[]), |(leaf, others)| (leaf.as_slice(), others))
            }
        }
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
        self.slices_from(compare).flatten()
    }

    /// All values that are equal or greater, in their order, leaf by leaf.
    pub(crate) fn slices_from(
        &self,
        compare: impl Fn(&Arc<T>) -> Ordering,
    ) -> impl Iterator<Item = &[Arc<T>]> {
        let (number, at) = self.place(&compare);
        let (leaf, others) = self.leaves_from(number);
        let first = leaf.get(at..).unwrap_or_default();
        Iterator::chain(iter::once(first), others.iter().map(|leaf| leaf.as_slice()))
    }

    /// All values, in their order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        let (leaf, others) = self.leaves_from(0);
        Iterator::chain(leaf.iter(), others.iter().flat_map(|leaf| leaf.iter()))
    }

    /// Adds a value, to which none is equal. May sleep.
    ///
    /// # Errors
    ///
    /// Nothing has changed then.
    pub(crate) fn insert(&mut self, value: &Arc<T>) -> Result<(), AllocError> {
        let mut reservation = Reservation::new();
        while let Err(shortfall) = self.insert_with(value, &mut reservation) {
            reservation.fill(shortfall)?;
        }
        Ok(())
    }

    /// Adds a value, to which none is equal, in the room there is and that of `reservation`, where what is
    /// not needed any more goes. Allocates and frees nothing.
    ///
    /// # Errors
    ///
    /// What `reservation` has to have for that. Nothing has changed then.
    pub(crate) fn insert_with(
        &mut self,
        value: &Arc<T>,
        reservation: &mut Reservation<T>,
    ) -> Result<(), Shortfall> {
        let (number, at) = self.place(&|other| O::compare(other, value));
        let leaves = match &mut self.values {
            Values::Many(leaves) => leaves,
            Values::One(Some(other)) => {
                let mut leaves = KVVec::new();
                reservation.insert_leaf(&mut leaves, 0, other, 2)?;
                self.values = Values::Many(leaves);
                return self.insert_with(value, reservation);
            }
            Values::One(one) => {
                *one = Some(value.clone());
                return Ok(());
            }
        };
        let Some(leaf) = leaves.get_mut(number) else {
            return reservation.insert_leaf(leaves, number, value, 1);
        };
        let taken = leaf.len();
        if taken >= MAX_LEAF_LEN && at >= MAX_LEAF_LEN {
            // Most often what comes is behind all others: then the leaves stay full.
            return reservation.insert_leaf(leaves, number + 1, value, 1);
        }
        if taken >= MAX_LEAF_LEN {
            reservation.split(leaves, number)?;
            return self.insert_with(value, reservation);
        }
        if taken >= leaf.capacity() {
            let shortfall = Shortfall {
                leaf: 2 * taken,
                row: 0,
            };
            reservation.check(shortfall)?;
            move_to(&mut reservation.leaf, leaf);
        }
        // There is room.
        let _ = leaf.insert_within_capacity(at, value.clone());
        Ok(())
    }

    /// As [`Self::insert_with`], but the value is taken out again if the result is dropped instead of kept.
    ///
    /// # Errors
    ///
    /// As [`Self::insert_with`].
    pub(crate) fn try_insert<'a>(
        &'a mut self,
        value: &'a Arc<T>,
        reservation: &mut Reservation<T>,
    ) -> Result<Insertion<'a, T, O>, Shortfall> {
        self.insert_with(value, reservation)?;
        Ok(Insertion { arcs: self, value })
    }

    /// Takes the one value out that is equal.
    pub(crate) fn remove(&mut self, compare: impl Fn(&Arc<T>) -> Ordering) -> Option<Arc<T>> {
        let (number, at) = self.place(&compare);
        let leaves = match &mut self.values {
            Values::Many(leaves) => leaves,
            Values::One(value) => return value.take_if(|value| compare(value).is_eq()),
        };
        let leaf = leaves.get_mut(number)?;
        if !leaf.get(at).is_some_and(|value| compare(value).is_eq()) {
            return None;
        }
        let value = leaf.remove(at).ok();
        if leaf.is_empty() {
            // It holds nothing that would be dropped.
            let _ = leaves.remove(number);
        }
        if leaves.is_empty() {
            self.values = Values::One(None);
        }
        value
    }
}

/// A value that has been inserted, and is taken out again when this is dropped. That does not drop the value, to
/// which another pointer is borrowed.
pub(crate) struct Insertion<'a, T, O: Order<T>> {
    arcs: &'a mut SortedArcs<T, O>,
    value: &'a Arc<T>,
}

impl<T, O: Order<T>> Insertion<'_, T, O> {
    /// Leaves the value where it is.
    pub(crate) fn keep(self) {
        mem::forget(self);
    }
}

impl<T, O: Order<T>> Drop for Insertion<'_, T, O> {
    fn drop(&mut self) {
        let _ = self.arcs.remove(|other| O::compare(other, self.value));
    }
}

/// Memory for one insertion, got without the lock under which it is made. Most need none, and even an
/// empty vector takes work to drop.
pub(crate) struct Reservation<T> {
    leaf: Option<KVec<Arc<T>>>,
    row: Option<KVVec<KVec<Arc<T>>>>,
}

/// What an insertion needs: a leaf for that many values, and a row for that many leaves.
#[derive(Clone, Copy)]
pub(crate) struct Shortfall {
    leaf: usize,
    row: usize,
}

impl<T> Reservation<T> {
    /// No memory.
    pub(crate) const fn new() -> Self {
        Self {
            leaf: None,
            row: None,
        }
    }

    /// Gets what is needed. May sleep.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(crate) fn fill(&mut self, shortfall: Shortfall) -> Result<(), AllocError> {
        reserve(&mut self.leaf, shortfall.leaf)?;
        reserve(&mut self.row, shortfall.row)
    }

    /// Is there what is needed?
    fn check(&self, shortfall: Shortfall) -> Result<(), Shortfall> {
        let is_enough =
            capacity_of(&self.leaf) >= shortfall.leaf && capacity_of(&self.row) >= shortfall.row;
        is_enough.then_some(()).ok_or(shortfall)
    }

    /// Adds a leaf with one value and room for `capacity`, to be the one with this number.
    fn insert_leaf(
        &mut self,
        leaves: &mut KVVec<KVec<Arc<T>>>,
        number: usize,
        value: &Arc<T>,
        capacity: usize,
    ) -> Result<(), Shortfall> {
        self.extend_row(leaves, capacity)?;
        let mut leaf = self.leaf.take().unwrap_or_else(KVec::new);
        // There is room for both.
        let _ = leaf.push_within_capacity(value.clone());
        let _ = leaves.insert_within_capacity(number, leaf);
        Ok(())
    }

    /// Moves the upper half of a leaf to one of its own.
    fn split(&mut self, leaves: &mut KVVec<KVec<Arc<T>>>, number: usize) -> Result<(), Shortfall> {
        self.extend_row(leaves, MAX_LEAF_LEN)?;
        let Some(leaf) = leaves.get_mut(number) else {
            return Ok(());
        };
        let mut moved = self.leaf.take().unwrap_or_else(KVec::new);
        // There is room for all of them, and for the leaf.
        for value in leaf.get(MAX_LEAF_LEN / 2..).unwrap_or_default() {
            let _ = moved.push_within_capacity(value.clone());
        }
        leaf.truncate(MAX_LEAF_LEN / 2);
        let _ = leaves.insert_within_capacity(number + 1, moved);
        Ok(())
    }

    /// Gives the row room for one more leaf, if there is a leaf for `values` to put there.
    fn extend_row(
        &mut self,
        leaves: &mut KVVec<KVec<Arc<T>>>,
        values: usize,
    ) -> Result<(), Shortfall> {
        let taken = leaves.len();
        let is_full = taken >= leaves.capacity();
        self.check(Shortfall {
            leaf: values,
            row: if is_full { 2 * taken + 1 } else { 0 },
        })?;
        if is_full {
            move_to(&mut self.row, leaves);
        }
        Ok(())
    }
}

/// For how many values there is memory.
fn capacity_of<T, A: Allocator>(memory: &Option<Vec<T, A>>) -> usize {
    memory.as_ref().map_or(0, Vec::capacity)
}

/// Gets memory for so many values, unless it is there. As many as a caller makes it: without memory it gets an error, and the
/// log nothing.
fn reserve<T, A: Allocator>(
    memory: &mut Option<Vec<T, A>>,
    values: usize,
) -> Result<(), AllocError> {
    if capacity_of(memory) < values {
        *memory = Some(Vec::with_capacity(
            values,
            GFP_KERNEL_ACCOUNT | __GFP_NOWARN,
        )?);
    }
    Ok(())
}

/// Moves values to other memory, which is empty and large enough, and leaves their own there.
fn move_to<T, A: Allocator>(memory: &mut Option<Vec<T, A>>, values: &mut Vec<T, A>) {
    if let Some(memory) = memory {
        for value in values.drain_all() {
            let _ = memory.push_within_capacity(value);
        }
        mem::swap(memory, values);
    }
}
