// SPDX-License-Identifier: GPL-2.0

//! Atomics. 7.x: `kernel::sync::atomic`, with the kernel's own operations. These are the
//! compiler's.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    self,
    fence,
    Ordering, //
};

/// The ordering of an operation in the kernel's memory model: [`Relaxed`], [`Acquire`],
/// [`Release`], or [`Full`], a full barrier before and after.
pub trait AnyOrdering {
    #[doc(hidden)]
    const ORDERING: Ordering;
    #[doc(hidden)]
    const IS_FULL: bool = false;
}

/// Orderings of a load.
pub trait AcquireOrRelaxed: AnyOrdering {}
/// Orderings of a store.
pub trait ReleaseOrRelaxed: AnyOrdering {}

/// See [`AnyOrdering`].
pub struct Relaxed;
/// See [`AnyOrdering`].
pub struct Acquire;
/// See [`AnyOrdering`].
pub struct Release;
/// See [`AnyOrdering`].
pub struct Full;

impl AnyOrdering for Relaxed {
    const ORDERING: Ordering = Ordering::Relaxed;
}
impl AnyOrdering for Acquire {
    const ORDERING: Ordering = Ordering::Acquire;
}
impl AnyOrdering for Release {
    const ORDERING: Ordering = Ordering::Release;
}
impl AnyOrdering for Full {
    const ORDERING: Ordering = Ordering::SeqCst;
    const IS_FULL: bool = true;
}
impl AcquireOrRelaxed for Relaxed {}
impl AcquireOrRelaxed for Acquire {}
impl ReleaseOrRelaxed for Relaxed {}
impl ReleaseOrRelaxed for Release {}

/// Runs an operation that reads and writes. On x86 each one is a full barrier.
#[inline(always)]
fn ordered<O: AnyOrdering, R>(operation: impl FnOnce(Ordering) -> R) -> R {
    let has_fences = O::IS_FULL && !cfg!(target_arch = "x86_64");
    if has_fences {
        fence(Ordering::SeqCst);
    }
    let result = operation(O::ORDERING);
    if has_fences {
        fence(Ordering::SeqCst);
    }
    result
}

/// The types of an [`Atomic`].
#[doc(hidden)]
pub trait AtomicType {}

/// A value that tasks access concurrently.
#[repr(transparent)]
pub struct Atomic<T>(UnsafeCell<T>);

// SAFETY: A number or an address, which is not followed here.
unsafe impl<T: AtomicType> Send for Atomic<T> {}
// SAFETY: All accesses through a shared reference are atomic.
unsafe impl<T: AtomicType> Sync for Atomic<T> {}

impl<T> Atomic<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// # Safety
    ///
    /// For `'a` the value must be valid, aligned, and accessed by atomic operations only.
    pub const unsafe fn from_ptr<'a>(ptr: *mut T) -> &'a Self {
        // SAFETY: By the safety requirement. The layouts are the same.
        unsafe { &*ptr.cast() }
    }

    /// The address of the value.
    pub const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }

    /// Borrows the value, to which the caller has exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

macro_rules! impl_atomic {
    ($(($($generics:tt)*) $type:ty: $of_core:ty,)*) => {$(
        impl<$($generics)*> AtomicType for $type {}

        impl<$($generics)*> Atomic<$type> {
            #[inline(always)]
            fn of_core(&self) -> &$of_core {
                // SAFETY: The value lives as long as `self`, is aligned as its type, and by shared
                // references accessed by atomic operations only.
                unsafe { <$of_core>::from_ptr(self.as_ptr()) }
            }

            /// Loads the value.
            #[inline(always)]
            pub fn load<O: AcquireOrRelaxed>(&self, _: O) -> $type {
                self.of_core().load(O::ORDERING)
            }

            /// Stores a value.
            #[inline(always)]
            pub fn store<O: ReleaseOrRelaxed>(&self, value: $type, _: O) {
                self.of_core().store(value, O::ORDERING);
            }

            /// Stores a value, and returns the previous one.
            #[inline(always)]
            pub fn xchg<O: AnyOrdering>(&self, new: $type, _: O) -> $type {
                ordered::<O, _>(|ordering| self.of_core().swap(new, ordering))
            }

            /// Stores `new` if the value is `old`. Returns the previous value, as an error if it
            /// was another.
            #[inline(always)]
            pub fn cmpxchg<O: AnyOrdering>(
                &self,
                old: $type,
                new: $type,
                _: O,
            ) -> Result<$type, $type> {
                ordered::<O, _>(|ordering| {
                    let at_failure = match ordering {
                        Ordering::SeqCst => Ordering::SeqCst,
                        _ => Ordering::Relaxed,
                    };
                    self.of_core().compare_exchange(old, new, ordering, at_failure)
                })
            }
        }
    )*};
}

macro_rules! impl_atomic_add {
    ($($type:ty,)*) => {$(
        impl Atomic<$type> {
            /// Adds, and returns the previous value.
            #[inline(always)]
            pub fn fetch_add<O: AnyOrdering>(&self, value: $type, _: O) -> $type {
                ordered::<O, _>(|ordering| self.of_core().fetch_add(value, ordering))
            }

            /// Subtracts, and returns the previous value.
            #[inline(always)]
            pub fn fetch_sub<O: AnyOrdering>(&self, value: $type, _: O) -> $type {
                ordered::<O, _>(|ordering| self.of_core().fetch_sub(value, ordering))
            }
        }
    )*};
}

impl_atomic! {
    () bool: atomic::AtomicBool,
    () i8: atomic::AtomicI8,
    () i32: atomic::AtomicI32,
    () u32: atomic::AtomicU32,
    () i64: atomic::AtomicI64,
    () u64: atomic::AtomicU64,
    () usize: atomic::AtomicUsize,
    (T) *mut T: atomic::AtomicPtr<T>,
}

impl_atomic_add! {
    i32, u32, i64, u64, usize,
}
