// SPDX-License-Identifier: GPL-2.0

//! Red-black trees. 7.x: `kernel::rbtree`, which has a cursor of its own for changes.

pub use tree::rbtree::*;

/// Methods of a newer crate's trees.
pub trait RBTreeExt<K, V> {
    /// A cursor at this key or the next higher one, if there is any.
    fn cursor_lower_bound_mut(&mut self, key: &K) -> Option<Cursor<'_, K, V>>;
}

impl<K: Ord, V> RBTreeExt<K, V> for RBTree<K, V> {
    fn cursor_lower_bound_mut(&mut self, key: &K) -> Option<Cursor<'_, K, V>> {
        self.cursor_lower_bound(key)
    }
}
