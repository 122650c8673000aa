// SPDX-License-Identifier: GPL-2.0

//! Values that come, each with the next number, and stay: read without a lock, in a few steps.

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

/// Values in the first chunk, as a power of two. Each chunk has room for twice as many as the one
/// before, so none is ever moved.
const FIRST_CHUNK_BITS: u32 = 3;

/// Enough chunks for [`MAX_LEN`] values.
const CHUNKS: usize = (i32::BITS - FIRST_CHUNK_BITS) as usize;

/// The highest number of values, so that every number is a valid `i32`.
const MAX_LEN: u32 = i32::MAX as u32;

/// Values with numbers from 0, and an `S` that is lent to one task at a time, to add one.
///
/// # Invariants
///
/// The values with numbers below `len` exist and do not change: each lies in its [`place`]. A chunk
/// in which one lies has room for [`slots`] of them, and is never freed before the vector. Only
/// the holder of the mutex changes `len` or the chunks that no value below it lies in.
#[pin_data(PinnedDrop)]
pub(crate) struct AppendVec<T, S> {
    len: Atomic<u32>,
    /// NULL where there is none yet.
    chunks: UnsafeCell<[*mut MaybeUninit<T>; CHUNKS]>,
    #[pin]
    appending: Mutex<S>,
}

// SAFETY: The values are the vector's own, and go where it goes.
unsafe impl<T: Send, S: Send> Send for AppendVec<T, S> {}
// SAFETY: It gives out shared references to values; what is changed through a shared vector is
// changed under the mutex, and not read before `len` tells of it. A value that one
// thread adds may be dropped by another.
unsafe impl<T: Send + Sync, S: Send> Sync for AppendVec<T, S> {}

/// Where a value lies: the chunk, and the slot in it.
#[inline]
fn place(number: u32) -> (usize, usize) {
    // Counting from the size of the first chunk, the highest bit of the number tells the chunk, and
    // the rest of it the slot.
    let number = u64::from(number) + (1 << FIRST_CHUNK_BITS);
    let bits = number.ilog2();
    (
        (bits - FIRST_CHUNK_BITS) as usize,
        (number ^ (1 << bits)) as usize,
    )
}

/// For how many values a chunk has room.
fn slots(chunk: usize) -> usize {
    1 << (chunk as u32 + FIRST_CHUNK_BITS)
}

impl<T, S> AppendVec<T, S> {
    /// No values. `name` and `class` are the lock's, one for each kind of values: made here, they
    /// would be one class for all, with a name for each, of which lockdep warns.
    pub(crate) fn new(
        state: S,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        // INVARIANT: There is no value.
        pin_init!(Self {
            len: Atomic::new(0),
            chunks: UnsafeCell::new([ptr::null_mut(); CHUNKS]),
            appending <- Mutex::new(state, name, class),
        })
    }

    /// The value with this number. Takes no lock.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        if number >= self.len.load_acquire() {
            return None;
        }
        let (chunk, slot) = place(number);
        // SAFETY: By the invariants the value exists, in that place, for as long as `self` does,
        // and nothing changes it or the pointer to its chunk. Both were written before `len` was,
        // by the task that added it. The place is one of `CHUNKS` since there are at most `MAX_LEN`
        // values.
        unsafe {
            let chunks = self.chunks.get().cast::<*mut MaybeUninit<T>>();
            let chunk = *chunks.add(chunk);
            Some((*chunk.add(slot)).assume_init_ref())
        }
    }

    /// Keeps others from adding values. May sleep.
    pub(crate) fn lock(&self) -> AppendGuard<'_, T, S> {
        AppendGuard {
            vec: self,
            state: self.appending.lock(),
        }
    }
}

#[pinned_drop]
impl<T, S> PinnedDrop for AppendVec<T, S> {
    /// Drops the values, the last first: the trace core finds the events that came last quickly.
    fn drop(self: Pin<&mut Self>) {
        let len = self.len.load(Relaxed) as usize;
        // SAFETY: Nothing else has the vector any more.
        let chunks = unsafe { *self.chunks.get() };
        for (number, chunk) in chunks.into_iter().enumerate().rev() {
            if chunk.is_null() {
                continue;
            }
            // All chunks in front have room for this many.
            let first = slots(number) - slots(0);
            let taken = len.saturating_sub(first).min(slots(number));
            // SAFETY: By the invariants the chunk was made by `AppendGuard::push`, as a vector with
            // that room, and the first `taken` slots of it hold values.
            let mut values =
                unsafe { KVVec::from_raw_parts(chunk.cast::<T>(), taken, slots(number)) };
            while values.pop().is_some() {}
        }
    }
}

/// The right to add values to a vector.
pub(crate) struct AppendGuard<'a, T, S> {
    vec: &'a AppendVec<T, S>,
    state: MutexGuard<'a, S>,
}

impl<T, S> AppendGuard<'_, T, S> {
    /// What is lent with the right.
    pub(crate) fn state(&mut self) -> &mut S
    where
        S: Unpin,
    {
        &mut self.state
    }

    /// Adds a value, and returns its number. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EMFILE` when no number is left.
    pub(crate) fn push(&mut self, value: T) -> Result<u32> {
        let place = self.reserve()?;
        // SAFETY: The slot is there, and nothing looks at it as long as `len` does not tell of it.
        unsafe { (*place).write(value) };
        let number = self.vec.len.load(Relaxed);
        // INVARIANT: The value is in its place.
        self.vec.len.store(number + 1, Release);
        Ok(number)
    }

    /// Has memory for one value more, at the result. The next [`Self::push`] then needs none, and
    /// does not fail. May sleep.
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
        // SAFETY: The place is one of `CHUNKS`. We hold the mutex, and no value below `len` lies in
        // the chunk if it is not there yet. A chunk has so many slots.
        unsafe {
            let chunk_at = vec.chunks.get().cast::<*mut MaybeUninit<T>>().add(chunk);
            if (*chunk_at).is_null() {
                // As large as a caller makes it: without memory it gets an error, and the log
                // nothing.
                let flags = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
                let new_chunk = KVVec::<MaybeUninit<T>>::with_capacity(slots(chunk), flags)?;
                let (new_chunk, _, _) = new_chunk.into_raw_parts();
                *chunk_at = new_chunk;
            }
            Ok((*chunk_at).add(slot))
        }
    }
}
