// SPDX-License-Identifier: GPL-2.0

//! References to a trace event by its users.
//!
//! There can be very many, one for each entry in the table of each open file, so a reference is
//! only a pointer, and taking or dropping one changes a single number.

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

/// A reference to an event, which is not retired while the reference exists.
///
/// Does not keep the module loaded: its holder does, or unloading waits for the holder.
///
/// # Invariants
///
/// The event's `refs` counts this reference, and the pointer is that of `Arc::into_raw` for the
/// event. Each time `refs` rises from 0, [`EventRef::get_locked`] gives one count of the `Arc` to
/// all references together. The reference that takes `refs` to 0 takes the count back.
pub(crate) struct EventRef<O: TraceEventOwner>(NonNull<TraceEvent<O>>);

// SAFETY: Any thread may use and drop an event.
unsafe impl<O: TraceEventOwner> Send for EventRef<O> {}
// SAFETY: As above; a shared reference only lends the event.
unsafe impl<O: TraceEventOwner> Sync for EventRef<O> {}

impl<O: TraceEventOwner> TraceEvent<O> {
    /// Whether there is a reference. Becomes true only under `event_mutex`.
    pub(crate) fn is_used(&self) -> bool {
        self.refs.load(Acquire) != 0
    }
}

impl<O: TraceEventOwner> EventRef<O> {
    /// Takes a reference without having one. `event_mutex` keeps the event from being retired
    /// meanwhile.
    pub(crate) fn get_locked(event: &Arc<TraceEvent<O>>, _held: &EventMutexHeld) -> Self {
        const { assert!(size_of::<Self>() == size_of::<*const ()>()) };
        let pointer = if event.refs.fetch_add(1, Full) == 0 {
            // INVARIANT: The count of the references from now on. The last previous reference may
            // just be dropping the previous count, which is another one. No other first reference
            // is taken meanwhile, as `event_mutex` is held, and `event` is borrowed until here.
            Arc::into_raw(event.clone())
        } else {
            Arc::as_ptr(event)
        };
        // INVARIANT: Just counted; `Arc::as_ptr` and `Arc::into_raw` return the same pointer.
        // SAFETY: The content of an `Arc` is not at address 0.
        Self(unsafe { NonNull::new_unchecked(pointer.cast_mut()) })
    }

    /// Takes another reference to the event.
    pub(crate) fn get(&self) -> Self {
        // INVARIANT: Counted, and not from 0, as `self` is counted too.
        self.refs.fetch_add(1, Relaxed);
        Self(self.0)
    }

    /// The event as an [`Arc`], which does not keep the event from being retired.
    pub(crate) fn to_arc(&self) -> Arc<TraceEvent<O>> {
        // SAFETY: By the invariant the pointer is that of `Arc::into_raw`, and the count that was
        // given then exists as long as `self`. The count is borrowed here, and not dropped.
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
            // SAFETY: By the invariant the pointer is that of `Arc::into_raw`, and as `refs` is 0
            // this reference takes back a count that was given then.
            O::last_put(unsafe { Arc::from_raw(self.0.as_ptr()) });
        }
    }
}
