// SPDX-License-Identifier: GPL-2.0

//! Linked lists. 7.x: `kernel::list`, whose macro also takes the field of the links.

pub use crate::impl_list_item;
pub use tree::list::*;

/// Implements [`ListItem`] for a type with the links in a field.
#[macro_export]
macro_rules! impl_list_item {
    ($(
        impl$({$($generics:tt)*})? ListItem<$id:tt> for $type:ty {
            using ListLinks { self.$field:ident };
        }
    )*) => {$(
        // SAFETY: Compiles only if the field, which is at that offset, has the right type.
        unsafe impl$(<$($generics)*>)? $crate::list::HasListLinks<$id> for $type {
            const OFFSET: usize = ::core::mem::offset_of!(Self, $field);

            /// # Safety
            ///
            /// See the trait.
            #[inline]
            unsafe fn raw_get_list_links(ptr: *mut Self) -> *mut $crate::list::ListLinks<$id> {
                // SAFETY: The pointer is valid by the safety requirement.
                unsafe { &raw mut (*ptr).$field }
            }
        }

        $crate::tree::list::impl_list_item! {
            impl$({$($generics)*})? ListItem<$id> for $type { using ListLinks; }
        }
    )*};
}
