// SPDX-License-Identifier: GPL-2.0

//! Trees. 7.x: `kernel::rbtree`, which tells cursors that change a tree from others.

pub use tree::rbtree::*;

/// What an [`RBTree`] of a newer crate does.
pub trait RBTreeExt<K, V> {
    /// A cursor at this key, or the next higher one; `None` if there is none.
    fn cursor_lower_bound_mut(&mut self, key: &K) -> Option<Cursor<'_, K, V>>;
}

impl<K: Ord, V> RBTreeExt<K, V> for RBTree<K, V> {
    fn cursor_lower_bound_mut(&mut self, key: &K) -> Option<Cursor<'_, K, V>> {
        self.cursor_lower_bound(key)
    }
}
