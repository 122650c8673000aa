// SPDX-License-Identifier: GPL-2.0

//! Atomics. 7.x: `kernel::sync::atomic`, by the kernel's own operations. These are the compiler's.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    self,
    fence,
    Ordering, //
};

/// What is ordered with an operation, as in the kernel's memory model: [`Relaxed`], [`Acquire`],
/// [`Release`], or [`Full`], which is a barrier before and one behind.
pub trait AnyOrdering {
    #[doc(hidden)]
    const ORDERING: Ordering;
    #[doc(hidden)]
    const IS_FULL: bool = false;
}

/// What a load can have.
pub trait AcquireOrRelaxed: AnyOrdering {}
/// What a store can have.
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

/// Does an operation that reads and writes. On x86 each is a full barrier by itself.
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

/// What an [`Atomic`] can be of.
#[doc(hidden)]
pub trait AtomicType {}

/// A value that tasks read and write at once.
#[repr(transparent)]
pub struct Atomic<T>(UnsafeCell<T>);

// SAFETY: A number or an address goes anywhere. What is at the address is not used here.
unsafe impl<T: AtomicType> Send for Atomic<T> {}
// SAFETY: It is read and written as a whole.
unsafe impl<T: AtomicType> Sync for Atomic<T> {}

impl<T> Atomic<T> {
    /// A value.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// # Safety
    ///
    /// For `'a` the value must be there, be aligned, and be accessed by atomic operations only.
    pub const unsafe fn from_ptr<'a>(ptr: *mut T) -> &'a Self {
        // SAFETY: Promised by the caller. This type is laid out as that.
        unsafe { &*ptr.cast() }
    }

    /// Where it lies.
    pub const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }

    /// The value, which only the caller has.
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
                // SAFETY: It lives as long as `self`, is aligned, and is accessed by atomic
                // operations only.
                unsafe { <$of_core>::from_ptr(self.as_ptr()) }
            }

            /// The value.
            #[inline(always)]
            pub fn load<O: AcquireOrRelaxed>(&self, _: O) -> $type {
                self.of_core().load(O::ORDERING)
            }

            /// Changes the value.
            #[inline(always)]
            pub fn store<O: ReleaseOrRelaxed>(&self, value: $type, _: O) {
                self.of_core().store(value, O::ORDERING);
            }

            /// Changes the value, and returns the one before.
            #[inline(always)]
            pub fn xchg<O: AnyOrdering>(&self, new: $type, _: O) -> $type {
                ordered::<O, _>(|ordering| self.of_core().swap(new, ordering))
            }

            /// Changes the value if it is `old`. Returns the one before: as an error if it was
            /// another.
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
            /// Adds to the value, and returns the one before.
            #[inline(always)]
            pub fn fetch_add<O: AnyOrdering>(&self, value: $type, _: O) -> $type {
                ordered::<O, _>(|ordering| self.of_core().fetch_add(value, ordering))
            }

            /// Subtracts from the value, and returns the one before.
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
