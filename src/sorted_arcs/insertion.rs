// SPDX-License-Identifier: GPL-2.0

//! One insertion: the memory for it, and its undoing.

use super::{
    Order,
    SortedArcs, //
    TreeNode,
};
use core::{
    iter,
    mem, //
};
use kernel::alloc::{
    flags::__GFP_NOWARN,
    AllocError, //
};
use kernel::prelude::*;
use kernel::sync::Arc;

/// A value that has been inserted. The drop removes it again, which does not drop the value:
/// `value` borrows another pointer to it.
pub(crate) struct Insertion<'a, T, O: Order<T>> {
    pub(super) arcs: &'a mut SortedArcs<T, O>,
    pub(super) value: &'a Arc<T>,
}

impl<T, O: Order<T>> Insertion<'_, T, O> {
    pub(crate) fn keep(self) {
        mem::forget(self);
    }
}

impl<T, O: Order<T>> Drop for Insertion<'_, T, O> {
    fn drop(&mut self) {
        let _ = self.arcs.remove(O::cmp_to(self.value));
    }
}

/// Memory for one insertion, allocated without the lock under which it is made.
pub(crate) struct NodeMemory<T> {
    pub(super) leaf: Spare<Arc<T>>,
    pub(super) inner: Spare<TreeNode<T>>,
}

/// The memory that an insertion needs next, with room for so many values or children.
#[derive(Clone, Copy)]
pub(crate) enum Shortfall {
    Leaf(usize),
    Inner(usize),
}

impl<T> NodeMemory<T> {
    pub(crate) const fn new() -> Self {
        Self {
            leaf: Spare::new(Shortfall::Leaf),
            inner: Spare::new(Shortfall::Inner),
        }
    }

    /// Allocates what is lacking. May sleep.
    pub(crate) fn fill(&mut self, shortfall: Shortfall) -> Result<(), AllocError> {
        match shortfall {
            Shortfall::Leaf(values) => self.leaf.fill(values),
            Shortfall::Inner(children) => self.inner.fill(children),
        }
    }
}

/// An empty vector with memory. Most insertions need none, and to drop even an empty vector takes
/// work.
pub(super) struct Spare<V> {
    memory: Option<KVec<V>>,
    /// Makes the shortfall of a vector with room for so many.
    lacks: fn(usize) -> Shortfall,
}

impl<V> Spare<V> {
    const fn new(lacks: fn(usize) -> Shortfall) -> Self {
        let memory = None;
        Self { memory, lacks }
    }

    /// Allocates a vector with room for so many, unless there is one. User space decides the number
    /// of insertions, so a failure is not logged.
    fn fill(&mut self, count: usize) -> Result<(), AllocError> {
        self.memory = Some(match self.take(count) {
            Ok(memory) => memory,
            Err(_) => KVec::with_capacity(count, GFP_KERNEL_ACCOUNT | __GFP_NOWARN)?,
        });
        Ok(())
    }

    pub(super) fn take(&mut self, count: usize) -> Result<KVec<V>, Shortfall> {
        let memory = self.memory.take_if(|memory| memory.capacity() >= count);
        memory.ok_or((self.lacks)(count))
    }

    /// Gives `from` room for one more.
    pub(super) fn make_room(&mut self, from: &mut KVec<V>) -> Result<(), Shortfall> {
        if from.len() >= from.capacity() {
            let mut larger = self.take(2 * from.len())?;
            for value in from.drain_all() {
                let _ = larger.push_within_capacity(value);
            }
            self.memory = Some(mem::replace(from, larger));
        }
        Ok(())
    }

    /// Moves the last values, so many, to a vector with room for as many as all.
    pub(super) fn take_last(
        &mut self,
        count: usize,
        from: &mut KVec<V>,
    ) -> Result<KVec<V>, Shortfall> {
        let mut moved = self.take(from.len())?;
        for value in iter::from_fn(|| from.pop()).take(count) {
            let _ = moved.push_within_capacity(value);
        }
        moved.reverse();
        Ok(moved)
    }
}
