// SPDX-License-Identifier: GPL-2.0

//! Events that keep their number while the trace core does not know them.
//!
//! C: `unregister_trace_event()` (linux/trace_events.h).

use super::super::bindings;
use super::super::event_mutex::{
    EventMutexHeld,
    EventMutexLocked, //
};
use super::number::move_number;
use super::{
    ConsumerState,
    TraceEvent,
    TraceEventOwner, //
};
use core::mem::ManuallyDrop;
use core::{
    iter,
    ptr, //
};
use kernel::prelude::*;
use kernel::sync::Arc;

/// An event that has got another one's number, and the other event.
pub(super) type NumberMoved<O> = (KeptEvent<O>, Arc<TraceEvent<O>>);

/// An event that has its number, and that the trace core does not know. The drop frees the number,
/// and sleeps.
///
/// # Invariants
///
/// The event has a number. The trace core does not know its call.
pub(crate) struct KeptEvent<O: TraceEventOwner>(Arc<TraceEvent<O>>);

impl<O: TraceEventOwner> KeptEvent<O> {
    /// Gives a free number to an event. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` when no number is free.
    pub(super) fn with_new_number(event: Arc<TraceEvent<O>>) -> Result<Self> {
        // SAFETY: The call has all members for the printing of records, has no number, as it is not
        // registered yet, and is kept by the result.
        match unsafe { bindings::register_trace_event(&raw mut (*event.call.get()).event) } {
            0 => Err(ENODEV),
            // INVARIANT: The event has a number now.
            _ => Ok(Self(event)),
        }
    }

    /// # Safety
    ///
    /// The invariants must hold.
    pub(super) unsafe fn new(event: Arc<TraceEvent<O>>) -> Self {
        // INVARIANT: By the safety requirement.
        Self(event)
    }

    /// The event.
    pub(crate) fn event(&self) -> &Arc<TraceEvent<O>> {
        &self.0
    }

    /// Gives the number to an event without one that the trace core does not know. Also returns
    /// this event, which has no number any more. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(super) fn give_number_to(
        self,
        event: Arc<TraceEvent<O>>,
        held: &mut EventMutexHeld,
    ) -> Result<NumberMoved<O>, (Error, Self)> {
        let recorded_in = self.0.recorded_in(held);
        let state = match event.consumer_state.get_or_new(ConsumerState::new, held) {
            Ok(state) => state,
            Err(error) => return Err((error, self)),
        };
        state.recorded_in.get_mut(held).add_all(recorded_in);
        // SAFETY: By the invariant this event has a number, and the other one has none, is
        // complete, and is kept by the result.
        unsafe { move_number(self.0.call.get(), event.call.get()) };
        // INVARIANT: The other event has the number now.
        Ok((Self(event), self.into_event()))
    }

    /// The event, when another event or the trace core gets its number.
    pub(super) fn into_event(self) -> Arc<TraceEvent<O>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the `Arc` is moved out of it once.
        unsafe { ptr::read(&this.0) }
    }
}

impl<O: TraceEventOwner> Drop for KeptEvent<O> {
    fn drop(&mut self) {
        // SAFETY: By the invariant the event has a number, which is free afterwards.
        unsafe { bindings::unregister_trace_event(&raw mut (*self.0.call.get()).event) };
    }
}

/// A list of such events, the last one first, that needs no memory.
///
/// # Invariants
///
/// The next event is in [`ConsumerState::next`].
pub(crate) struct KeptList<O: TraceEventOwner>(EventMutexLocked<Option<KeptEvent<O>>>);

impl<O: TraceEventOwner> KeptList<O> {
    /// An empty list.
    pub(crate) const fn new() -> Self {
        Self(EventMutexLocked::new(None))
    }

    /// Adds an event that may have records.
    pub(crate) fn push(&self, kept: KeptEvent<O>, held: &mut EventMutexHeld) {
        if let Some(state) = kept.0.consumer_state.get() {
            let first = self.0.get_mut(held).take();
            *state.next.get_mut(held) = first;
            *self.0.get_mut(held) = Some(kept);
        }
    }

    /// Removes the first event.
    pub(crate) fn pop(&self, held: &mut EventMutexHeld) -> Option<KeptEvent<O>> {
        let first = self.0.get_mut(held).take()?;
        let next = first.0.consumer_state.get()?.next.get_mut(held).take();
        *self.0.get_mut(held) = next;
        Some(first)
    }

    /// Removes the events for which `is_wanted` returns `true`, in reverse order.
    pub(crate) fn extract(
        &self,
        is_wanted: impl Fn(&KeptEvent<O>, &EventMutexHeld) -> bool,
        held: &mut EventMutexHeld,
    ) -> Self {
        let (wanted, others) = (Self::new(), Self::new());
        while let Some(kept) = self.pop(held) {
            let is_wanted = is_wanted(&kept, held);
            let list = if is_wanted { &wanted } else { &others };
            list.push(kept, held);
        }
        while let Some(kept) = others.pop(held) {
            self.push(kept, held);
        }
        wanted
    }

    /// Iterates over the events.
    pub(crate) fn iter<'a>(
        &'a self,
        held: &'a EventMutexHeld,
    ) -> impl Iterator<Item = &'a KeptEvent<O>> {
        iter::successors(self.0.get(held).as_ref(), |kept| {
            kept.0.consumer_state.get()?.next.get(held).as_ref()
        })
    }
}
