// SPDX-License-Identifier: GPL-2.0

//! Who uses a trace event.
//!
//! There can be very many uses, one for each entry of each open file's table, so a use is a pointer
//! and no more, and making and dropping one touches a single number.

use super::super::event_mutex::EventMutexHeld;
use super::{TraceEvent, TraceEventOwner};
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
/// It is one of those that the event's `uses` counts, and the pointer is what `Arc::into_raw` gives
/// for the event. Each time `uses` rises from 0, [`Use::first`] gives up one reference count that way,
/// which belongs to all uses together. The one that takes `uses` to 0 again gives it back.
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
        let pointer = if event.uses.fetch_add(1, Full) == 0 {
            // INVARIANT: What belongs to the uses from now on. The last use before may just be giving
            // back what belonged to them then; it is another count. No other first use is made
            // meanwhile, since `event_mutex` is held, and until here `event` is borrowed.
            Arc::into_raw(event.clone())
        } else {
            Arc::as_ptr(event)
        };
        // INVARIANT: Just counted; `Arc::as_ptr` is what `Arc::into_raw` gives.
        // SAFETY: What an `Arc` holds does not lie at address 0.
        Self(unsafe { NonNull::new_unchecked(pointer.cast_mut()) })
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
            // SAFETY: That took `uses` to 0.
            unsafe { Self::give_back(self.0) };
        }
    }
}

impl<O: TraceEventOwner> Use<O> {
    /// Gives back what the uses of an event own together.
    ///
    /// # Safety
    ///
    /// `event` must be the pointer of a use that has just taken `uses` to 0. To be called once for that.
    #[cold]
    unsafe fn give_back(event: NonNull<TraceEvent<O>>) {
        // SAFETY: By the invariant the pointer is what `Arc::into_raw` gave, and one count that was
        // given up that way is the caller's to give back.
        O::last_use_dropped(unsafe { Arc::from_raw(event.as_ptr()) });
    }
}
