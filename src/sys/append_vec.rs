// SPDX-License-Identifier: GPL-2.0

//! An append-only vector, which is read without a lock.

use super::load_acquire::LoadAcquire;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed,
    Release, //
};
use kernel::sync::{
    LockClassKey,
    Mutex,
    MutexGuard, //
};

/// Size of the first chunk, as a power of two. Each chunk has twice the size of the previous one,
/// so no value ever moves.
const FIRST_CHUNK_BITS: u32 = 3;

/// Chunks for [`MAX_LEN`] values.
const CHUNKS: usize = (i32::BITS - FIRST_CHUNK_BITS) as usize;

/// The maximum of values: every number is a valid `i32`.
const MAX_LEN: u32 = i32::MAX as u32;

/// Values with numbers from 0, and an `S` for the task that holds the lock for appending.
///
/// # Invariants
///
/// The values with numbers below `len` exist and do not change, each in its [`place`]. The chunk of
/// a value has [`slots`] slots, and is not freed before the vector. Only the holder of the mutex
/// changes `len`, or chunks without a value below it.
#[pin_data(PinnedDrop)]
pub(crate) struct AppendVec<T, S> {
    len: Atomic<u32>,
    /// NULL before the allocation.
    chunks: UnsafeCell<[*mut MaybeUninit<T>; CHUNKS]>,
    #[pin]
    appending: Mutex<S>,
}

// SAFETY: Sending the vector sends its values and its state.
unsafe impl<T: Send, S: Send> Send for AppendVec<T, S> {}
// SAFETY: The vector lends shared references to values. A shared vector is changed under the mutex,
// and a change is not read before `len` covers it. One thread may drop the value of another.
unsafe impl<T: Send + Sync, S: Send> Sync for AppendVec<T, S> {}

/// The chunk of a value, and its slot there.
#[inline]
fn place(number: u32) -> (usize, usize) {
    // Counted from the size of the first chunk, the highest bit of the number is the chunk, and the
    // other bits are the slot.
    let number = u64::from(number) + (1 << FIRST_CHUNK_BITS);
    let bits = number.ilog2();
    (
        (bits - FIRST_CHUNK_BITS) as usize,
        (number ^ (1 << bits)) as usize,
    )
}

/// The size of a chunk.
fn slots(chunk: usize) -> usize {
    1 << (chunk as u32 + FIRST_CHUNK_BITS)
}

impl<T, S> AppendVec<T, S> {
    /// An empty vector. `name` and `class` are the lock's. The caller has one class for each type:
    /// a class of this function would be shared by all types, under different names, of which
    /// lockdep warns.
    pub(crate) fn new(
        state: S,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        // INVARIANT: There are no values.
        pin_init!(Self {
            len: Atomic::new(0),
            chunks: UnsafeCell::new([ptr::null_mut(); CHUNKS]),
            appending <- Mutex::new(state, name, class),
        })
    }

    /// The value with a number. Takes no lock.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        if number >= self.len.load_acquire() {
            return None;
        }
        let (chunk, slot) = place(number);
        // SAFETY: By the invariants the value is in its place as long as `self` exists, and neither
        // the value nor the pointer to its chunk changes. The task that added the value wrote both
        // before `len`. There are at most `MAX_LEN` values, so the place is one of `CHUNKS`.
        unsafe {
            let chunks = self.chunks.get().cast::<*mut MaybeUninit<T>>();
            let chunk = *chunks.add(chunk);
            Some((*chunk.add(slot)).assume_init_ref())
        }
    }

    /// Locks the vector for appending. May sleep.
    pub(crate) fn lock(&self) -> AppendGuard<'_, T, S> {
        AppendGuard {
            vec: self,
            state: self.appending.lock(),
        }
    }
}

#[pinned_drop]
impl<T, S> PinnedDrop for AppendVec<T, S> {
    /// Drops the values, the last one first: the trace core searches its events from the newest
    /// one.
    fn drop(self: Pin<&mut Self>) {
        let len = self.len.load(Relaxed) as usize;
        // SAFETY: In the drop this is the only reference, so nothing changes the pointers.
        let chunks = unsafe { *self.chunks.get() };
        for (number, chunk) in chunks.into_iter().enumerate().rev() {
            if chunk.is_null() {
                continue;
            }
            // The size of all previous chunks.
            let first = slots(number) - slots(0);
            let taken = len.saturating_sub(first).min(slots(number));
            // SAFETY: By the invariants the chunk is from `AppendGuard::reserve`, as a vector of
            // this capacity, and its first `taken` slots hold values.
            let mut values =
                unsafe { KVVec::from_raw_parts(chunk.cast::<T>(), taken, slots(number)) };
            while values.pop().is_some() {}
        }
    }
}

/// The lock of a vector for appending.
pub(crate) struct AppendGuard<'a, T, S> {
    vec: &'a AppendVec<T, S>,
    state: MutexGuard<'a, S>,
}

impl<T, S> AppendGuard<'_, T, S> {
    /// The state that the lock protects.
    pub(crate) fn state(&mut self) -> &mut S
    where
        S: Unpin,
    {
        &mut self.state
    }

    /// Appends a value, and returns its number. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EMFILE` when no number is left.
    pub(crate) fn push(&mut self, value: T) -> Result<u32> {
        let place = self.reserve()?;
        // SAFETY: `reserve` returns a slot of an allocated chunk, which holds no value and is not
        // read while `len` does not cover it. The mutex is held.
        unsafe { (*place).write(value) };
        let number = self.vec.len.load(Relaxed);
        // INVARIANT: The value is in its place.
        self.vec.len.store(number + 1, Release);
        Ok(number)
    }

    /// Allocates memory for one more value, and returns its address. The next [`Self::push`] cannot
    /// fail then. May sleep.
    ///
    /// # Errors
    ///
    /// As those of [`Self::push`].
    pub(crate) fn reserve(&mut self) -> Result<*mut MaybeUninit<T>> {
        let vec = self.vec;
        let number = vec.len.load(Relaxed);
        if number >= MAX_LEN {
            return Err(EMFILE);
        }
        let (chunk, slot) = place(number);
        // SAFETY: The place is one of `CHUNKS`, and the slot is below the size of the chunk. The
        // mutex is held, and a missing chunk holds no value.
        unsafe {
            let chunk_at = vec.chunks.get().cast::<*mut MaybeUninit<T>>().add(chunk);
            if (*chunk_at).is_null() {
                // User space decides the size, so a failure is not logged.
                let flags = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
                let new_chunk = KVVec::<MaybeUninit<T>>::with_capacity(slots(chunk), flags)?;
                let (new_chunk, _, _) = new_chunk.into_raw_parts();
                *chunk_at = new_chunk;
            }
            Ok((*chunk_at).add(slot))
        }
    }
}
