// SPDX-License-Identifier: GPL-2.0

//! Shared values in an order, in little memory: some nine to eighteen bytes each.
//!
//! A tree node for each value would take as much memory as an enabler. Here values lie in leaves,
//! and leaves in inner nodes, some tens in each: a B+ tree, in which all leaves are equally deep.
//! Inner nodes have no keys: a child is found by the first value below it. A single value lies in
//! the [`SortedArcs`] itself: most events have one enabler.
//!
//! Locks are held while a value is added or removed. So no move exceeds two kilobytes, and there
//! are few on each level. A full node is split when it gets one more; at the end of the tree it
//! keeps all but one. Nodes are not merged: a node is removed when it is empty.
//!
//! Functions recurse for each level. An inner node is full after some thirty times as many
//! insertions as its children, whatever is removed in between. So 2^40 insertions make nine levels
//! at most.

mod insertion;

pub(crate) use insertion::{
    Insertion,
    NodeMemory,
    Shortfall, //
};

use core::cmp::Ordering;
use core::marker::PhantomData;
use core::{
    iter,
    mem, //
};
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The most values of a leaf.
pub(crate) const MAX_LEAF_LEN: usize = 64;

/// The most children of an inner node.
const MAX_CHILDREN: usize = 64;

/// An order of values.
pub(crate) trait Order<T> {
    /// A function that compares another value to this one: `Less` if the other one comes first. The
    /// order of values in a [`SortedArcs`] never changes.
    fn cmp_to(value: &Arc<T>) -> impl Fn(&Arc<T>) -> Ordering;
}

/// Values in an order, no two of them equal.
///
/// A value is searched with a function that compares values to it: `Less` for those in front of it.
pub(crate) struct SortedArcs<T, O> {
    root: TreeNode<T>,
    order: PhantomData<O>,
}

/// A node; only a root is empty.
enum TreeNode<T> {
    /// A leaf with one value at most.
    One(Option<Arc<T>>),
    Leaf(KVec<Arc<T>>),
    /// Children in their order.
    Inner(KVec<TreeNode<T>>),
}

/// The values of a leaf from a place on, and the leaves behind it.
type Run<'a, T> = (&'a [Arc<T>], &'a [TreeNode<T>]);

impl<T> TreeNode<T> {
    /// The values of a leaf; none of an inner node.
    fn values(&self) -> &[Arc<T>] {
        match self {
            Self::One(value) => value.as_slice(),
            Self::Leaf(values) => values,
            Self::Inner(_) => &[],
        }
    }

    fn first(&self) -> Option<&Arc<T>> {
        match self {
            Self::Inner(children) => children.first()?.first(),
            leaf => leaf.values().first(),
        }
    }

    fn last(&self) -> Option<&Arc<T>> {
        match self {
            Self::Inner(children) => children.last()?.last(),
            leaf => leaf.values().last(),
        }
    }

    /// The values that are equal or greater.
    fn run_from(&self, compare: &impl Fn(&Arc<T>) -> Ordering) -> Run<'_, T> {
        let Self::Inner(children) = self else {
            let values = self.values();
            let at = values.partition_point(|value| compare(value).is_lt());
            return (values.get(at..).unwrap_or_default(), &[]);
        };
        let at = child_at(children, |first| compare(first).is_le());
        let mut children = children.get(at..).unwrap_or_default();
        // If all values below the first child are less, none below the second is.
        while let Some((child, behind)) = children.split_first() {
            let (values, leaves) = child.run_from(compare);
            if !values.is_empty() {
                let is_inner = matches!(child, Self::Inner(_));
                return (values, if is_inner { leaves } else { behind });
            }
            children = behind;
        }
        (&[], &[])
    }

    /// Adds a value, to which `compare` compares others, none equal. `is_last`: the value is behind
    /// all others of the tree. If this node is full, returns how many values or children are to be
    /// split off its end first.
    fn add(
        &mut self,
        value: &Arc<T>,
        compare: &impl Fn(&Arc<T>) -> Ordering,
        is_last: bool,
        memory: &mut NodeMemory<T>,
    ) -> Result<Option<usize>, Shortfall> {
        let is_before = |other: &Arc<T>| is_last || compare(other).is_lt();
        match self {
            Self::One(Some(other)) => {
                let mut values = memory.leaf.take(2)?;
                let _ = values.push_within_capacity(other.clone());
                *self = Self::Leaf(values);
                return self.add(value, compare, is_last, memory);
            }
            Self::One(one) => *one = Some(value.clone()),
            Self::Leaf(values) => {
                let at = values.partition_point(is_before);
                if values.len() >= MAX_LEAF_LEN {
                    // For a value behind the last one, only the last one moves: the new leaf then
                    // gets all values up to the next leaf.
                    let is_behind = at >= MAX_LEAF_LEN;
                    return Ok(Some(if is_behind { 1 } else { MAX_LEAF_LEN / 2 }));
                }
                memory.leaf.make_room(values)?;
                let _ = values.insert_within_capacity(at, value.clone());
            }
            Self::Inner(children) => loop {
                let end = children.len().saturating_sub(1);
                let at = if is_last {
                    end
                } else {
                    child_at(children, is_before)
                };
                let Some(child) = children.get_mut(at) else {
                    return Ok(None);
                };
                let Some(count) = child.add(value, compare, is_last, memory)? else {
                    return Ok(None);
                };
                if children.len() >= MAX_CHILDREN {
                    // One only at the end of the tree: elsewhere every second leaf could then make
                    // a node.
                    return Ok(Some(if is_last { 1 } else { MAX_CHILDREN / 2 }));
                }
                memory.inner.make_room(children)?;
                if let Some(child) = children.get_mut(at) {
                    let behind = child.split(count, memory)?;
                    let _ = children.insert_within_capacity(at + 1, behind);
                }
            },
        }
        Ok(None)
    }

    /// Splits off the last values or children, so many.
    fn split(&mut self, count: usize, memory: &mut NodeMemory<T>) -> Result<Self, Shortfall> {
        Ok(match self {
            Self::One(value) => Self::One(value.take()),
            Self::Leaf(values) => Self::Leaf(memory.leaf.take_last(count, values)?),
            Self::Inner(children) => Self::Inner(memory.inner.take_last(count, children)?),
        })
    }

    /// Changes one leaf: below the last child, on each level, the first value of which
    /// `precedes`. Frees the nodes that are empty then.
    fn change_leaf<R>(
        &mut self,
        precedes: &impl Fn(&Arc<T>) -> bool,
        change: impl FnOnce(&mut Self) -> Option<R>,
    ) -> Option<R> {
        let Self::Inner(children) = self else {
            return change(self);
        };
        let at = child_at(children, precedes);
        let child = children.get_mut(at)?;
        let changed = child.change_leaf(precedes, change);
        if child.first().is_none() {
            let _ = children.remove(at);
        }
        changed
    }
}

/// The number of the last child, the first value of which `precedes`; or 0.
fn child_at<T>(children: &[TreeNode<T>], precedes: impl Fn(&Arc<T>) -> bool) -> usize {
    children
        .partition_point(|child| child.first().is_some_and(&precedes))
        .saturating_sub(1)
}

impl<T, O: Order<T>> SortedArcs<T, O> {
    pub(crate) const fn new() -> Self {
        Self {
            root: TreeNode::One(None),
            order: PhantomData,
        }
    }

    /// Whether all values fit one leaf.
    pub(crate) fn fits_one_leaf(&self) -> bool {
        !matches!(self.root, TreeNode::Inner(_))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.root.first().is_none()
    }

    /// The number of values. Visits all.
    pub(crate) fn len(&self) -> usize {
        self.values().count()
    }

    fn run_from(&self, compare: &impl Fn(&Arc<T>) -> Ordering) -> Run<'_, T> {
        // A value that is added, or searched before that, is most often behind all others.
        match self.last() {
            Some(last) if compare(last).is_lt() => (&[], &[]),
            _ => self.root.run_from(compare),
        }
    }

    /// The value that is equal.
    pub(crate) fn get(&self, compare: impl Fn(&Arc<T>) -> Ordering) -> Option<&Arc<T>> {
        self.get_from(&compare)
            .filter(|value| compare(value).is_eq())
    }

    /// The first value that is equal or greater.
    pub(crate) fn get_from(&self, compare: impl Fn(&Arc<T>) -> Ordering) -> Option<&Arc<T>> {
        self.run_from(&compare).0.first()
    }

    /// The last value that is less.
    pub(crate) fn get_before(&self, compare: impl Fn(&Arc<T>) -> Ordering) -> Option<&Arc<T>> {
        let is_less = |value: &Arc<T>| compare(value).is_lt();
        let mut node = &self.root;
        while let TreeNode::Inner(children) = node {
            node = children.get(child_at(children, is_less))?;
        }
        let at = node.values().partition_point(is_less);
        node.values().get(at.checked_sub(1)?)
    }

    pub(crate) fn last(&self) -> Option<&Arc<T>> {
        self.root.last()
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
        let (mut next, mut leaves) = self.run_from(&compare);
        iter::from_fn(move || {
            let values = next;
            let last = values.last()?;
            (next, leaves) = match leaves.split_first() {
                Some((leaf, behind)) => (leaf.values(), behind),
                // From the root, once for some tens of leaves.
                None => {
                    let compare = O::cmp_to(last);
                    self.run_from(&|other| compare(other).then(Ordering::Less))
                }
            };
            Some(values)
        })
    }

    /// All values, in their order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.values_from(|_| Ordering::Greater)
    }

    /// Adds a value, to which none is equal. May sleep.
    ///
    /// # Errors
    ///
    /// There is no memory. Nothing has been added.
    pub(crate) fn insert(&mut self, value: &Arc<T>) -> Result<(), AllocError> {
        let mut memory = NodeMemory::new();
        while let Err(shortfall) = self.insert_with(value, &mut memory) {
            memory.fill(shortfall)?;
        }
        Ok(())
    }

    /// Adds a value, to which none is equal. Takes memory from `memory` and gives unneeded memory
    /// back to it; allocates and frees nothing.
    ///
    /// # Errors
    ///
    /// What `memory` is short of. Nothing has been added, but a node may have been split: each
    /// piece of memory is requested after the one before has been used.
    pub(crate) fn insert_with(
        &mut self,
        value: &Arc<T>,
        memory: &mut NodeMemory<T>,
    ) -> Result<(), Shortfall> {
        let compare = &O::cmp_to(value);
        let is_last = self.last().is_some_and(|last| compare(last).is_lt());
        while (self.root.add(value, compare, is_last, memory)?).is_some() {
            // The root is split as the only child of a new one.
            let mut children = memory.inner.take(2)?;
            let root = mem::replace(&mut self.root, TreeNode::One(None));
            let _ = children.push_within_capacity(root);
            self.root = TreeNode::Inner(children);
        }
        Ok(())
    }

    /// As [`Self::insert_with`]. A drop of the result instead of `keep()` removes the value.
    ///
    /// # Errors
    ///
    /// As [`Self::insert_with`].
    pub(crate) fn try_insert<'a>(
        &'a mut self,
        value: &'a Arc<T>,
        memory: &mut NodeMemory<T>,
    ) -> Result<Insertion<'a, T, O>, Shortfall> {
        self.insert_with(value, memory)?;
        Ok(Insertion { arcs: self, value })
    }

    /// Removes the value that is equal.
    pub(crate) fn remove(&mut self, compare: impl Fn(&Arc<T>) -> Ordering) -> Option<Arc<T>> {
        self.change(
            |first| compare(first).is_le(),
            |leaf| match leaf {
                TreeNode::One(value) => value.take_if(|value| compare(value).is_eq()),
                TreeNode::Leaf(values) => {
                    let at = values.binary_search_by(&compare).ok()?;
                    values.remove(at).ok()
                }
                TreeNode::Inner(_) => None,
            },
        )
    }

    /// Removes the last leaf, with all its values; `None` if there is none. Allocates nothing.
    pub(crate) fn take_leaf(&mut self) -> Option<Self> {
        let take = |leaf: &mut TreeNode<T>| Some(mem::replace(leaf, TreeNode::One(None)));
        let root = self.change(|_| true, take)?;
        let order = PhantomData;
        root.first().is_some().then_some(Self { root, order })
    }

    /// As [`TreeNode::change_leaf`].
    fn change<R>(
        &mut self,
        precedes: impl Fn(&Arc<T>) -> bool,
        change: impl FnOnce(&mut TreeNode<T>) -> Option<R>,
    ) -> Option<R> {
        let changed = self.root.change_leaf(&precedes, change);
        // An only child becomes the root.
        while let TreeNode::Inner(children) = &mut self.root {
            if children.len() > 1 {
                return changed;
            }
            self.root = children.pop().unwrap_or(TreeNode::One(None));
        }
        if self.is_empty() {
            self.root = TreeNode::One(None);
        }
        changed
    }
}
