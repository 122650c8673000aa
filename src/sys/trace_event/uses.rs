// SPDX-License-Identifier: GPL-2.0

//! Who uses a trace event.
//!
//! There can be very many uses, one for each entry of each open file's table, so a use is a pointer
//! and no more, and making and dropping one touches a single number.

use super::super::event_mutex::EventMutexHeld;
use super::{TraceEvent, TraceEventOwner};
use core::mem;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::sync::atomic::{Acquire, Full, Relaxed};
use kernel::sync::Arc;

/// One use of an event. While it exists, the event does not go away.
///
/// It does not keep the module loaded: whoever holds one does, or is waited for when the module is
/// unloaded.
///
/// # Invariants
///
/// It is one of those that the event's `uses` counts. While that is not 0, all uses together own
/// one reference count of the event's `Arc`, or the caller of [`Use::first`] lends it.
pub(crate) struct Use<O: TraceEventOwner>(NonNull<TraceEvent<O>>);

// SAFETY: An event can be used and dropped on any thread.
unsafe impl<O: TraceEventOwner> Send for Use<O> {}
// SAFETY: As above; a shared use only lends the event.
unsafe impl<O: TraceEventOwner> Sync for Use<O> {}

impl<O: TraceEventOwner> TraceEvent<O> {
    /// Does anybody use it? Can become true only under `event_mutex`.
    pub(crate) fn is_used(&self) -> bool {
        self.uses.load(Acquire) != 0
    }
}

impl<O: TraceEventOwner> Use<O> {
    /// A use by somebody who has none yet. `event_mutex` is what keeps the event from being retired
    /// at the same time.
    pub(crate) fn first(event: &Arc<TraceEvent<O>>, _held: &EventMutexHeld) -> Self {
        if event.uses.fetch_add(1, Full) == 0 {
            // INVARIANT: What the uses own from now on. The last use before may just be giving back
            // what they owned then; nobody else makes a first use, since `event_mutex` is held, and
            // until here `event` is borrowed.
            mem::forget(event.clone());
        }
        // INVARIANT: Just counted.
        Self(NonNull::from(&**event))
    }

    /// Another use of the same event.
    pub(crate) fn again(&self) -> Self {
        // INVARIANT: Counted; not from 0, as `self` is counted too.
        self.uses.fetch_add(1, Relaxed);
        Self(self.0)
    }
}

impl<O: TraceEventOwner> Deref for Use<O> {
    type Target = TraceEvent<O>;

    #[inline]
    fn deref(&self) -> &TraceEvent<O> {
        // SAFETY: By the invariant the event is alive as long as `self` is counted.
        unsafe { self.0.as_ref() }
    }
}

impl<O: TraceEventOwner> Drop for Use<O> {
    #[inline]
    fn drop(&mut self) {
        if self.uses.fetch_sub(1, Full) == 1 {
            // SAFETY: That was the last use.
            unsafe { Self::give_back(self.0) };
        }
    }
}

impl<O: TraceEventOwner> Use<O> {
    /// Gives back what the uses of an event own together.
    ///
    /// # Safety
    ///
    /// The caller has just dropped the last of them.
    #[cold]
    unsafe fn give_back(event: NonNull<TraceEvent<O>>) {
        // SAFETY: The pointer is that of an `Arc`, of which the uses together owned a count. Since
        // the caller dropped the last of them, that count is the caller's to give back.
        O::last_use_dropped(unsafe { Arc::from_raw(event.as_ptr()) });
    }
}
