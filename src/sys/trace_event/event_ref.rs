// SPDX-License-Identifier: GPL-2.0

//! References to a trace event by its users. C: `user_event_get()`, `user_event_put()`.
//!
//! There can be very many, one for each entry of each open file's table, so a reference is a
//! pointer and no more, and making and dropping one touches a single number.

use super::super::event_mutex::EventMutexHeld;
use super::{
    TraceEvent,
    TraceEventOwner, //
};
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Full,
    Relaxed, //
};
use kernel::sync::Arc;

/// A reference to an event. While it exists, the event is not retired.
///
/// It does not keep the module loaded: its holder does, or is waited for when the module is
/// unloaded.
///
/// # Invariants
///
/// It is one of those that the event's `refs` counts, and the pointer is what `Arc::into_raw` gives
/// for the event. Each time `refs` rises from 0, [`EventRef::get_locked`] gives up one count of the
/// `Arc` that way, which belongs to all references together. The one that takes `refs` to 0 again
/// gives it back.
pub(crate) struct EventRef<O: TraceEventOwner>(NonNull<TraceEvent<O>>);

// SAFETY: An event can be used and dropped on any thread.
unsafe impl<O: TraceEventOwner> Send for EventRef<O> {}
// SAFETY: As above; a shared reference only lends the event.
unsafe impl<O: TraceEventOwner> Sync for EventRef<O> {}

impl<O: TraceEventOwner> TraceEvent<O> {
    /// Is there a reference to it? Can become true only under `event_mutex`.
    pub(crate) fn is_used(&self) -> bool {
        self.refs.load(Acquire) != 0
    }
}

impl<O: TraceEventOwner> EventRef<O> {
    /// A reference for a caller that has none yet. `event_mutex` is what keeps the event from being
    /// retired at the same time.
    pub(crate) fn get_locked(event: &Arc<TraceEvent<O>>, _held: &EventMutexHeld) -> Self {
        const { assert!(size_of::<Self>() == size_of::<*const ()>()) };
        let pointer = if event.refs.fetch_add(1, Full) == 0 {
            // INVARIANT: What belongs to the references from now on. The last one before may just
            // be giving back what belonged to them then; it is another count. No other first
            // reference is made meanwhile, since `event_mutex` is held, and until here `event` is
            // borrowed.
            Arc::into_raw(event.clone())
        } else {
            Arc::as_ptr(event)
        };
        // INVARIANT: Just counted; `Arc::as_ptr` is what `Arc::into_raw` gives.
        // SAFETY: What an `Arc` holds does not lie at address 0.
        Self(unsafe { NonNull::new_unchecked(pointer.cast_mut()) })
    }

    /// Another reference to the same event.
    pub(crate) fn get(&self) -> Self {
        // INVARIANT: Counted; not from 0, as `self` is counted too.
        self.refs.fetch_add(1, Relaxed);
        Self(self.0)
    }

    /// The event, for work on it. Does not keep it from being retired.
    pub(crate) fn to_arc(&self) -> Arc<TraceEvent<O>> {
        // SAFETY: By the invariant the pointer is what `Arc::into_raw` gave, and the count that was
        // given up then is there as long as `self` is. It is lent here, and not given back.
        let event = ManuallyDrop::new(unsafe { Arc::from_raw(self.0.as_ptr()) });
        Arc::clone(&event)
    }
}

impl<O: TraceEventOwner> Deref for EventRef<O> {
    type Target = TraceEvent<O>;

    #[inline]
    fn deref(&self) -> &TraceEvent<O> {
        // SAFETY: By the invariant the event is alive as long as `self` is counted.
        unsafe { self.0.as_ref() }
    }
}

impl<O: TraceEventOwner> Drop for EventRef<O> {
    #[inline]
    fn drop(&mut self) {
        if self.refs.fetch_sub(1, Full) == 1 {
            // SAFETY: By the invariant the pointer is what `Arc::into_raw` gave, and with `refs` at
            // 0 one count that was given up that way is this reference's to give back.
            O::last_put(unsafe { Arc::from_raw(self.0.as_ptr()) });
        }
    }
}
