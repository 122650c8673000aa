// SPDX-License-Identifier: GPL-2.0

//! Work queues. 7.x: `kernel::workqueue`, which has delayed work. C: linux/workqueue.h.

use crate::bindings;
use crate::str::CStrExt;
use crate::sync::LockClassKey;
use core::ffi::CStr;
use core::marker::PhantomData;
use core::pin::Pin;
use tree::prelude::{
    pin_data,
    pin_init,
    PinInit, //
};
use tree::types::Opaque;

pub use crate::{
    impl_has_delayed_work,
    new_delayed_work, //
};
pub use tree::workqueue::*;

/// Delayed work. C: `struct delayed_work`.
#[pin_data]
#[repr(transparent)]
pub struct DelayedWork<T: ?Sized, const ID: u64 = 0> {
    #[pin]
    work: Opaque<bindings::delayed_work>,
    _inner: PhantomData<T>,
}

// SAFETY: The kernel uses the work from any thread, and there is no `T` in it.
unsafe impl<T: ?Sized, const ID: u64> Send for DelayedWork<T, ID> {}
// SAFETY: As above.
unsafe impl<T: ?Sized, const ID: u64> Sync for DelayedWork<T, ID> {}

impl<T: ?Sized, const ID: u64> DelayedWork<T, ID> {
    /// Work that is not pending. Names and classes are for lockdep.
    pub fn new(
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
        timer_name: &'static CStr,
        timer_class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self>
    where
        T: WorkItem<ID>,
    {
        pin_init!(Self {
            // SAFETY: The memory is valid and pinned, and nothing uses it yet. `T::Pointer::run`
            // takes the work that `T::Pointer` queues. The timer's function takes the timer of a
            // `delayed_work`, which this one is.
            work <- Opaque::ffi_init(|work: *mut bindings::delayed_work| unsafe {
                bindings::init_work_with_key(
                    &raw mut (*work).work,
                    Some(T::Pointer::run),
                    false,
                    name.as_char_ptr(),
                    class.as_ptr(),
                );
                bindings::timer_init_key(
                    &raw mut (*work).timer,
                    Some(bindings::delayed_work_timer_fn),
                    bindings::TIMER_IRQSAFE,
                    timer_name.as_char_ptr(),
                    timer_class.as_ptr(),
                );
            }),
            _inner: PhantomData,
        })
    }

    /// The [`Work`] in it.
    ///
    /// # Safety
    ///
    /// `ptr` must point to delayed work.
    #[inline]
    pub unsafe fn raw_as_work(ptr: *const Self) -> *mut Work<T, ID> {
        let work = ptr.cast_mut().cast::<bindings::delayed_work>();
        // SAFETY: By the safety requirement. `Work` has the layout of C's structure.
        unsafe { (&raw mut (*work).work).cast() }
    }
}

/// A type with a [`DelayedWork`].
///
/// # Safety
///
/// The work of [`HasWork`] must be that of a [`DelayedWork`].
pub unsafe trait HasDelayedWork<T, const ID: u64 = 0>: HasWork<T, ID> {}

/// Implements [`HasDelayedWork`] and [`HasWork`] for a type with a [`DelayedWork`] field.
#[macro_export]
macro_rules! impl_has_delayed_work {
    ($(
        impl$({$($generics:tt)*})? HasDelayedWork<$work_type:ty $(, $id:tt)?> for $self:ty {
            self.$field:ident
        }
    )*) => {$(
        // SAFETY: The `HasWork` below leads to the work of the field, a `DelayedWork`.
        unsafe impl$(<$($generics)+>)?
            $crate::workqueue::HasDelayedWork<$work_type $(, $id)?> for $self {}

        // SAFETY: The function compiles only if the field is a `DelayedWork` of this type. Both the
        // offset and the function lead to its `work`.
        unsafe impl$(<$($generics)+>)?
            $crate::workqueue::HasWork<$work_type $(, $id)?> for $self
        {
            const OFFSET: usize = ::core::mem::offset_of!(Self, $field)
                + ::core::mem::offset_of!($crate::bindings::delayed_work, work);

            /// # Safety
            ///
            /// See the trait.
            #[inline]
            unsafe fn raw_get_work(
                ptr: *mut Self,
            ) -> *mut $crate::workqueue::Work<$work_type $(, $id)?> {
                // SAFETY: The pointer is valid by the safety requirement.
                unsafe {
                    let work: *mut $crate::workqueue::DelayedWork<$work_type $(, $id)?> =
                        &raw mut (*ptr).$field;
                    $crate::workqueue::DelayedWork::raw_as_work(work)
                }
            }
        }
    )*};
}

/// Makes a [`DelayedWork`] with a name for lockdep.
#[macro_export]
macro_rules! new_delayed_work {
    ($name:literal) => {
        $crate::workqueue::DelayedWork::new(
            $crate::str::name(::core::concat!($name, "\0")),
            $crate::static_lock_class!(),
            $crate::str::name(::core::concat!($name, "_timer\0")),
            $crate::static_lock_class!(),
        )
    };
}
